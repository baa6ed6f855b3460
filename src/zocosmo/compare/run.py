"""Runs comparisons: on each problem a pilot, choices and studies; then tables and figures.

The studies are in OUT/PROBLEM/pilot, OUT/PROBLEM/final (chosen for bits) and OUT/PROBLEM/final-queries; a
second call resumes stopped ones.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from zocosmo.compare.contest import Comparison, Contest, tuned_at
from zocosmo.compare.figure import draw_field
from zocosmo.compare.tables import ContestResult, Final, field_grid, limit_cells, settings_grid, traits_grid
from zocosmo.compare.traits import check_measured, measure_traits
from zocosmo.compare.tune import choose_all, settings_rows
from zocosmo.compare.winners import winners_grid
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import Tick, clear_folder, open_folder, run_plan
from zocosmo.files import replace_file
from zocosmo.report.tables import Grid, csv_text, render_grid

if TYPE_CHECKING:
    import pandas as pd

Watched = Callable[[Plan], AbstractContextManager[Tick | None]]
FIGURES = ("field.png", "field.svg")
FINALS = {"bits": "final", "queries": "final-queries"}  # folders, by limited quantity


def compare(
    comparison: Comparison,
    out: Path,
    *,
    processes: int = 1,
    replace_old: bool = False,
    watched: Watched = lambda plan: nullcontext(),
) -> list[ContestResult]:
    """Run what is missing, choose settings, and write tables, figures and settings into `out`."""
    pilots = [contest.pilot(comparison.pilot_seeds) for contest in comparison.contests]
    pairs = list(zip(comparison.contests, pilots, strict=True))
    for contest, plan in pairs:
        contest.check_metrics(check_measured, plan)

    def run(plan: Plan, folder: Path) -> "pd.DataFrame":
        with watched(plan) as tick:
            return run_plan(plan, folder, resume=True, processes=processes, tick=tick).rows

    for contest, plan in pairs:
        _make_ready(out / contest.name, plan, replace_old)
    results = [_contest(contest, plan, comparison.seeds, out / contest.name, run) for contest, plan in pairs]
    write_all(results, out)
    return results


def _make_ready(folder: Path, pilot: Plan, replace_old: bool) -> None:
    """Refuse the pilot of another plan, or clear all studies, before any problem is run.

    A stopped call can then be repeated without --replace.
    """
    for part in ("pilot", *FINALS.values()) if replace_old else ():
        clear_folder(folder / part)
    open_folder(pilot, folder / "pilot")


def _contest(
    contest: Contest,
    pilot: Plan,
    seeds: Sequence[Seed],
    out: Path,
    run: "Callable[[Plan, Path], pd.DataFrame]",
) -> ContestResult:
    piloted, finals = run(pilot, out / "pilot"), dict[str, Final]()
    for limit in tuned_at(contest):
        chosen = choose_all(piloted, contest, limit)
        if all(c.setting is None for c in chosen):
            raise InputError(f"every setting of every method diverged on {contest.name}; lower tune.eta")
        rows = run(contest.final(chosen, seeds), out / FINALS[limit.what])
        finals[limit.what] = Final(chosen, rows.assign(problem=contest.name))
    plan = contest.final(finals["bits"].chosen, seeds)
    traits = measure_traits(plan, finals["bits"].rows)
    return ContestResult(contest, finals, traits, plan.trials[0].run().problem.d)


def grids(result: ContestResult) -> Iterator[tuple[str, Grid]]:
    """The tables of one problem by name: its own metric, the objective, traits, settings."""
    yield from ((metric, field_grid(result, metric)) for metric in result.metrics)
    yield "traits", traits_grid(result)
    yield "settings", settings_grid(result)


def write_all(results: Sequence[ContestResult], out: Path) -> None:
    """Write tables of each problem into its folder; winners, settings, cells and the figure into `out`."""
    import pandas as pd

    for result in results:
        for name, grid in grids(result):
            _write_grid(out / result.contest.name / name, grid)
    _write_grid(out / "winners", winners_grid(results))
    rows = [row for r in results for row in settings_rows(r.contest.name, r.contest.chosen_by, r.choices)]
    _write(out / "settings.csv", csv_text([list(rows[0]), *(list(row.values()) for row in rows)]))
    found = pd.concat([cells for result in results for cells in _tidy(result)], ignore_index=True)
    _write(out / "cells.csv", found.to_csv(index=False, lineterminator="\n"))
    for name in FIGURES:
        draw_field(results, out / name)


def _tidy(result: ContestResult) -> "Iterator[pd.DataFrame]":
    """Cells as numbers, with the limited quantity."""
    for metric in result.metrics:
        for limit, frame in limit_cells(result, metric):
            yield frame.drop(columns=["relative"]).rename(columns={"budget": "most"}).assign(equal=limit.what)


def _write_grid(stem: Path, grid: Grid) -> None:
    for suffix, fmt in ((".md", "markdown"), (".csv", "csv")):
        _write(stem.with_name(stem.name + suffix), render_grid(grid, fmt))


def _write(to: Path, text: str) -> None:
    replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))
