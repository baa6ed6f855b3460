"""Plans are run here: trials in batches, batches in parts on disk, parts into one log.

A part is a file for each batch: its rows when it is done, a snapshot while it is not. Whatever stops a study,
what is on disk is whole, and a resumed study ends in the same log.
"""

import json
import math
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.files import replace_file
from zocosmo.log import Log, make_header, read_log, write_log
from zocosmo.sim.engine import Checkpoint, Run, Simulation, batch_key

if TYPE_CHECKING:
    import pandas as pd

BATCH_VALUES = 2**17  # numbers in the states of a batch: about what a core's cache holds
SNAPSHOT_EVERY = 20.0  # seconds
KINDS = ("value_bits", "index_bits", "control_bits", "framing_bits")

Columns = dict[str, NDArray[Any]]


class Progress(NamedTuple):
    """How far a study is; sent at every checkpoint of a batch."""

    batch: int
    rounds: int  # node-rounds that this batch has done
    best: float  # the smallest objective in it
    bits: float  # the most that any of its nodes has spent


Tick = Callable[[Progress], None]


def run_plan(
    plan: Plan,
    out: Path | None = None,
    *,
    resume: bool = False,
    replace_old: bool = False,
    processes: int = 1,
    tick: Tick | None = None,
    suffix: str = ".parquet",
) -> Log:
    """Run all trials of a plan. With `out`, the log is `out`/log.parquet and a stopped study can go on."""
    header = make_header(plan.config, plan.fingerprint)
    if out is not None:
        done = _open_folder(out, f"log{suffix}", header, resume=resume, replace_old=replace_old)
        if done is not None:
            return done
    batches = list(make_batches(plan))
    parts = [None if out is None else out / "parts" / f"{k:04d}" for k in range(len(batches))]
    columns = _run_batches(plan, batches, parts, processes, tick or (lambda progress: None))
    log = Log(_frame(plan, columns), header)
    if out is not None:
        write_log(out / f"log{suffix}", log)
        shutil.rmtree(out / "parts")
    return log


