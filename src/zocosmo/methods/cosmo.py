"""ZO-COSMO with one global support per round."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.channel import Channel
from zocosmo.core.signs import Signs
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.core.wires import WIRES
from zocosmo.errors import InputError
from zocosmo.methods.base import COUNT, RULES, Draw, Rounds, Rule, State, Step, World
from zocosmo.methods.corrected import Corrected
from zocosmo.methods.several import Sides, StepRule


@dataclass(frozen=True, kw_only=True)
class Cosmo(Corrected):
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
    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"
    correction: float = 0.0

    def wire_for(self, wire: str, dtype: DTypeLike) -> str:
        name = super().wire_for(wire, dtype)
        if WIRES[name].dithered and self.passes > 1:
            raise InputError(f"wire {name} is read once a round; use passes = 1, or a wire of floats")
        return name

    def stages(self, world: World) -> int:
        once = super().stages(world)  # with the messages about v, if there are any
        return once + (self.passes - 1 if once else 0)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        ids = tape[..., None], np.asarray(t)[..., None]  # the same for all nodes
        support = RULES[self.rule](*ids, d=world.d, q=self.q)
        first, more = self.sign_vectors(support.q, *ids)
        return Draw(Direction.unchecked(support.index, world.d, first), more=more)

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, m, c, u = state.x, state.m, self.correction_of(state), draw.u  # line 3: S_t and signs
        slopes = yield self.query(x, draw)  # line 5
        v = self.scale(state, slopes, channel)
        m_S = self.blend(u, m, self.estimate(draw, slopes, v))
        x_S = u.restrict(x)
        y_S = mixed = self.move(t, u, x_S, m_S, c)  # line 6
        for _ in range(self.passes):
            mixed = channel.mix(mixed, u, held=x_S)  # lines 7–10: q values on each link
        return self.state_of(self.finish(u, x, c, y_S, mixed, channel), self.keep(u, m, m_S), v, c)
