"""CHOCO-SGD: mix compressed differences of states (Koloskova, Stich, Jaggi 2019)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import check_known
from zocosmo.methods.base import Compressed, Draw, Rounds, Step, Values, World, check_number, own_directions
from zocosmo.methods.compressors import lift, mean_magnitude, rand_q, scaled_signs, top_q
from zocosmo.oracle import Query, estimate

PRIVATE = ("indexed", "plain", "delta", "entropy")
CODECS_OF = {  # the tape cannot give supports that depend on private values
    "top_k": PRIVATE,
    "rand_k": ("values", *PRIVATE),
    "sign": ("scaled_signs",),
}


class ChocoState(NamedTuple):
    x: Values  # (…, n, d) states
    x_hat: Values  # (…, n, d) the copies that neighbours have
    s: Values  # (…, n, d) Σ_j w_ij x̂_j


@dataclass(frozen=True, eq=False)
class ChocoDraw(Draw):
    supports: NDArray[np.int64] | None  # (…, N, q) of all nodes, for rand_k


@dataclass(frozen=True, kw_only=True)
class Choco(Compressed):
    """CHOCO-SGD: each node sends the compressed difference between its state and its neighbours' copy

        y  = x − η ĝ
        Q  = C(y − x̂)
        x̂⁺ = x̂ + Q,   s⁺ = s + W Q
        x⁺ = y + γ (s⁺ − x̂⁺)

    Each node estimates ĝ along its own dense direction. x̂ and s start at the public common start (the authors
    start everything at 0). `top_k` and `rand_k` send q entries; `sign` sends a bit per entry and their mean
    magnitude. The codecs depend on the compressor.
    """

    kind: ClassVar[str] = "choco"
    codecs: ClassVar[tuple[str, ...]] = (*PRIVATE, "values", "scaled_signs")
    limits: ClassVar = {"gamma": partial(check_number, least=0)}

    gamma: float = 0.1
    compressor: Literal["top_k", "rand_k", "sign"] = "top_k"

    def __post_init__(self) -> None:
        check_known("compressor", self.compressor, CODECS_OF)
        object.__setattr__(self, "codecs", CODECS_OF[self.compressor])
        super().__post_init__()

    def init(self, x: Values) -> ChocoState:
        known = np.broadcast_to(x[..., :1, :], x.shape)  # the common start, or that of node 0
        return ChocoState(x, known.copy(), known.copy())

    def draw(self, world: World, tape: Tape, t: Rounds) -> ChocoDraw:
        u = own_directions(world, tape, t, world.d).u
        if self.compressor != "rand_k":
            return ChocoDraw(u, None)
        nodes, where = np.arange(world.graph.n), np.asarray(t)[..., None]
        supports = draw_support(tape[..., None], where, nodes, d=world.d, q=self.q)
        return ChocoDraw(u, supports.index)

    def step(self, t: int, state: ChocoState, draw: ChocoDraw, channel: Channel) -> Step:
        x, x_hat, s = state
        slope = yield Query(x, (draw.u,), self.mu)
        y = x - self.eta_at(t) * estimate(draw.u, slope)
        Q, WQ = self._exchange(y - x_hat, draw, channel)
        x_hat, s = x_hat + Q, s + WQ
        return ChocoState(y + self.gamma * (s - x_hat), x_hat, s)

    def _exchange(self, v: Values, draw: ChocoDraw, channel: Channel) -> tuple[Values, Values]:
        """Q = C(v) as receivers read it, which the sender uses too, and W Q."""
        if self.compressor == "sign":
            Q = scaled_signs(v, channel.as_read(mean_magnitude(v)))
            return Q, channel.mix(Q, price="scaled_signs")
        if draw.supports is None:
            at, values = top_q(v, self.q)
        else:
            at = draw.supports[..., channel.nodes, :]
            values = rand_q(v, at, unbiased=False)
        sent, mixed = channel.mix_lifted(values, at, draw.supports)
        return lift(sent, at, channel.d), mixed
