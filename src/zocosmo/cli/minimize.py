"""zocosmo minimize: a black box behind a command line."""

import inspect
import json
import math
import os
import signal
import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from zocosmo.cli.common import SeedOption, app, as_graph, as_seed, output, print_json
from zocosmo.errors import InputError, check_whole
from zocosmo.files import replace_file
from zocosmo.graphs.graph import GRAPHS

OptimizeResult = Any  # SciPy's; imported by nobody here, so that help stays quick

ProgramOption = Annotated[
    str, typer.Option(help="Program for one query, with {x} or {file}, {node}, {round}; prints the loss.")
]
GraphOption = Annotated[
    str | None, typer.Option(help=f"{', '.join(GRAPHS)}; or edges such as 0-1,1-2.  [default: ring]")
]
ReachOption = Annotated[
    str | None, typer.Option(help="How far probes for eta and mu may move a coordinate: 0.1 or 0.1,2,….")
]
MoreOption = Annotated[
    list[str] | None, typer.Option("--set", help="A further field of the method: passes=2. Repeatable.")
]


@app.command()
def minimize(
    command: ProgramOption,
    d: Annotated[int | None, typer.Option("--d", help="Dimension; not needed with --x0.")] = None,
    start: Annotated[float, typer.Option(help="Every coordinate starts here.")] = 0.0,
    x0: Annotated[str | None, typer.Option("--x0", help="Where to start: 1,2,3 or @file.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes.  [default: 1]")] = None,
    graph: GraphOption = None,
    method: Annotated[str, typer.Option(help="cosmo, edge_local, …: see zocosmo methods.")] = "cosmo",
    q: Annotated[int | None, typer.Option("--q", help="Coordinates in a support.")] = None,
    eta: Annotated[float | None, typer.Option(help="Step size.")] = None,
    mu: Annotated[float | None, typer.Option(help="How far the two queries are from x.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds to run.")] = None,
    budget: Annotated[
        float | None, typer.Option(help="Payload bits per node, on average over the nodes.")
    ] = None,
    reach: ReachOption = None,
    seed: SeedOption = "0",
    beta: Annotated[float, typer.Option(help="Momentum.")] = 0.0,
    coupling: Annotated[str | None, typer.Option(help="G, S or I, with edge_local.")] = None,
    schedule: Annotated[
        str, typer.Option(help="Of matchings, with edge_local; or a .yaml of zocosmo schedule.")
    ] = "auto",
    wire: Annotated[str, typer.Option(help="Type in which values cross a link: f64, f32, f16, ….")] = "f64",
    more: MoreOption = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for one query.")] = None,
    workers: Annotated[int, typer.Option(help="Nodes that are asked at the same time.")] = 1,
    log_every: Annotated[int, typer.Option(help="Rounds between rows of the log.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Also write the result and its log as JSON.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Minimise what a program prints, over several nodes; q, eta and mu are suggested where not given.

    \b
    Example: zocosmo minimize --command 'awk "{s += ($1-3)^2} END {print s}" {file}' --d 4 --rounds 100
    """
    from zocosmo.blackbox.commands import Command

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
    choices: dict[str, Any] = {
        **{"q": q, "eta": eta, "mu": mu, "beta": beta, "coupling": coupling},
        **{"rounds": rounds, "budget_bits": budget, "log_every": log_every, "wire": wire},
        **{"reach": None if reach is None else _reach(reach), "method": method},
        **{"graph": web, "seed": tape_seed, "schedule": _schedule(schedule)},
    }
    result = _run(oracle, first, choices, more or [], out)
    report = as_report(result)
    if as_json:
        print_json(report)
    else:
        _show(report)
    _write(out, result)
    if not result.success:
        raise typer.Exit(1)


def _schedule(text: str) -> str | dict[str, Any]:
    """A name, or the matchings and weights of a file that `zocosmo schedule --out` wrote."""
    if Path(text).suffix not in (".yaml", ".yml"):
        return text
    from zocosmo.experiments.config import Config

    found = Config.load(Path(text)).data
    graphs = found.get("graphs") if isinstance(found, dict) else None
    entry = graphs[0] if isinstance(graphs, list) and graphs else found
    listed = entry.get("schedule") if isinstance(entry, dict) else None
    if not isinstance(listed, dict):
        raise InputError(f"--schedule {text} has no matchings; zocosmo schedule --out {text} writes them")
    return listed


def _run(
    oracle: Any, first: list[float], choices: dict[str, Any], more: list[str], out: Path | None
) -> OptimizeResult:
    """The run itself; where it is broken off, what was reached is written all the same."""
    from zocosmo.blackbox.minimize import minimize as run

    further = _further(more, inspect.signature(run).parameters)
    try:
        with _ended_by_signals(), _progress(choices["rounds"]) as tick:
            return run(oracle, first, callback=tick, **choices, **further)
    except BaseException as error:
        if (partial := getattr(error, "result", None)) is not None:
            _write(out, partial)
        raise


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run as an interrupt would: programs are killed, folders removed."""

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), end) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _check_out(out: Path | None) -> None:
    """Before the run, not after it."""
    if out is None:
        return
    if not out.parent.is_dir():
        raise InputError(f"folder {out.parent} does not exist; make it first")
    if out.is_dir() or not os.access(out.parent, os.W_OK) or (out.exists() and not os.access(out, os.W_OK)):
        raise InputError(f"--out {out} cannot be written; name a file in a folder that can be")


def _write(out: Path | None, result: OptimizeResult) -> None:
    if out is None:
        return
    log, states = _plain(result.log.to_dict("records")), _plain(result.states.tolist())
    text = json.dumps({**as_report(result), "states": states, "log": log}, indent=1)
    replace_file(out, lambda path: path.write_text(text + "\n", encoding="utf-8"))


def _reach(text: str) -> float | list[float]:
    try:
        parts = [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--reach is a number, or one for each coordinate: 0.1,2,3; got {text!r}") from None
    return parts[0] if len(parts) == 1 else parts


def _further(texts: list[str], taken: Collection[str]) -> dict[str, Any]:
    """Of --set passes=2: numbers as numbers, anything else as text."""
    further: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in taken:
            raise InputError(f"--set takes a further field of the method, such as passes=2; got {text!r}")
        try:
            further[name] = json.loads(value)
        except ValueError:
            further[name] = value
    return further


def as_report(result: OptimizeResult) -> dict[str, Any]:
    """A result as JSON can hold it: NaN becomes null."""
    names = ("success", "status", "message", "fun", "nit", "nfev", "bits", "bits_by_kind", "disagreement")
    settings = {name: getattr(result.method, name, None) for name in ("kind", "q", "eta", "mu", "beta")}
    why = list(result.suggestion.reasons) if result.suggestion else []
    about = {"method": settings, "suggested": why, "x": result.x.tolist()}
    report: dict[str, Any] = _plain({**{name: result[name] for name in names}, **about})
    return report


def _plain(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _plain(part) for name, part in thing.items()}
    if isinstance(thing, list):
        return [_plain(part) for part in thing]
    return None if isinstance(thing, float) and not math.isfinite(thing) else thing


def _start(x0: str | None, d: int | None, start: float) -> list[float]:
    """From --x0, or --d times --start."""
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
    try:
        first = [float(part) for part in text.replace(",", " ").split()]
    except ValueError as error:
        raise InputError(
            f"--x0 must be numbers separated by commas, or @ and a file of them: {error}"
        ) from None
    if not first or (d is not None and d != len(first)):
        raise InputError(f"--x0 has {len(first)} numbers" + ("" if d is None else f", but --d is {d}"))
    return first


def _progress(rounds: int | None) -> Any:
    """A bar on stderr that a callback moves; nothing where stderr is no terminal."""
    return _Bar(rounds) if is_terminal() else nullcontext(None)


def is_terminal() -> bool:
    return sys.stderr.isatty()


class _Bar:
    """The bar, and the callback that moves it."""

    def __init__(self, rounds: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        text = TextColumn(
            "round {task.completed}  loss {task.fields[loss]:.4g}  {task.fields[bits]:,.0f} bits"
        )
        self.bar = Progress(
            BarColumn(), text, TimeElapsedColumn(), console=Console(stderr=True), transient=True
        )
        self.task = self.bar.add_task("", total=rounds, loss=math.nan, bits=0.0)

    def __enter__(self) -> "_Bar":
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def __call__(self, now: OptimizeResult) -> None:
        self.bar.update(self.task, completed=now.nit, loss=now.fun, bits=now.bits)


def _show(report: dict[str, Any]) -> None:
    from rich.table import Table

    method, x = report["method"], report["x"]
    shown = ", ".join(f"{value:.6g}" for value in x[:8]) + (f", … ({len(x)} in all)" if len(x) > 8 else "")
    settings = [
        f"{name} = {method[name]:.6g}" for name in ("q", "eta", "mu", "beta") if method[name] is not None
    ]
    loss = "not measured" if report["fun"] is None else f"{report['fun']:.6g}"
    apart = "not finite" if report["disagreement"] is None else f"{report['disagreement']:.3g}"
    table = Table(show_header=False, box=None)
    for name, text in (
        ("loss at the average", loss),
        ("x", shown),
        ("disagreement", apart),
        ("rounds", f"{report['nit']:,}"),
        ("queries", f"{report['nfev']:,}"),
        ("bits per node", f"{report['bits']:,.0f}"),
        (method["kind"], ", ".join(settings)),
        *(("suggested", reason) for reason in report["suggested"]),
        ("ended", report["message"]),
    ):
        table.add_row(name, text)
    output().print(table)
