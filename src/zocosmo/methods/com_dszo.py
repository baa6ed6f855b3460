"""Com-DSZO: error-compensated Top-q innovations   [appendix:com_dszo_definition]"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Compressed, Draw, Rounds, Step, Values, World, check_number, own_directions
from zocosmo.methods.compressors import lift, top_q
from zocosmo.oracle import Query, estimate


class ComDszoState(NamedTuple):
    x: Values  # (…, n, d) states
    x_hat: Values  # (…, n, d) what peers reconstruct of them
    b: Values  # (…, n, d) accumulated disagreement
    at: NDArray[np.int64]  # (…, n, q) coordinates of the innovation to send next
    values: Values  # (…, n, q) its values


@dataclass(frozen=True, kw_only=True)
class ComDszo(Compressed):
    """Com-DSZO: dense directions, Top-q of what peers do not know yet   [eq:com_dszo_instantiation]

    X̂⁺ = X̂ + ψ Q
    B⁺ = B + ψ (I − W) Q
    X⁺ = X − γ B⁺ − η Ĝ
    Q⁺ = Top_q(X⁺ − X̂⁺)
    """

    kind: ClassVar[str] = "com_dszo"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "plain", "delta", "entropy")
    limits: ClassVar = dict.fromkeys(("psi", "gamma"), partial(check_number, least=0))

    psi: float = 0.5
    gamma: float = 0.1

    def init(self, x: Values) -> ComDszoState:
        zero = np.zeros_like(x)
        index, values = top_q(zero, self.q)
        return ComDszoState(x, x.copy(), zero, index, values)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return own_directions(world, tape, t, world.d)

    def step(self, t: int, state: ComDszoState, draw: Draw, channel: Channel) -> Step:
        x, x_hat, b, at, values = state
        slope = yield Query(x, (draw.u,), self.mu)
        sent, mixed = channel.mix_lifted(values, at)  # `sent` is what receivers read
        Q = lift(sent, at, channel.d)
        x_hat = x_hat + self.psi * Q
        b = b + self.psi * (Q - mixed)
        x = x - self.gamma * b - self.eta_at(t) * estimate(draw.u, slope)
        return ComDszoState(x, x_hat, b, *top_q(x - x_hat, self.q))
