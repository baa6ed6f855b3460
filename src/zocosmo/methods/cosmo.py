"""ZO-COSMO with one global support in a round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.support import draw_direction
from zocosmo.core.tape import Tape
from zocosmo.errors import check_known, check_whole
from zocosmo.methods.base import RULES, Draw, Rounds, Rule, Sparse, State, Step, World, keep, ruled_size
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class Cosmo(Sparse):
    """ZO-COSMO, one global support: all neighbours mix q values   [alg:zo_cosmo]

        m⁺ = (I − P) m + P (β m + (1 − β) ĝ)
        y  = x − η P m⁺
        x⁺ = (I − P) y + P W y,   W^passes where several passes are paid for

    ĝ lives on S, so y differs from x only there and the subscript _S below loses nothing.
    """

    kind: ClassVar[str] = "cosmo"
    codecs: ClassVar[tuple[str, ...]] = ("values", "indexed", "plain", "delta", "entropy")

    passes: int = 1
    rule: Rule = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("passes", self.passes, 1)
        check_known("rule", self.rule, RULES)

    def size(self, t: int, d: int) -> int:
        return ruled_size(self.rule, t, d, self.q)

    def stages(self, world: World) -> int:
        return self.passes * super().stages(world)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        where = np.asarray(t)[..., None]  # one direction for all nodes
        return Draw(draw_direction(tape[..., None], where, d=world.d, q=self.q, rule=RULES[self.rule]))

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        (x, m), u = state, draw.u  # line 3: S_t and signs
        slope = yield Query(x, (u,), self.mu)  # line 5
        m_S = self.blend(u, m, estimate(u, slope))
        y_S = u.restrict(x) - self.eta_at(t) * m_S  # line 6
        for _ in range(self.passes):
            y_S = channel.mix(y_S, u)  # lines 7–10: q values on each link
        return State(u.put(x, y_S, out=x), keep(u, m, m_S))
