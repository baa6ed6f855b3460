"""zocosmo run, table, figure, methods, problems, graphs: from a config to a log, tables and figures."""

import inspect
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from zocosmo.cli.common import app, output, say, stderr_bar
from zocosmo.cli.options import RUNS, StudyOptions, argument, as_line, option, taking
from zocosmo.errors import InputError, check_known
from zocosmo.files import write_text

if TYPE_CHECKING:
    from zocosmo.experiments.plan import Plan
    from zocosmo.experiments.run import Tick
    from zocosmo.log import Log

Study = Annotated[Path, argument("A config that was run, its folder, or a log file.")]
Metric = Annotated[str, option("objective, local, disagreement, or a problem's own such as accuracy.")]
Bits = Annotated[list[int] | None, option("Budget in bits per node; repeat for several.", "--bits")]


@app.command()
@taking(StudyOptions)
def run(
    context: typer.Context,
    options: StudyOptions,
    processes: Annotated[int, option("Processes that share the batches.")] = 1,
    states: Annotated[bool, option("Keep the last states of all nodes in states.npz.", "--states")] = False,
) -> None:
    """Run every trial of a config and write one log.

    Example: zocosmo run configs/rosenbrock.yaml
    """
    from zocosmo.experiments.run import run_plan
    from zocosmo.log import logs_in

    plan = options.plan()
    folder = options.folder(plan)
    finished = not options.replace and bool(logs_in(folder))
    with progress(plan) as tick:
        try:
            log = run_plan(
                plan,
                folder,
                resume=options.resume,
                replace_old=options.replace,
                processes=processes,
                tick=tick,
                suffix=options.suffix,
                states=states,
            )
        except KeyboardInterrupt:
            again = ["zocosmo", "run", *as_line(context, "out", "resume", "replace", "processes")]
            say_stopped([*again, "--out", str(folder), "--resume"])
            raise
    if finished:
        say_finished(folder)
    print(where(folder, log, options.suffix))


def say_stopped(again: Sequence[str]) -> None:
    """After an interrupt: the command that continues."""
    say(f"stopped; finished work is kept. Continue with: {shlex.join(again)}")


def say_finished(folder: Path) -> None:
    """For a study that was run before."""
    say(
        f"{folder} is finished, so nothing was run; its results follow. "
        "To run it again, start over with --replace, or choose another --out"
    )


def where(folder: Path, log: "Log", suffix: str) -> str:
    """The file of a log, and what it holds."""
    trials, lost = log.rows["trial"].nunique(), int(log.rows["diverged"].sum())
    return f"{folder / f'log{suffix}'}: {trials} trials, {lost} diverged, {len(log.rows)} rows"


@app.command()
def table(
    study: Study,
    bits: Bits = None,
    metric: Metric = "objective",
    relative: Annotated[bool, option("Divide by the value at round 0.", "--relative")] = False,
    rounds: Annotated[bool, option("Show completed rounds too.", "--rounds")] = False,
    last: Annotated[bool, option("At the last checkpoint, whatever its cost.", "--last")] = False,
    against: Annotated[str, option("A method: show paired differences from it, with intervals.")] = "",
    fmt: Annotated[str, option("text, markdown, csv or latex.", "--format")] = "text",
    to: Annotated[Path | None, option("Write to a file instead.")] = None,
) -> None:
    """Print mean ± std over seeds at each budget, one row per method.

    Example: zocosmo table configs/rosenbrock.yaml --bits 100000 --rounds
    """
    from zocosmo.report.budget import cells
    from zocosmo.report.tables import FORMATS, render_cells, render_contrasts, rich_cells

    check_known("format", fmt, FORMATS)
    log = find_log(study)
    budgets: list[Any] = [None] if last else list(bits or log.header["config"].get("budgets", [])) or [None]
    if against:
        text = render_contrasts(log.rows, budgets, against, metric, relative=relative, fmt=fmt)
    else:
        frame = cells(log.rows, budgets, metric=metric, relative=relative)
        text = render_cells(frame, fmt, rounds=rounds, digits=2)
    if to is None and not against and fmt == "text" and sys.stdout.isatty():
        output().print(rich_cells(frame, rounds=rounds, digits=2))  # the best in bold
    elif to is None:
        print(text, end="")
    else:
        write_text(to, text)


@app.command()
def figure(
    study: Study,
    to: Annotated[list[Path] | None, option("A .png, .svg or .pdf; repeat for several.")] = None,
    x: Annotated[str, option("bits, round or examples.", "--x")] = "bits",
    metric: Metric = "objective",
    bits: Bits = None,
) -> None:
    """Draw a metric against bits, rounds or examples: a panel per graph, a line per method, a band of seeds.

    Example: zocosmo figure configs/rosenbrock.yaml --to rosenbrock.png --to rosenbrock.svg
    """
    from zocosmo.report.curves import figure as draw
    from zocosmo.report.figures import check_figure

    log = find_log(study)
    marks = list(bits or log.header["config"].get("budgets", [])) if x == "bits" else []
    paths = to or [Path(f"{study.stem}.png"), Path(f"{study.stem}.svg")]
    for path in paths:
        check_figure(path)
    for path in paths:
        draw(log.rows, path, x=x, metric=metric, budgets=marks)
        print(path)


