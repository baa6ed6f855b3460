"""Plans are run here: trials in batches, each batch a part of the study's folder, all parts into one log.

Whatever stops a study, what is on disk is whole, and a resumed study ends in the same log.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.experiments.cluster import in_executor
from zocosmo.experiments.folder import Folder, FolderPart
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.experiments.processes import in_processes, interrupts_held
from zocosmo.experiments.states import STATES, Columns, write_states
from zocosmo.experiments.until import Until
from zocosmo.log import Log, make_header
from zocosmo.rounds.checkpoint import ENDS, Checkpoint
from zocosmo.sim.engine import Simulation, method_key, problem_key

if TYPE_CHECKING:
    import pandas as pd

BATCH_VALUES = 2**17  # numbers in the states of a batch: about what a core's cache holds
SNAPSHOT_EVERY = 20.0  # seconds
NOTE_EVERY = 1.0  # seconds, where a problem has something to say between checkpoints
KINDS = ("value_bits", "index_bits", "control_bits", "framing_bits")


class Progress(NamedTuple):
    """How far a study is; sent at every checkpoint of a batch, and in between with a problem's own note."""

    batch: int
    rounds: int  # node-rounds that this batch has done
    best: float  # the smallest objective in it
    bits: float  # the most that any of its nodes has spent
    note: str = ""


Tick = Callable[[Progress], None]
Watch = Callable[[Simulation, Checkpoint], None]  # sees a batch at its checkpoints, and leaves it as it is


def run_plan(
    plan: Plan,
    out: Path | None = None,
    *,
    resume: bool = False,
    replace_old: bool = False,
    processes: int = 1,
    tick: Tick | None = None,
    suffix: str = ".parquet",
    states: bool = False,
    watch: Watch | None = None,
    executor: Executor | None = None,
) -> Log:
    """Run all trials of a plan. With `out`, the log is `out`/log.parquet and a stopped study can go on.

    With `states` the last states of all nodes are kept beside the log, in states.npz. `watch` is called at
    every checkpoint before a snapshot can hold it: what it writes is there when a stopped study goes on.
    With an `executor` its workers run the batches, wherever they are, and the log has the same bytes.
    """
    if watch is not None and (processes > 1 or executor is not None):
        where = "an executor" if executor is not None else f"processes = {processes}"
        raise InputError(f"only one process can be watched, got {where}")
    if states and plan.until is not None:
        raise InputError("until ends runs in different rounds, so there are no last states; leave one out")
    header, tell = make_header(plan.config, plan.fingerprint), tick or unwatched
    batches = list(make_batches(plan))
    if out is None:
        columns = _run_batches(plan, batches, None, processes, tell, watch=watch, executor=executor)
        return Log(make_frame(plan, columns), header)
    kept = out / STATES
    folder = Folder(out, header, suffix)
    with folder.opened(resume=resume, replace_old=replace_old) as done:
        if done is not None:
            if states and not kept.exists():
                raise InputError(f"{out} holds a log without {STATES}; start anew with --replace --states")
            return done
        kept.unlink(missing_ok=True)  # of a study that stood here before
        how: dict[str, Any] = {"states": states, "watch": watch, "executor": executor}
        columns = _run_batches(plan, batches, folder, processes, tell, **how)
        found: Columns = {}
        for part in columns:
            found |= {name: part.pop(name) for name in list(part) if name.startswith("trial-")}
        if states:
            write_states(kept, found)
        log = Log(make_frame(plan, columns), header)
        folder.finish(log)
    return log


def unwatched(progress: Progress) -> None:
    """The Tick of a study without progress reports."""


def clear_folder(out: Path) -> None:
    """Leave nothing of the study in a folder, whatever it was."""
    Folder(out, {}).clear()


def open_folder(plan: Plan, out: Path) -> None:
    """Make a folder this plan's, to be run later; one that is another's is refused."""
    with Folder(out, make_header(plan.config, plan.fingerprint)).opened(resume=True, replace_old=False):
        pass


