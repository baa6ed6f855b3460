"""Tables of one problem: results at equal bits and queries, traits, settings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from zocosmo.compare.contest import Chosen, Contest, Limit, limits, told, tuned_at
from zocosmo.compare.standing import Standing
from zocosmo.compare.traits import Traits
from zocosmo.report.budget import GREATER_IS_BETTER, cells
from zocosmo.report.tables import NOTHING, Digits, Grid, GridEntry, best_mean, entry

if TYPE_CHECKING:
    import pandas as pd

OURS = ("cosmo", "edge_local", "tree_mean", "tree_gather")  # kinds
DIGITS = 2  # of the std
START = "∘"  # mark of cells that show the start


class Final(NamedTuple):
    """Settings chosen at one limit, and their results on the study's seeds."""

    chosen: list[Chosen]
    rows: "pd.DataFrame"  # of the final log, with the problem's name in the comparison


class ContestResult(NamedTuple):
    """Results on one problem; methods are tuned for bits, and separately for queries."""

    contest: Contest
    finals: dict[str, Final]  # by name in `tuned_at`
    traits: list[Traits]
    d: int
    standings: "list[tuple[Limit, list[Standing]]]" = []  # noqa: RUF012 — filled where each limit chooses
    batch: int | None = None  # examples behind a query, where queries are means over rows

    def at(self, limit: Limit) -> Final:
        """What was chosen for a limit: there, or where settings are chosen for its quantity."""
        return self.finals[limit.name if self.contest.each else limit.what]

    @property
    def chosen(self) -> list[Chosen]:
        return self.at(self.largest).chosen

    @property
    def rows(self) -> "pd.DataFrame":
        return self.at(self.largest).rows

    @property
    def largest(self) -> Limit:
        return Limit("bits", self.contest.budgets[-1])

    @property
    def choices(self) -> list[tuple[str, Chosen]]:
        """By method: where it was chosen, and the choice."""
        pairs = [[(what, c) for c in final.chosen] for what, final in self.finals.items()]
        return [choice for method in zip(*pairs, strict=True) for choice in method]

    @property
    def metrics(self) -> list[str]:
        """The problem's own metric, and the objective."""
        return list(dict.fromkeys((self.contest.metric, "objective")))

    @property
    def edges(self) -> set[str]:
        """Methods with a choice at an end of the range of eta."""
        return {c.candidate.label for final in self.finals.values() for c in final.chosen if c.edge}

    @property
    def silent(self) -> set[str]:
        """Methods that send nothing: no node has the average that is measured."""
        spent = self.rows.groupby("method", sort=False, observed=True)["bits"].max()
        return {str(method) for method in spent.index[spent == 0]}


def field_grid(result: ContestResult, metric: str, among: Sequence[Limit] = ()) -> Grid:
    """One row per method: mean ± std at each limit, then the rounds within the largest budget."""
    among = among or limits(result.contest)
    columns = [
        {row["method"]: row for row in found.to_dict("records")}
        for _, found in limit_cells(result, metric, among)
    ]
    labels = [c.candidate.label for c in result.chosen]
    ranked = [label for label in labels if label not in result.silent]
    bests = [best_mean([column.get(label) for label in ranked]) for column in columns]
    largest = columns[len(result.contest.budgets) - 1]
    rows = []
    for label in labels:
        marks = "‡" * (label in result.edges) + "§" * (label in result.silent)
        shown = [marked(result, column.get(label), best) for column, best in zip(columns, bests, strict=True)]
        rows.append((f"{label} {marks}".rstrip(), [*shown, word(completed(largest.get(label)))]))
    header = [*(limit._replace(within=None).name for limit in among), "rounds"]
    return Grid(header, rows, field_note(result, metric, columns, among[0].within))


def marked(result: ContestResult, row: Mapping[Any, Any] | None, best: float | None) -> GridEntry:
    """A cell; where settings are chosen at each limit, with a mark if not one round fits into it."""
    if row is None or not result.contest.each:
        return entry(None if row is None else dict(row), best, False, DIGITS)
    shown = entry({**row, "std": plain_std(row["mean"], row["std"])}, best, False, DIGITS)
    return shown._replace(notes=f"{shown.notes} {START}".strip()) if at_start(result, row) else shown


def plain_std(mean: float, std: float) -> float:
    """The std, or 0 where it is the rounding of equal values.

    >>> plain_std(1.0, 2e-16), plain_std(1.0, 1e-3)
    (0.0, 0.001)
    """
    return 0.0 if std < 1e-12 * abs(mean) else std


def at_start(result: ContestResult, row: Mapping[Any, Any] | None) -> bool:
    return result.contest.each and row is not None and bool(row["seeds"]) and row["rounds_max"] == 0


