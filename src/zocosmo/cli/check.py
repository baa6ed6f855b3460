"""zocosmo check: theory against measurement."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zocosmo.cli.common import app, output, print_json, stderr_bar
from zocosmo.cli.options import JsonOption, SetOption, argument, option
from zocosmo.errors import InputError, check_whole
from zocosmo.files import make_folder, write_text

if TYPE_CHECKING:
    from zocosmo.checks.run import Tick

TAPES = 256


@app.command()
def check(
    config: Annotated[Path | None, argument("A YAML file; built-in settings if not given.")] = None,
    set_: SetOption = None,
    seeds: Annotated[int, option("Tapes that every sampled row is averaged over.")] = TAPES,
    only: Annotated[
        str, option("Only formulas whose name contains this text: certified, stability, E F.")
    ] = "",
    out: Annotated[Path | None, option("Folder that check.json is written to.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every formula that applies to a config with what the code does; exit code 1 if one disagrees.

    \b
    Example: zocosmo check --seeds 64
    Is my step certified? zocosmo example extension > e.yaml && zocosmo check e.yaml --only certified
    """
    from zocosmo.checks import check_plans, default_plans
    from zocosmo.checks.report import as_report, check_table, summary
    from zocosmo.checks.run import LEAST_TAPES, MOST_TAPES, select
    from zocosmo.experiments.plan import load_plan

    check_whole("--seeds", seeds, LEAST_TAPES, MOST_TAPES)
    select(only)  # refuse it before a config is read
    if set_ and config is None:
        raise InputError(f"--set {set_[0]} changes a config, and none was given; name one")
    plans = default_plans() if config is None else [load_plan(config, overrides=set_)]
    if out is not None:
        make_folder(out)
    with progress() as tick:
        rows = check_plans(plans, seeds, tick, only=only)
    report = as_report(rows)
    if out is not None:
        write_text(out / "check.json", json.dumps(report, indent=1) + "\n")
    if as_json:
        print_json(report)
    else:
        output().print(check_table(rows))
        print(summary(report))
    if report["disagree"]:
        raise typer.Exit(1)


@contextmanager
def progress() -> Iterator["Tick"]:
    """A bar on stderr with the check that is running."""
    from rich.progress import BarColumn, MofNCompleteColumn

    bar = stderr_bar("check", BarColumn(), MofNCompleteColumn(), "{task.description}")
    task = bar.add_task("", total=None)
    with bar:
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
