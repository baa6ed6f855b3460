"""A case: one method on one problem over one graph, and what formulas need to know about it."""

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.laws import Cycle, cycle_of
from zocosmo.core.tape import Tape
from zocosmo.core.wires import WIRES
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.experiments.subspace import SUBSPACE_SIZE
from zocosmo.graphs.graph import Graph
from zocosmo.methods import EdgeLocal, TreeMean, World
from zocosmo.methods.base import Sparse
from zocosmo.problems import PROBLEMS
from zocosmo.problems.draws import private
from zocosmo.problems.quadratic import Noise, Quadratic, quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory import mixing
from zocosmo.theory.directions import Directions

Array = NDArray[Any]
BATCH = 2**20  # numbers in the states of runs that are simulated together
MOST_STATES = 2**22  # numbers in the states of one run
ABSENT = {  # parameters that a method may lack, with values that change nothing
    **{"passes": 1, "period": 1, "beta": 0.0, "coupling": "", "rule": "uniform"},
    **{"directions": 1, "signs": "independent", "sides": 2, "step_rule": "plain", "wire": ""},
    **{"correction": 0.0, "hold": 1},
}


class Case:
    """A trial without its seed: problem and graph are those of the plan's first seed, and tapes vary.

    Parameters that the method lacks have the value that changes nothing.
    """

    def __init__(self, trial: Trial, plan: Plan, tapes: int) -> None:
        self.trial, self.plan, self.tapes = trial, plan, tapes  # tapes of every sampled row
        self.method, self.settings = trial.method, trial.method.settings
        given: dict[str, Any] = {**ABSENT, **self.settings}
        self.passes, self.period, self.beta = int(given["passes"]), int(given["period"]), float(given["beta"])
        self.coupling, self.rule = str(given["coupling"]), str(given["rule"])
        self.own_wire, self.step_rule = str(given["wire"]), str(given["step_rule"])
        self.wire = WIRES[self.own_wire or plan.wire]
        self.correction, self.hold = float(given["correction"]), int(given["hold"])
        self.directions = Directions(
            K=int(given["directions"]),
            signs=str(given["signs"]),
            sides=int(given["sides"]),
            mu=self.method.mu if given["sides"] == 1 else 0,
        )
        self.common = self.coupling != "I"  # all pairs share a support
        self.on_matchings = isinstance(self.method, EdgeLocal)
        uniform = isinstance(self.method, Sparse | TreeMean) and self.rule == "uniform"
        self.is_uniform = uniform and self.hold == 1  # fresh every round
        self.value_bits = self.wire.charged.bits
        spec = dict(trial.problem)
        self.problem_kind = f"{spec['kind']}{' in a subspace' * (SUBSPACE_SIZE in spec)}"
        self.radius: float | None = None  # two rows need it, and it takes a second

    @cached_property
    def run(self) -> Run:
        return self.trial.run()

    @cached_property
    def world(self) -> World:
        return self.run.world

    @property
    def graph(self) -> Graph:
        return self.run.graph

    @property
    def n(self) -> int:
        return self.graph.n

    @property
    def d(self) -> int:
        return self.run.problem.d

    @property
    def q(self) -> int:
        """Coordinates that a round touches."""
        return int(self.settings.get("q", self.d))

    @property
    def is_large(self) -> bool:
        return self.n * self.d > MOST_STATES

    @cached_property
    def known_cycle(self) -> Cycle | None:
        """The laws of matchings that rounds take in turn; None if they are unknown."""
        return cycle_of(self.world.schedule_name, self.world.schedule)

    @property
    def cycle(self) -> Cycle:
        """For checks that ask `unknown_law` first."""
        assert self.known_cycle is not None
        return self.known_cycle

    @property
    def is_perfect(self) -> bool:
        """Whether every matching is known to pair all nodes."""
        return self.known_cycle is not None and self.known_cycle.is_perfect

    @property
    def is_quadratic(self) -> bool:
        return isinstance(self.run.problem, Quadratic)

    @property
    def quadratic(self) -> Quadratic:
        """For checks that ask `is_quadratic` first."""
        assert isinstance(self.run.problem, Quadratic)
        return self.run.problem

    def weights(self) -> Array:
        """W of all passes of a round over the graph; a mean over the tree is one of all nodes."""
        if isinstance(self.method, TreeMean):
            return np.full((self.n, self.n), 1 / self.n)
        W = mixing.metropolis_weights(self.n, self.graph.edges).astype(float)
        return np.linalg.matrix_power(W, self.passes)

    # How rows describe a case; cases with equal descriptions are one row.

    @property
    def on_graph(self) -> str:
        spec = {k: v for k, v in self.trial.graph if k not in ("kind", "schedule", "n") and v is not None}
        random = dict(self.trial.graph).get("seed", 0) is None
        words = [f"{self.graph.name} {self.n}", *(f"{k}={v}" for k, v in spec.items())]
        return " ".join([*words, "seed=" + str(self.trial.seed)] if random else words)

    @property
    def on_schedule(self) -> str:
        return f"{self.on_graph}, {self.world.schedule_name[:11]}"  # listed schedules have long names

    @property
    def where(self) -> str:
        return self.on_schedule if self.on_matchings else self.on_graph

    @property
    def of_problem(self) -> str:
        """Kind, size, and parameters that differ from their defaults."""
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
        """Kind, and what decides draws and messages."""
        several = [f"K={self.directions.K} {self.directions.signs}"] * (self.directions.K > 1)
        several += ["one side"] * (self.directions.sides == 1)
        return " ".join([f"{self.of_messages} {self.coupling}".rstrip(), *several])

    @property
    def of_messages(self) -> str:
        """Kind, and what decides the size of messages, except the codec."""
        words = [f"{k}={self.settings[k]}" for k in ("q", "passes", "period") if k in self.settings]
        words += ["balanced"] * (self.rule == "balanced")
        words += [self.step_rule] * (self.step_rule != "plain")
        words += [f"correction {self.correction:g}"] * (self.correction > 0)
        words += [f"hold {self.hold}"] * (self.hold > 1)
        return " ".join([self.method.kind, *(word for word in words if word != "passes=1")])

    @property
    def with_steps(self) -> str:
        decay = self.method.decay.kind
        words = [self.of_method, f"eta={self.method.eta:g}", *([f"beta={self.beta:g}"] if self.beta else [])]
        return " ".join([*words, *([decay] if decay != "constant" else [])])

    # What rows measure.

    def seeds(self) -> list[str]:
        """Seeds of the tapes: the plan's first seed and a number, fixed before anything is measured."""
        return [str(self.trial.seed) + f"/{k}" for k in range(self.tapes)]

    def tape(self) -> Tape:
        return Tape(self.seeds()[0])

    def spread_states(self) -> Array:
        """States that disagree: integers from −8 to 7 from a tape, n × d."""
        words = private("check states").coins("spread").words(self.n * self.d)
        return (words >> np.uint64(60)).astype(np.int64).reshape(self.n, self.d) - 8

    def stand_in(self) -> Quadratic:
        """A cheap problem of the same size: bits and mixing do not depend on losses."""
        return quadratic(self.n, 0, d=self.d)

    def simulated(
        self,
        rounds: int,
        *,
        x: Array | None = None,
        problem: Quadratic | None = None,
        eta: float | None = None,
    ) -> Iterator[tuple[list[str], Simulation]]:
        """Runs along all tapes in batches: their seeds, and the simulation after `rounds` rounds."""
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
        """Partners of all nodes in round t along each tape."""
        return self.world.schedule.partners(Tape.stack(list(seeds)), t)