def make_batches(plan: Plan) -> Iterator[list[Trial]]:
    """Trials that can share arrays, in groups that fit a core's cache. Results do not depend on it."""
    groups: dict[Any, list[Trial]] = {}
    shapes: dict[Any, tuple[Any, ...]] = {}  # seeds change no shape, and a large problem takes time to build
    for trial in plan.trials:
        kind = trial.problem, trial.graph_of().n
        if kind not in shapes:
            problem = trial.run().problem
            shapes[kind] = *problem_key(problem), problem.size
        groups.setdefault((method_key(trial.method, plan.dtype), shapes[kind]), []).append(trial)
    for (_, (_, n, *_, size)), group in groups.items():
        most = dict(group[0].problem).get("together") or max(1, BATCH_VALUES // (n * size))
        paths: dict[Any, list[Trial]] = {}
        for trial in group:  # the same updates under another codec are the same path
            paths.setdefault(trial.path, []).append(trial)
        chunks = math.ceil(len(paths) / most)
        each = list(paths.values())
        for k in range(chunks):  # of nearly equal size
            part = each[len(each) * k // chunks : len(each) * (k + 1) // chunks]
            yield [trial for path in part for trial in path]


def run_batch(
    plan: Plan,
    trials: Sequence[Trial],
    number: int,
    part: FolderPart | None,
    tick: Tick,
    *,
    states: bool = False,
    watch: Watch | None = None,
) -> Columns:
    """Rows of some trials as columns; read from `part` if it is done, continued from it if it is not.

    With `states` there is an array for each trial besides; a part that was done without them is run again.
    """
    if done := _stored(part, trials, states):
        return done
    half = None if part is None else part.load("half")
    paths = {path: k for k, path in enumerate(dict.fromkeys(trial.path for trial in trials))}
    first = {trial.path: trial for trial in reversed(trials)}
    sim = Simulation(
        [first[path].run() for path in paths],
        codecs=[trial.method.codec for trial in trials],
        wire=plan.wire,
        lost=plan.lost,
        dtype=plan.dtype,
        bound=plan.diverged_above,
        guard=plan.guard,
    )
    rows = LogRows(trials, [paths[trial.path] for trial in trials], sim.problem.n, plan.until)

    def measure() -> None:
        rows.take(now := sim.checkpoint())
        if watch is not None:
            watch(sim, now)

    if half is not None:
        sim.restore({k.removeprefix("sim."): v for k, v in half.items() if k.startswith("sim.")})
        rows.add({k.removeprefix("rows."): v for k, v in half.items() if k.startswith("rows.")})
    else:
        measure()
    each = len(trials) * sim.problem.n

    def tell() -> None:
        tick(Progress(number, sim.t * each, rows.best, rows.bits, sim.problem.note()))

    _advance(plan, sim, rows, part, measure, tell)
    columns = rows.columns()
    if states:
        last = sim.states()
        columns |= {state_name(trial): last[paths[trial.path]] for trial in trials}
    if part is not None:
        part.save("done", columns)
        part.drop("half")
    return columns


def state_name(trial: Trial) -> str:
    return f"trial-{trial.number}"


def _advance(
    plan: Plan,
    sim: Simulation,
    rows: "LogRows",
    part: FolderPart | None,
    measure: Callable[[], None],
    tell: Callable[[], None],
) -> None:
    """Round after round to the end of the plan; a snapshot now and then, and when asked to stop."""
    saved = told = time.monotonic()
    with interrupts_held() as stop:
        while sim.t < plan.last and rows.going(sim.alive):
            sim.round()
            if plan.is_due(sim.t):
                measure()
                tell()
            elif sim.problem.has_note and time.monotonic() - told > NOTE_EVERY:
                tell()
                told = time.monotonic()
            asked = stop.asked()
            if part is not None and (asked or time.monotonic() - saved > SNAPSHOT_EVERY):
                now = {f"sim.{name}": array for name, array in sim.arrays().items()}
                part.save("half", now | {f"rows.{name}": array for name, array in rows.columns().items()})
                saved = time.monotonic()
            if asked:
                raise KeyboardInterrupt
    tell()


class LogRows:
    """Rows of a log as they come, one array for each column and checkpoint."""

    def __init__(
        self, trials: Sequence[Trial], paths: Sequence[int], n: int, until: Until | None = None
    ) -> None:
        self._numbers = np.array([trial.number for trial in trials])
        self._codecs = [trial.method.codec for trial in trials]
        self._paths, self._n = np.array(paths), n
        self._parts: list[Columns] = []
        self._until, self._over = until, np.zeros(len(trials), bool)
        self.best, self.bits = math.inf, 0.0

    def take(self, now: Checkpoint) -> None:
        """Add a checkpoint: a row for each trial whose run was alive and not over."""
        keep = now.alive[self._paths] & ~self._over
        path = self._paths[keep]
        codecs = [codec for codec, kept in zip(self._codecs, keep, strict=True) if kept]

        def by_trial(table: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Any]:
            """Columns of a table by codec and run: each trial has its own codec."""
            rows = [table[codec][k] for codec, k in zip(codecs, path, strict=True)]
            return dict(zip(kinds, np.array(rows, np.int64).reshape(-1, len(kinds)).T, strict=True))

        bits = by_trial(now.bits, KINDS)
        measured = {
            "objective": now.objective,
            "local": now.local,
            "disagreement": now.disagreement,
            **now.extra,
        }
        self.add(
            {
                "trial": self._numbers[keep],
                "round": np.full(len(path), now.round),
                "bits": sum(bits[kind] for kind in KINDS[:3]) / self._n,
                **bits,
                "queries": now.queries[path],
                "stages": now.stages[path],
                **{name: np.asarray(column)[path] for name, column in measured.items()},
                **({} if now.served is None else by_trial(now.served, ENDS)),
                "diverged": now.diverged[path],
            }
        )
        self.best = float(np.nanmin(now.objective[path], initial=math.inf)) if len(path) else self.best
        self.bits = float(self._parts[-1]["bits"].max(initial=0.0))

    def add(self, columns: Columns) -> None:
        """Add rows, and note which trials end with them."""
        self._parts.append(columns)
        if self._until is not None:
            over = self._until.reached(columns["bits"], columns["queries"] / self._n)
            self._over |= np.isin(self._numbers, columns["trial"][over])

    def going(self, alive: NDArray[np.bool_]) -> bool:
        """Whether any trial is to go on, of runs that are alive."""
        return bool((alive[self._paths] & ~self._over).any())

    def columns(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}


def _run_batches(
    plan: Plan,
    batches: Sequence[list[Trial]],
    folder: Folder | None,
    processes: int,
    tick: Tick,
    *,
    states: bool = False,
    watch: Watch | None = None,
    executor: Executor | None = None,
) -> list[Columns]:
    parts = [None if folder is None else folder.part(k) for k in range(len(batches))]
    if executor is not None:
        return _run_elsewhere(plan, batches, parts, tick, executor, states)
    if processes <= 1 or len(batches) <= 1:
        return [
            run_batch(plan, trials, k, parts[k], tick, states=states, watch=watch)
            for k, trials in enumerate(batches)
        ]
    columns: list[Columns] = [{} for _ in batches]
    tasks = [(plan, trials, k, parts[k], unwatched) for k, trials in enumerate(batches)]
    for k, found in in_processes(partial(run_batch, states=states), tasks, processes):
        columns[k] = found
        _tell_done(plan, batches[k], k, found, tick)
    return columns


def _tell_done(plan: Plan, trials: Sequence[Trial], number: int, found: Columns, tick: Tick) -> None:
    """Progress of a batch that was run elsewhere and is done."""
    nodes = sum(trial.graph_of().n for trial in trials)
    best = float(np.nanmin(found["objective"], initial=math.inf))
    tick(Progress(number, plan.last * nodes, best, float(found["bits"].max())))


def _run_elsewhere(
    plan: Plan,
    batches: Sequence[list[Trial]],
    parts: Sequence[FolderPart | None],
    tick: Tick,
    executor: Executor,
    states: bool,
) -> list[Columns]:
    """Batches that are not done yet on the workers of an executor; parts are stored here as they finish."""
    columns = [_stored(part, trials, states) for part, trials in zip(parts, batches, strict=True)]
    alone = replace(plan, trials=())  # a batch brings its own
    left = [k for k, found in enumerate(columns) if not found]
    tasks = [(k, (alone, batches[k], k, None, unwatched)) for k in left]
    for k, found in in_executor(partial(run_batch, states=states), tasks, executor, plan.config):
        columns[k] = found
        if (part := parts[k]) is not None:
            part.save("done", found)
            part.drop("half")
        _tell_done(plan, batches[k], k, found, tick)
    return columns


def _stored(part: FolderPart | None, trials: Sequence[Trial], states: bool) -> Columns:
    """The rows of a batch that is done; empty if it is not, or lacks the states that are wanted."""
    done = None if part is None else part.load("done")
    return done if done is not None and (not states or state_name(trials[0]) in done) else {}


def make_frame(plan: Plan, columns: Sequence[Columns]) -> "pd.DataFrame":
    """One frame with the labels of each trial, sorted by trial and round."""
    import pandas as pd

    frame = pd.concat([pd.DataFrame(part) for part in columns], ignore_index=True)
    frame = frame.sort_values(["trial", "round"], kind="stable", ignore_index=True)
    about = [(*trial.labels, str(trial.seed), trial.graph_of().n) for trial in plan.trials]
    labels = pd.DataFrame(about, columns=["problem", "graph", "method", "seed", "n"])
    beside = labels.take(frame["trial"].to_numpy()).reset_index(drop=True)
    front = pd.concat([frame[["trial"]], beside], axis=1)
    return pd.concat([front, frame.drop(columns=["trial", "diverged"]), frame[["diverged"]]], axis=1)
