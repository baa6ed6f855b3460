"""Seed–scalar flooding with exact aggregation   [appendix:support_locality_experiment]"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import Graph
from zocosmo.methods.base import Method, Rounds, SharedDraw, State, Step, Values, World, shared_directions
from zocosmo.oracle import Query


@dataclass(frozen=True, kw_only=True)
class Flood(Method):
    """Seed–scalar flood: every node's seed and slope reach every other, and all apply the exact average

        x⁺ = x − (η/N) Σ_j s_j u_j

    Charged at the least that any flood can cost: each of N messages over N − 1 edges of a spanning tree.
    A round waits for as many stages as the graph is wide.
    """

    kind: ClassVar[str] = "flood"
    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar",)

    def stages(self, world: World) -> int:
        return diameter(world.graph)

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return shared_directions(world, tape, t, world.d)

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        s = channel.everyone(slope, over="tree")
        x -= (self.eta_at(t) / s.shape[-2]) * added_up(s, draw.everyone)[..., None, :]
        return State(x)


def added_up(s: Values, u: Direction) -> Values:
    """Σ_j s_j u_j of dense directions, (…, d): everyone adds in the same order."""
    signs = u.signs.astype(s.dtype, copy=False)
    total: Values = s[..., 0, :] * signs[..., 0, :]
    for j in range(1, s.shape[-2]):
        total += s[..., j, :] * signs[..., j, :]
    return total


@lru_cache(maxsize=256)
def diameter(graph: Graph) -> int:
    """The most links between two nodes."""
    import networkx as nx

    return int(nx.diameter(graph.to_networkx()))
