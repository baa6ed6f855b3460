"""Messages as bytes: their sizes, and how long they take on this machine.

Sizes are those of real messages and must equal the paper's. Times depend on the machine: their ratios are
checks of ours, not counted, judged by their order only. Times are in times.md, apart from the tables, which
are the same in every run.
"""

import math
import timeit
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from zocosmo.core.fields import Message
from zocosmo.core.message import CODECS, Codec
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.core.values import F32
from zocosmo.errors import InputError
from zocosmo_paper.claim import CONSTANT, NO, ORDERING, Claim, check, constant, repeated, unknown
from zocosmo_paper.item import Evidence, Findings, Item, Table
from zocosmo_paper.write import write_table

Q = 8192
TRIALS, REPEATS = 15, 40  # of encoding and decoding
SENT_TRIALS, SENT_REPEATS = 31, 300  # of messages between processes, as in the paper
OTHERS = "Times of this run: another run gives others."


def slower(
    words: str,
    printed: str,
    ratio: float,
    *,
    most: float = math.inf,
    span: tuple[float, float] = (math.nan, math.nan),
) -> Claim:
    """A ratio of two times, from its quartiles if known: a check of ours, since it depends on the machine."""
    verdict = ORDERING if 1 < ratio < most else NO
    note = "a ratio of times, which depends on the machine: its order is judged and not counted"
    return check(Claim(words, f"{printed}×", ratio, verdict, low=span[0], high=span[1], note=note))


# tab:appendix_serialization_microbenchmark


class Sizes(NamedTuple):
    """A row as printed: KiB by codec, and how much longer indexed messages took."""

    d: int
    kib: Mapping[str, str]
    ratio: str


SERIALISED = {
    "LoRA": Sizes(2_523_136, {"values": "32.0", "plain": "64.0", "indexed": "54.0"}, "3.22"),
    "full model": Sizes(6_525_621_760, {"values": "32.0", "plain": "96.0", "indexed": "65.0"}, "4.04"),
}
FORMATS = {"values": "value-only", "plain": "indexed impl.", "indexed": "min. indexed"}


def find_serialisation(evidence: Evidence) -> Findings:
    claims: list[Claim] = []
    lines, timed = [], []
    for name, printed in SERIALISED.items():
        packed = {
            codec: CODECS[codec].encode(_message(CODECS[codec], printed.d), d=printed.d, value=F32)
            for codec in FORMATS
        }
        line = [name]
        for codec, words in FORMATS.items():
            kib = len(packed[codec]) / 2**10
            claim = constant(f"{name}: {words}, KiB", printed.kib[codec], kib)
            again = (name, codec) == ("full model", "values")
            claims.append(repeated(claim, "the same cell of LoRA") if again else claim)
            line.append(f"{printed.kib[codec]} / {kib:.1f}")
        seconds = {codec: _round_trip(CODECS[codec], printed.d) for codec in ("values", "plain")}
        ratio = seconds["plain"] / seconds["values"]
        claims.append(slower(f"{name}: indexed messages take longer than values", printed.ratio, ratio))
        lines.append([*line, f"{printed.ratio}× / {'longer' if ratio > 1 else 'not longer'}"])
        micro = [f"{1e6 * seconds[codec]:.1f}" for codec in ("values", "plain")]
        timed.append([name, *micro, f"{printed.ratio}×", f"{ratio:.2f}×"])
        if name == "full model":  # "three times the ZO-COSMO payload"
            times = len(packed["plain"]) / len(packed["values"])
            claim = constant(f"{name}: indexed impl. against values", "3", times)
            claims.append(repeated(claim, "96.0 KiB against 32.0"))
    columns = ["setting", *FORMATS.values(), "time ratio"]
    title = "Sparse-message serialisation check: KiB, paper / ours"
    heading = "Encoding and decoding, µs on this machine (fastest trial)"
    header = ["setting", "value-only", "indexed impl.", "ratio, paper", "ratio, ours"]
    write_table(evidence.folder, Table("times", heading, header, timed, OTHERS))
    return Findings(claims, [Table("tab-appendix-serialization-microbenchmark", title, columns, lines)])


def _message(codec: Codec, d: int) -> Message:
    """Zeros on a public support, with its coordinates if the codec sends them."""
    index = draw_support(Tape(1), 0, d=d, q=Q).index if codec.field.carries == "index" else None
    return Message(np.zeros(Q, np.float32), index)


def _round_trip(codec: Codec, d: int) -> float:
    """Seconds to encode and decode one message, in the fastest trial."""
    message = _message(codec, d)

    def once() -> object:
        return codec.decode(codec.encode(message, d=d, value=F32), d=d, q=Q, value=F32)

    return min(timeit.repeat(once, repeat=TRIALS, number=REPEATS)) / REPEATS


