"""Small cases in which every support, sign, matching and noise can be listed, in rational numbers.

d = 3 and q = 2 unless said otherwise; four nodes, so two pairs. Means are over equally likely cases.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of Fractions
Pairs = Sequence[tuple[int, int]]

D, Q, N = 3, 2, 4
MATCHINGS: tuple[Pairs, ...] = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))  # of four nodes
GRADIENTS = ((1, 2, -1), (3, 0, 2), (-2, 1, 1), (0, 4, -6))
STATES = ((2, -1, 0), (0, 3, 1), (-1, 1, 4), (5, 0, -2))
CURVATURES = ((1, 2, 3), (3, 2, 1), (2, 4, 1), (2, 1, 2))
STORED = ((1, -1, 2), (0, 2, 1), (3, 1, 0), (-1, 0, 1))
NOISE = ((1, 0, 1), (0, 1, -1), (1, 1, 0), (0, -1, 2))  # ± each with probability ½


def exact(rows: Any) -> Array:
    """An array of Fractions."""
    found: Array = np.vectorize(Fraction, otypes=[object])(np.array(rows, object))
    return found


def square(v: Array) -> Any:
    return (v * v).sum()


def mean_of(values: Iterable[Any]) -> Any:
    found = list(values)
    return sum(found[1:], start=found[0]) / Fraction(len(found))


def directions(d: int = D, q: int = Q) -> list[Array]:
    """All u: a sign on each coordinate of a support, 0 elsewhere."""
    found = []
    for support, signs in product(combinations(range(d), q), product((-1, 1), repeat=q)):
        u = exact([0] * d)
        for k, sign in zip(support, signs, strict=True):
            u[k] = Fraction(sign)
        found.append(u)
    return found


def joint(coupling: str, pairs: int = 2, d: int = D, q: int = Q) -> Iterator[tuple[Array, ...]]:
    """Directions of all pairs, equally likely: G shares them, S shares the support, I nothing."""
    every = directions(d, q)
    if coupling == "G":
        yield from ((u,) * pairs for u in every)
    elif coupling == "I":
        yield from product(every, repeat=pairs)
    else:
        by_support: dict[tuple[bool, ...], list[Array]] = {}
        for u in every:
            by_support.setdefault(tuple(u != 0), []).append(u)
        for some in by_support.values():
            yield from product(some, repeat=pairs)


def estimate(u: Array, g: Array) -> Array:
    """(d/q) u uᵀ g"""
    found: Array = Fraction(len(u), int((u != 0).sum())) * u * (u * g).sum()
    return found


def centred(X: Array) -> Array:
    found: Array = X - X.mean(axis=0)
    return found


def energy(X: Array) -> Any:
    """‖ΠX‖²"""
    return square(centred(X))


def pair_mixed(Y: Array, pairs: Pairs, us: Sequence[Array]) -> Array:
    """Both ends of a pair take their mean on its support."""
    X = Y.copy()
    for (i, j), u in zip(pairs, us, strict=True):
        X[i] = X[j] = np.where(u != 0, (Y[i] + Y[j]) / 2, 0 * Y[i])
        X[i], X[j] = np.where(u != 0, X[i], Y[i]), np.where(u != 0, X[j], Y[j])
    return X


def masked(Y: Array, W: Array, u: Array) -> Array:
    """(I − P) y_i + P Σ_j w_ij y_j"""
    mixed = np.array([[(W[i] * Y[:, k]).sum() for k in range(Y.shape[1])] for i in range(len(Y))], object)
    found: Array = np.where(u != 0, mixed, Y)
    return found


def ring_weights() -> Array:
    """Metropolis weights of the ring of four: ⅓ on every link and on the diagonal; ρ = ⅓."""
    W = exact(np.zeros((N, N), int))
    for i in range(N):
        for j in (i - 1, i, i + 1):
            W[i, j % N] = Fraction(1, 3)
    return W


def at_pairs(pairs: Pairs, rows: Sequence[Array]) -> Array:
    """A row for each node: that of its pair."""
    out = exact(np.zeros((N, len(rows[0])), int))
    for (i, j), row in zip(pairs, rows, strict=True):
        out[i] = out[j] = row
    return out


def pair_means(rows: Array, pairs: Pairs) -> list[Array]:
    return [(rows[i] + rows[j]) / Fraction(2) for i, j in pairs]


def expected(cases: Iterable[Any], value: Callable[[Any], Any]) -> Any:
    """The mean of a function over equally likely cases."""
    return mean_of(value(case) for case in cases)
