"""zocosmo run, table, figure: from a config to a log, tables and figures."""

import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import app, output, say, stderr_bar
from zocosmo.cli.machines import OnOption, on_machines
from zocosmo.cli.options import RUNS, StudyOptions, argument, as_line, option, taking
from zocosmo.errors import InputError, check_known
from zocosmo.files import write_text
from zocosmo.words import counted

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
    on: OnOption = None,
) -> None:
    """Run every trial of a config and write one log.

    \b
    Example: zocosmo example > first.yaml && zocosmo run first.yaml
    On a cluster: zocosmo run first.yaml --on dask://HOST:PORT; mpiexec -n 3 zocosmo run first.yaml --on mpi
    """

    def work(executor: Executor | None) -> None:
        _run(context, options, processes=processes, states=states, executor=executor)

    on_machines(context, on, work)


def _run(
    context: typer.Context, options: StudyOptions, *, processes: int, states: bool, executor: Executor | None
) -> None:
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
                executor=executor,
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
    counts = f"{counted(trials, 'trial')}, {lost} diverged, {counted(len(log.rows), 'row')}"
    return f"{folder / f'log{suffix}'}: {counts}"


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

    \b
    Example: zocosmo example > first.yaml && zocosmo run first.yaml && zocosmo table first.yaml --rounds
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
    x: Annotated[str, option("bits or round.", "--x")] = "bits",
    metric: Metric = "objective",
    bits: Bits = None,
) -> None:
    """Draw a metric against bits or rounds: a panel per graph, a line per method, a band over seeds.

    \b
    Example: zocosmo example > first.yaml && zocosmo run first.yaml && zocosmo figure first.yaml --to f.png
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
