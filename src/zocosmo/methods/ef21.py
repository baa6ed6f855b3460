"""EF21: error feedback by compressed differences of estimates (Richtárik, Sokolov, Fatkhullin 2021)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Compressed, Draw, Rounds, Step, Values, World, own_directions
from zocosmo.methods.compressors import lift, mean_of_nodes, top_q, union
from zocosmo.methods.server import Served
from zocosmo.oracle import Query, estimate


class Ef21State(NamedTuple):
    x: Values  # (…, n, d) models, all equal
    own: Values  # (…, n, d) g_i: the server's copy of node i's estimate
    g: Values  # (…, n, d) their mean, as nodes receive it


@dataclass(frozen=True, kw_only=True)
class Ef21(Served, Compressed):
    """EF21: each node sends the server the Top-q of the change of its estimate

        c_i  = Top_q(ĝ_i − g_i)
        g_i⁺ = g_i + c_i
        g⁺   = g + (1/n) Σ_i c_i
        x⁺   = x − η g⁺

    g_i starts at 0, so round 0 sends Top_q(ĝ_i). The server returns the mean of the c_i on the union of their
    supports, or all d values if these cost less; nodes add it to g.
    """

    kind: ClassVar[str] = "ef21"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "plain", "delta", "entropy")

    def init(self, x: Values) -> Ef21State:
        return Ef21State(x, np.zeros_like(x), np.zeros_like(x))

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
