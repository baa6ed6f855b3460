"""zocosmo minimize: a black box behind a command line."""

import inspect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from zocosmo.cli.common import (
    GRAPH_HELP,
    SeedOption,
    app,
    as_fields,
    as_graph,
    as_seed,
    check_targets,
    ended_by_signals,
    print_report,
    stderr_bar,
)
from zocosmo.cli.options import option
from zocosmo.errors import InputError, check_whole

OptimizeResult = Any  # SciPy's, not imported here, so that --help is quick

ProgramOption = Annotated[
    str, option("Program for one query, with {x} or {file}, {node}, {round}; prints the loss.")
]
GraphOption = Annotated[str | None, option(f"{GRAPH_HELP}  [default: ring]")]
ReachOption = Annotated[
    str | None, option("How far probes for eta and mu may move a coordinate: 0.1 or 0.1,2,….")
]
MoreOption = Annotated[
    list[str] | None, option("A further field of the method: passes=2. Repeatable.", "--set")
]


@app.command()
def minimize(
    command: ProgramOption,
    d: Annotated[int | None, option("Dimension; not needed with --x0.", "--d")] = None,
    start: Annotated[float, option("Every coordinate starts here.")] = 0.0,
    x0: Annotated[str | None, option("Where to start: 1,2,3 or @file.", "--x0")] = None,
    nodes: Annotated[int | None, option("Number of nodes.  [default: 1]")] = None,
    graph: GraphOption = None,
    method: Annotated[str, option("cosmo, edge_local, …: see zocosmo methods.")] = "cosmo",
    q: Annotated[int | None, option("Coordinates in a support.", "--q")] = None,
    eta: Annotated[float | None, option("Step size.")] = None,
    mu: Annotated[float | None, option("How far the two queries are from x.")] = None,
    rounds: Annotated[int | None, option("Rounds to run.")] = None,
    budget: Annotated[float | None, option("Payload bits per node, on average over the nodes.")] = None,
    reach: ReachOption = None,
    seed: SeedOption = "0",
    beta: Annotated[float, option("Momentum.")] = 0.0,
    coupling: Annotated[str | None, option("G, S or I, with edge_local.")] = None,
    directions: Annotated[str | None, option("Sign vectors on a support: a number, or auto.")] = None,
    signs: Annotated[str | None, option("independent or orthogonal.")] = None,
    sides: Annotated[int | None, option("2 for central differences, 1 for forward ones.")] = None,
    step: Annotated[str | None, option("plain, normalised or normalised_local.")] = None,
    schedule: Annotated[
        str, option("Of matchings, with edge_local; or a .yaml of zocosmo schedule.")
    ] = "auto",
    wire: Annotated[str, option("Type in which values cross a link: f64, f32, f16, ….")] = "f64",
    subspace: Annotated[int | None, option("Move in a public subspace of this size.")] = None,
    more: MoreOption = None,
    timeout: Annotated[float | None, option("Seconds for one query.")] = None,
    workers: Annotated[int, option("Nodes that are asked at the same time.")] = 1,
    log_every: Annotated[int, option("Rounds between rows of the log.")] = 10,
    out: Annotated[Path | None, option("Also write the result and its log as JSON.")] = None,
    as_json: Annotated[bool, option("Print JSON instead of a table.", "--json")] = False,
) -> None:
    """Minimise the loss that a program prints, over several nodes; suggests q, eta and mu if not given.

    \b
    Example: zocosmo minimize --command 'awk "{s += ($1-3)^2} END {print s}" {file}' --d 4 --rounds 100
    """
    from zocosmo.blackbox.commands import Command
    from zocosmo.blackbox.course import DIVERGED, STUCK
    from zocosmo.blackbox.report import as_report, result_table, write_result

    if rounds is None and budget is None:
        raise InputError("say when to stop: give --rounds, --budget (payload bits per node), or both")
    if nodes is not None:
        check_whole("--nodes", nodes, 1)
    _check_out(out)
    first, tape_seed = _start(x0, d, start), as_seed(seed)
    web = None
    if graph is not None:
        web = as_graph(graph, nodes, p=0.4, degree=4, seed=tape_seed, option="--nodes")
    oracle = Command(command, (nodes or 1) if web is None else web.n, timeout=timeout, workers=workers)
    reaches = None if reach is None else _floats("--reach", reach)
    choices: dict[str, Any] = {
        **{"q": q, "eta": eta, "mu": mu, "beta": beta, "coupling": coupling},
        **{"directions": _directions(directions), "signs": signs, "sides": sides, "step": step},
        **{"rounds": rounds, "budget_bits": budget, "log_every": log_every, "wire": wire},
        **{"reach": reaches[0] if reaches and len(reaches) == 1 else reaches, "method": method},
        **{"subspace": subspace, "graph": web, "seed": tape_seed, "schedule": _schedule(schedule)},
    }
    result = _run(oracle, first, choices, more or [], out)
    report = as_report(result)
    print_report(report, as_json, lambda console: console.print(result_table(report)))
    if out is not None:
        write_result(out, result)
    if result.status in (DIVERGED, STUCK):
        raise typer.Exit(1)


