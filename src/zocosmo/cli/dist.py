"""zocosmo launch, diff, bench-link: studies in processes of their own, and what came of them."""

import contextlib
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import app, output, print_json
from zocosmo.cli.options import (
    JOIN,
    BackendOption,
    CheckpointOption,
    ConfigArgument,
    CsvOption,
    DeadlineOption,
    HandOutOption,
    JoinOption,
    JsonOption,
    KeyOption,
    ListenOption,
    LostOption,
    OutOption,
    ReplaceOption,
    ResumeOption,
    SeedsOption,
    SetOption,
    StatesOption,
    as_line,
)
from zocosmo.cli.study import RUNS, as_seeds, find_log, where
from zocosmo.errors import check_known, check_whole

if TYPE_CHECKING:
    from zocosmo.experiments.plan import Plan
    from zocosmo.log import Log
    from zocosmo.report.diff import StoredRun

RunArgument = Annotated[Path, typer.Argument(help="The folder of a study that was run, or its log file.")]


@app.command()
def launch(
    context: typer.Context,
    config: ConfigArgument,
    nodes: Annotated[
        int | None, typer.Option(help="Processes to start.  [default: one for each node of the graph]")
    ] = None,
    out: OutOption = None,
    seeds: SeedsOption = "",
    set_: SetOption = None,
    resume: ResumeOption = False,
    replace: ReplaceOption = False,
    restarts: Annotated[int, typer.Option(min=0, help="Times to start again after a failure.")] = 0,
    checkpoint_every: CheckpointOption = 0,
    deadline: DeadlineOption = None,
    join_within: JoinOption = JOIN,
    key_file: KeyOption = None,
    listen: ListenOption = None,
    backend: BackendOption = "gloo",
    on_lost_peer: LostOption = None,
    seeds_from_rank_0: HandOutOption = False,
    states: StatesOption = True,
    csv: CsvOption = False,
) -> None:
    """Run a config on this machine with each node in a process of its own, and write the log of zocosmo run.

    On several machines: torchrun … -m zocosmo.dist CONFIG, with the same options.

    \b
    Example: zocosmo example > first.yaml && zocosmo launch first.yaml --nodes 2 --out runs/first-2
    """
    from zocosmo.experiments.plan import load_plan

    plan = load_plan(config, as_seeds(seeds) if seeds else None, set_)
    world = _world(plan, nodes)
    folder = RUNS / plan.name if out is None else out
    lost = on_lost_peer or plan.on_lost_peer
    check_known("--on-lost-peer", lost, ("stop", "idle"))
    _check_ways(key_file, listen, backend, deadline)
    done = None if replace else _finished(plan, folder, resume=resume, suffix=".csv" if csv else ".parquet")
    if done is not None:
        print(where(folder, done, csv=csv))
        return
    code = _launch(
        [sys.executable, "-m", "zocosmo.dist", *as_line(context, "nodes", "restarts")],
        world,
        restarts,
        alone=lost == "idle",
    )
    if code and (folder / "plan.json").exists():
        again = ["zocosmo", "launch", *as_line(context, "nodes", "resume", "replace"), "--nodes", str(world)]
        print(
            f"zocosmo: what is done is kept. Go on with: {shlex.join([*again, '--resume'])}", file=sys.stderr
        )
    raise typer.Exit(code)


def _world(plan: "Plan", nodes: int | None) -> int:
    """As many processes as asked for, or as the smallest graph has nodes."""
    from zocosmo.dist.engine import check_peers
    from zocosmo.dist.place import Place

    for trial in plan.trials:
        check_peers(trial.method)
    graphs = {trial.graph_of() for trial in plan.trials}
    world = min(graph.n for graph in graphs) if nodes is None else check_whole("--nodes", nodes, 1)
    for graph in sorted(graphs, key=lambda graph: graph.n):
        Place(graph, world)  # refuses more processes than nodes
    return world


def _check_ways(key_file: Path | None, listen: str | None, backend: str, deadline: float | None) -> None:
    """Refuse here, in one line, what every process would refuse in a line of its own."""
    from zocosmo.dist.deadline import Deadline
    from zocosmo.dist.links import check_backend
    from zocosmo.dist.rendezvous import check_address
    from zocosmo.dist.seal import read_key

    check_backend(backend)
    Deadline(deadline)
    if key_file is not None:
        read_key(key_file)
    if listen is not None:
        check_address(listen)


def _finished(plan: "Plan", folder: Path, *, resume: bool, suffix: str) -> "Log | None":
    """A log that is there already. A folder that holds something is opened as rank 0 will: it may refuse."""
    from zocosmo.experiments.folder import Folder
    from zocosmo.log import FORMATS, make_header

    if not any((folder / name).exists() for name in ("plan.json", *(f"log{each}" for each in FORMATS))):
        return None
    study = Folder(folder, make_header(plan.config, plan.fingerprint), suffix)
    with study.opened(resume=resume, replace_old=False) as done:
        return done


def _launch(line: list[str], world: int, restarts: int, *, alone: bool) -> int:
    """All processes; where a lost peer is not the end, one that fails is started again alone."""
    from zocosmo.dist.launch import launch as start
    from zocosmo.dist.launch import launch_returning

    with _ended_by_signals() as ended:
        code = (launch_returning if alone else start)(line, world, restarts=restarts)
    return 128 + ended[0] if ended else code


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP end all processes as Ctrl-C does; in sessions of their own they would go on."""
    ended: list[int] = []

    def end(number: int, frame: Any) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), end) for name in names}
    try:
        yield ended
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@app.command()
def diff(
    run_a: RunArgument,
    run_b: RunArgument,
    ignore: Annotated[
        list[str] | None, typer.Option(help="A column that may differ, such as framing_bits; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs to the bit: rows of their logs, and last states where both kept them.

    Exit code 0 where they are identical, 1 where they are not. Other code or libraries are named, no more.

    \b
    Example: zocosmo diff runs/ring4 runs/ring4-launched --ignore framing_bits
    """
    from zocosmo.report.diff import as_text, compare

    report = compare(_kept(run_a), _kept(run_b), ignore or [])
    if as_json:
        print_json(report)
    else:
        print(as_text(report))
    if not report["identical"]:
        raise typer.Exit(1)


def _kept(run: Path) -> "StoredRun":
    from zocosmo.experiments.states import STATES, read_states
    from zocosmo.log import FORMATS
    from zocosmo.report.diff import StoredRun

    log = find_log(run)
    folder = run.parent if run.suffix in FORMATS else run
    return StoredRun(str(run), log.rows, log.header, read_states(folder / STATES))


@app.command("bench-link")
def bench_link(
    trials: Annotated[int, typer.Option(help="Turns that each message takes.")] = 31,
    repeats: Annotated[int, typer.Option(help="Messages in a turn; of dense ones a tenth.")] = 300,
    as_json: JsonOption = False,
) -> None:
    """Time messages between two processes of this machine: the paper's transfers, and the runtime's own path.

    \b
    Example: zocosmo bench-link --trials 5 --repeats 50
    """
    from zocosmo.dist.bench import bench_link as measure
    from zocosmo.report.link import link_table

    with _ended_by_signals():
        report = measure(trials=trials, repeats=repeats)
    if as_json:
        print_json(report)
    else:
        output().print(link_table(report))
