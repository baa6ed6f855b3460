"""Cells as a table: one row per method, as text, Markdown, CSV or LaTeX."""

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zocosmo.errors import InputError, check_known
from zocosmo.report.budget import GREATER_IS_BETTER
from zocosmo.report.stats import contrasts

FORMATS = ("text", "markdown", "csv", "latex")
PLACES = ["problem", "graph", "budget"]
NOTHING = "–"
LATEX = {
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "±": r"$\pm$",
    "†": r"$\dag$",
    "‡": r"$\ddag$",
    "§": r"\S{}",
    "∘": r"$\circ$",
}


class Digits(NamedTuple):
    """Mean and std as digits, both times 10^exponent; std is empty if there is none."""

    mean: str
    std: str
    exponent: int

    def __str__(self) -> str:
        number = f"{self.mean} ± {self.std}" if self.std else self.mean
        if not self.exponent:
            return number
        return f"({number})e{self.exponent}" if self.std else f"{number}e{self.exponent}"


class GridEntry(NamedTuple):
    number: Digits | None
    best: bool
    notes: str  # text after the number


class Grid(NamedTuple):
    """The contents of a table, before markup."""

    header: list[str]
    rows: list[tuple[str, list[GridEntry]]]
    note: str
    first: str = "method"  # header of the first column


def render_cells(frame: pd.DataFrame, fmt: str = "text", *, rounds: bool = False, digits: int = 3) -> str:
    """The cells of `report.budget.cells` as a table with a footnote; `rounds` adds completed rounds.

    `digits` is the number of significant digits of the std; the mean ends at the same decimal.
    """
    check_known("format", fmt, FORMATS)
    return render_grid(grid_of(frame, rounds=rounds, digits=digits), fmt)


def rich_cells(frame: pd.DataFrame, *, rounds: bool = False, digits: int = 3) -> Table:
    """The same table for a terminal, the best cells in bold."""
    grid = grid_of(frame, rounds=rounds, digits=digits)
    table = _rich(grid)
    table.caption, table.caption_justify = Text(grid.note), "left"
    return table


def render_contrasts(
    log: pd.DataFrame,
    budgets: Sequence[float | None],
    baseline: str,
    metric: str,
    *,
    relative: bool = False,
    fmt: str = "text",
) -> str:
    """Every method minus a baseline, paired by seed: difference [95 % interval] and wins/pairs."""
    check_known("format", fmt, FORMATS)
    places, entries = [], {}
    for bits in budgets:
        for row in contrasts(log, bits, baseline, metric, relative=relative).to_dict("records"):
            place = ", ".join(
                [str(row["problem"])] * (log["problem"].nunique() > 1)
                + [str(row["graph"])]
                + [place_text("budget", -1.0 if bits is None else bits)] * (len(budgets) > 1)
            )
            places.append(place)
            if row["pairs"]:
                span = f"{row['difference']:+.3g} [{row['low']:+.3g}, {row['high']:+.3g}]"
                shown = GridEntry(Digits(span, "", 0), False, f"{row['wins']}/{row['pairs']}")
            else:
                shown = GridEntry(None, False, "no seed on which neither diverged")
            entries[row["method"], place] = shown
    if not entries:
        raise InputError(f"{baseline} is the only method in the log; add another to compare it with")
    header, methods = list(dict.fromkeys(places)), list(dict.fromkeys(method for method, _ in entries))
    at = " and ".join(
        "the last checkpoint" if bits is None else f"{bits:,.0f} bits per node" for bits in budgets
    )
    note = f"{metric} minus that of {baseline} at {at}: mean [95 % paired bootstrap interval] wins/pairs."
    nothing = GridEntry(None, False, "")
    rows = [(method, [entries.get((method, place), nothing) for place in header]) for method in methods]
    return render_grid(Grid(header, rows, note), fmt)


def render_grid(grid: Grid, fmt: str) -> str:
    """The table in one of `FORMATS`."""
    return {"text": _text, "markdown": _markdown, "csv": _csv, "latex": _latex}[fmt](grid)


