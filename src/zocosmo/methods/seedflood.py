"""SeedFlood: seeds and scalars flooded over the graph (Kim and Lee 2026)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Rounds, SharedDraw, State, Step, World, among
from zocosmo.methods.compressors import weighted_sum
from zocosmo.methods.flood import Flooding
from zocosmo.methods.mezo import own_normals
from zocosmo.oracle import Query


@dataclass(frozen=True, kw_only=True)
class SeedFlood(Flooding):
    """SeedFlood: every node applies all updates, rebuilt from their seeds

        x⁺ = x − (η/N) Σ_j s_j z_j,   z_j ~ N(0, I)

    Nodes that start equal stay bit-identical. Duplicate messages are charged; `flood` charges the lower bound
    of any flood. A round ends when every node has all updates, so none is late, and lasts as many stages as
    the diameter of the graph.
    """

    kind: ClassVar[str] = "seedflood"

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return among(world, own_normals(world, tape, t, np.arange(world.graph.n)))

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        s = channel.everyone(slope, over="flood")
        x -= (self.eta_at(t) / s.shape[-2]) * weighted_sum(s[..., 0], draw.everyone.entries)[..., None, :]
        return State(x)
