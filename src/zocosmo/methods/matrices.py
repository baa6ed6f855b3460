"""A vector as matrices, one after the other, and low-rank subspaces of them from the tape."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.methods.base import Rounds, Shapes, Values, World


class Factors(NamedTuple):
    """A subspace of rows × cols matrices: the columns of U and V, each lying in a row here."""

    U: Values  # (…, r, rows)
    V: Values  # (…, r, cols)


def near_square(d: int) -> tuple[int, int]:
    """d = rows · cols with the most rows that are no more than columns.

    >>> near_square(128), near_square(36), near_square(7)
    ((8, 16), (6, 6), (1, 7))
    """
    rows = next(rows for rows in range(math.isqrt(d), 0, -1) if d % rows == 0)
    return rows, d // rows


def shapes_of(world: World) -> Shapes:
    """The matrices that x is made of, where the problem knows them; else one, as square as d allows."""
    if not world.shapes:
        return (near_square(world.d),)
    if (size := sum(rows * cols for rows, cols in world.shapes)) != world.d:
        raise InputError(f"matrices of {size} entries in all do not make up d = {world.d}; correct `shapes`")
    return world.shapes


def draw_factors(
    tape: Tape,
    t: Rounds,
    shapes: Sequence[tuple[int, int]],
    ranks: Sequence[int],
    refresh: int,
    *,
    orthonormal: bool = False,
) -> list[Factors]:
    """U and V of each matrix in rounds t, alike at all nodes and renewed every `refresh` rounds

    Standard normals of the tape, ids (⌊t / refresh⌋, matrix, side); with `orthonormal` the Q of their QR.
    Rounds that share a subspace share the work. LAPACK may give other last bits on another machine.
    """
    times, at = np.unique(np.asarray(t) // refresh, return_inverse=True)
    axes = max(np.ndim(t), len(tape.shape))  # as many of both
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

    Sums run over columns one after the other: a matrix product may round as its company does.
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
