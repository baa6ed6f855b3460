"""FeedSign: one bit up, one bit down (Cai et al. 2025)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Method, Rounds, State, Step, World
from zocosmo.oracle import Query


@dataclass(frozen=True, kw_only=True)
class FeedSign(Method):
    """FeedSign: nodes vote on one shared Gaussian direction and follow the majority (Cai et al. 2025)

        v_i = sign of the slope of f_i along z_t        v = sign Σ_i v_i
        x⁺  = x − η v z_t

    Slopes of 0 and ties of an even n count as +1, which adds no bias: −z is as likely as z, and a tie stays a
    tie. The round is the seed. A step has length η‖z‖ for any slopes, so η must decay for x to converge.
    """

    kind: ClassVar[str] = "feedsign"
    codecs: ClassVar[tuple[str, ...]] = ("votes",)
    server: ClassVar[bool] = True
    by_sign: ClassVar[bool] = True

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        z = normals(tape[..., None], "normal", np.asarray(t)[..., None], size=world.d)
        return Draw(Direction(np.arange(world.d), world.d, z))

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        votes = channel.up(np.where(slope < 0, -1, 1).astype(x.dtype), price="votes")
        total = votes.sum(axis=-2, keepdims=True)  # sums of ±1 are exact in any order
        vote = channel.down(np.where(total < 0, -1, 1).astype(x.dtype), price="votes")
        x -= self.eta_at(t) * (vote * u.entries.astype(x.dtype, copy=False))
        return State(x)
