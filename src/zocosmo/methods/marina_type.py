"""ZO-MARINA-type: sparse rounds with a dense round every `period`   [alg:appendix_marina_like]"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.averaging import check_complete, move_by_mean
from zocosmo.methods.base import COUNT, Rounds, SharedDraw, Sparse, State, Step, World, shared_directions
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class MarinaType(Sparse):
    """ZO-MARINA-type: all nodes apply all updates; a dense round every `period`

        h_i = P_i m_i⁺,  |S_i| = d if t mod K = 0 else q
        x⁺  = x − (η/N) Σ_j h_j

    Nodes that start equal stay bit-identical: updates are aggregated and states are not mixed. It has the
    pattern of MARINA but not its guarantee. Complete graphs only.
    """

    kind: ClassVar[str] = "marina_type"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "values", "plain", "delta", "entropy")
    limits: ClassVar = {"period": COUNT}
    on_supports: ClassVar[bool] = False  # it changes the supports of all nodes

    period: int = 25

    def check(self, world: World) -> None:
        super().check(world)
        check_complete(self.kind, world)

    def size(self, t: int, d: int) -> int:
        return d if t % self.period == 0 else self.q

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return shared_directions(world, tape, t, self.size(int(np.min(t)), world.d))

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        (x, m), u = state, draw.u
        slope = yield Query(x, (u,), self.mu)
        m_S = self.blend(u, m, estimate(u, slope))
        h = channel.everyone(m_S, u, draw.everyone, over="links")
        move_by_mean(x, h, draw.everyone, self.eta_at(t))
        return State(x, self.keep(u, m, m_S))