def grid_of(frame: pd.DataFrame, *, rounds: bool, digits: int) -> Grid:
    """Rows are methods; columns are graphs, and problems and budgets if there are several."""
    if frame.empty:
        raise InputError("there are 0 cells to show; the log needs trials, and the call at least one budget")
    if len(frame[["metric", "relative"]].drop_duplicates()) > 1:
        raise InputError("a table shows one metric, and these cells have several; render each separately")
    keyed = frame.assign(budget=frame["budget"].fillna(-1.0))  # nan cannot be a key
    if keyed.duplicated([*PLACES, "method"]).any():
        raise InputError("two cells have the same problem, graph, method and budget; give each its own label")
    columns = list(keyed[PLACES].drop_duplicates().itertuples(index=False, name=None))
    methods = list(keyed["method"].unique())
    found = {(*(row[name] for name in PLACES), row["method"]): row for row in keyed.to_dict("records")}
    by_column = [[found.get((*column, method)) for method in methods] for column in columns]
    bests = [best_mean(rows) for rows in by_column]
    rows = [
        (
            method,
            [entry(rows[k], best, rounds, digits) for rows, best in zip(by_column, bests, strict=True)],
        )
        for k, method in enumerate(methods)
    ]
    shown = [name for name in PLACES if name == "graph" or keyed[name].nunique() > 1]
    header = [
        ", ".join(place_text(name, dict(zip(PLACES, column, strict=True))[name]) for name in shown)
        for column in columns
    ]
    return Grid(header, rows, footnote(frame, rounds))


def best_mean(column: list[dict[Any, Any] | None]) -> float | None:
    """The best mean of a column with two or more cells. Cells with diverged runs do not compete."""
    means = [float(row["mean"]) for row in column if row is not None and not row["diverged"]]
    finite = [mean for mean in means if math.isfinite(mean)]
    if sum(row is not None for row in column) < 2 or not finite:
        return None
    return max(finite) if any(row and row["metric"] in GREATER_IS_BETTER for row in column) else min(finite)


def entry(row: dict[Any, Any] | None, best: float | None, rounds: bool, digits: int) -> GridEntry:
    if row is None:
        return GridEntry(None, False, "")
    notes = []
    if rounds and row["seeds"]:
        least, most = row["rounds_min"], row["rounds_max"]
        notes.append(f"({least})" if least == most else f"({least}–{most})")
    if row["ended"]:
        notes.append("†")
    if row["diverged"]:
        notes.append(f"({row['diverged']} diverged)")
    number = rounded(row["mean"], row["std"], digits) if row["seeds"] else None
    return GridEntry(number, not row["diverged"] and row["mean"] == best, " ".join(notes))


def rounded(mean: float, std: float, digits: int = 3) -> Digits:
    """Digits down to the last shown digit of the std; scientific below 10^−3 and from 10^5 on.

    >>> rounded(0.08312, 0.00412, 1)
    Digits(mean='0.083', std='0.004', exponent=0)
    """
    if not math.isfinite(mean):
        return Digits(str(mean), "", 0)
    spread = std if math.isfinite(std) else 0.0
    exponent = order(max(abs(mean), spread))
    exponent = 0 if -3 <= exponent < 5 else exponent
    smallest = order(spread) - digits + 1 if spread else order(mean) - digits
    places = min(max(exponent - smallest, 0), 8)  # more digits add nothing
    shown = [f"{Decimal(repr(x)).scaleb(-exponent):.{places}f}" for x in (float(mean), float(spread))]
    if not math.isfinite(std):
        return Digits(shown[0], "", exponent)
    if spread and not float(shown[1]):
        return Digits(shown[0], f"{Decimal(repr(float(spread))).scaleb(-exponent):.0e}", exponent)
    return Digits(shown[0], shown[1] if spread else "0", exponent)


def order(x: float) -> int:
    """The power of ten of the first digit; 0 for 0."""
    return Decimal(repr(float(x))).adjusted() if x else 0


def place_text(name: str, value: Any) -> str:
    if name != "budget":
        return str(value)
    return "last checkpoint" if value < 0 else f"{value:,.0f} bits"


