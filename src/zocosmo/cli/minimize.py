"""zocosmo minimize: a black box behind a command line."""

import inspect
import math
import os
import signal
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
    say,
    stderr_bar,
)
from zocosmo.cli.options import option
from zocosmo.errors import InputError, OracleError, check_whole

OptimizeResult = Any  # SciPy's, not imported here, so that --help is quick

ProgramOption = Annotated[
    str, option("Program for one query, with {x} or {file}, {node}, {round}; prints the loss.")
]
GraphOption = Annotated[str | None, option(f"{GRAPH_HELP}  [default: ring]")]
ReachOption = Annotated[
    str | None, option("How far probes for eta and mu may move a coordinate: 0.1 or 0.1,2,….")
]
BoundsOption = Annotated[
    str | None, option("Never asked outside: lo:hi for all, or 0:1,-5:5,:3 for each coordinate.")
]
TolOption = Annotated[
    float | None, option("Retune, and stop when at most this share of the gain is left, such as 1e-4.")
]
JournalOption = Annotated[Path | None, option("Keep every answer in this file, and do not delete it.")]
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
    wire: Annotated[str | None, option("How values cross a link: f64, f32, mod4, ….")] = None,
    subspace: Annotated[int | None, option("Move in a public subspace of this size.")] = None,
    more: MoreOption = None,
    bounds: BoundsOption = None,
    scale: Annotated[str | None, option("How far coordinates usefully move: 0.1 or 0.1,2,….")] = None,
    tol: TolOption = None,
    journal: JournalOption = None,
    resume: Annotated[Path | None, option("Go on from this journal; the other options as before.")] = None,
    no_journal: Annotated[bool, option("Keep no answers on disk.", "--no-journal")] = False,
    timeout: Annotated[float | None, option("Seconds for one query.")] = None,
    workers: Annotated[int, option("Nodes that are asked at the same time.")] = 1,
    log_every: Annotated[int, option("Rounds between rows of the log.")] = 10,
    out: Annotated[Path | None, option("Also write the result and its log as JSON.")] = None,
    as_json: Annotated[bool, option("Print JSON instead of a table.", "--json")] = False,
) -> None:
    """Minimise the loss that a program prints, over several nodes; suggests q, eta and mu if not given.

    Every answer is on disk before it is used. After Ctrl-C, a crash or a failing program the same command
    goes on from there and asks nothing twice; a run that ends by itself deletes the file unless --journal
    names it.

    \b
    Example: zocosmo minimize --command 'awk "{s += ($1-3)^2} END {print s}" {file}' --d 4 --rounds 100
    """
    from zocosmo.blackbox.commands import Command
    from zocosmo.blackbox.course import DIVERGED, STUCK
    from zocosmo.blackbox.report import as_report, result_table, write_result

    if rounds is None and budget is None and tol is None:
        raise InputError("say when to stop: give --rounds, --budget (payload bits per node), or --tol")
    if nodes is not None:
        check_whole("--nodes", nodes, 1)
    _check_out(out)
    first, tape_seed = _start(x0, d, start), as_seed(seed)
    web = None
    if graph is not None:
        web = as_graph(graph, nodes, p=0.4, degree=4, seed=tape_seed, option="--nodes")
    kept = _journal(journal, resume, no_journal)
    oracle = Command(command, (nodes or 1) if web is None else web.n, timeout=timeout, workers=workers)
    choices: dict[str, Any] = {
        **{"q": q, "eta": eta, "mu": mu, "beta": beta, "coupling": coupling},
        **{"directions": _directions(directions), "signs": signs, "sides": sides, "step": step},
        **{"rounds": rounds, "budget_bits": budget, "log_every": log_every, "wire": wire},
        **{"reach": _one_or_all("--reach", reach), "method": method},
        **{"subspace": subspace, "graph": web, "seed": tape_seed, "schedule": _schedule(schedule)},
        **{"bounds": _bounds(bounds), "scale": _one_or_all("--scale", scale), "tol": tol, "journal": kept},
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
    from zocosmo.blackbox.minimize import kept_answers, reached
    from zocosmo.blackbox.minimize import minimize as run
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
            if received or isinstance(error, KeyboardInterrupt):
                say(_parting(error))
                raise SystemExit(128 + (received or [signal.SIGINT])[0]) from None
            if isinstance(error, OracleError) and (kept := kept_answers(error)):
                raise OracleError(
                    f"{error}; {kept}", node=error.node, t=error.t, query=error.query
                ) from error
            raise


def _parting(error: BaseException) -> str:
    """Where an interrupted run is, and how it goes on."""
    from zocosmo.blackbox.minimize import kept_answers, reached
    from zocosmo.blackbox.report import shown

    partial = reached(error)
    here = "" if partial is None else f" at x = {shown(partial.x.tolist())}, loss {partial.query_loss:.6g}"
    return f"zocosmo: interrupted{here}; {kept_answers(error) or 'no answers are kept'}"


def _journal(journal: Path | None, resume: Path | None, without: bool) -> Path | None:
    """The file of the journal; a folder stands for a file in it that is named after the run."""
    if sum((journal is not None, resume is not None, without)) > 1:
        raise InputError("--journal, --resume and --no-journal exclude each other; give one of them")
    if journal is not None and journal.exists():
        raise InputError(f"--journal {journal} exists; go on from it with --resume, or name a new file")
    if resume is not None and not resume.is_file():
        raise InputError(f"--resume {resume} does not exist; name the journal of an earlier run")
    if journal is None and resume is None and not without and not os.access(".", os.W_OK):
        raise InputError("this folder cannot be written; name a file with --journal, or give --no-journal")
    return None if without else journal or resume or Path()


def _bounds(text: str | None) -> Any:
    """lo:hi for all coordinates, or one for each, separated by commas; an empty side is no bound."""
    if text is None:
        return None
    pairs = [part.split(":") for part in text.replace(" ", "").split(",")]
    try:
        found = [[float(side) if side else None for side in pair] for pair in pairs]
    except ValueError as error:
        raise InputError(f"--bounds takes lo:hi, such as 0:1 or 0:1,-5:5,:3: {error}") from None
    if any(len(pair) != 2 for pair in found):
        raise InputError(f"--bounds takes lo:hi, such as 0:1 or 0:1,-5:5,:3; got {text!r}")
    return found[0] if len(found) == 1 else found


def _one_or_all(name: str, text: str | None) -> float | list[float] | None:
    """One number for all coordinates, or one for each."""
    if text is None:
        return None
    found = _floats(name, text)
    return found[0] if len(found) == 1 else found


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

    text = "round {task.completed}  {task.fields[loss]}{task.fields[queries]:,} queries  "
    text += "{task.fields[bits]:,.0f} bits/node sent"
    with stderr_bar(BarColumn(), text, TimeElapsedColumn()) as bar:
        task = bar.add_task("", total=rounds, loss="", queries=0, bits=0.0)

        def tick(now: OptimizeResult) -> None:
            loss = f"loss {now.fun:.4g}  " if math.isfinite(now.fun) else ""
            bar.update(task, completed=now.nit, loss=loss, queries=now.nfev, bits=now.bits)

        yield None if bar.disable else tick
