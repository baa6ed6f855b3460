"""A vector as a sequence of matrices, and public low-rank subspaces of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.methods.base import COUNT, Method, Rounds, Shapes, Values, World


class Factors(NamedTuple):
    """A subspace of rows × cols matrices; the columns of U and V are stored as rows."""

    U: Values  # (…, r, rows)
    V: Values  # (…, r, cols)


def near_square(d: int) -> tuple[int, int]:
    """The factors rows ≤ cols of d that are closest to each other.

    >>> near_square(128), near_square(36), near_square(7)
    ((8, 16), (6, 6), (1, 7))
    """
    rows = next(rows for rows in range(math.isqrt(d), 0, -1) if d % rows == 0)
    return rows, d // rows


def shapes_of(world: World) -> Shapes:
    """The matrices that x consists of, or one as square as d allows if the problem does not know them."""
    if not world.shapes:
        return (near_square(world.d),)
    if (size := sum(rows * cols for rows, cols in world.shapes)) != world.d:
        raise InputError(f"`shapes` has {size} entries in all, but d = {world.d}; correct `shapes`")
    return world.shapes


@dataclass(frozen=True, kw_only=True)
class LowRank(Method):
    """A method whose directions lie in public subspaces of rank r of each matrix."""

    limits: ClassVar = {"rank": COUNT, "refresh": COUNT}

    rank: int
    refresh: int = 1000

    def check(self, world: World) -> None:
        super().check(world)
        shapes_of(world)


def draw_factors(
    tape: Tape,
    t: Rounds,
    shapes: Sequence[tuple[int, int]],
    ranks: Sequence[int],
    refresh: int,
    *,
    orthonormal: bool = False,
) -> list[Factors]:
    """U and V of each matrix in rounds t, the same at all nodes and redrawn every `refresh` rounds.

    Standard normals of the tape, ids (⌊t / refresh⌋, matrix, side); with `orthonormal` the Q of their QR,
    whose last bits may differ between machines (LAPACK). Each subspace is computed once.
    """
    times, at = np.unique(np.asarray(t) // refresh, return_inverse=True)
    axes = max(np.ndim(t), len(tape.shape))
    tape = tape[(None,) * (axes - len(tape.shape))]
    where = at.reshape((1,) * (axes - np.ndim(t)) + np.shape(t) + (1, 1))

    def side(k: int, which: int, rank: int, size: int) -> Values:
        drawn = normals(tape[..., None], "subspace", times, k, which, size=rank * size)
        columns: Values = drawn.reshape(*drawn.shape[:-1], rank, size)
        if orthonormal:
            columns = np.linalg.qr(columns.swapaxes(-1, -2)).Q.swapaxes(-1, -2)
        rows = np.take_along_axis(columns.reshape(drawn.shape), where, axis=-2)
        return rows.reshape(*rows.shape[:-2], rank, size)

    return [
        Factors(side(k, 0, rank, rows), side(k, 1, rank, cols))
        for k, ((rows, cols), rank) in enumerate(zip(shapes, ranks, strict=True))
    ]


def low_rank(factors: Factors, A: NDArray[Any]) -> Values:
    """The entries of U A Vᵀ, (…, rows · cols), in r · rows · cols multiplications.

    Columns are added one by one: the rounding of a matrix product may depend on the batch.
    """
    U, V = factors
    inner = A[..., :, 0, None] * V[..., None, 0, :]
    for b in range(1, V.shape[-2]):
        inner += A[..., :, b, None] * V[..., None, b, :]
    out = U[..., 0, :, None] * inner[..., 0, None, :]
    for a in range(1, U.shape[-2]):
        out += U[..., a, :, None] * inner[..., a, None, :]
    flat: Values = out.reshape(*out.shape[:-2], -1)
    return flat
