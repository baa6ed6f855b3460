"""SubZero: low-rank directions in subspaces that change every `refresh` rounds (Yu et al. 2024)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Rounds, State, Step, Values, World
from zocosmo.methods.matrices import Factors, LowRank, draw_factors, low_rank, near_square, shapes_of
from zocosmo.methods.mezo import Alone
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class Subzero(Alone, LowRank):
    """SubZero: each node by itself, along a direction of rank r in each matrix

        u  = U Z Vᵀ,   Z ~ N(0, I) r × r,   UᵀU = VᵀV = I
        x⁺ = x − η s u

    All nodes share U and V, which are redrawn every `refresh` rounds; each node draws its own Z. E s u is
    U Uᵀ G V Vᵀ, the gradient within the subspace. As the authors do for adapters, each matrix is reshaped to
    its most square shape, and a vector gets a plain Gaussian. The rank is capped by the shape. Their code
    also scales u by √(rows · cols) / r; here that is part of μ and η.
    """

    kind: ClassVar[str] = "subzero"

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        shapes = [near_square(rows * cols) for rows, cols in shapes_of(world)]  # same entries, same order
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
