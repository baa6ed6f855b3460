"""SubCGE: SeedFlood in a shared low-rank subspace (Kim and Lee 2026)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.support import Direction, draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Rounds, State, Step, Values, World
from zocosmo.methods.flood import Flooding
from zocosmo.methods.matrices import Factors, LowRank, draw_factors, low_rank, shapes_of
from zocosmo.oracle import Query


@dataclass(frozen=True, eq=False)
class SubcgeDraw(Draw):
    coordinates: Direction  # (…, N, matrices) of all nodes, in the subspaces
    spaces: tuple[Values, ...]  # U and V of each matrix in turn


@dataclass(frozen=True, kw_only=True)
class Subcge(Flooding, LowRank):
    """SubCGE: each direction is one coordinate of a shared subspace, so updates are added up in it

        u_j = ε_j U e_a e_bᵀ Vᵀ,   (a, b) uniform, ε_j = ±1
        A   = Σ_j s_j ε_j e_a e_bᵀ
        x⁺  = x − (η/N) U A Vᵀ

    N messages cost N additions and one product of r · d multiplications. Each matrix has its own (a, b) and
    sign; U and V are standard normal, redrawn every `refresh` rounds. E s u = U Uᵀ G V Vᵀ / r², which is G in
    expectation over subspaces: nothing needs scaling, any rank works, and vectors need no special case.
    The signs are ours: without them the mean of one matrix would leak into the others.
    """

    kind: ClassVar[str] = "subcge"

    def draw(self, world: World, tape: Tape, t: Rounds) -> SubcgeDraw:
        shapes, r = shapes_of(world), self.rank
        spaces = draw_factors(tape, t, shapes, [r] * len(shapes), self.refresh)
        at = draw_coordinates(tape, t, world.graph.n, len(shapes), r)
        index, signs = at.index[..., world.nodes, :] % r**2, at.signs[..., world.nodes, :]

        def part(k: int) -> Values:
            pairs = (index[..., k, None] // r, index[..., k, None] % r)
            u, v = (
                np.take_along_axis(side, pair, axis=-2) for side, pair in zip(spaces[k], pairs, strict=True)
            )
            outer: Values = (signs[..., k, None] * u)[..., :, None] * v[..., None, :]
            return outer.reshape(*outer.shape[:-2], -1)

        dense = np.concatenate([part(k) for k in range(len(shapes))], axis=-1)
        u = Direction(np.arange(world.d), world.d, dense)
        return SubcgeDraw(u, at, tuple(side for space in spaces for side in space))

    def step(self, t: int, state: State, draw: SubcgeDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield Query(x, (u,), self.mu)
        s = channel.everyone(slope, over="flood")
        spaces = [side.astype(x.dtype, copy=False) for side in draw.spaces]
        total = apply(s, draw.coordinates, spaces)
        x -= (self.eta_at(t) / s.shape[-2]) * total[..., None, :]
        return State(x)


def draw_coordinates(tape: Tape, t: Rounds, n: int, matrices: int, r: int) -> Direction:
    """One signed coordinate for each node and matrix k: k r² + a r + b, shape (…, n, matrices)."""
    each, k = tape[..., None, None], np.arange(matrices)
    ids = np.asarray(t)[..., None, None], np.arange(n)[:, None], k
    pairs = draw_support(each, *ids, d=r * r, q=1).index[..., 0]
    return Direction(pairs + k * r * r, matrices * r * r, draw_signs(each, *ids, q=1)[..., 0])


def apply(s: Values, at: Direction, spaces: list[Values]) -> Values:
    """Σ_j s_j u_j, (…, d): messages s (…, N, 1) are added up in A, then U A Vᵀ is computed once."""
    A, values = np.zeros((*s.shape[:-2], at.d), s.dtype), s * at.signs.astype(s.dtype, copy=False)
    run = np.arange(A.size // at.d).reshape(*s.shape[:-2], 1, 1) * at.d
    np.add.at(A.reshape(-1), (at.index + run).reshape(-1), values.reshape(-1))  # in ascending order of nodes
    r = spaces[0].shape[-2]
    by_matrix = A.reshape(*A.shape[:-1], -1, r, r)
    parts = [low_rank(Factors(*spaces[2 * k : 2 * k + 2]), by_matrix[..., k, :, :]) for k in range(at.q)]
    return np.concatenate(parts, axis=-1)
