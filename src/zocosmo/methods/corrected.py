"""Steps that are corrected for what a node's loss has and the average loss has not."""

import math
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.support import Direction
from zocosmo.methods.base import Ruled, Sparse, Values, check_number
from zocosmo.methods.several import Scaled, SeveralState
from zocosmo.state import zeros_like


class Corrected(Scaled, Ruled, Sparse):
    """A method on supports that mixes with neighbours, and may correct its steps.

    A node whose loss differs from those of others moves away from them in every step, and mixing brings it
    back. With `correction` γ it learns to stay. It keeps c, 0 at first, and sends nothing for it:

        y = x − η m⁺ + c,   x⁺ = mix(y),   c⁺ = c + γ (x⁺ − y)      on S

    The sum of c over nodes stays 0. At a fixed point x⁺ = y, so nodes agree, and the gradient of the average
    loss is 0. Without c they agree only in the limit of small steps.
    """

    limits: ClassVar = {"correction": partial(check_number, least=0, most=1)}
    correction: float  # γ; each method declares this field after its own

    @cached_property
    def is_corrected(self) -> bool:
        """Whether some run has γ > 0."""
        return bool(np.any(self.correction))

    @property
    def unstated(self) -> tuple[str, ...]:
        return super().unstated if self.is_corrected else (*super().unstated, "correction")

    def init(self, x: Any) -> Any:
        state = super().init(x)
        if not self.is_corrected:
            return state
        return SeveralState(state.x, state.m, state.v if self.is_scaled else None, zeros_like(x))

    def correction_of(self, state: Any) -> Any:
        """c, or None if no run has one."""
        return state.c if self.is_corrected else None

    def move(self, t: int, u: Direction, x_S: Values, m_S: Values, c: Any) -> Values:
        """y on the support. c shrinks with the steps, and grows with them where a round has fewer entries."""
        y: Values = x_S - self.eta_at(t) * m_S
        if c is not None:
            c_S, ratio = u.restrict(c), self.q / u.q  # 1, but for the last round of a balanced epoch
            length = self.decay.factor(t) * (math.sqrt(ratio) if self.is_scaled else ratio)
            np.add(y, length * c_S, out=y, where=c_S != 0)  # not even −0 changes in runs with γ = 0
        return y

    def finish(self, u: Direction, x: Any, c: Any, y: Values, mixed: Values, channel: Channel) -> Any:
        """x⁺ from the values that mixing gave; c follows in place. What a peer did not complete is undone."""
        x = u.put(x, mixed, out=x)
        if c is None:
            return channel.settle(x)
        u.put(c, u.restrict(c) + self.correction * (mixed - y), out=c)
        return channel.settle(x, (c, self.correction))
