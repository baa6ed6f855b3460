"""The batched engine: runs of one shape advance together, and each gets the bits it would get alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.channel import MemoryChannel
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.methods.base import Draw, Method, World, drive
from zocosmo.oracle import Problem, TwoQuery, disagreement, measures, two_query
from zocosmo.sim.draws import DrawAhead
from zocosmo.sim.guard import Guard, Guarded

Values = NDArray[Any]
Arrays = dict[str, NDArray[Any]]

ENDS = ("up_bits", "down_bits")  # columns of methods with a server


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
        return World(self.graph, self.problem.d, self.schedule, shapes=getattr(self.problem, "shapes", ()))


def batch_key(run: Run, dtype: DTypeLike = np.float64) -> tuple[Any, ...]:
    """Runs with equal keys can share a batch."""
    return method_key(run.method, dtype), problem_key(run.problem)


def method_key(method: Method, dtype: DTypeLike = np.float64) -> tuple[Any, ...]:
    """What methods of a batch have in common. Numbers such as η may differ, but not in float32: there an
    array and a plain number do not round alike."""
    free = () if np.dtype(dtype) == np.float32 else _numbers(method)
    return type(method), *(getattr(method, f.name) for f in fields(method) if f.name not in (*free, "codec"))


def problem_key(problem: Problem) -> tuple[Any, ...]:
    """What problems of a batch have in common: kind, size, and what else their arrays depend on."""
    return type(problem), problem.n, problem.d, getattr(problem, "structure", ())


class Checkpoint(NamedTuple):
    """What is known of every run after `round` rounds; arrays over runs."""

    round: int
    objective: Values  # F(x̄)
    local: Values  # mean_i F_i(x_i)
    disagreement: Values  # mean_i ‖x_i − x̄‖²
    extra: Mapping[str, Values]
    queries: NDArray[np.int64]  # of all nodes together
    stages: NDArray[np.int64]  # times that a node waited for neighbours
    bits: Mapping[str, NDArray[np.int64]]  # by codec: (runs, kinds) over the whole network
    alive: NDArray[np.bool_]  # runs that were still running when this was taken
    diverged: NDArray[np.bool_]  # those of them that end here
    served: Mapping[str, Values] | None = None  # by codec: (runs, 2), payload to a server and from it


class Simulation:
    """Runs of one batch key, advanced round by round.

    A run diverges where a checkpoint finds it not finite, or its objective above `bound` times what it was at
    first (or 1, if that is more). It is then frozen: it has no later checkpoints, and its company never
    notices.
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
    ) -> None:
        if len({batch_key(run, dtype) for run in runs}) != 1:
            raise InputError("runs of one batch share method, size and kind of problem; see batch_key")
        worlds = [run.world for run in runs]
        for run, world in zip(runs, worlds, strict=True):
            run.method.check(world)
        self.runs, self.t, self.bound = tuple(runs), 0, bound
        self.method = _stack([run.method for run in runs])
        self.problem = type(runs[0].problem).stack([run.problem for run in runs])
        self.codecs = tuple(dict.fromkeys(codecs)) or (runs[0].method.codec,)
        n, d = runs[0].problem.n, runs[0].problem.d
        channel = getattr(self.problem, "channel", MemoryChannel)
        self.channel: MemoryChannel = channel(
            [run.graph for run in runs],
            d=d,
            wire=wire,
            codecs=self.codecs,
            dtype=dtype,
            server=self.method.server,
        )
        self._draws = DrawAhead(
            self.method,
            worlds,
            [run.seed for run in runs],
            np.dtype(dtype),
            **draws_ahead(self.problem, lambda: self._draws.prepare(self.t + 1)),
        )
        self.state = self.method.init(first_states(self.problem, self.method, (len(runs), n, d), dtype))
        self.queries = np.zeros(len(runs), np.int64)
        self.stages = np.array([run.method.stages(world) for run, world in zip(runs, worlds, strict=True)])
        self.alive = np.ones(len(runs), bool)
        self.frozen: dict[int, Values] = {}
        self._first: Values | None = None
        self.guarded = Guarded(self.method, guard, len(runs), np.dtype(dtype))

    def round(self) -> None:
        """Advance all runs by one round."""
        draw = self._draws.at(self.t)
        with np.errstate(all="ignore"):
            step = self.guarded.now.step(self.t, self.state, draw, self.channel)
            self.state = drive(step, self._answer)
        self.t += 1

    def _answer(self, query: TwoQuery) -> Values:
        n = self.problem.n
        self.queries += 2 * (n if query.active is None else query.active.sum(axis=-1))
        return two_query(self.problem, query, self.t)

    def states(self) -> Values:
        """x of all nodes of all runs, (runs, n, d); of a frozen run as it was when it diverged."""
        x = np.array(self.state.x)
        for run, kept in self.frozen.items():
            x[run] = kept
        return x

    def checkpoint(self) -> Checkpoint:
        """Measure all runs now, and freeze those that have diverged."""
        with np.errstate(all="ignore"):
            extra, norm = self._measure()
            value, local, apart = (extra.pop(name) for name in ("objective", "local", "disagreement"))
            served = self._served()
            extra |= self.guarded.columns()
            if served is not None:
                extra |= dict(zip(ENDS, served[self.codecs[0]].T, strict=True))
            self.guarded.see(norm, local)
            self._first = value if self._first is None else self._first
            fine = is_fine(value, apart, self._first, self.bound)
        was, now = self.alive.copy(), self.alive & ~fine
        for run in np.flatnonzero(now).tolist():
            self.frozen[run] = np.array(np.asarray(self.state.x)[run])
        self.alive &= ~now
        bits = {codec: self.channel.ledger(codec).counts.sum(axis=-2) for codec in self.codecs}
        return Checkpoint(
            self.t,
            value,
            local,
            apart,
            extra,
            self.queries.copy(),
            self.t * self.stages,
            bits,
            was,
            now,
            served,
        )

    def _served(self) -> dict[str, Values] | None:
        """By codec: payload to the server and from it, all nodes together, (runs, 2)."""
        if not self.method.server:
            return None
        found = {}
        for codec in self.codecs:
            ledger, n = self.channel.ledger(codec), self.problem.n
            payload = ledger.counts[..., :3].sum(axis=-1)  # all kinds but the framing
            ends = [j == n for _, j in ledger.links], [i == n for i, _ in ledger.links]
            found[codec] = np.stack([payload[:, which].sum(axis=-1) for which in ends], axis=-1)
        return found

    def _measure(self) -> tuple[dict[str, Values], Values]:
        """What is known of every run now, by name, and ‖x̄‖; a problem whose states are no arrays says it."""
        if hasattr(self.problem, "measure"):
            told: dict[str, Values] = self.problem.measure(self.state.x)
            return told, told["norm"]
        x = np.asarray(self.state.x, np.float64)
        centre = self.method.model(self.state)
        found = {name: each.mean(axis=-1) for name, each in measures(self.problem, centre).items()}
        found["local"] = self.problem.local(x).mean(axis=-1)
        found["disagreement"] = disagreement(x, centre)
        found |= self.problem.report(centre) if hasattr(self.problem, "report") else {}
        return found, np.sqrt((centre * centre).sum(axis=-1))

    def arrays(self) -> Arrays:
        """All that an exact continuation needs: the arrays themselves, to be saved before the next round."""
        parts = ((name, part) for name, part in self.state._asdict().items() if part is not None)
        state = {f"state.{name}": np.asarray(part) for name, part in parts}
        bills = {f"bits.{codec}": self.channel.ledger(codec).counts for codec in self.codecs}
        frozen = {f"frozen.{run}": x for run, x in self.frozen.items()}
        first = {} if self._first is None else {"first": self._first}
        rest = {"t": np.array(self.t), "queries": self.queries, "alive": self.alive}
        kept = {f"problem.{name}": array for name, array in memory(self.problem).items()}
        return {**state, **bills, **frozen, **first, **rest, **kept, **self.guarded.arrays()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `arrays` gave, in a simulation of the same runs."""
        self.state = restored(self.state, arrays)
        for codec in self.codecs:
            self.channel.ledger(codec).counts[...] = arrays[f"bits.{codec}"]
        self.frozen = {
            int(name.removeprefix("frozen.")): x for name, x in arrays.items() if name.startswith("frozen.")
        }
        self._first = arrays.get("first")
        self.t, self.queries, self.alive = int(arrays["t"]), arrays["queries"], arrays["alive"]
        recall(self.problem, arrays)
        self.guarded.restore(arrays)


def first_states(problem: Any, method: Method, shape: tuple[int, int, int], dtype: DTypeLike) -> Any:
    """x of all nodes at the start, (runs, n, d): an array, or what a problem keeps states in itself.

    A problem that computes elsewhere, such as on a GPU, may hold the states there (`Coordinates`); methods
    that touch more than a support at a time get arrays all the same.
    """
    if hasattr(problem, "begin"):  # too large for an array
        return problem.begin(method, dtype)
    x0 = np.broadcast_to(np.asarray(problem.x0)[..., None, :], shape)
    if hasattr(problem, "states") and method.on_supports:
        return problem.states(x0, np.dtype(dtype))
    return np.array(x0, dtype, order="C")


def draws_ahead(problem: Any, prepare: Callable[[], Draw]) -> dict[str, Any]:
    """How to draw for a problem: one that has `prepare` calls it while it waits for a device."""
    if not hasattr(problem, "prepare"):
        return {}
    problem.prepare = prepare
    return {"at_once": 1}


def restored(state: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """A state with the arrays of a snapshot in the place of its parts."""
    kept = {name: arrays[f"state.{name}"] for name in state._fields if f"state.{name}" in arrays}
    for name, array in kept.items():
        part = getattr(state, name)
        kept[name] = array if isinstance(part, np.ndarray) else part.load(array)
    return state._replace(**kept)


def memory(problem: Any) -> Arrays:
    """What a problem carries from round to round, if it does."""
    kept: Arrays = problem.memory() if hasattr(problem, "memory") else {}
    return kept


def recall(problem: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Give a problem back what `memory` gave, from arrays whose names begin with "problem."."""
    if hasattr(problem, "recall"):
        prefix = "problem."
        problem.recall({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})


def is_fine(value: Values, apart: Values, first: Values, bound: float) -> NDArray[np.bool_]:
    """Which runs have not diverged: all finite, and F no more than `bound` times what it was at first."""
    fine: NDArray[np.bool_] = np.isfinite(apart) & (np.abs(value) <= bound * np.maximum(1.0, first))
    return fine


def _stack(methods: Sequence[Method]) -> Method:
    """One method for all runs: numbers that differ become arrays (runs, 1, 1)."""
    columns = {name: [getattr(method, name) for method in methods] for name in _numbers(methods[0])}
    differing = {
        name: np.array(column)[:, None, None] for name, column in columns.items() if len(set(column)) > 1
    }
    return replace(methods[0], **differing)  # type: ignore[arg-type]


def _numbers(method: Method) -> tuple[str, ...]:
    """The parameters that may differ within a batch."""
    return tuple(f.name for f in fields(method) if f.type is float)
