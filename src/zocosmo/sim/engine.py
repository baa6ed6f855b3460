"""The batched engine: runs of one shape advance together, with the same bits as alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.channel import MemoryChannel
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.methods.base import Method, World
from zocosmo.oracle import Arrays, Problem
from zocosmo.rounds.checkpoint import Bill, Checkpoint
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import MeasuredRounds
from zocosmo.rounds.guard import Guard
from zocosmo.traffic import Link

Values = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Run:
    """One trajectory: a method on a problem, over a graph, along a tape."""

    method: Method
    graph: Graph
    problem: Problem
    seed: Seed
    schedule: Chosen = "auto"

    @property
    def world(self) -> World:
        return self.world_at(None)

    def world_at(self, nodes: NDArray[np.int64] | None) -> World:
        """The world of a process that has these nodes; None is all."""
        return World(self.graph, self.problem.d, self.schedule, nodes, self.problem.shapes)


def batch_key(run: Run, dtype: DTypeLike = np.float64) -> tuple[Any, ...]:
    """Runs with equal keys can share a batch."""
    return method_key(run.method, dtype), problem_key(run.problem)


def method_key(method: Method, dtype: DTypeLike = np.float64) -> tuple[Any, ...]:
    """What methods of a batch have in common. Numbers such as η may differ, but not in float32, where arrays
    and plain numbers round differently."""
    free = () if np.dtype(dtype) == np.float32 else _numbers(method)
    return type(method), *(value for k, value in method.settings.items() if k not in (*free, "codec"))


def problem_key(problem: Problem) -> tuple[Any, ...]:
    """What problems of a batch have in common: type, size and structure."""
    return type(problem), problem.n, problem.d, problem.structure


class Simulation(MeasuredRounds):
    """Runs of one batch key, advanced round by round.

    A run that diverges is frozen and has no later checkpoints; other runs are unaffected.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        codecs: Sequence[str] = (),
        wire: str = "nominal_f32",
        dtype: DTypeLike = np.float64,
        bound: float = 1e12,
        guard: Guard | None = None,
        lost: Mapping[int, Collection[Link]] | None = None,
        repair: bool = False,
    ) -> None:
        if len({batch_key(run, dtype) for run in runs}) != 1:
            raise InputError("runs of one batch must share method, size and kind of problem; see batch_key")
        worlds, seeds = [run.world for run in runs], [run.seed for run in runs]
        for run, world in zip(runs, worlds, strict=True):
            run.method.check(world)
            run.problem.admit(run.method)
        method, problem = _stack([run.method for run in runs]), stack([run.problem for run in runs])
        self._make_channel = partial(
            MemoryChannel,
            d=problem.d,
            wire=method.wire_for(wire, dtype),
            codecs=tuple(dict.fromkeys(codecs)) or (runs[0].method.codec,),
            dtype=dtype,
            tape=Tape.stack(seeds),
            server=method.server,
            overheard=problem.overheard,
            repair=repair,
        )
        channel = self._make_channel([run.graph for run in runs])
        channel.lost = lost or {}
        at_once = 1 if problem.asynchronous else None
        draws = DrawAhead(method, worlds, seeds, np.dtype(dtype), at_once=at_once)
        stages = np.array([run.method.stages(world) for run, world in zip(runs, worlds, strict=True)])
        super().__init__(method, problem, draws, channel, stages=stages, bound=bound, guard=guard)
        self.runs, self.codecs = tuple(runs), channel.codecs
        self.frozen: dict[int, Values] = {}

    @property
    def queries(self) -> NDArray[np.int64]:
        """Of each run, total over nodes."""
        total: NDArray[np.int64] = self.asked.sum(axis=-1)
        return total

    def states(self) -> Values:
        """x of all nodes of all runs, (runs, n, d); for a frozen run, when it diverged."""
        x = np.array(self.state.x)
        for run, kept in self.frozen.items():
            x[run] = kept
        return self.problem.vectors(x)

    def checkpoint(self) -> Checkpoint:
        """Measure all runs, and freeze those that diverged."""
        with np.errstate(all="ignore"):
            found = self.problem.measure(self.state.x, lambda: self.method.model(self.state))
            now = self.judge(found, self.bill())
        for run in np.flatnonzero(now.diverged).tolist():
            self.frozen[run] = np.array(np.asarray(self.state.x)[run])
        return now

    def bill(self) -> Bill:
        """Queries, bits and failed exchanges of all runs so far."""
        ledgers = {codec: self.channel.ledger(codec) for codec in self.channel.codecs}
        bits = {codec: ledger.counts.sum(axis=-2) for codec, ledger in ledgers.items()}
        served = None
        if self.method.server:
            served = {codec: ledger.through(self.problem.n) for codec, ledger in ledgers.items()}
        tally = {name: count.sum(axis=-1) for name, count in self.channel.tally().items()}
        return Bill(self.queries, bits, served, tally)

    def arrays(self) -> Arrays:
        return {**super().arrays(), **{f"frozen.{run}": x for run, x in self.frozen.items()}}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned, in a simulation of the same runs."""
        super().restore(arrays)
        kept = {name: x for name, x in arrays.items() if name.startswith("frozen.")}
        self.frozen = {int(name.removeprefix("frozen.")): x for name, x in kept.items()}


def stack(problems: Sequence[Problem]) -> Problem:
    """The problems of a batch as one."""
    return type(problems[0]).stack(problems)


def _stack(methods: Sequence[Method]) -> Method:
    """One method for all runs: numbers that differ become arrays (runs, 1, 1)."""
    columns = {name: [method.settings[name] for method in methods] for name in _numbers(methods[0])}
    differing = {
        name: np.array(column)[:, None, None] for name, column in columns.items() if len(set(column)) > 1
    }
    return replace(methods[0], **differing)  # type: ignore[arg-type]


def _numbers(method: Method) -> tuple[str, ...]:
    """The parameters that may differ within a batch."""
    return tuple(f.name for f in fields(method) if f.type is float)