@app.command()
def example() -> None:
    """Print a small config to start from.

    Example: zocosmo example > first.yaml
    """
    from importlib.resources import files

    print(files("zocosmo.experiments").joinpath("example.yaml").read_text(encoding="utf-8"), end="")


@app.command()
def methods() -> None:
    """List the methods and their parameters.

    Example: zocosmo methods
    """
    from zocosmo.methods import METHODS

    rows = [
        (name, summary(kind), signature(kind, "codec", "decay"), ", ".join(kind.codecs))
        for name, kind in METHODS.items()
    ]
    show(["method", "what it is", "parameters", "codecs"], rows)


@app.command()
def problems() -> None:
    """List the problems and their parameters.

    Example: zocosmo problems
    """
    from zocosmo.problems import PROBLEMS

    rows = [(name, summary(build), signature(build, "n", "seed")) for name, build in PROBLEMS.items()]
    show(["problem", "what it is", "parameters"], rows)


@app.command()
def graphs() -> None:
    """List the graphs and their parameters, the schedules of matchings, and the decays of the step size.

    Example: zocosmo graphs
    """
    from zocosmo.graphs import GRAPHS, SCHEDULES
    from zocosmo.methods import DECAYS

    names = ["graph", "what it is", "parameters"]
    show(names, [(name, summary(build), signature(build, "seed")) for name, build in GRAPHS.items()])
    schedules = [(name, summary(kind)) for name, kind in SCHEDULES.items()]
    show(["\nschedule", "\nwhat it is"], schedules)
    decays = [(name, summary(kind), signature(kind)) for name, kind in DECAYS.items()]
    show(["\ndecay", "\nwhat it is", "\nparameters"], decays)


def signature(build: Callable[..., object], *hidden: str) -> str:
    """Parameters with their defaults."""
    given = [p for p in inspect.signature(build).parameters.values() if p.name not in hidden]
    return ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default}" for p in given)


def show(header: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    listing = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in header:
        listing.add_column(name, no_wrap=name == header[0])
    for row in rows:
        listing.add_row(*row)
    output().print(listing)


def summary(thing: object) -> str:
    """First line of a docstring, without labels of the paper."""
    return (inspect.getdoc(thing) or "").splitlines()[0].split("   [")[0].rstrip(" .:")


def find_log(study: Path) -> "Log":
    """The log of a config, of a folder, or the file itself; budgets come from the config as it is now."""
    from zocosmo.log import FORMATS, logs_in, read_log

    if study.suffix in FORMATS:
        return read_log(study)
    is_config = study.suffix in (".yaml", ".yml")
    if is_config and not study.exists():
        raise InputError(f"{study}: there is no such file")
    folder = RUNS / study.stem if is_config else study
    if found := logs_in(folder):
        log = read_log(found[0])
        return _with_budgets(study, log) if is_config else log
    unfinished = " (it was stopped; continue with --resume)" if (folder / "plan.json").exists() else ""
    again = f"zocosmo run {study}" if is_config else f"zocosmo run CONFIG --out {folder}"
    raise InputError(f"there is no log in {folder}{unfinished}; run the study first: {again}")


def _with_budgets(study: Path, log: "Log") -> "Log":
    """The log with the budgets of its config, which may differ only in seeds and budgets since the run."""
    from zocosmo.experiments.plan import load_plan

    now, then = load_plan(study).config, log.header["config"]
    changed = [key for key in now if now[key] != then.get(key) and key not in ("seeds", "budgets")]
    if changed:
        raise InputError(
            f"{study} has changed since it was run ({', '.join(changed)}); run it again with --replace, "
            "or name the log file to see what it holds"
        )
    return log._replace(header={**log.header, "config": dict(now)})


@contextmanager
def progress(plan: "Plan") -> Iterator["Tick"]:
    """A bar on stderr while a plan runs: node-rounds per second, best objective, bits, time left."""
    from rich.progress import BarColumn, TimeRemainingColumn

    rate = "{task.percentage:>3.0f} %  {task.fields[rate]} node-rounds/s"
    values = "best {task.fields[best]}  {task.fields[bits]} bits/node  {task.fields[note]}"
    bar = stderr_bar(plan.name, BarColumn(), rate, values, TimeRemainingColumn())
    task = bar.add_task("run", total=plan.node_rounds, rate="–", best="–", bits="–", note="")
    done: dict[int, int] = {}
    best = math.inf

    def tick(now: Any) -> None:
        nonlocal best
        done[now.batch] = now.rounds
        best = min(best, now.best)
        total, elapsed = sum(done.values()), bar.tasks[0].elapsed or 0.0
        about = {"best": f"{best:.4g}", "bits": f"{now.bits:,.0f}", "note": now.note}
        pace = f"{total / elapsed:,.0f}" if elapsed > 0 else "–"
        bar.update(task, completed=total, rate=pace, **about)

    with bar:
        yield tick
