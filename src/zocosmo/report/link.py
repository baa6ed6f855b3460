"""The table of `zocosmo bench-link`   [tab:appendix_two_process_transport]"""

from typing import Any

from rich import box
from rich.table import Table

NUMBERS = ("bytes", "median µs", "middle half", "ratio", "paper µs", "paper")


def link_table(report: dict[str, Any]) -> Table:
    """Our times next to the paper's; ratios are to the row named under `of`."""
    title = f"Two processes: d = {report['d']:,}, q = {report['q']:,}, medians of {report['trials']} trials"
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", no_wrap=True)
    for name in NUMBERS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("of", no_wrap=True)
    ways = {"values": "One way, acknowledged", "raw": "Both ways at once"}
    for row in report["rows"]:
        if row["name"] in ways:
            table.add_section()
            table.add_row("", ways[row["name"]])
        table.add_row(row["name"], row["about"], *_numbers(row), row["floor"])
    return table


def _numbers(row: dict[str, Any]) -> list[str]:
    middle = f"{row['low_us']:,.1f}–{row['high_us']:,.1f}"
    figures = [f"{row['bytes']:,}", f"{row['median_us']:,.1f}", middle, f"{row['ratio']:.2f}"]
    if row["paper_us"] is None:
        return [*figures, "", ""]
    return [*figures, f"{row['paper_us']:,.1f}", f"{row['paper_ratio']:.2f}"]
