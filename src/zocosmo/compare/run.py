"""Runs comparisons: on each problem a pilot, choices and studies; then tables and figures.

The studies are in OUT/PROBLEM/pilot, OUT/PROBLEM/final (chosen for bits) and OUT/PROBLEM/final-queries; with
`tune.at: each`, OUT/PROBLEM/final has every setting that was chosen at some limit. A second call resumes
stopped ones.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zocosmo.compare.contest import Chosen, Comparison, Contest, joint_limits, limits, tuned_at
from zocosmo.compare.figure import draw_budgets, draw_field
from zocosmo.compare.standings import (
    all_standings,
    sentences,
    standing_row,
    standings_grid,
    summary_grid,
    verdicts_grid,
)
from zocosmo.compare.tables import ContestResult, Final, field_grid, limit_cells, settings_grid, traits_grid
from zocosmo.compare.traits import check_measured, measure_traits
from zocosmo.compare.tune import choose_all, settings_rows
from zocosmo.compare.winners import winners_grid
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
    figures: bool = True,
    executor: Executor | None = None,
) -> list[ContestResult]:
    """Run what is missing, choose settings, and write tables, figures and settings into `out`."""
    pilots = [contest.pilot(contest.pilot_seeds) for contest in comparison.contests]
    pairs = list(zip(comparison.contests, pilots, strict=True))
    for contest, plan in pairs:
        contest.check_metrics(check_measured, plan)

    def run(plan: Plan, folder: Path) -> "pd.DataFrame":
        with watched(plan) as tick:
            how: dict[str, Any] = {"processes": processes, "tick": tick, "executor": executor}
            return run_plan(plan, folder, resume=True, **how).rows

    for contest, plan in pairs:
        _make_ready(out / contest.name, plan, replace_old)
    results = [_contest(contest, plan, out / contest.name, run) for contest, plan in pairs]
    write_all(results, out, FIGURES if figures else ())
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
    out: Path,
    run: "Callable[[Plan, Path], pd.DataFrame]",
) -> ContestResult:
    seeds = contest.seeds
    choices = choose_all(run(pilot, out / "pilot"), contest, tuned_at(contest))
    if any(all(c.setting is None for c in chosen) for chosen in choices.values()):
        raise InputError(f"every setting of every method diverged on {contest.name}; lower tune.eta")
    if contest.each:
        rows = run(contest.studied(choices.values(), seeds), out / FINALS["bits"])
        logs = {name: named_by_method(rows, chosen) for name, chosen in choices.items()}
    else:
        plans = {name: contest.final(chosen, seeds) for name, chosen in choices.items()}
        logs = {name: run(plan, out / FINALS[name]) for name, plan in plans.items()}
    finals = {name: Final(choices[name], log.assign(problem=contest.name)) for name, log in logs.items()}
    found = ContestResult(contest, finals, [], 0)
    plan = contest.final(found.chosen, seeds)
    first = plan.trials[0]
    traits, batch = measure_traits(plan, found.rows), dict(first.problem).get("batch")
    found = found._replace(traits=traits, d=first.run().problem.d, batch=batch)
    return found._replace(standings=all_standings(found)) if contest.each else found


def named_by_method(rows: "pd.DataFrame", chosen: Sequence[Chosen]) -> "pd.DataFrame":
    """The rows of the chosen settings, under the methods' own labels."""
    labels = {c.candidate.name(c.setting): c.candidate.label for c in chosen if c.setting is not None}
    names = rows["method"].astype(str)
    return rows[names.isin(labels)].assign(method=names.map(labels))


def grids(result: ContestResult) -> Iterator[tuple[str, Grid]]:
    """The tables of one problem by name: its own metric, the objective, traits, settings."""
    joint = joint_limits(result.contest) if result.contest.each else []
    for metric in result.metrics:
        yield metric, field_grid(result, metric)
        if joint:
            yield f"{metric}-within-queries", field_grid(result, metric, joint)
    yield "traits", traits_grid(result)
    yield "settings", settings_grid(result)


def winners(results: Sequence[ContestResult]) -> Grid:
    """The table of winners: of the entry the pilot prefers, or of each of ours."""
    return verdicts_grid(results) if results[0].contest.each else winners_grid(results)


def write_all(results: Sequence[ContestResult], out: Path, figures: Sequence[str] = FIGURES) -> None:
    """Write tables of each problem into its folder; winners, settings, cells and the figure into `out`."""
    import pandas as pd

    for result in results:
        for name, grid in grids(result):
            _write_grid(out / result.contest.name / name, grid)
    _write_grid(out / "winners", winners(results))
    rows = [row for r in results for row in settings_rows(r.contest.name, r.contest.chosen_by, r.choices)]
    _write(out / "settings.csv", csv_text([list(rows[0]), *(list(row.values()) for row in rows)]))
    found = pd.concat([cells for result in results for cells in _tidy(result)], ignore_index=True)
    _write(out / "cells.csv", found.to_csv(index=False, lineterminator="\n"))
    each = results[0].contest.each
    if each:
        write_standings(results, out)
    for name in figures:
        (draw_budgets if each else draw_field)(results, out / name)


def write_standings(results: Sequence[ContestResult], out: Path) -> None:
    """Write a table for each limit into budgets.md of each problem, all of them as numbers into budgets.csv,
    all winners into summary.md, and sentences for each problem into verdicts.md."""
    import pandas as pd

    for result in results:
        tables = (
            f"## {limit.name}\n\n{render_grid(standings_grid(found), 'markdown')}"
            for limit, found in result.standings
            if found
        )
        name = result.contest.name
        _write(out / name / "budgets.md", "\n".join([f"# {name}\n", *tables]))
    _write_grid(out / "summary", summary_grid(results))
    rows = [standing_row(each) for r in results for _, found in r.standings for each in found]
    _write(out / "budgets.csv", pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))
    _write(out / "verdicts.md", "\n".join(f"- {line}" for r in results for line in sentences(r)) + "\n")


def _tidy(result: ContestResult) -> "Iterator[pd.DataFrame]":
    """Cells as numbers, with the limited quantity."""
    for metric in result.metrics:
        joint = joint_limits(result.contest) if result.contest.each else []
        for limit, frame in limit_cells(result, metric, [*limits(result.contest), *joint]):
            beside = {} if limit.within is None else {"within": limit.within}
            named = frame.drop(columns=["relative"]).rename(columns={"budget": "most"})
            yield named.assign(equal=limit.what, **beside)


def _write_grid(stem: Path, grid: Grid) -> None:
    for suffix, fmt in ((".md", "markdown"), (".csv", "csv")):
        _write(stem.with_name(stem.name + suffix), render_grid(grid, fmt))


def _write(to: Path, text: str) -> None:
    replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))
