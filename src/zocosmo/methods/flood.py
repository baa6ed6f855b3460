"""Seed–scalar flooding with exact aggregation   [appendix:support_locality_experiment]"""

from dataclasses import dataclass
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Method, Rounds, SharedDraw, State, Step, World, shared_directions
from zocosmo.methods.compressors import weighted_sum
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
        x -= (self.eta_at(t) / s.shape[-2]) * weighted_sum(s[..., 0], draw.everyone.signs)[..., None, :]
        return State(x)
