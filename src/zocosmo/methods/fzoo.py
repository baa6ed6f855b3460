"""FZOO: batched one-sided slopes, and a step that their spread normalises (2025)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.support import Direction, draw_signs
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import Draw, Rounds, State, Step, Values, World
from zocosmo.methods.compressors import weighted_sum
from zocosmo.methods.mezo import Alone
from zocosmo.oracle import Query


@dataclass(frozen=True, kw_only=True)
class Fzoo(Alone):
    """FZOO: each node by itself, along K dense sign vectors of its own, K + 1 queries a round

        f_k = f(x + μu_k),   k = 1…K,   u_k ∈ {−1, 1}^d
        σ²  = Σ_k (f_k − f̄)² / (K − 1)
        x⁺  = x − η (1/Kσ) Σ_k (f_k − f(x)) u_k

    σ grows with ‖∇f‖, so a step has about the same length everywhere: no gradient is ever computed, and η
    need not fit the scale of the loss. Where all f_k are equal, x stays.
    """

    kind: ClassVar[str] = "fzoo"
    by_sign: ClassVar[bool] = True  # a steeper loss makes no longer step
    limits: ClassVar = {"directions": partial(check_whole, least=2)}

    directions: int = 8

    def size(self, t: int, d: int) -> int:
        return self.directions * d

    @property
    def is_one_sided(self) -> bool:
        return True

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        t, nodes = np.asarray(t)[..., None, None], world.nodes
        signs = draw_signs(tape[..., None, None], t, nodes, np.arange(self.directions)[:, None], q=world.d)
        return Draw(Direction(np.arange(world.d), world.d, signs))

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, u = state.x, tuple(draw.one(k) for k in range(self.directions))
        slopes = yield Query(x, u, self.mu, sides=1)
        weights = slopes / (self.directions * spread(slopes))
        signs = np.stack([one.entries.astype(x.dtype, copy=False) for one in u], axis=-2)
        x -= self.eta_at(t) * weighted_sum(weights, signs)
        return State(x)


def spread(slopes: Values) -> Values:
    """The standard deviation of K numbers, (…, 1) of (…, K), added in ascending order; ∞ where it is 0.

    Of slopes (f_k − f)/μ it is σ/μ, so weights s_k/(σ/μ) are (f_k − f)/σ.

    >>> spread(np.array([1.0, 3.0])).tolist(), spread(np.array([2.0, 2.0, 2.0])).tolist()
    ([1.4142135623730951], [inf])
    """
    count = slopes.shape[-1]
    mean = sum(slopes[..., k : k + 1] for k in range(count)) / count
    square = sum((slopes[..., k : k + 1] - mean) ** 2 for k in range(count)) / (count - 1)
    found: Values = np.where(square > 0, np.sqrt(square), np.inf)
    return found