# Why a formula does not apply to a case; empty if it does.


def not_on_matchings(case: Case) -> str:
    return "" if case.on_matchings else "mixes with all neighbours, not on matchings"


def unknown_law(case: Case) -> str:
    if case.known_cycle is not None:
        return ""
    return f"too many {case.world.schedule_name} matchings of this graph to list their law"


def not_fresh(case: Case) -> str:
    if case.is_uniform:
        return ""
    kind = "balanced supports" if case.hold == 1 else f"supports that are held for {case.hold} rounds"
    return f"{kind} are not drawn afresh in every round"


def not_exact(case: Case) -> str:
    """For runs in which a method's own wire carries the values."""
    name = case.own_wire
    if name and WIRES[name].linked:
        return f"the scale of {name} follows the run; the formula needs exact messages"
    if name and WIRES[name].dithered:
        return f"{name} adds dither to every message; the formula needs exact ones"
    return ""


def not_plain(case: Case) -> str:
    if case.correction:
        return "corrected steps depend on what earlier rounds mixed"
    if case.step_rule != "plain":
        return "the length of a normalised step follows the slopes of earlier rounds"
    return not_exact(case)


def too_large(case: Case) -> str:
    return f"states of {case.n * case.d:,} numbers" if case.is_large else ""


def with_noise(problem: Quadratic, seed: str | None) -> Quadratic:
    """The same losses with the noise of another tape, if they have noise; without noise if it is None."""
    if problem.noise is None:
        return problem
    if seed is None:
        return Quadratic(problem.half, problem.b, 0.0, None)
    noise = Noise(private(seed), range(problem.n), problem.d)
    return Quadratic(problem.half, problem.b, problem.sigma, noise)


def gradients(problem: Quadratic, x: Array) -> Array:
    """∇F_i(x_i) = H_i x_i + b_i of all nodes, exact up to rounding."""
    found: Array = 2 * problem.half * x + problem.b
    return found


def pairs_of(partners: Array) -> list[tuple[int, int]]:
    """The pairs in one row of partners."""
    return [(i, j) for i, j in enumerate(partners.tolist()) if i < j]


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