# tab:appendix_two_process_transport


class Transfer(NamedTuple):
    """A row as printed."""

    words: str
    tensors: str
    payload: str
    unit: str
    median: str
    ratio: str


TRANSFERS = {
    "values": Transfer("value-only", "1", "32.0", "KiB", "127.2 µs", "1.00"),
    "indexed": Transfer("indexed sparse", "2", "64.0", "KiB", "162.8 µs", "1.28"),
    "dense": Transfer("dense LoRA refresh", "1", "9.6", "MiB", "2.69 ms", "21.16"),
}
UNITS = {"KiB": 2**10, "MiB": 2**20}
MORE_BITS = "308"  # "The dense refresh carries 308× as many bits"
DOUBLE = "indexed messages take longer than values, and less than twice as long"
LONGER = f"dense messages take longer than values, and less than {MORE_BITS} times as long"
SIZES = {f"{row.words}: payload, {row.unit}": row.payload for row in TRANSFERS.values()} | {
    "dense against values, payload": MORE_BITS
}


def find_transfer(evidence: Evidence) -> Findings:
    try:
        found = {row["name"]: row for row in _measure()["rows"]}
    except (InputError, ModuleNotFoundError) as error:
        why = f"two processes over Gloo need torch and a loopback: {error}"
        absent = [unknown(*said, why, CONSTANT) for said in SIZES.items()]
        times = unknown(DOUBLE, "1.28×", why), unknown(LONGER, "21.16×", why)
        return Findings([*absent, *map(check, times)])
    sent = {name: found[name]["bytes"] / UNITS[row.unit] for name, row in TRANSFERS.items()}
    sizes = [*sent.values(), found["dense"]["bytes"] / found["values"]["bytes"]]
    claims = [constant(*said, size) for said, size in zip(SIZES.items(), sizes, strict=True)]
    claims[-1] = repeated(claims[-1], "d/q of the LoRA studies")
    ratio = {name: found[name]["median_us"] / found["values"]["median_us"] for name in TRANSFERS}
    spans = {name: _span(found[name], found["values"]) for name in TRANSFERS}
    claims.append(slower(DOUBLE, "1.28", ratio["indexed"], most=2.0, span=spans["indexed"]))
    claims.append(slower(LONGER, "21.16", ratio["dense"], most=float(MORE_BITS), span=spans["dense"]))
    shown = [
        [row.words, row.median, f"{found[k]['median_us']:.1f} µs", f"{row.ratio}×", f"{ratio[k]:.2f}×"]
        for k, row in TRANSFERS.items()
    ]
    title = f"Two processes on this machine: median of {SENT_TRIALS} trials of {SENT_REPEATS} messages"
    columns = ["message", "median, paper", "median, ours", "relative, paper", "relative, ours"]
    write_table(evidence.folder, Table("times", title, columns, shown, OTHERS))
    table = Table(
        "tab-appendix-two-process-transport",
        "Two-process transfer of LoRA messages",
        ["message", "tensors", "payload, paper / ours", "median, paper", "relative, paper"],
        [
            [row.words, row.tensors, f"{row.payload} / {sent[k]:.3f} {row.unit}", row.median, f"{row.ratio}×"]
            for k, row in TRANSFERS.items()
        ],
        "Our times belong to the machine and stand in times.md.",
    )
    return Findings(claims, [table])


def _span(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, float]:
    """From the lower quartile of one over the upper of another to the upper over the lower."""
    return one["low_us"] / other["high_us"], one["high_us"] / other["low_us"]


def _measure() -> dict[str, Any]:
    """Time messages between two processes; torch is imported only here."""
    from zocosmo.dist.bench import bench_link

    return bench_link(trials=SENT_TRIALS, repeats=SENT_REPEATS, one_way=True)


ITEMS: Sequence[Item] = [
    Item(
        "serialisation",
        "Sparse-message serialisation check",
        ("tab:appendix_serialization_microbenchmark",),
        "With 32-bit values a message is 32.0 KiB; coordinates as integers double or triple it, bit-packed "
        "ones add 22 or 33 KiB, and encoding and decoding takes 3.22 or 4.04 times as long.",
        find_serialisation,
        ours={
            "coordinates": "32-bit integers up to d = 2^32, 64-bit ones above, as the paper has them",
            "times": "our codecs check what they decode; only the order of times is compared",
        },
    ),
    Item(
        "two-process-transfer",
        "Two-process transfer check",
        ("tab:appendix_two_process_transport",),
        "Between two processes over Gloo, doubling a sparse message takes 1.28 times as long, and a dense "
        "one of 308 times the bits 21.16 times as long.",
        find_transfer,
        ours={
            "times": "only their order is judged; a busy machine may add more than the printed 1.28×, so the "
            "order of values and indices may turn from run to run",
        },
    ),
]
