"""A setting: one method on one problem over one graph, and what formulas need to know of it."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.laws import CompleteCycle, Cycle, cycle_of
from zocosmo.core.tape import Tape
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.graphs.graph import Graph
from zocosmo.methods import EdgeLocal, Method, World
from zocosmo.methods.base import Sparse
from zocosmo.problems import PROBLEMS
from zocosmo.problems.draws import private
from zocosmo.problems.quadratic import Noise, Quadratic, quadratic
from zocosmo.sim.engine import Run, Simulation

Array = NDArray[Any]
BATCH = 2**20  # numbers in the states of runs that go together
MOST_STATES = 2**22  # numbers in the states of one run


@dataclass(frozen=True, eq=False)
class Setting:
    """A trial without its seed: problem and graph are those of the plan's first seed, and tapes vary."""

    trial: Trial
    plan: Plan
    tapes: int  # of every row that is sampled
    found: dict[str, Any] = field(default_factory=dict)  # what one row has computed and another wants

    @cached_property
    def run(self) -> Run:
        return self.trial.run()

    @property
    def method(self) -> Method:
        return self.trial.method

    @property
    def graph(self) -> Graph:
        return self.run.graph

    @cached_property
    def world(self) -> World:
        return self.run.world

    @property
    def n(self) -> int:
        return self.graph.n

    @property
    def d(self) -> int:
        return self.run.problem.d

    @property
    def q(self) -> int:
        """Coordinates that a round touches."""
        return int(getattr(self.method, "q", self.d))

    @property
    def common(self) -> bool:
        """Whether all pairs share a support."""
        return getattr(self.method, "coupling", "G") != "I"

    @property
    def value_bits(self) -> int:
        return WIRES[self.plan.wire].charged.bits

    @cached_property
    def cycle(self) -> Cycle | CompleteCycle | None:
        """The laws of matchings that rounds take in turn; None where they are not known."""
        return cycle_of(self.world.schedule_name, self.world.schedule)

    @property
    def quadratic(self) -> Quadratic | None:
        return self.run.problem if isinstance(self.run.problem, Quadratic) else None

    @property
    def is_large(self) -> bool:
        return self.n * self.d > MOST_STATES

    # What rows call themselves; equal words are one row.

    @property
    def on_graph(self) -> str:
        spec = {k: v for k, v in self.trial.graph if k not in ("kind", "schedule", "n") and v is not None}
        random = dict(self.trial.graph).get("seed", 0) is None
        words = [f"{self.graph.name} {self.n}", *(f"{k}={v}" for k, v in spec.items())]
        return " ".join([*words, "seed=" + str(self.trial.seed)] if random else words)

    @property
    def on_schedule(self) -> str:
        return f"{self.on_graph}, {self.world.schedule_name[:11]}"  # a listed one has many digits

    @property
    def of_problem(self) -> str:
        """Kind, size, and what is not as it is by default."""
        noise = dict(self.trial.problem).get("sigma", 0)
        return self.of_losses + (f" sigma={_short(noise)}" if noise else "")

    @property
    def of_losses(self) -> str:
        """The problem without its noise."""
        spec = dict(self.trial.problem)
        kind = spec.pop("kind")
        usual = {k: p.default for k, p in inspect.signature(PROBLEMS[kind]).parameters.items()}
        telling = {k: v for k, v in spec.items() if v != usual.get(k) and k != "sigma"}
        return " ".join([kind, *(f"{k}={_short(v)}" for k, v in telling.items())])

    @property
    def of_method(self) -> str:
        """Kind and all that is drawn and sent."""
        coupling = getattr(self.method, "coupling", "")
        return f"{self.of_messages} {coupling}" if coupling else self.of_messages

    @property
    def of_messages(self) -> str:
        """Kind and all that decides the size of messages, but the codec."""
        method, words = self.method, [self.method.kind]
        words += [f"{k}={getattr(method, k)}" for k in ("q", "passes", "period") if hasattr(method, k)]
        words += ["balanced"] * (getattr(method, "rule", "") == "balanced")
        return " ".join(word for word in words if word != "passes=1")

    @property
    def with_steps(self) -> str:
        beta = getattr(self.method, "beta", 0.0)
        decay = self.method.decay.kind
        words = [self.of_method, f"eta={self.method.eta:g}", *([f"beta={beta:g}"] if beta else [])]
        return " ".join([*words, *([decay] if decay != "constant" else [])])

    # What rows measure.

    def seeds(self) -> list[str]:
        """Of the tapes: the plan's first seed and a number, never chosen by what they give."""
        return [str(self.trial.seed) + f"/{k}" for k in range(self.tapes)]

    def tape(self) -> Tape:
        return Tape(self.seeds()[0])

    def spread_states(self) -> Array:
        """Whole numbers from −8 to 7 around the start, n × d, from a tape: states that disagree."""
        words = private("check states").coins("spread").words(self.n * self.d)
        return (words >> np.uint64(60)).astype(np.int64).reshape(self.n, self.d) - 8

    def stand_in(self) -> Quadratic:
        """A problem of the same size that costs little to ask: bills and mixing do not depend on losses."""
        return quadratic(self.n, 0, d=self.d)

    def simulated(
        self,
        rounds: int,
        *,
        x: Array | None = None,
        problem: Quadratic | None = None,
        eta: float | None = None,
    ) -> Iterator[tuple[list[str], Simulation]]:
        """Runs along all tapes, some at a time: their seeds, and the simulation after so many rounds."""
        seeds, each = self.seeds(), max(1, BATCH // (self.n * self.d))
        problem = problem or self.stand_in()
        method = self.method if eta is None else replace(self.method, eta=eta)
        for at in range(0, len(seeds), each):
            some = seeds[at : at + each]
            runs = [replace(self.run, method=method, problem=with_noise(problem, s), seed=s) for s in some]
            sim = Simulation(runs)
            if x is not None:
                sim.state = sim.method.init(np.array(np.broadcast_to(x, (len(some), *x.shape)), float))
            for _ in range(rounds):
                sim.round()
            yield some, sim

    def partners(self, seeds: Sequence[str], t: int) -> Array:
        """Of all nodes in round t along each tape."""
        return self.world.schedule.partners(Tape.stack(list(seeds)), t)


def with_noise(problem: Quadratic, seed: str) -> Quadratic:
    """The same losses, with the noise of another tape."""
    if problem.noise is None:
        return problem
    noise = Noise(private(seed), range(problem.n), problem.d)
    return Quadratic(problem.half, problem.b, problem.sigma, noise)


def without_noise(problem: Quadratic) -> Quadratic:
    return Quadratic(problem.half, problem.b, 0.0, None)


def gradients(problem: Quadratic, x: Array) -> Array:
    """∇F_i(x_i) = H_i x_i + b_i of all nodes, exact but for rounding."""
    found: Array = 2 * problem.half * x + problem.b
    return found


def pairs_of(partners: Array) -> list[tuple[int, int]]:
    """The pairs of one row of partners."""
    return [(i, j) for i, j in enumerate(partners.tolist()) if i < j]


def is_uniform(setting: Setting) -> bool:
    """Whether every round draws q coordinates afresh."""
    return isinstance(setting.method, Sparse) and getattr(setting.method, "rule", "uniform") == "uniform"


def on_matchings(setting: Setting) -> bool:
    return isinstance(setting.method, EdgeLocal)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
