"""Message latency between two processes on this machine   [tab:appendix_two_process_transport]

One way, as in the paper: contiguous tensors, then a one-byte acknowledgement. Both ways at once, as in the
runtime: bare tensors (the floor), then frames through its channel, then a complete mix. A program that has
more to time (`net.beside_gloo`) passes it to `main`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed
from google_crc32c import value as sum_of

from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, frame
from zocosmo.core.message import CODECS
from zocosmo.core.support import check_size, draw_support
from zocosmo.core.tape import Tape
from zocosmo.core.values import F32
from zocosmo.core.wire import Letters
from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.launch import launch
from zocosmo.dist.links import Links
from zocosmo.dist.place import Place
from zocosmo.dist.rendezvous import Job, join
from zocosmo.errors import InputError, check_whole
from zocosmo.graphs.graph import path

c10d: Any = torch.distributed

D, Q = 2_523_136, 8192  # trainable coordinates of the paper's LoRA model; coordinates per message
TRIALS, REPEATS = 31, 300
DENSE_SHARE = 10  # dense messages are repeated 10 times less often
SESSION, KEY = bytes(32), bytes(range(32))
PAPER = {"values": 127.2, "indexed": 162.8, "dense": 2690.0}  # µs, on the authors' machine


class Timed(NamedTuple):
    """An operation to time: both processes call `once` equally often."""

    name: str
    about: str
    bytes: int  # sent by one process, without TCP overhead
    floor: str  # name of the operation it is compared with
    once: Callable[[], object]
    share: int = 1


def bench_link(
    *,
    d: int = D,
    q: int = Q,
    trials: int = TRIALS,
    repeats: int = REPEATS,
    one_way: bool = False,
    program: str = "zocosmo.dist.bench",
) -> dict[str, Any]:
    """Start two processes that time all operations, or only the paper's, and return their report.

    `program` is a module that calls `main`.
    """
    check_size(d, q)
    check_whole("--trials", trials, 1)
    check_whole("--repeats", repeats, 1)
    with tempfile.TemporaryDirectory() as folder:
        to = Path(folder) / "link.json"
        sizes = {"d": d, "q": q, "trials": trials, "repeats": repeats}
        asked = json.dumps({**sizes, "one_way": True} if one_way else sizes)
        code = launch([sys.executable, "-m", program, asked, str(to)], 2)
        if code == 130:
            raise KeyboardInterrupt
        if code or not to.exists():
            raise InputError(f"the two processes ended with code {code}; see their messages above")
        report: dict[str, Any] = json.loads(to.read_text(encoding="utf-8"))
    return report


def main(line: Sequence[str], later: Callable[[Job, int], list[Timed]] | None = None) -> None:
    """One of the two processes; rank 0 writes the report.

    `later` makes what is timed after the rest, so that its threads do not slow exchanges over Gloo, which
    would flatter its ratio.
    """
    asked, to = json.loads(line[0]), Path(line[1])
    torch.set_num_threads(1)
    job = join()
    one_way, timed = asked.pop("one_way", False), transfers(job, asked["d"], asked["q"])
    timed += [] if one_way else exchanges(job, asked["d"], asked["q"])
    how = {"trials": asked["trials"], "repeats": asked["repeats"]}
    meet = exchange(bare_group(job, "meet"), job, 1)
    seconds = take_turns(timed, **how, meet=meet)
    if later is not None and not one_way:
        more = later(job, asked["q"])
        seconds |= take_turns(more, **how, meet=meet)
        timed += more
    if job.rank == 0:
        report = {**asked, "torch": torch.__version__, "rows": rows(timed, seconds)}
        to.write_text(json.dumps(report), encoding="utf-8")
    job.publish("done", b"")


def take_turns(
    timed: Sequence[Timed], *, trials: int, repeats: int, meet: Callable[[], object]
) -> dict[str, list[float]]:
    """Seconds of each operation, trial by trial; the order rotates, so that no operation has an advantage."""
    seconds: dict[str, list[float]] = {each.name: [] for each in timed}
    for each in timed:
        each.once()
    for trial in range(trials):
        first = trial % len(timed)
        for each in (*timed[first:], *timed[:first]):
            times = max(1, repeats // each.share)
            meet()
            start = time.perf_counter()
            for _ in range(times):
                each.once()
            seconds[each.name].append((time.perf_counter() - start) / times)
    return seconds


def rows(timed: Sequence[Timed], seconds: dict[str, list[float]]) -> list[dict[str, Any]]:
    """Medians, quartiles and the fastest of all trials in µs, and ratios of medians to the floors.

    The fastest trial is the one that other programs on this machine disturbed least.
    """
    middle = {name: _quarters(taken) for name, taken in seconds.items()}
    out = []
    for each in timed:
        low, median, high = (1e6 * part for part in middle[each.name])
        ratio, paper = middle[each.name][1] / middle[each.floor][1], PAPER.get(each.name)
        out.append(
            {
                **{"name": each.name, "about": each.about, "bytes": each.bytes},
                **{"median_us": median, "low_us": low, "high_us": high, "floor": each.floor, "ratio": ratio},
                "fastest_us": 1e6 * min(seconds[each.name]),
                **{"paper_us": paper, "paper_ratio": None if paper is None else paper / PAPER["values"]},
            }
        )
    return out


def _quarters(taken: Sequence[float]) -> list[float]:
    return [taken[0]] * 3 if len(taken) == 1 else quantiles(taken, n=4, method="inclusive")


# One way, with an acknowledgement


def transfers(job: Job, d: int, q: int) -> list[Timed]:
    """The paper's messages, and our indexed frame, from rank 0 to rank 1."""
    group, values, index = bare_group(job, "transfer"), torch.zeros(q), torch.arange(q, dtype=torch.int32)
    header = Header(CODECS["indexed"], F32, 0, 0, q)
    data = frame(header, Message(values.numpy(), np.arange(q)), d=d, session=SESSION)
    packed = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    messages = [
        ("values", "value-only, 1 tensor", [values], 1),
        ("indexed", "indexed, 2 tensors", [values, index], 1),
        ("packed", "indexed, 1 tensor: our frame", [packed], 1),
        ("dense", "dense, 1 tensor", [torch.zeros(d)], DENSE_SHARE),
    ]
    return [
        Timed(name, about, sum(t.nbytes for t in tensors), "values", transfer(group, job, tensors), share)
        for name, about, tensors, share in messages
    ]


