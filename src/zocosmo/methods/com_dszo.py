"""Com-DSZO: error-compensated Top-q innovations   [appendix:com_dszo_definition]"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.support import check_size
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import Draw, Method, Rounds, Step, Values, World, check_number, own_directions
from zocosmo.methods.compressors import lift, top_q
from zocosmo.oracle import Query, estimate


class ComDszoState(NamedTuple):
    x: Values  # (…, n, d) states
    x_hat: Values  # (…, n, d) what peers reconstruct of them
    b: Values  # (…, n, d) accumulated disagreement
    at: NDArray[np.int64]  # (…, n, q) coordinates of the innovation to send next
    values: Values  # (…, n, q) its values


@dataclass(frozen=True, kw_only=True)
class ComDszo(Method):
    """Com-DSZO: dense directions, Top-q of what peers have not heard yet   [eq:com_dszo_instantiation]

    X̂⁺ = X̂ + ψ Q
    B⁺ = B + ψ (I − W) Q
    X⁺ = X − γ B⁺ − η Ĝ
    Q⁺ = Top_q(X⁺ − X̂⁺)
    """

    kind: ClassVar[str] = "com_dszo"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "plain", "delta", "entropy")

    q: int
    psi: float = 0.5
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("q", self.q, 1)
        check_number("psi", self.psi, 0)
        check_number("gamma", self.gamma, 0)

    def check(self, world: World) -> None:
        check_size(world.d, self.q)

    def init(self, x: Values) -> ComDszoState:
        zero = np.zeros_like(x)
        index, values = top_q(zero, self.q)
        return ComDszoState(x, x.copy(), zero, index, values)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return own_directions(world, tape, t, world.d)

    def step(self, t: int, state: ComDszoState, draw: Draw, channel: Channel) -> Step:
        x, x_hat, b, at, values = state
        slope = yield Query(x, (draw.u,), self.mu)
        sent, mixed = channel.mix_lifted(values, at)  # over a lossy wire the sender uses what was heard
        Q = lift(sent, at, channel.d)
        x_hat = x_hat + self.psi * Q
        b = b + self.psi * (Q - mixed)
        x = x - self.gamma * b - self.eta_at(t) * estimate(draw.u, slope)
        return ComDszoState(x, x_hat, b, *top_q(x - x_hat, self.q))
