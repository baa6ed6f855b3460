"""zocosmo check: theory against measurement."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zocosmo.cli.common import app, output, print_json, stderr_bar
from zocosmo.cli.options import JsonOption, SetOption
from zocosmo.errors import InputError, check_whole
from zocosmo.files import write_text

if TYPE_CHECKING:
    from zocosmo.checks.run import Tick

TAPES = 256


@app.command()
def check(
    config: Annotated[
        Path | None, typer.Argument(help="A YAML file; built-in settings if not given.")
    ] = None,
    set_: SetOption = None,
    seeds: Annotated[int, typer.Option(help="Tapes that every sampled row is averaged over.")] = TAPES,
    only: Annotated[
        str, typer.Option(help="Only formulas whose name contains this text: certified, stability, E F.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Folder that check.json is written to.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare every formula that applies to a config with what the code does; exit code 1 if one disagrees.

    \b
    Example: zocosmo check --seeds 64
    Is my step certified? zocosmo check configs/extension.yaml --only certified
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
        _make(out)
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


def _make(folder: Path) -> None:
    """Make the folder before minutes of work, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be made: {error.strerror}; choose another folder") from None


@contextmanager
def progress() -> Iterator["Tick"]:
    """A bar on stderr with the check that is running."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    text = TextColumn("{task.description}")
    bar = stderr_bar(TextColumn("check"), BarColumn(), MofNCompleteColumn(), text)
    task = bar.add_task("", total=None)
    with bar:
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
