"""Seed–scalar flooding with exact aggregation   [appendix:support_locality_experiment]"""

from dataclasses import dataclass
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Method, Rounds, SharedDraw, State, Step, Values, World, shared_directions
from zocosmo.oracle import Query
from zocosmo.traffic import distances


@dataclass(frozen=True, kw_only=True)
class Flooding(Method):
    """A method whose scalars are relayed until every node has all of them."""

    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar",)

    def stages(self, world: World) -> int:
        return int(distances(world.graph).max())  # the diameter


@dataclass(frozen=True, kw_only=True)
class Flood(Flooding):
    """Seed–scalar flood: every node's seed and slope reach all nodes, which apply the exact average

        x⁺ = x − (η/N) Σ_j s_j u_j

    Charged at the lower bound of any flood: each of N messages crosses the N − 1 edges of a spanning tree.
    A round waits as many times as the diameter of the graph.
    """

    kind: ClassVar[str] = "flood"

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return shared_directions(world, tape, t, world.d)

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        s = channel.everyone(slope, over="tree")
        x -= (self.eta_at(t) / s.shape[-2]) * added_up(s, draw.everyone)[..., None, :]
        return State(x)


def added_up(s: Values, u: Direction) -> Values:
    """Σ_j s_j u_j of dense directions, (…, d), added in ascending order of nodes."""
    signs = u.signs.astype(s.dtype, copy=False)
    total: Values = s[..., 0, :] * signs[..., 0, :]
    for j in range(1, s.shape[-2]):
        total += s[..., j, :] * signs[..., j, :]
    return total
