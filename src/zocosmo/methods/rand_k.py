"""Independent Rand-k: each node draws its own support."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.signs import Signs
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Rounds, SharedDraw, Sparse, State, Step, World, shared_directions
from zocosmo.methods.several import Scaled, Sides, StepRule


@dataclass(frozen=True, kw_only=True)
class RandK(Scaled, Sparse):
    """Independent Rand-k: each node has its own support; only overlaps can be mixed

        y_i = x_i − η P_i m_i⁺
        x_i⁺ = y_i + P_i Σ_j w_ij P_j (y_j − y_i)

    Codec `indexed` sends the coordinates; with `values` receivers get them from the tape. Same trajectory.
    """

    kind: ClassVar[str] = "rand_k"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "values", "plain", "delta", "entropy")

    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        draw = shared_directions(world, tape, t, self.q)
        ids = tape[..., None], np.asarray(t)[..., None], world.nodes
        return replace(draw, more=self.sign_vectors(self.q, *ids)[1])

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        x, m, u = state.x, state.m, draw.u
        slopes = yield self.query(x, draw)
        v = self.scale(state, slopes, channel)
        m_S = self.blend(u, m, self.estimate(draw, slopes, v))
        y_S = u.restrict(x) - self.eta_at(t) * m_S
        x_S = channel.mix_overlaps(y_S, u, draw.everyone)
        return self.state_of(u.put(x, x_S, out=x), self.keep(u, m, m_S), v)
