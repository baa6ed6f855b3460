"""SeedFlood: seeds and scalars flooded over the graph (Kim and Lee 2026)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Method, Rounds, SharedDraw, State, Step, World, among
from zocosmo.methods.flood import added_up, diameter
from zocosmo.methods.mezo import own_normals
from zocosmo.oracle import Query


@dataclass(frozen=True, kw_only=True)
class Flooding(Method):
    """A method whose scalars are passed on by all who hear them, until everyone has everyone's."""

    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar",)

    def stages(self, world: World) -> int:
        return diameter(world.graph)


@dataclass(frozen=True, kw_only=True)
class SeedFlood(Flooding):
    """SeedFlood: every node applies every node's update, rebuilt from its seed

        x⁺ = x − (η/N) Σ_j s_j z_j,   z_j ~ N(0, I)

    Nodes that start alike stay alike to the bit. What is heard twice is paid twice; `flood` pays the least
    that any flood can cost. A round ends when all have all, so no update comes late: the graph's width is
    paid in time.
    """

    kind: ClassVar[str] = "seedflood"

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return among(world, own_normals(world, tape, t, np.arange(world.graph.n)))

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        s = channel.everyone(slope, over="flood")
        x -= (self.eta_at(t) / s.shape[-2]) * added_up(s, draw.everyone)[..., None, :]
        return State(x)
