"""Rows of `zocosmo check` as plain data, as a table and in one line."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from zocosmo.checks.measurement import ABSENT, AGREES, DISAGREES, Measurement
from zocosmo.files import finite_or_null

COLOURS = {AGREES: "green", DISAGREES: "bold red", ABSENT: "dim"}


def as_report(rows: Sequence[Measurement]) -> dict[str, Any]:
    """All rows as plain data, and the number of each verdict."""
    verdicts = [row.verdict for row in rows]
    return {
        "agree": verdicts.count(AGREES),
        "disagree": verdicts.count(DISAGREES),
        "not_applicable": verdicts.count(ABSENT),
        "rows": [finite_or_null(row._asdict()) for row in rows],
    }


def summary(report: dict[str, Any]) -> str:
    """The number of rows of each kind, and the verdicts of those that only inform."""
    told = Counter(row["verdict"] for row in report["rows"] if row["verdict"] not in COLOURS)
    words = ", ".join(f"{count} {verdict}" for verdict, count in told.items())
    return (
        f"{report['agree']} rows agree, {report['disagree']} disagree; {told.total()} inform"
        f"{f' ({words})' if words else ''}, {report['not_applicable']} do not apply"
    )


def check_table(rows: Sequence[Measurement]) -> Table:
    """Rows grouped by formula; a note that all rows of a group share is in the heading."""
    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    shown.add_column("formula, setting", ratio=1, overflow="fold")
    for name in ("predicted", "measured, 95 %", "z"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("verdict", no_wrap=True)
    groups: dict[str, list[Measurement]] = {}
    for row in rows:
        groups.setdefault(row.formula, []).append(row)
    for formula, group in groups.items():
        labels = ", ".join(dict.fromkeys(row.label for row in group))
        notes = {row.note for row in group if row.verdict != ABSENT}
        common = notes.pop() if len(notes) == 1 else ""
        heading = Text.assemble((formula, "bold"), f" [{labels}]", f" {common}" if common else "")
        shown.add_row(heading)
        for row in group:
            shown.add_row(*_cells(row, common))
        shown.add_section()
    return shown


def _cells(row: Measurement, said: str = "") -> list[Text]:
    half = "" if row.low is None or row.high is None else f" ± {(row.high - row.low) / 2:.2g}"
    z = row.sign if row.z is None else f"{row.z:+.2f}"
    note = f" ({row.note})" if row.note not in ("", said) else ""
    words = [f"  {row.setting}{note}", _number(row.predicted), _number(row.measured) + half, z]
    return [*map(Text, words), Text(row.verdict, style=COLOURS.get(row.verdict, "cyan"))]


def _number(value: float | None) -> str:
    """Whole numbers without a point, others to six digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
