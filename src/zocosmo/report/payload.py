"""What one message costs under every codec, and the lower bound   [tab:appendix_payload_examples]"""

from typing import Any

from rich import box
from rich.table import Table

from zocosmo.core.message import CODECS
from zocosmo.core.payload import entropy_bound, index_bits, index_share, reuse_multiplier, seed_overhead
from zocosmo.core.values import VALUE_TYPES

SHARE_WIDTHS = (32, 16, 8, 1)


def payload_report(d: int, q: int, *, value: str, reuse: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """The data that `zocosmo payload` prints."""
    width = VALUE_TYPES[value].bits
    rows = []
    for codec in CODECS.values():
        bits = codec.bits(d, q, VALUE_TYPES[value])
        costs = {**bits._asdict(), "total": bits.total, "ratio": bits.total / (q * width)}
        rows.append({"codec": codec.name, **costs, "about": codec.about})
    bound = entropy_bound(d, q, width)
    least = {"values": q * width, "indices": bound - q * width, "total": bound, "ratio": bound / (q * width)}
    return {
        "d": d,
        "q": q,
        "value": value,
        "index_bits": index_bits(d),
        "codecs": rows,
        "entropy_bound": least,
        "index_share": {str(bits): float(index_share(d, bits)) for bits in SHARE_WIDTHS},
        "list_reuse": {str(k): float(reuse_multiplier(d, width, k)) for k in reuse},
        "seed_overhead": {"rounds": rounds, "bits_per_round": float(seed_overhead(rounds))},
    }


def payload_tables(report: dict[str, Any], *, about: bool = True) -> list[Table]:
    """The report as tables for a terminal; `about` adds what each codec sends."""
    return [_bill(report, about), _notes(report)]


def _bill(report: dict[str, Any], about: bool) -> Table:
    title = f"Bits of one message: d = {report['d']:,}, q = {report['q']:,}, {report['value']} values"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("codec", no_wrap=True)
    for name in ("values", "indices", "other", "total", "× values"):
        table.add_column(name, justify="right", no_wrap=True)
    if about:
        table.add_column("what it sends")
    for row in report["codecs"]:
        costs = row["values"], row["indices"], row["control"] + row["framing"], row["total"]
        last = [row["about"]] if about else []
        table.add_row(row["codec"], *(f"{bits:,}" for bits in costs), f"{row['ratio']:,.2f}", *last)
    bound = report["entropy_bound"]
    figures = f"{bound['values']:,}", f"≥ {bound['indices']:,.1f}", "", f"≥ {bound['total']:,.1f}"
    last = ["least for any private support"] if about else []
    table.add_section()
    table.add_row("entropy bound", *figures, f"{bound['ratio']:,.2f}", *last)
    return table


def _notes(report: dict[str, Any]) -> Table:
    seed = report["seed_overhead"]
    shares = (f"{100 * share:.1f} % at {bits}" for bits, share in report["index_share"].items())
    kept = (f"{times:.2f}× for {k}" for k, times in report["list_reuse"].items())
    table = Table(show_header=False, box=None)
    table.add_row("naming a coordinate", f"{report['index_bits']} bits")
    table.add_row("index share, by bits of a value", ", ".join(shares))
    table.add_row("one coordinate list kept for several rounds", ", ".join(kept))
    overhead = f"{seed['bits_per_round']:.2f} bits a round over {seed['rounds']:,} rounds"
    table.add_row("128-bit seed, 32-bit counter every 100 rounds", overhead)
    return table
