"""Small runs of every method, and a toy method that stands for the next one to be written."""

import dataclasses
from typing import ClassVar

import numpy as np

from zocosmo.errors import GraphError
from zocosmo.graphs.graph import complete, erdos_renyi, ring
from zocosmo.methods import METHODS, Method, State, World
from zocosmo.methods.base import own_directions
from zocosmo.oracle import Query, estimate
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation


@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(Method):
    """Signs of dense estimates, then one mix: nobody's method, but a whole one."""

    kind: ClassVar[str] = "toy"
    codecs: ClassVar[tuple[str, ...]] = ("dense",)

    def draw(self, world, tape, t):
        return own_directions(world, tape, t, world.d)

    def step(self, t, state, draw, channel):
        slope = yield Query(state.x, (draw.u,), self.mu)
        return State(channel.mix(state.x - self.eta_at(t) * np.sign(estimate(draw.u, slope))))


TABLE = {**METHODS, "toy": Toy}  # all that a new method needs for the tests: one line
NAMES = list(TABLE)
OWN_BILLS = {  # not one price times messages: a test of their own holds them to the published formula
    "decomfl": "seeds go down under one codec and not under the other, and never up",
    "meerkat": "round 0 sends coordinates, and seeds go down under one codec and never up again",
    "ef21": "the server sends a union of supports, whose size is another in every round",
    "marina": "the server sends a union of supports, and refreshes are dense",
    "perm_k": "blocks go up and all d values come down",
    "fedkseed": "pairs go up under either codec, and sums go down under none",
}
ASKED = {  # of a node in five rounds, where it is not two a round
    "meerkat": 2 * 64 + 4 * 2,
    "marina": 2 * 2 + 4 * 8,  # the coins of this seed refresh in round 0 alone
    "fzoo": 5 * (8 + 1),  # one side
}
COMPLETE = ("marina_type", "rand_k_average")  # methods of complete graphs
GRAPHS = {"complete": complete(4), "ring": ring(4), "random": erdos_renyi(6, 0.5, 3)}
PLACES = [
    (name, graph)
    for name in NAMES
    for graph in GRAPHS
    if not (name in COMPLETE and graph != "complete")  # refuses all others
]
OWN = {  # parameters that others know under the same name, or that must fit the problem
    "marina": {"refresh": 0.25, "directions": 2},
    "moniqua": {"theta": 1536.0, "gamma": 1.0},  # holds whatever states a test starts from; Δ = 1024
}


def small(name, **changes):
    """The method with parameters for a small problem; takes what its kind knows."""
    given = {"eta": 2.0**-6, "mu": 2.0**-10, "q": 2, "period": 3, "rank": 2, "refresh": 3}
    given |= OWN.get(name, {}) | changes
    known = {f.name for f in dataclasses.fields(TABLE[name])}
    return TABLE[name](**{key: value for key, value in given.items() if key in known})


def small_run(name, graph="complete", *, seed=1, d=6, problem=None, **changes):
    graph = GRAPHS.get(graph, graph)
    problem = problem or quadratic(graph.n, seed, d=d, omega=0.5, zeta=1.0, sigma=0.25)
    return Run(small(name, **changes), graph, problem, seed)


def states(runs, rounds, **options):
    """x after `rounds` rounds, (runs, n, d)."""
    simulation = Simulation(runs, **options)
    for _ in range(rounds):
        simulation.round()
    return simulation.states()


def runs_alone(name):
    """Whether one node can run it."""
    try:
        small(name).check(World(complete(1), 6))
    except GraphError:
        return False
    return True