def _directions(text: str | None) -> int | str | None:
    """A number, or auto."""
    if text is None or text == "auto":
        return text
    if not text.isdecimal():
        raise InputError(f"--directions takes a whole number or auto, got {text!r}")
    return int(text)


def _schedule(text: str) -> str | dict[str, Any]:
    """A name, or the matchings and weights of a file."""
    if Path(text).suffix not in (".yaml", ".yml"):
        return text
    from zocosmo.experiments.config import load_schedule

    return load_schedule(Path(text))


def _run(
    oracle: Any, first: list[float], choices: dict[str, Any], more: list[str], out: Path | None
) -> OptimizeResult:
    """Run; if that is interrupted or fails, write what was reached and pass the error on."""
    from zocosmo.blackbox.minimize import minimize as run
    from zocosmo.blackbox.minimize import reached
    from zocosmo.blackbox.report import write_result

    what = "a further field of the method, such as passes=2"
    further = as_fields(more, what, inspect.signature(run).parameters)
    with ended_by_signals() as received:
        try:
            with _bar(choices["rounds"]) as tick:
                return run(oracle, first, callback=tick, **choices, **further)
        except BaseException as error:
            if out is not None and (partial := reached(error)) is not None:
                write_result(out, partial)
            if received:
                raise SystemExit(128 + received[0]) from None
            raise


def _check_out(out: Path | None) -> None:
    """Refuse a file that cannot be written, before the run."""
    check_targets(None, out)
    if out is None:
        return
    if out.is_dir() or not os.access(out.parent, os.W_OK) or (out.exists() and not os.access(out, os.W_OK)):
        raise InputError(f"--out {out} cannot be written; name a file in a folder that can be")


def _start(x0: str | None, d: int | None, start: float) -> list[float]:
    """The start from --x0, or --d times --start."""
    if x0 is None:
        if d is None or d < 1:
            raise InputError(f"give --d, a whole number from 1 on, or --x0; got --d {d}")
        return [start] * d
    text = x0
    if x0.startswith("@"):
        try:
            text = Path(x0[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--x0 file {x0[1:]} cannot be read: {error}") from None
    first = _floats("--x0", text)
    if not first or (d is not None and d != len(first)):
        raise InputError(f"--x0 has {len(first)} numbers" + ("" if d is None else f", but --d is {d}"))
    return first


def _floats(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(f"{option} takes numbers separated by commas, such as 0.1,2,3: {error}") from None


@contextmanager
def _bar(rounds: int | None) -> Iterator[Callable[[OptimizeResult], None] | None]:
    """A bar on stderr, and the callback that moves it."""
    from rich.progress import BarColumn, TimeElapsedColumn

    text = "round {task.completed}  loss {task.fields[loss]:.4g}  {task.fields[bits]:,.0f} bits"
    with stderr_bar(BarColumn(), text, TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=rounds, loss=math.nan, bits=0.0)

        def tick(now: OptimizeResult) -> None:
            bar.update(task, completed=now.nit, loss=now.fun, bits=now.bits)

        yield None if bar.disable else tick
