"""ZO-COSMO with one global support per round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.channel import Channel
from zocosmo.core.support import draw_direction
from zocosmo.core.tape import Tape
from zocosmo.core.wires import WIRES
from zocosmo.errors import InputError
from zocosmo.methods.base import COUNT, RULES, Draw, Rounds, Rule, Ruled, State, Step, World
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class Cosmo(Ruled):
    """ZO-COSMO, one global support: all neighbours mix q values   [alg:zo_cosmo]

        m⁺ = (I − P) m + P (β m + (1 − β) ĝ)
        y  = x − η P m⁺
        x⁺ = (I − P) y + P W y,   W^passes with several passes

    ĝ is 0 off S, so y differs from x only on S, and the step below computes values on S only.
    """

    kind: ClassVar[str] = "cosmo"
    codecs: ClassVar[tuple[str, ...]] = ("values", "indexed", "plain", "delta", "entropy")
    limits: ClassVar = {"passes": COUNT}
    coarse: ClassVar[bool] = True

    passes: int = 1
    rule: Rule = "uniform"

    def wire_for(self, wire: str, dtype: DTypeLike) -> str:
        name = super().wire_for(wire, dtype)
        if WIRES[name].linked and self.passes > 1:
            raise InputError(f"wire {name} is read once a round; use passes = 1, or a wire of floats")
        return name

    def stages(self, world: World) -> int:
        return self.passes * super().stages(world)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        where = np.asarray(t)[..., None]  # one direction for all nodes
        return Draw(draw_direction(tape[..., None], where, d=world.d, q=self.q, rule=RULES[self.rule]))

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        (x, m), u = state, draw.u  # line 3: S_t and signs
        slope = yield Query(x, (u,), self.mu)  # line 5
        m_S = self.blend(u, m, estimate(u, slope))
        x_S = u.restrict(x)
        y_S = x_S - self.eta_at(t) * m_S  # line 6
        for _ in range(self.passes):
            y_S = channel.mix(y_S, u, held=x_S)  # lines 7–10: q values on each link
        return State(channel.settle(u.put(x, y_S, out=x)), self.keep(u, m, m_S))