def footnote(frame: pd.DataFrame, rounds: bool) -> str:
    """Metric, seeds, budgets in bits per node, and the meaning of the marks."""
    first, trials = frame.iloc[0], frame["seeds"] + frame["diverged"]
    metric = f"{first['metric']} relative to round 0" if first["relative"] else first["metric"]
    problem = f"{first['problem']}: " if frame["problem"].nunique() == 1 else ""
    seeds = f"{trials.min()}" if trials.min() == trials.max() else f"{trials.min()}–{trials.max()}"
    over = "one seed" if seeds == "1" else f"mean ± std over {seeds} seeds"
    bits = [f"{bits:,.0f}" for bits in frame["budget"].dropna().unique()]
    places = [f"{' and '.join(bits)} bits per node"] if bits else []
    places += ["the last checkpoint"] if frame["budget"].isna().any() else []
    note = f"{problem}{metric}, {over}, at {' and at '.join(places)}."
    if rounds:
        note += " (rounds) completed."
    if frame["ended"].any():
        note += " † rounds were over before the budget was spent."
    if frame["diverged"].any():
        note += " (k diverged): k runs left out of mean and std; such a cell is never marked best."
    return note


def _plain(entry: GridEntry, mark: str = "") -> str:
    if entry.number is None:
        return f"{NOTHING} {entry.notes}".rstrip()
    around = mark if entry.best else ""
    return f"{around}{entry.number}{around} {entry.notes}".rstrip()


def _rich(grid: Grid) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(grid.first, no_wrap=True)
    for name in grid.header:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for method, entries in grid.rows:
        shown = [Text(_plain(entry), style="bold" if entry.best else "") for entry in entries]
        table.add_row(Text(method), *shown)
    return table


def _text(grid: Grid) -> str:
    console = Console(file=io.StringIO(), width=10_000, color_system=None)
    with console.capture() as capture:
        console.print(_rich(grid))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join([*(line for line in lines if line), grid.note]) + "\n"


def _markdown(grid: Grid) -> str:
    rows = [[method, *(_plain(entry, "**") for entry in entries)] for method, entries in grid.rows]
    rule = ["---", *("---:" for _ in grid.header)]
    lines = markdown_lines([[grid.first, *grid.header], rule, *rows])
    return "\n".join([*lines, "", grid.note]) + "\n"


def markdown_lines(rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]


def _csv(grid: Grid) -> str:
    rows = [[method, *(_plain(entry) for entry in entries)] for method, entries in grid.rows]
    return f"{csv_text([[grid.first, *grid.header], *rows])}# {grid.note}\n"


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _latex(grid: Grid) -> str:
    rows = [[tex(method), *(_latex_entry(entry) for entry in entries)] for method, entries in grid.rows]
    lines = latex_lines([tex(grid.first), *map(tex, grid.header)], rows, f"l{'r' * len(grid.header)}")
    return "\n".join([*lines, rf"\par\footnotesize {tex(grid.note)}", ""])


def latex_lines(header: Sequence[str], rows: Iterable[Sequence[str]], columns: str) -> list[str]:
    """A tabular of cells that are LaTeX already."""
    first, *lines = (" & ".join(row) + r" \\" for row in [header, *rows])
    above = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", first, r"\midrule"]
    return [*above, *lines, r"\bottomrule", r"\end{tabular}"]


def _latex_entry(entry: GridEntry) -> str:
    if entry.number is None:
        return tex(_plain(entry))
    mean, std, exponent = entry.number
    number = rf"{mean} \pm {std}" if std else mean
    if exponent:
        number = (rf"({number})" if std else number) + rf"\times 10^{{{exponent}}}"
    number = rf"\mathbf{{{number}}}" if entry.best else number
    return f"${number}$ {tex(entry.notes)}".rstrip()


def tex(text: str) -> str:
    """Text escaped for LaTeX."""
    return re.sub(r"[&%$#_{}\\~^–±†‡§∘]", lambda found: LATEX[found[0]], text)