def limit_cells(
    result: ContestResult, metric: str, among: Sequence[Limit] = ()
) -> "Iterator[tuple[Limit, pd.DataFrame]]":
    """Cells of `report.budget` for each limit."""
    for limit in among or limits(result.contest):
        yield limit, cells(limit.log(result.at(limit).rows), [limit.most], metric=metric)


def completed(row: Mapping[Any, Any] | None) -> str:
    if row is None or not row["seeds"]:
        return NOTHING
    least, most = row["rounds_min"], row["rounds_max"]
    return f"{least}" if least == most else f"{least}–{most}"


def field_note(
    result: ContestResult, metric: str, columns: Sequence[Mapping[str, Any]], within: float | None = None
) -> str:
    """What is shown, how it was tuned, and the meaning of the marks."""
    contest, shown = result.contest, [row for column in columns for row in column.values()]
    better = "greater is better" if metric in GREATER_IS_BETTER else "less is better"
    seeds = result.rows["seed"].nunique()
    equal = (
        "at equal bits or queries per "
        if within is None
        else f"at equal bits within {within:,.0f} queries per "
    )
    note = f"{contest.name}: {metric}, {better}, mean ± std over {seeds} seeds, {equal}"
    note += f"node; rounds: completed at {contest.budgets[-1]:,} bits. {tuning_note(contest)}"
    marks = {
        " † rounds were over before that much was spent.": any(row["ended"] for row in shown),
        f" {START} not one round fits: the start.": any(at_start(result, row) for row in shown),
        " ‡ the chosen eta is the least or the most that was tried.": bool(result.edges),
        " § sends nothing: the average that is measured is no node's, and does not compete.": bool(
            result.silent
        ),
        " (k diverged): k runs left out; such a cell is never marked best.": any(
            row["diverged"] for row in shown
        ),
    }
    note += "".join(text for text, is_seen in marks.items() if is_seen)
    lost = [c.candidate.label for c in result.chosen if c.setting is None]
    return f"{note} No setting came through: {', '.join(lost)}." if lost else note


def tuning_note(contest: Contest) -> str:
    """How settings were chosen, and where runs end."""
    note = f"Every method with the best of {len(contest.candidates[0].grid)} settings on pilot seeds, "
    if not contest.each:
        note += f"by {contest.chosen_by} there"
        return note + ("; for equal queries chosen anew, there." if contest.queries else ".")
    note += f"by {contest.chosen_by}, chosen anew in each column."
    return note if contest.most_queries is None else f"{note} Runs end at {contest.most_queries:,} queries."


def traits_grid(result: ContestResult) -> Grid:
    """One row per method: its measured traits."""
    header = ["server", "states", "waits", "memory", "elsewhere", "bits", "up", "down", "queries"]
    header += [] if result.batch is None else ["examples"]
    rows = []
    for each in result.traits:
        flags = "yes" if each.server else "no", "apart" if each.kept.apart else "alike"
        sizes = f"{each.waits:g}", f"{each.kept.node:.3g}", f"{each.kept.public:.3g}"
        examples = [] if result.batch is None else [each.queries * result.batch]
        counts = map(counted, (each.bits, each.up, each.down, each.queries, *examples))
        rows.append((each.method, [word(text) for text in (*flags, *sizes, *counts)]))
    note = (
        f"{result.contest.name}, d = {result.d:,}: waits, bits and queries are per node and round, all "
        "measured. Memory: numbers that a node keeps from round to round over d, its state included; "
        "elsewhere: what a server or the public record keeps. States: whether those of nodes differ after "
        "some round."
    )
    return Grid(header, rows, note)


def counted(number: float) -> str:
    return NOTHING if math.isnan(number) else f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def settings_grid(result: ContestResult) -> Grid:
    """One row per method: its chosen setting."""
    rows = []
    for what, (candidate, setting, mean, lost, edge) in result.choices:
        label = f"{candidate.label}, {what}{' ‡' * edge}"
        rest = told({key: value for key, value in (setting or {}).items() if key != "eta"})
        eta, found = (NOTHING, NOTHING) if setting is None else (f"{setting['eta']:g}", f"{mean:.4g}")
        tried = f"{len(candidate.grid)}, {lost} diverged" if lost else f"{len(candidate.grid)}"
        rows.append((label, [word(text) for text in (eta, rest or NOTHING, found, tried)]))
    at = " and ".join(limit.name for limit in tuned_at(result.contest).values())
    note = f"{result.contest.name}: the best {result.contest.chosen_by} on pilot seeds at {at} "
    note += "per node. ‡ eta is the least or the most that was tried."
    return Grid(["eta", "besides", "pilot mean", "settings"], rows, note)


def word(text: str) -> GridEntry:
    return GridEntry(Digits(text, "", 0), False, "")
