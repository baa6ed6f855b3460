"""SubZero: low-rank directions in subspaces that are kept for a while (Yu et al. 2024)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import Draw, Rounds, Shapes, State, Step, Values, World
from zocosmo.methods.matrices import Factors, draw_factors, low_rank, near_square, shapes_of
from zocosmo.methods.mezo import Alone
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class Subzero(Alone):
    """SubZero: in each matrix a direction of rank r, each node for itself

        u  = U Z Vᵀ,   Z ~ N(0, I) r × r,   UᵀU = VᵀV = I
        x⁺ = x − η s u

    U and V are alike at all nodes and renewed every `refresh` rounds; Z is a node's own in each. E s u is
    U Uᵀ G V Vᵀ: the gradient within the subspace. As the authors do with adapters, a matrix is taken in its
    most square shape, and a vector gets a plain Gaussian. A rank above what a shape has is cut to it. Their
    code scales u by √(rows · cols) / r besides; here that is part of μ and η.
    """

    kind: ClassVar[str] = "subzero"

    rank: int
    refresh: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("rank", self.rank, 1)
        check_whole("refresh", self.refresh, 1)

    def check(self, world: World) -> None:
        super().check(world)
        shapes_of(world)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        shapes = squared(shapes_of(world))
        ranks = [min(self.rank, rows) for rows, _ in shapes]
        spaces = draw_factors(tape, t, shapes, ranks, self.refresh, orthonormal=True)
        each, ids = tape[..., None], (np.asarray(t)[..., None], world.nodes)

        def part(k: int) -> Values:
            (rows, cols), r = shapes[k], ranks[k]
            z = normals(each, "normal", *ids, k, size=cols if rows == 1 else r * r)
            if rows == 1:
                return z
            here = Factors(*(side[..., None, :, :] for side in spaces[k]))  # one for all nodes
            return low_rank(here, z.reshape(*z.shape[:-1], r, r))

        u = np.concatenate([part(k) for k in range(len(shapes))], axis=-1)
        return Draw(Direction(np.arange(world.d), world.d, u))

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        s = yield Query(x, (u,), self.mu)
        x -= self.eta_at(t) * estimate(u, s)
        return State(x)


def squared(shapes: Shapes) -> Shapes:
    """Each matrix in its most square shape, rows ≤ cols, with the same entries in the same order."""
    return tuple(near_square(rows * cols) for rows, cols in shapes)
