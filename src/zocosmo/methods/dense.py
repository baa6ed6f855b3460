"""Dense ZO-DSGD: all coordinates, all neighbours."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.signs import Signs
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Rounds, State, Step, World, own_directions
from zocosmo.methods.several import Scaled, Sides, StepRule


@dataclass(frozen=True, kw_only=True)
class Dense(Scaled):
    """Dense ZO-DSGD: each node draws its own dense direction and sends all d values to all neighbours

    y_i = x_i − η ĝ_i
    x⁺  = W y
    """

    kind: ClassVar[str] = "dense"
    codecs: ClassVar[tuple[str, ...]] = ("dense",)

    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        draw = own_directions(world, tape, t, world.d)
        ids = tape[..., None], np.asarray(t)[..., None], world.nodes
        return replace(draw, more=self.sign_vectors(world.d, *ids)[1])

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slopes = yield self.query(x, draw)
        v = self.scale(state, slopes, channel)
        y = x - self.eta_at(t) * self.estimate(draw, slopes, v)
        return self.state_of(channel.mix(y, u), None, v)