def transfer(group: Any, job: Job, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
    """Send tensors one after the other; the sender then waits for one byte."""
    byte = torch.zeros(1, dtype=torch.uint8)

    def send() -> None:
        for tensor in tensors:
            group.send([tensor], 1, 0).wait()
        group.recv([byte], 1, 0).wait()

    def receive() -> None:
        for tensor in tensors:
            group.recv([tensor], 0, 0).wait()
        group.send([byte], 0, 0).wait()

    return receive if job.rank else send


# Both ways at once


def exchanges(job: Job, d: int, q: int) -> list[Timed]:
    """The floor, and what is built on it: frames, seals, and a mix of states of d coordinates."""
    links = Links(job, quiet=True)
    support = draw_support(Tape(0), 0, d=d, q=q)
    x = np.random.default_rng(job.rank).standard_normal((1, d), np.float32)
    values, partners = support.restrict(x), np.array([1 - job.rank])
    letters = Letters(values)
    size = 4 * q + FRAME_BITS.total // 8

    def channel(codec: str = "values", key: bytes | None = None) -> TorchChannel:
        about: dict[str, Any] = {"d": d, "wire": "f32", "dtype": np.float32, "session": SESSION}
        return TorchChannel(Place(path(2), 2), links, codec=codec, key=key, **about)

    def swap(channel: TorchChannel) -> Callable[[], Any]:
        return in_rounds(channel, lambda: channel.swap(letters, partners, support))

    def mix() -> Any:
        return support.put(x, plain.mix_pairs(support.restrict(x), partners, support), out=x)

    plain, sealed, indexed = channel(), channel(key=KEY), channel("indexed")
    raw = exchange(bare_group(job, "exchange"), job, size)
    used = exchange(bare_group(job, "used"), job, size, values.tobytes())
    least = checked(exchange(bare_group(job, "checked"), job, size, values.tobytes()), values)
    named = (CODECS["indexed"].bits(d, q).total + FRAME_BITS.total) // 8
    return [
        Timed("raw", "bare tensors of the same bytes", size, "raw", raw),
        Timed("used", "the same, values copied in and out", size, "raw", used),
        Timed("checked", "the same, checksum and finite values", size, "raw", least),
        Timed("framed", "value-only through the channel", size, "raw", swap(plain)),
        Timed("sealed", "the same, sealed", size + 16, "framed", swap(sealed)),
        Timed("named", "indexed through the channel", named, "framed", swap(indexed)),
        Timed("mix", "restrict, exchange, average, put", size, "raw", in_rounds(plain, mix)),
    ]


def exchange(group: Any, job: Job, size: int, values: bytes = b"") -> Callable[[], bytes]:
    """Bare tensors both ways; values, if given, are copied in before and out after."""
    ours, theirs = (torch.zeros(size, dtype=torch.uint8) for _ in range(2))
    out, into = (memoryview(tensor.numpy()) for tensor in (ours, theirs))  # type: ignore[arg-type]
    peer, start = 1 - job.rank, size - len(values)

    def once() -> bytes:
        received = group.recv([theirs], peer, 0)
        if values:
            out[start:] = values
        sent = group.send([ours], peer, 0)
        received.wait()
        sent.wait()
        return bytes(into) if values else b""

    return once


def checked(bare: Callable[[], bytes], values: Any) -> Callable[[], Any]:
    """The cheapest check: CRC-32C at both ends and all values finite, without a frame."""

    def once() -> Any:
        sum_of(values.tobytes())
        got = bare()
        sum_of(got)
        return np.isfinite(np.frombuffer(got, np.float32)).all()

    return once


def in_rounds(channel: TorchChannel, move: Callable[[], Any]) -> Callable[[], Any]:
    """A move of the channel, each time in a new round."""

    def once() -> Any:
        channel.begin(channel.t + 1)
        return move()

    return once


# The two processes


def bare_group(job: Job, name: str) -> Any:
    """A plain Gloo group over 127.0.0.1."""
    options = c10d.ProcessGroupGloo._Options()
    options._devices = [c10d.ProcessGroupGloo.create_device(hostname=job.address)]
    options._threads, options._timeout = 1, timedelta(seconds=60)
    return c10d.ProcessGroupGloo(c10d.PrefixStore(f"bench/{name}", job.store), job.rank, 2, options)


if __name__ == "__main__":
    main(sys.argv[1:])