def make_batches(plan: Plan) -> Iterator[list[Trial]]:
    """Trials that can share arrays, in groups that fit a core's cache. Results do not depend on it."""
    groups: dict[Any, list[Trial]] = {}
    for trial in plan.trials:
        groups.setdefault(batch_key(trial.run(), plan.dtype), []).append(trial)
    for group in groups.values():
        problem = group[0].run().problem
        most = max(1, BATCH_VALUES // (problem.n * problem.d))
        paths: dict[Any, list[Trial]] = {}
        for trial in group:  # the same updates under another codec are the same path
            paths.setdefault(_path(trial), []).append(trial)
        chunks = math.ceil(len(paths) / most)
        each = list(paths.values())
        for k in range(chunks):  # of nearly equal size
            part = each[len(each) * k // chunks : len(each) * (k + 1) // chunks]
            yield [trial for path in part for trial in path]


def _path(trial: Trial) -> tuple[Any, ...]:
    """What decides a trajectory: all of a trial but its codec."""
    return trial.problem, trial.graph, replace(trial.method, codec=""), trial.seed


def run_batch(plan: Plan, trials: Sequence[Trial], number: int, part: Path | None, tick: Tick) -> Columns:
    """Rows of some trials as columns; read from `part` if it is done, continued from it if it is not."""
    done, half = (None, None) if part is None else (part.with_suffix(".npz"), part.with_suffix(".half.npz"))
    if done is not None and done.exists():
        return _load(done)
    paths = list(dict.fromkeys(map(_path, trials)))
    first = {_path(trial): trial for trial in reversed(trials)}
    runs: list[Run] = [first[path].run() for path in paths]
    sim = Simulation(
        runs,
        codecs=[trial.method.codec for trial in trials],
        wire=plan.wire,
        dtype=plan.dtype,
        bound=plan.diverged_above,
    )
    rows = _Rows(trials, [paths.index(_path(trial)) for trial in trials], sim.problem.n)
    if half is not None and half.exists():
        saved = _load(half)
        sim.restore({k.removeprefix("sim."): v for k, v in saved.items() if k.startswith("sim.")})
        rows.add({k.removeprefix("rows."): v for k, v in saved.items() if k.startswith("rows.")})
    else:
        rows.take(sim.checkpoint())
    _advance(
        plan,
        sim,
        rows,
        half,
        lambda best, bits: tick(Progress(number, sim.t * len(trials) * sim.problem.n, best, bits)),
    )
    columns = rows.columns()
    if done is not None and half is not None:
        _save(done, columns)
        half.unlink(missing_ok=True)
    return columns


def _advance(
    plan: Plan, sim: Simulation, rows: "_Rows", half: Path | None, tell: Callable[[float, float], None]
) -> None:
    """Round after round to the end of the plan; a snapshot now and then, and when asked to stop."""
    saved = time.monotonic()
    with _between_rounds() as stop:
        while sim.t < plan.rounds and sim.alive.any():
            sim.round()
            if sim.t % plan.log_every == 0:
                tell(*rows.take(sim.checkpoint()))
            if half is not None and (stop.asked or time.monotonic() - saved > SNAPSHOT_EVERY):
                now = {f"sim.{name}": array for name, array in sim.arrays().items()}
                _save(half, now | {f"rows.{name}": array for name, array in rows.columns().items()})
                saved = time.monotonic()
            if stop.asked:
                raise KeyboardInterrupt
    tell(rows.best, rows.bits)


class _between_rounds:  # noqa: N801 — used as a function
    """Holds an interrupt back until a round is over, when states are whole; a second one is not held."""

    asked = False

    def __enter__(self) -> "_between_rounds":
        self._main = threading.current_thread() is threading.main_thread()  # others get no signals
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


class _Rows:
    """Rows of a log as they come, one array for each column and checkpoint."""

    def __init__(self, trials: Sequence[Trial], paths: Sequence[int], n: int) -> None:
        self._numbers = np.array([trial.number for trial in trials])
        self._codecs = [trial.method.codec for trial in trials]
        self._paths, self._n = np.array(paths), n
        self._parts: list[Columns] = []
        self.best, self.bits = math.inf, 0.0

    def take(self, now: Checkpoint) -> tuple[float, float]:
        """Add a checkpoint: a row for each trial whose run was alive."""
        keep = now.alive[self._paths]
        path = self._paths[keep]
        codecs = [codec for codec, kept in zip(self._codecs, keep, strict=True) if kept]
        bits = np.array(
            [now.bits[codec][k] for codec, k in zip(codecs, path, strict=True)], np.int64
        ).reshape(-1, len(KINDS))
        measured = {
            "objective": now.objective,
            "local": now.local,
            "disagreement": now.disagreement,
            **now.extra,
        }
        self._parts.append(
            {
                "trial": self._numbers[keep],
                "round": np.full(len(path), now.round),
                "bits": bits[:, :3].sum(axis=1) / self._n,
                **{kind: bits[:, k] for k, kind in enumerate(KINDS)},
                "queries": now.queries[path],
                "stages": now.stages[path],
                **{name: np.asarray(column)[path] for name, column in measured.items()},
                "diverged": now.diverged[path],
            }
        )
        self.best = float(np.nanmin(now.objective[path], initial=math.inf)) if len(path) else self.best
        self.bits = float(self._parts[-1]["bits"].max(initial=0.0))
        return self.best, self.bits

    def add(self, columns: Columns) -> None:
        self._parts.append(columns)

    def columns(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}


def _run_batches(
    plan: Plan, batches: Sequence[list[Trial]], parts: Sequence[Path | None], processes: int, tick: Tick
) -> list[Columns]:
    if processes <= 1 or len(batches) <= 1:
        return [run_batch(plan, trials, k, parts[k], tick) for k, trials in enumerate(batches)]
    pool = ProcessPoolExecutor(min(processes, len(batches)), mp_context=get_context("spawn"))
    try:
        waiting: dict[Future[Columns], int] = {}
        for k, trials in enumerate(batches):
            numbers = [trial.number for trial in trials]
            waiting[pool.submit(_run_elsewhere, plan, numbers, k, parts[k])] = k
        columns: list[Columns] = [{} for _ in batches]
        for future in as_completed(waiting):
            k = waiting[future]
            columns[k] = future.result()
            nodes = [dict(trial.graph)["n"] for trial in batches[k]]
            best = float(np.nanmin(columns[k]["objective"], initial=math.inf))
            tick(Progress(k, plan.rounds * sum(nodes), best, float(columns[k]["bits"].max())))
        return columns
    finally:
        pool.shutdown(cancel_futures=True)


def _run_elsewhere(plan: Plan, numbers: Sequence[int], number: int, part: Path | None) -> Columns:
    return run_batch(plan, [plan.trials[k] for k in numbers], number, part, lambda progress: None)


def _frame(plan: Plan, columns: Sequence[Columns]) -> "pd.DataFrame":
    """One frame with the labels of each trial, sorted by trial and round."""
    import pandas as pd

    frame = pd.concat([pd.DataFrame(part) for part in columns], ignore_index=True)
    frame = frame.sort_values(["trial", "round"], kind="stable", ignore_index=True)
    about = [(*trial.labels, str(trial.seed), trial.run().graph.n) for trial in plan.trials]
    labels = pd.DataFrame(about, columns=["problem", "graph", "method", "seed", "n"])
    beside = labels.take(frame["trial"].to_numpy()).reset_index(drop=True)
    front = pd.concat([frame[["trial"]], beside], axis=1)
    return pd.concat([front, frame.drop(columns=["trial", "diverged"]), frame[["diverged"]]], axis=1)


def _open_folder(
    out: Path, name: str, header: dict[str, Any], *, resume: bool, replace_old: bool
) -> Log | None:
    """Make the folder ready. A log of the same plan and code that is there already is the answer."""
    about, log = out / "plan.json", out / name
    if replace_old:
        shutil.rmtree(out / "parts", ignore_errors=True)
        for old in (about, log):
            old.unlink(missing_ok=True)
    if about.exists():
        old = json.loads(about.read_text(encoding="utf-8"))
        for key, what in (("fingerprint", "another plan"), ("source", "another version of the code")):
            if old.get(key) != header[key]:
                raise InputError(
                    f"{out} holds a study of {what}; choose another --out, or start anew with --replace"
                )
        if log.exists():
            return read_log(log)
        if not resume:
            raise InputError(
                f"{out} holds a study that was stopped; go on with --resume, or start anew with --replace"
            )
    elif log.exists():
        raise InputError(f"{out} holds a log of something else; choose another --out, or --replace it")
    (out / "parts").mkdir(parents=True, exist_ok=True)
    replace_file(about, lambda path: path.write_text(json.dumps(header, indent=1), encoding="utf-8"))
    return None


def _save(to: Path, arrays: Columns) -> None:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    replace_file(to, write)


def _load(path: Path) -> Columns:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
