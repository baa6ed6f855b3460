"""Sparse-MeZO: MeZO on the small weights only (Liu et al. 2024)."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Rounds, Step, Values, World, check_number
from zocosmo.methods.matrices import shapes_of
from zocosmo.methods.mezo import Alone, own_normals
from zocosmo.oracle import Query, estimate


class SparseMezoState(NamedTuple):
    x: Values  # (…, n, d) states
    bound: Values  # (…, n, d) the largest magnitude of an entry that is moved


@dataclass(frozen=True, eq=False)
class SparseMezoDraw(Draw):
    sizes: NDArray[np.int64]  # (…, matrices) entries of each matrix


@dataclass(frozen=True, kw_only=True)
class SparseMezo(Alone):
    """Sparse-MeZO: only entries below a bound are perturbed and moved

        z′ = z where |x| ≤ h, else 0,   z ~ N(0, I)
        x⁺ = x − η s z′

    h is the `sparsity`-quantile of |x| at the start, in each matrix; each round compares the current |x| with
    it. All entries of a matrix that starts at zero are moved, such as half of an adapter (our decision; the
    authors tune whole models).
    """

    kind: ClassVar[str] = "sparse_mezo"
    limits: ClassVar = {"sparsity": partial(check_number, least=0, most=1, open_below=True, open_above=True)}

    sparsity: float = 0.75

    def check(self, world: World) -> None:
        super().check(world)
        shapes_of(world)

    def init(self, x: Values) -> SparseMezoState:
        return SparseMezoState(x, np.full_like(x, np.inf))  # set in round 0

    def draw(self, world: World, tape: Tape, t: Rounds) -> SparseMezoDraw:
        u = own_normals(world, tape, t)
        sizes = np.array([rows * cols for rows, cols in shapes_of(world)])
        return SparseMezoDraw(u, np.broadcast_to(sizes, (*u.entries.shape[:-2], len(sizes))))

    def step(self, t: int, state: SparseMezoState, draw: SparseMezoDraw, channel: Channel) -> Step:
        x, bound = state
        if t == 0:
            sizes = draw.sizes.reshape(-1, draw.sizes.shape[-1])[0].tolist()
            bound = bounds(x, sizes, self.sparsity)
        small = np.abs(x) <= bound
        z = Direction(draw.u.index, draw.u.d, np.where(small, draw.u.entries, x.dtype.type(0)))
        s = yield Query(x, (z,), self.mu)
        x -= self.eta_at(t) * estimate(z, s)
        return SparseMezoState(x, bound)


def bounds(x: Values, sizes: list[int], sparsity: Any) -> Values:
    """The ⌈sparsity · size⌉-th smallest |x| of the matrix of each entry; infinite if that is 0.

    >>> bounds(np.array([[3.0, -1.0, 2.0, 4.0, 0.0, 0.0]]), [4, 2], 0.5).tolist()
    [[2.0, 2.0, 2.0, 2.0, inf, inf]]
    """
    out, at = np.empty_like(x), 0
    for size in sizes:
        ordered = np.sort(np.abs(x[..., at : at + size]), axis=-1)
        rank = np.clip(np.ceil(np.multiply(sparsity, size)).astype(np.int64), 1, size) - 1
        where = np.broadcast_to(rank, (*x.shape[:-1], 1))
        level = np.take_along_axis(ordered, where, axis=-1)
        out[..., at : at + size] = np.where(level > 0, level, np.inf)
        at += size
    return out
