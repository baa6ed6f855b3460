"""Laws of matchings, and what mixing makes of a second moment on average.

A round replaces x by J y at active nodes, J the averaging of pairs. Second moments see a random matching only
through E[J], E[J Z Jᵀ], E[J Z U] and E[U Z U], U the diagonal matrix of active nodes. Entry (i, i') of such a
matrix is about one pair if i and i' are in the same, else about two disjoint pairs. So P(e ∈ M) and
P(e, e' ∈ M) say it all, and a law over millions of matchings costs no more than one matching. The two kinds
of entries are kept apart, as couplings give them different weights.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of float64, or of objects where all is rational
Edge = tuple[int, int]


class Averages(NamedTuple):
    """Averages over a law, Z as a vector of n² entries; `own`: entries within a group, `rest`: across.

    A group shares its direction: a pair, or all nodes under global support.
    """

    active: Array  # (n,) P(i active)
    mean: Array  # (n, n) E[J]
    both: tuple[Array, Array]  # (n², n²) Z → E[J Z Jᵀ], own and rest
    left: tuple[Array, Array]  # (n², n²) Z → E[J Z U]
    none: tuple[Array, Array]  # (n²,) Z → E[U Z U], entry by entry


@dataclass(frozen=True)
class Law:
    """P(e ∈ M) and P(e, e' ∈ M) of a random matching of n nodes; nodes without a partner idle."""

    n: int
    one: tuple[tuple[Edge, Fraction], ...]
    two: tuple[tuple[Edge, Edge, Fraction], ...]  # each pair of edges once

    @classmethod
    def of(cls, n: int, matchings: Iterable[tuple[Iterable[Edge], Fraction | int]]) -> "Law":
        """From matchings and their probabilities.

        >>> Law.of(3, [([(0, 1)], Fraction(1, 3)), ([(1, 2)], Fraction(2, 3))]).one
        (((0, 1), Fraction(1, 3)), ((1, 2), Fraction(2, 3)))
        """
        one: dict[Edge, Fraction] = defaultdict(Fraction)
        two: dict[tuple[Edge, Edge], Fraction] = defaultdict(Fraction)
        total = Fraction(0)
        for pairs, weight in matchings:
            edges = check_matching(n, pairs)
            if not weight > 0:
                raise ValueError(f"a matching needs a probability above 0, got {weight}; leave it out")
            total += Fraction(weight)
            for e in edges:
                one[e] += Fraction(weight)
            for pair in combinations(edges, 2):
                two[pair] += Fraction(weight)
        if total != 1:
            raise ValueError(f"probabilities of matchings sum to 1, got {total}; divide them by it")
        return cls(n, tuple(sorted(one.items())), tuple((e, f, w) for (e, f), w in sorted(two.items())))

    def averages(self, dtype: type) -> Averages:
        """In floats, or exactly with dtype object."""
        n = self.n
        active: Array = np.zeros(n, dtype)
        mean: Array = np.zeros((n, n), dtype)
        ends = np.array([e for e, _ in self.one], np.int64).reshape(-1, 2)
        weights: Array = np.array([w for _, w in self.one], dtype)
        for a, c in product((0, 1), repeat=2):
            np.add.at(mean, (ends[:, a], ends[:, c]), weights / 2)
            if a == c:
                np.add.at(active, ends[:, a], weights)
        near, far = np.array([(e, f) for e, f, _ in self.two], np.int64).reshape(-1, 2, 2).swapaxes(0, 1)
        joint: Array = np.array([w for *_, w in self.two], dtype)
        rest = np.concatenate([near, far]), np.concatenate([far, near]), np.concatenate([joint, joint])
        both, left, none = zip(*(_spread(n, *k) for k in ((ends, ends, weights), rest)), strict=True)
        return Averages(active, mean, both, left, none)


@dataclass(frozen=True, eq=False)
class Global:
    """Global support: every node active, one direction for all, and x⁺ = W y on it   [alg:zo_cosmo]"""

    W: Array

    def __post_init__(self) -> None:
        W = as_numbers("W", self.W, 2)
        object.__setattr__(self, "W", W)
        if W.shape[0] != W.shape[1]:
            raise ValueError(f"mixing weights are n × n, got {W.shape[0]} × {W.shape[1]}; give all of W")

    @property
    def n(self) -> int:
        return len(self.W)

    def averages(self, dtype: type) -> Averages:
        n = self.n
        W: Array = self.W.astype(dtype)
        eye: Array = np.eye(n, dtype=dtype)
        zero: Array = np.zeros((n * n, n * n), dtype)
        ones: Array = np.ones(n * n, dtype)
        left = np.kron(W, eye), zero
        return Averages(np.ones(n, dtype), W, (np.kron(W, W), zero), left, (ones, 0 * ones))


def complete_law(n: int) -> Law:
    """Uniform perfect matchings of a complete graph; one node idles where n is odd
    [eq:complete_matching_laplacian]

        even n:  P(e) = 1/(n − 1),  P(e, e') = 1/((n − 1)(n − 3))
        odd n:   P(e) = 1/n,        P(e, e') = 1/(n (n − 2))          for disjoint e, e'

    >>> complete_law(4).two[0]
    ((0, 1), (2, 3), Fraction(1, 3))
    """
    _check_count(n, 2)
    top = n - 1 if n % 2 == 0 else n
    edges = list(combinations(range(n), 2))
    apart = [(e, f) for e, f in combinations(edges, 2) if not set(e) & set(f)]
    chance = Fraction(1, top * (top - 2)) if apart else Fraction(0)
    return Law(n, tuple((e, Fraction(1, top)) for e in edges), tuple((e, f, chance) for e, f in apart))


def ring_law(n: int) -> Law:
    """One of the two perfect matchings of an even ring, by a fair coin each round   [eq:edge_ring_gap]"""
    first, second = ring_phases(n)
    return Law.of(n, [(first, Fraction(1, 2)), (second, Fraction(1, 2))])


def ring_phases(n: int) -> tuple[list[Edge], list[Edge]]:
    """(0,1), (2,3), … and (1,2), …, (n−1,0): the matchings that the alternating ring takes in turn.

    >>> ring_phases(4)
    ([(0, 1), (2, 3)], [(1, 2), (3, 0)])
    """
    _check_count(n, 2)
    if n % 2:
        raise ValueError(f"a ring of {n} nodes has no perfect matching; make n even or list matchings")
    return [(i, i + 1) for i in range(0, n, 2)], [(i, (i + 1) % n) for i in range(1, n, 2)]


def fixed_law(n: int, pairs: Iterable[Edge]) -> Law:
    """A matching that is given: the law of a round whose pairs are known."""
    return Law.of(n, [(pairs, 1)])


def check_matching(n: int, pairs: Iterable[Edge]) -> list[Edge]:
    """The pairs as sorted edges; refuses nodes that do not exist or that meet twice."""
    edges = sorted((min(i, j), max(i, j)) for i, j in pairs)
    ends = [i for e in edges for i in e]
    if ends and not 0 <= min(ends) <= max(ends) < n:
        raise ValueError(f"nodes are 0 … {n - 1}, got a matching with {min(ends)} … {max(ends)}")
    if len(set(ends)) < len(ends):
        twice = next(i for i in ends if ends.count(i) > 1)
        raise ValueError(f"pairs of a matching are disjoint, but node {twice} is in two; split the matching")
    return edges


def as_numbers(what: str, values: Any, axes: int) -> Array:
    """Integers and Fractions stay exact (an array of objects), all else becomes float64."""
    array = np.array(values)
    if array.ndim != axes:
        raise ValueError(f"{what} has {axes} axes, got an array of shape {array.shape}")
    if is_rational(array):
        exact = np.array([Fraction(value) for value in array.ravel().tolist()] or [], object)
        return exact.reshape(array.shape)
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def is_rational(values: Any) -> bool:
    """Whether all of it is integers and Fractions."""
    array = np.asarray(values)
    if array.dtype == object:
        return all(isinstance(value, int | np.integer | Fraction) for value in array.ravel().tolist())
    return array.dtype.kind in "iu"


def _spread(n: int, first: Array, second: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Entries (a, b), a in the first edge and b in the second, of J Z Jᵀ, J Z U and U Z U."""
    both, left = (np.zeros((n * n, n * n), weights.dtype) for _ in range(2))
    none = np.zeros(n * n, weights.dtype)
    for a, b in product(first.T, second.T):
        np.add.at(none, a * n + b, weights)
        for c in first.T:
            np.add.at(left, (a * n + b, c * n + b), weights / 2)
            for f in second.T:
                np.add.at(both, (a * n + b, c * n + f), weights / 4)
    return both, left, none


def _check_count(n: int, least: int) -> None:
    if n < least:
        raise ValueError(f"pairs need n ≥ {least} nodes, got {n}")


AnyLaw = Law | Global
Laws = AnyLaw | Sequence[AnyLaw]
