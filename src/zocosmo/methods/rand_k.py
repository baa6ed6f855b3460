"""Independent Rand-k: each node draws its own support."""

from dataclasses import dataclass
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Rounds, SharedDraw, Sparse, State, Step, World, shared_directions
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class RandK(Sparse):
    """Independent Rand-k: each node has its own support; only overlaps can be mixed

        y_i = x_i − η P_i m_i⁺
        x_i⁺ = y_i + P_i Σ_j w_ij P_j (y_j − y_i)

    Codec `indexed` sends the coordinates; with `values` receivers get them from the tape. Same trajectory.
    """

    kind: ClassVar[str] = "rand_k"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "values", "plain", "delta", "entropy")

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return shared_directions(world, tape, t, self.q)

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        (x, m), u = state, draw.u
        slope = yield Query(x, (u,), self.mu)
        m_S = self.blend(u, m, estimate(u, slope))
        y_S = u.restrict(x) - self.eta_at(t) * m_S
        x_S = channel.mix_overlaps(y_S, u, draw.everyone)
        return State(u.put(x, x_S, out=x), self.keep(u, m, m_S))
