"""MARINA: compressed differences of gradients, with refreshes (Gorbunov et al. 2021)."""

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.normals import uniforms
from zocosmo.core.support import Direction, draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.methods.base import COUNT, Compressed, Draw, Rounds, Step, Values, World, check_number
from zocosmo.methods.compressors import lift, mean_of_nodes, rand_q, union
from zocosmo.methods.server import Served
from zocosmo.oracle import Query, estimate

Probability = Annotated[float, "of public coins, so runs of one batch share it"]


class MarinaState(NamedTuple):
    x: Values  # (…, n, d) models, all equal
    g: Values  # (…, n, d) the gradient estimate, all equal


@dataclass(frozen=True, eq=False)
class MarinaDraw(Draw):
    """`u` holds the directions of each node, (…, k, n, d)."""

    sparse: NDArray[np.bool_]  # (…, n) whether the round sends differences, the same at all nodes
    supports: NDArray[np.int64]  # (…, n, q)


@dataclass(frozen=True, kw_only=True)
class Marina(Served, Compressed):
    """MARINA: nodes send Rand-q of the difference of estimates at two points, and sometimes a full estimate

        x⁺ = x − η g
        g⁺ = (1/n) Σ_i ĝ_i(x⁺)                              with probability `refresh`, and in round 0
        g⁺ = g + (1/n) Σ_i (d/q) P_i (ĝ_i(x⁺) − ĝ_i(x))      otherwise

    ĝ_i averages two-query estimates along `directions` dense directions; both points use the same directions
    and sample. Coins and supports come from the tape. A round costs 2 queries per direction at x⁺, and 2 more
    at x if it is not a refresh. The server answers on the union of the supports.
    """

    kind: ClassVar[str] = "marina"
    codecs: ClassVar[tuple[str, ...]] = ("values", "indexed", "plain", "delta", "entropy")
    limits: ClassVar = {"refresh": partial(check_number, least=0, most=1), "directions": COUNT}

    refresh: Probability = 0.05
    directions: int = 8

    def init(self, x: Values) -> MarinaState:
        return MarinaState(x, np.zeros_like(x))

    def size(self, t: int, d: int) -> int:
        return self.directions * d + self.q

    def draw(self, world: World, tape: Tape, t: Rounds) -> MarinaDraw:
        d, k, nodes = world.d, self.directions, world.nodes
        coin = uniforms(tape, "refresh", t, size=1) < self.refresh
        sparse = ~(coin | (np.asarray(t)[..., None] == 0))
        tape, t = tape[..., None], np.asarray(t)[..., None]
        signs = draw_signs(tape, t, nodes, q=k * d)
        signs = np.ascontiguousarray(np.moveaxis(signs.reshape(*signs.shape[:-1], k, d), -2, -3))
        supports = draw_support(tape, t, nodes, d=d, q=self.q)
        everywhere = np.broadcast_to(sparse, (*sparse.shape[:-1], len(nodes)))
        return MarinaDraw(Direction(np.arange(d), d, signs), everywhere, supports.index)

    def step(self, t: int, state: MarinaState, draw: MarinaDraw, channel: Channel) -> Step:
        (x, g), at, sparse = state, draw.supports, draw.sparse
        y = x - self.eta_at(t) * g
        whole, change = yield from self._estimates(x, y, draw)
        all_of = channel.up(whole, ~sparse)
        some = lift(channel.up(rand_q(change, at, unbiased=True), sparse), at, channel.d)
        keeps = sparse[..., :1, None]
        mean = mean_of_nodes(np.where(keeps, some, all_of))
        sizes = np.where(keeps[..., 0], union(at, channel.d).sum(axis=-1), channel.d)
        heard = channel.down(mean, sizes=sizes)
        return MarinaState(y, np.where(keeps, g + heard, heard))

    def _estimates(
        self, x: Values, y: Values, draw: MarinaDraw
    ) -> Generator[Query, Values, tuple[Values, Values]]:
        """ĝ(y) and, if any run uses it, ĝ(y) − ĝ(x): means over the directions, added in order."""
        whole, change, sparse = np.zeros_like(y), np.zeros_like(y), draw.sparse
        both = bool(np.any(sparse))
        for k in range(self.directions):
            u = draw.one(k)
            slope = yield Query(y, (u,), self.mu)
            whole += estimate(u, slope)
            if both:
                before = yield Query(x, (u,), self.mu, sparse)
                change += estimate(u, slope - before)
        whole /= self.directions
        change /= self.directions
        return whole, change
