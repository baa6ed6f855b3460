"""zocosmo check: theory against measurement."""

import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from zocosmo.cli.common import app, output, print_json
from zocosmo.cli.options import JsonOption, SetOption
from zocosmo.errors import InputError, check_whole
from zocosmo.files import replace_file

if TYPE_CHECKING:
    from zocosmo.checks.measurement import Measurement
    from zocosmo.checks.run import Tick

TAPES = 256
COLOURS = {"agrees": "green", "disagrees": "bold red", "not applicable": "dim"}


@app.command()
def check(
    config: Annotated[
        Path | None, typer.Argument(help="A YAML file; if not given, built-in settings.")
    ] = None,
    set_: SetOption = None,
    seeds: Annotated[int, typer.Option(help="Tapes that every sampled row is averaged over.")] = TAPES,
    only: Annotated[str, typer.Option(help="Formulas with this text alone: certified, stability, E F.")] = "",
    out: Annotated[Path | None, typer.Option(help="Folder that check.json is written to.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Hold every formula that applies to a config against what the code does; exit code 1 if one disagrees.

    \b
    Example: zocosmo check --seeds 64
    Is my step certified? zocosmo check configs/extension.yaml --only certified
    """
    from zocosmo.checks import check_plans, default_plans
    from zocosmo.checks.run import LEAST_TAPES, MOST_TAPES, select
    from zocosmo.experiments.plan import load_plan

    check_whole("--seeds", seeds, LEAST_TAPES, MOST_TAPES)
    select(only)  # refused before a config is read
    if set_ and config is None:
        raise InputError(f"--set changes a config, and none was given; name one before --set {set_[0]}")
    plans = default_plans() if config is None else [load_plan(config, overrides=set_)]
    if out is not None:
        _make(out)
    with progress() as tick:
        rows = check_plans(plans, seeds, tick, only=only)
    report = as_report(rows)
    if out is not None:
        text = json.dumps(report, indent=1) + "\n"
        replace_file(out / "check.json", lambda path: path.write_text(text, encoding="utf-8"))
    if as_json:
        print_json(report)
    else:
        output().print(table(rows))
        print(summary(report))
    if report["disagree"]:
        raise typer.Exit(1)


def _make(folder: Path) -> None:
    """Before minutes of work, not after them."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} is no folder and cannot be made one: {error.strerror}") from None


def as_report(rows: Sequence["Measurement"]) -> dict[str, Any]:
    """All rows as plain data, and how many have each verdict."""
    verdicts = [row.verdict for row in rows]
    return {
        "agree": verdicts.count("agrees"),
        "disagree": verdicts.count("disagrees"),
        "not_applicable": verdicts.count("not applicable"),
        "rows": [{key: _finite(value) for key, value in row._asdict().items()} for row in rows],
    }


def _finite(value: Any) -> Any:
    """JSON has no word for what is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary(report: dict[str, Any]) -> str:
    """How many rows of each kind; of those that inform, what they say."""
    told = Counter(row["verdict"] for row in report["rows"] if row["verdict"] not in COLOURS)
    words = ", ".join(f"{count} {verdict}" for verdict, count in told.items())
    return (
        f"{report['agree']} rows agree, {report['disagree']} disagree; {told.total()} inform"
        f"{f' ({words})' if words else ''}, {report['not_applicable']} do not apply"
    )


def table(rows: Sequence["Measurement"]) -> Table:
    """Rows under the formula that they are about, with what all of them say said once."""
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
        notes = {row.note for row in group if row.verdict != "not applicable"}
        common = notes.pop() if len(notes) == 1 else ""
        heading = Text.assemble((formula, "bold"), f" [{labels}]", f" {common}" if common else "")
        shown.add_row(heading)
        for row in group:
            shown.add_row(*cells(row, common))
        shown.add_section()
    return shown


def cells(row: "Measurement", said: str = "") -> list[Text]:
    half = "" if row.low is None or row.high is None else f" ± {(row.high - row.low) / 2:.2g}"
    z = row.sign if row.z is None else f"{row.z:+.2f}"
    note = f" ({row.note})" if row.note not in ("", said) else ""
    words = [f"  {row.setting}{note}", number(row.predicted), number(row.measured) + half, z]
    return [*map(Text, words), Text(row.verdict, style=COLOURS.get(row.verdict, "cyan"))]


def number(value: float | None) -> str:
    """Whole numbers whole, others to six digits."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


@contextmanager
def progress() -> Iterator["Tick"]:
    """A bar on stderr, if somebody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("check"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
    task = bar.add_task("", total=None)
    with bar:
        yield lambda done, total, what: bar.update(task, completed=done, total=total, description=what)
