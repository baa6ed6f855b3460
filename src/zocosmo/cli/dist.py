"""zocosmo launch, diff, bench-link: studies with one process per node, and comparisons of runs."""

import shlex
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zocosmo.cli.common import app, ended_by_signals, print_report, say
from zocosmo.cli.options import JsonOption, ProcessOptions, argument, as_line, option, taking
from zocosmo.cli.study import find_log, where
from zocosmo.errors import check_whole
from zocosmo.files import private_files

if TYPE_CHECKING:
    from zocosmo.experiments.plan import Plan
    from zocosmo.log import Log
    from zocosmo.report.diff import StoredRun

RunArgument = Annotated[Path, argument("The folder of a study that was run, or its log file.")]


@app.command()
@taking(ProcessOptions)
def launch(
    context: typer.Context,
    options: ProcessOptions,
    nodes: Annotated[
        int | None, option("Processes to start.  [default: one for each node of the graph]")
    ] = None,
    restarts: Annotated[int, option("Restarts after a failure.", min=0)] = 0,
) -> None:
    """Run a config on this machine with one process per node, and write the log of zocosmo run.

    On several machines: torchrun … -m zocosmo.dist CONFIG, with the same options.

    \b
    Example: zocosmo example > first.yaml && zocosmo launch first.yaml --nodes 2 --out runs/first-2
    """
    import zocosmo.dist.torched  # noqa: F401  first: who lacks torch hears of it, not of what comes with it
    from zocosmo.dist.launch import Refused

    plan = options.plan()
    world = _world(plan, nodes)
    folder = options.folder(plan)
    _check(options)
    done = None if options.replace else _finished(plan, folder, options)
    if done is not None:
        print(where(folder, done, options.suffix))
        return
    line = [sys.executable, "-m", "zocosmo.dist", *as_line(context, "nodes", "restarts")]
    code = _launch(line, world, restarts)
    if code and not isinstance(code, Refused) and (folder / "plan.json").exists():
        again = ["zocosmo", "launch", *as_line(context, "nodes", "resume", "replace"), "--nodes", str(world)]
        say(f"finished work is kept. Continue with: {shlex.join([*again, '--resume'])}")
    raise typer.Exit(code)


def _world(plan: "Plan", nodes: int | None) -> int:
    """The number of processes: as given, or one per node of the smallest graph."""
    from zocosmo.dist.engine import check_peers
    from zocosmo.dist.place import Place

    for trial in plan.trials:
        check_peers(trial.method)
    graphs = {trial.graph_of() for trial in plan.trials}
    world = min(graph.n for graph in graphs) if nodes is None else check_whole("--nodes", nodes, 1)
    for graph in sorted(graphs, key=lambda graph: graph.n):
        Place(graph, world)  # refuses more processes than nodes
    return world


def _check(options: ProcessOptions) -> None:
    """Refuse once, here, what every process would refuse."""
    from zocosmo.dist.deadline import Deadline
    from zocosmo.dist.links import check_backend
    from zocosmo.dist.rendezvous import check_address
    from zocosmo.dist.seal import read_key

    check_backend(options.backend)
    Deadline(options.deadline)
    if options.key_file is not None:
        read_key(options.key_file)
    if options.listen is not None:
        check_address(options.listen)


def _finished(plan: "Plan", folder: Path, options: ProcessOptions) -> "Log | None":
    """The log, if this study was run before; a folder that rank 0 would refuse is refused here."""
    from zocosmo.experiments.folder import Folder
    from zocosmo.log import logs_in, make_header

    if not (folder / "plan.json").exists() and not logs_in(folder):
        return None
    study = Folder(folder, make_header(plan.config, plan.fingerprint), options.suffix)
    private = nullcontext() if options.key_file is None else private_files()
    with private, study.opened(resume=options.resume, replace_old=False) as done:
        return done


def _launch(line: list[str], world: int, restarts: int) -> int:
    """Start all processes, and end them if this one is told to."""
    from zocosmo.dist.launch import launch as start

    with ended_by_signals() as received:
        code = start(line, world, restarts=restarts)
    return 128 + received[0] if received else code


@app.command()
def diff(
    run_a: RunArgument,
    run_b: RunArgument,
    ignore: Annotated[
        list[str] | None, option("A column that may differ, such as framing_bits; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs bit by bit: the rows of their logs, and their last states if both kept them.

    Exit code 0 if they are identical, 1 if not. A different version of code or libraries is only reported.

    \b
    Example: zocosmo example >f.yaml && for d in a b; do zocosmo run f.yaml --out $d; done && zocosmo diff a b
    A run of zocosmo launch differs only in the bytes of frames: zocosmo diff a b --ignore framing_bits
    """
    from zocosmo.report.diff import as_text, compare

    report = compare(_kept(run_a), _kept(run_b), ignore or [])
    print_report(report, as_json, lambda console: print(as_text(report)))
    if not report["identical"]:
        raise typer.Exit(1)


def _kept(run: Path) -> "StoredRun":
    from zocosmo.experiments.states import STATES, read_states
    from zocosmo.log import FORMATS
    from zocosmo.report.diff import StoredRun
    from zocosmo.terms.book import LEDGER, read_ledger

    log = find_log(run)
    folder = run.parent if run.suffix in FORMATS else run
    return StoredRun(
        str(run), log.rows, log.header, read_states(folder / STATES), read_ledger(folder / LEDGER)
    )


@app.command("bench-link")
def bench_link(
    trials: Annotated[int, option("Turns per message size.")] = 31,
    repeats: Annotated[int, option("Messages per turn; a tenth as many dense ones.")] = 300,
    as_json: JsonOption = False,
) -> None:
    """Time messages between two processes on this machine: the paper's transfers, and the runtime's own path.

    With pyzmq installed, also between members of a network.

    \b
    Example: zocosmo bench-link --trials 5 --repeats 50
    """
    from zocosmo.dist.bench import bench_link as measure
    from zocosmo.report.link import link_table

    program = "net.beside_gloo" if find_spec("zmq") else "dist.bench"
    with ended_by_signals():
        report = measure(trials=trials, repeats=repeats, program=f"zocosmo.{program}")
    print_report(report, as_json, lambda console: console.print(link_table(report)))
