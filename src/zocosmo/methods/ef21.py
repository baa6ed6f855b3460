"""EF21 (Richtárik, Sokolov, Fatkhullin 2021): error feedback by compressed differences of estimates."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.support import check_size
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import Draw, Method, Rounds, Step, Values, World, own_directions
from zocosmo.methods.compressors import lift, mean_of_nodes, top_q, union
from zocosmo.oracle import Query, estimate


class Ef21State(NamedTuple):
    x: Values  # (…, n, d) models, all alike
    own: Values  # (…, n, d) g_i: what the server knows of node i's gradient
    g: Values  # (…, n, d) their mean, as every node heard it


@dataclass(frozen=True, kw_only=True)
class Ef21(Method):
    """EF21: each node tells the server the Top-q of what its estimate has moved by

        c_i  = Top_q(ĝ_i − g_i)
        g_i⁺ = g_i + c_i
        g⁺   = g + (1/n) Σ_i c_i
        x⁺   = x − η g⁺

    g_i = 0 at first, so that round 0 makes it Top_q(ĝ_i). The server answers with the mean of the c_i, on the
    union of their supports, or all d values where these cost less; nodes keep g and step by it.
    """

    kind: ClassVar[str] = "ef21"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "plain", "delta", "entropy")
    server: ClassVar[bool] = True

    q: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("q", self.q, 1)

    def check(self, world: World) -> None:
        check_size(world.d, self.q)

    def init(self, x: Values) -> Ef21State:
        return Ef21State(x, np.zeros_like(x), np.zeros_like(x))

    def model(self, state: Ef21State) -> Values:
        return np.asarray(state.x[..., 0, :], np.float64)  # all are the server's

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return own_directions(world, tape, t, world.d)

    def step(self, t: int, state: Ef21State, draw: Draw, channel: Channel) -> Step:
        x, own, g = state
        slope = yield Query(x, (draw.u,), self.mu)
        at, values = top_q(estimate(draw.u, slope) - own, self.q)
        c = lift(channel.up(values), at, channel.d)
        own += c
        named, most = union(at, channel.d).sum(axis=-1), min(channel.n * self.q, channel.d)
        g += channel.down(mean_of_nodes(c), sizes=named, most=most)
        x -= self.eta_at(t) * g
        return Ef21State(x, own, g)
