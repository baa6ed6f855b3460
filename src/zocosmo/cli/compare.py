"""zocosmo compare: all methods on all problems of a config, tuned alike, at equal bits and equal queries."""

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zocosmo.cli.common import app, say
from zocosmo.cli.machines import OnOption, on_machines
from zocosmo.cli.options import RUNS, ConfigArgument, OutOption, ReplaceOption, SetOption, as_line, option
from zocosmo.cli.study import progress, say_stopped
from zocosmo.errors import WorkerKilled, check_known, check_whole
from zocosmo.extras import missing

if TYPE_CHECKING:
    from zocosmo.compare.tables import ContestResult

PROCESSES = min(2, os.cpu_count() or 1)


@app.command("compare")
def compare_command(
    context: typer.Context,
    config: ConfigArgument,
    out: OutOption = None,
    set_: SetOption = None,
    replace: ReplaceOption = False,
    processes: Annotated[int, option("Processes that share the batches.")] = PROCESSES,
    fmt: Annotated[str, option("text, markdown, csv or latex.", "--format")] = "text",
    settings: Annotated[bool, option("Show the chosen settings too.", "--settings")] = False,
    brief: Annotated[bool, option("Show only the winners.", "--brief")] = False,
    on: OnOption = None,
) -> None:
    """Tune every method alike on pilot seeds, run the chosen settings on the study's seeds, and compare.

    Writes tables, settings.csv and field.png into the folder. If stopped, run it again to continue.

    \b
    Example: zocosmo example demo-second > demo.yaml && zocosmo compare demo.yaml --brief
    The whole field, in about 8 minutes: zocosmo example field > field.yaml && zocosmo compare field.yaml
    """
    from zocosmo.compare import compare, load_comparison
    from zocosmo.report.tables import FORMATS

    check_known("format", fmt, FORMATS)
    check_whole("--processes", processes, 1)

    def work(executor: Executor | None) -> None:
        comparison = load_comparison(config, set_)
        folder = RUNS / comparison.name if out is None else out
        drawn = find_spec("matplotlib") is not None
        try:
            results = compare(
                comparison,
                folder,
                processes=processes,
                replace_old=replace,
                watched=progress,
                figures=drawn,
                executor=executor,
            )
        except KeyboardInterrupt:
            say_stopped(["zocosmo", "compare", *as_line(context, "replace")])
            raise
        except WorkerKilled:
            fewer = "" if on else " with fewer --processes"
            why = f"a process was killed, perhaps for lack of memory; run this again{fewer}"
            raise WorkerKilled(why) from None
        show(results, folder, fmt, settings=settings, brief=brief)
        if not drawn:
            say(f"no figures were drawn: {missing('a figure', 'matplotlib')}")

    on_machines(context, on, work)


def show(
    results: Sequence["ContestResult"], folder: Path, fmt: str, *, settings: bool, brief: bool = False
) -> None:
    """Print all tables, or the winners alone, then the files they are in."""
    from zocosmo.compare.run import FIGURES, grids, winners
    from zocosmo.report.tables import render_grid

    for result in [] if brief else results:
        for name, grid in grids(result):
            if settings or name != "settings":
                print(render_grid(grid, fmt))
    print(render_grid(winners(results), fmt))
    drawn = [name for name in FIGURES if (folder / name).exists()]
    print(f"{folder}: {', '.join(['tables of each problem, winners.md, settings.csv, cells.csv', *drawn])}")
