"""What the same run would have cost with methods that send other things, by the ledgers of the simulator."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.price import PRICES
from zocosmo.core.values import F32
from zocosmo.graphs.graph import Graph
from zocosmo.methods import DeComFL, Dense, SeedFlood
from zocosmo.methods.base import Method
from zocosmo.oracle import Mask, Problem
from zocosmo.problems.nodes import check_nodes
from zocosmo.sim.engine import Run, Simulation

PLAYED = 4  # rounds that are simulated; later ones cost what the last of these did
SMALL = 2  # dimensions of the simulated loss: scalars cost the same whatever d is


class Rival(NamedTuple):
    """A way to train the same model, and what each node would have sent."""

    name: str
    bits: float  # per node; those of a server are shared out among the nodes
    needs: str = ""


class Level(Problem):
    """A loss that is 0 everywhere: what is sent for it depends on the method alone."""

    def __init__(self, n: int) -> None:
        self.n, self.d = n, SMALL

    @property
    def x0(self) -> NDArray[np.float64]:
        return np.zeros(self.d)

    def __call__(self, x: NDArray[Any], t: int, *, active: Mask | None = None) -> NDArray[np.float64]:
        return self.local(x)

    def local(self, x: NDArray[Any]) -> NDArray[np.float64]:
        return np.zeros(x.shape[:-1])

    def at(self, nodes: Sequence[int]) -> Self:
        return type(self)(len(check_nodes(nodes, self.n)))

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        return problems[0]


def rivals(graph: Graph, rounds: int, *, d: int, directions: int) -> list[Rival]:
    """DeComFL and SeedFlood with as many directions in as many rounds, and gradients of d values sent to all
    neighbours in every round."""
    decomfl = DeComFL(eta=0.0, mu=1.0, perturbations=directions)
    flood = directions * spent(SeedFlood(eta=0.0, mu=1.0), graph, rounds)
    messages = spent(Dense(eta=0.0, mu=1.0), graph, rounds) / PRICES["dense"](SMALL, SMALL, F32).payload
    return [
        Rival("DeComFL", spent(decomfl, graph, rounds), "a server"),
        Rival("SeedFlood", flood),
        Rival("sending gradients", messages * PRICES["dense"](d, d, F32).payload),
    ]


def spent(method: Method, graph: Graph, rounds: int) -> float:
    """Bits per node in some rounds of a method, framing left out, as the column `bits` of a log has them."""
    simulation = Simulation([Run(method, graph, Level(graph.n), 0)], wire="f32", dtype=np.float32)
    totals = [0.0]
    for _ in range(min(rounds, PLAYED)):
        simulation.round()
        totals.append(float(simulation.channel.ledger(method.codec).counts[..., :3].sum()) / graph.n)
    last = totals[-1] - totals[-2] if rounds else 0.0
    return totals[-1] + (rounds - len(totals) + 1) * last
