"""PermK: supports that partition the coordinates among the nodes (Szlendak, Tyurin, Richtárik 2021)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.support import Direction, draw_signs
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Rounds, State, Step, World
from zocosmo.methods.compressors import lift, mean_of_nodes
from zocosmo.methods.server import ActiveDraw, Served
from zocosmo.oracle import Query


@dataclass(frozen=True, kw_only=True)
class PermK(Served):
    """PermK: a public permutation of the coordinates, cut into one block per node

        ĝ_i = n · slope_i · ε on block i
        x⁺  = x − (η/n) Σ_i ĝ_i

    Block i is π[⌊(id + r)/n⌋ : ⌊((i+1)d + r)/n⌋] with r uniform below n. Sizes differ by at most one, and a
    node has each coordinate with probability 1/n for any n and d, so E ĝ_i = ∇F_i with the authors' factor n
    (d/q if n divides d). If d < n, n − d nodes have no block in a round: they neither query nor send.
    """

    kind: ClassVar[str] = "perm_k"
    codecs: ClassVar[tuple[str, ...]] = ("values", "indexed", "plain", "delta", "entropy")

    def draw(self, world: World, tape: Tape, t: Rounds) -> ActiveDraw:
        """Shorter blocks are padded with a coordinate of another block, with sign 0."""
        n, d = world.graph.n, world.d
        order = tape.coins("permutation", t).permutation(d)
        r = tape.coins("offset", t).permutation(n)[..., :1]
        ends = (np.arange(n + 1) * d + r) // n
        first, last = ends[..., world.nodes, None], ends[..., world.nodes + 1, None]
        width = -(-d // n)
        places = np.minimum(first, d - width) + np.arange(width)
        index = np.take_along_axis(order[..., None, :], places, axis=-1)
        signs = np.take_along_axis(draw_signs(tape, t, q=d)[..., None, :], index, axis=-1)
        signs = np.where((first <= places) & (places < last), signs, np.int8(0))
        rise = np.argsort(index, axis=-1)
        index, signs = np.take_along_axis(index, rise, axis=-1), np.take_along_axis(signs, rise, axis=-1)
        return ActiveDraw(Direction(index, d, signs), (first < last)[..., 0] if d < n else None)

    def step(self, t: int, state: State, draw: ActiveDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu, draw.active)
        g = np.where(u.signs != 0, (channel.n * slope) * u.signs, 0)
        heard = channel.up(g, sizes=np.count_nonzero(u.signs, axis=-1))
        x -= self.eta_at(t) * channel.down(mean_of_nodes(lift(heard, u.index, channel.d)))
        return State(x)
