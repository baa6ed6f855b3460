"""Dense ZO-DSGD: all coordinates, all neighbours."""

from dataclasses import dataclass
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Method, Rounds, State, Step, World, own_directions
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class Dense(Method):
    """Dense ZO-DSGD: each node draws its own dense direction and sends all d values to all neighbours

    y_i = x_i − η ĝ_i
    x⁺  = W y
    """

    kind: ClassVar[str] = "dense"
    codecs: ClassVar[tuple[str, ...]] = ("dense",)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return own_directions(world, tape, t, world.d)

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        y = x - self.eta_at(t) * estimate(u, slope)
        return State(channel.mix(y, u))
