"""The law of a random matching, its expected Laplacian L̄ and λ₂(L̄).

A round replaces x by J y at active nodes, where J averages pairs. Second moments see a random matching only
through E[J], E[J Z Jᵀ], E[J Z U] and E[U Z U], U the diagonal matrix of active nodes. Entry (i, i') of these
matrices involves one pair if i and i' are partners, else two disjoint pairs. So P(e ∈ M) and P(e, e' ∈ M)
suffice, and a law over millions of matchings costs no more than one matching. The two kinds of entries are
kept apart because couplings weigh them differently.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.theory.numbers import Number, exact, fraction, whole

Array = NDArray[Any]  # of float64, or of Fractions (dtype object)
Edge = tuple[int, int]  # ascending
Weighted = tuple[tuple[Edge, ...], Fraction]  # a matching and its probability

COUPLINGS = ("G", "S", "I")


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
    """A random matching of n nodes, built by `Law.of` or `complete_law`; nodes without a partner idle."""

    n: int
    matchings: tuple[Weighted, ...] | None  # None: uniform on a complete graph, too many to list
    is_rational = True

    @classmethod
    def of(cls, n: int, matchings: Iterable[tuple[Iterable[Edge], Fraction | int]]) -> "Law":
        """From matchings and their probabilities.

        >>> Law.of(3, [([(0, 1)], Fraction(1, 3)), ([(2, 1)], Fraction(2, 3))]).edges
        {(0, 1): Fraction(1, 3), (1, 2): Fraction(2, 3)}
        """
        n = whole("n", n)
        read = [(_matching(n, pairs), fraction("a probability", weight)) for pairs, weight in matchings]
        for _, weight in read:
            if weight <= 0:
                raise ValueError(f"a matching needs a probability above 0, got {weight}; leave it out")
        if (total := sum(weight for _, weight in read)) != 1:
            raise ValueError(f"probabilities of matchings must sum to 1, got {total}; divide them by it")
        return cls(n, tuple(read))

    @cached_property
    def edges(self) -> dict[Edge, Fraction]:
        """P(e ∈ M), ascending; edges of probability 0 are left out."""
        if self.matchings is None:
            return dict.fromkeys(combinations(range(self.n), 2), Fraction(1, self.n - 1 + self.n % 2))
        found: dict[Edge, Fraction] = defaultdict(Fraction)
        for pairs, weight in self.matchings:
            for e in pairs:
                found[e] += weight
        return dict(sorted(found.items()))

    def listed(self) -> tuple[Weighted, ...]:
        """The matchings one by one."""
        if self.matchings is None:
            raise ValueError(f"the matchings of {self.n} nodes are not listed here; list them with Law.of")
        return self.matchings

    def edge_pairs(self) -> Iterator[tuple[Edge, Edge, Fraction]]:
        """P(e, e' ∈ M), each pair of edges once, ascending."""
        if self.matchings is None:
            top = self.n - 1 + self.n % 2
            for e, f in combinations(self.edges, 2):
                if not set(e) & set(f):
                    yield e, f, Fraction(1, top * (top - 2))
            return
        found: dict[tuple[Edge, Edge], Fraction] = defaultdict(Fraction)
        for pairs, weight in self.matchings:
            for two in combinations(pairs, 2):
                found[two] += weight
        for (e, f), weight in sorted(found.items()):
            yield e, f, weight

    @property
    def is_perfect(self) -> bool:
        """Whether every node has a partner in every round."""
        if self.matchings is None:
            return self.n % 2 == 0
        return all(2 * len(pairs) == self.n for pairs, _ in self.matchings)

    @property
    def pairs(self) -> Fraction:
        """E|M|"""
        return sum(self.edges.values(), Fraction(0))

    @cached_property
    def laplacian(self) -> Array:
        """L̄ = E Σ_{e ∈ M} L_e in rationals   [thm:edge_local_contraction]

        >>> law = Law.of(3, [([(0, 1)], Fraction(1, 2)), ([(1, 2)], Fraction(1, 2))])
        >>> [str(entry) for entry in law.laplacian[1]]
        ['-1/2', '1', '-1/2']
        """
        return laplacian(self.n, self.edges)

    @cached_property
    def lambda2(self) -> Number:
        """λ₂(L̄)   [eq:complete_matching_laplacian, eq:edge_ring_gap]

        >>> complete_law(8).lambda2
        Fraction(8, 7)
        """
        if self.matchings is None:
            return Fraction(self.n, self.n - 1 + self.n % 2)
        c = isotropic(self.laplacian)
        return float(np.linalg.eigvalsh(self.laplacian.astype(float))[1]) if c is None else c

    @property
    def chi(self) -> Number:
        """χ = 1 − λ₂/2: share of gradient heterogeneity that pairing leaves   [eq:corr_gaps]"""
        if not self.is_perfect:
            raise ValueError(f"a matching of this law leaves some of {self.n} nodes idle; use perfect ones")
        return 1 - self.lambda2 / 2

    def shared(self, coupling: str | None) -> str:
        """What two pairs of a round share: G, S or I."""
        return check_coupling(coupling)

    def averages(self, dtype: type) -> Averages:
        """In floats, or exactly with dtype object."""
        n = self.n
        active: Array = np.zeros(n, dtype)
        mean: Array = np.zeros((n, n), dtype)
        ends = np.array(list(self.edges), np.int64).reshape(-1, 2)
        weights: Array = np.array(list(self.edges.values()), dtype)
        for a, c in product((0, 1), repeat=2):
            np.add.at(mean, (ends[:, a], ends[:, c]), weights / 2)
            if a == c:
                np.add.at(active, ends[:, a], weights)
        two = list(self.edge_pairs())
        near, far = np.array([(e, f) for e, f, _ in two], np.int64).reshape(-1, 2, 2).swapaxes(0, 1)
        joint: Array = np.array([w for *_, w in two], dtype)
        rest = np.concatenate([near, far]), np.concatenate([far, near]), np.concatenate([joint, joint])
        both, left, none = zip(*(_spread(n, *k) for k in ((ends, ends, weights), rest)), strict=True)
        return Averages(active, mean, both, left, none)


@dataclass(frozen=True, eq=False)
class Global:
    """Global support: every node active, one direction for all, and x⁺ = W y on it   [alg:zo_cosmo]"""

    W: Array

    def __post_init__(self) -> None:
        W = exact("W", self.W)
        object.__setattr__(self, "W", W)
        if W.shape[0] != W.shape[1]:
            raise ValueError(f"mixing weights are n × n, got {W.shape[0]} × {W.shape[1]}; give all of W")

    @property
    def n(self) -> int:
        return len(self.W)

    @property
    def is_rational(self) -> bool:
        return self.W.dtype == object

    def shared(self, coupling: str | None) -> str:
        """One direction for all nodes, as under G."""
        if coupling is not None:
            raise ValueError(f"global support has one direction for all; leave out coupling = {coupling!r}")
        return "G"

    def averages(self, dtype: type) -> Averages:
        n = self.n
        W: Array = self.W.astype(dtype)
        eye: Array = np.eye(n, dtype=dtype)
        zero: Array = np.zeros((n * n, n * n), dtype)
        ones: Array = np.ones(n * n, dtype)
        left = np.kron(W, eye), zero
        return Averages(np.ones(n, dtype), W, (np.kron(W, W), zero), left, (ones, 0 * ones))


Mixing = Law | Global
Mixings = Mixing | Sequence[Mixing]


def complete_law(n: int) -> Law:
    """Uniform perfect matchings of a complete graph; one node idles if n is odd
    [eq:complete_matching_laplacian]

        even n:  P(e) = 1/(n − 1),  P(e, e') = 1/((n − 1)(n − 3))
        odd n:   P(e) = 1/n,        P(e, e') = 1/(n (n − 2))          for disjoint e, e'

    >>> next(complete_law(4).edge_pairs())
    ((0, 1), (2, 3), Fraction(1, 3))
    """
    return Law(whole("n", n, 2), None)


def ring_law(n: int) -> Law:
    """One of the two perfect matchings of an even ring, by a fair coin each round   [eq:edge_ring_gap]"""
    return Law.of(n, [(pairs, Fraction(1, 2)) for pairs in ring_phases(n)])


def ring_phases(n: int) -> tuple[list[Edge], list[Edge]]:
    """The two perfect matchings of an even ring, in the order in which the alternating ring takes them.

    >>> ring_phases(4)
    ([(0, 1), (2, 3)], [(1, 2), (0, 3)])
    """
    check_ring(n, 2)
    second = [(i, (i + 1) % n) for i in range(1, n, 2)]
    return [(i, i + 1) for i in range(0, n, 2)], [(min(e), max(e)) for e in second]


def fixed_law(n: int, pairs: Iterable[Edge]) -> Law:
    """The law of a round whose matching is known."""
    return Law.of(n, [(pairs, 1)])


def laplacian(n: int, weights: Mapping[Edge, Fraction | int]) -> Array:
    """Σ_e c_e L_e in rationals,  L_e = (e_i − e_j)(e_i − e_j)ᵀ"""
    L = np.full((n, n), Fraction(0), dtype=object)
    for (i, j), c in weights.items():
        L[i, i] += c
        L[j, j] += c
        L[i, j] -= c
        L[j, i] -= c
    return L


def isotropic(L: Array) -> Fraction | None:
    """c if L = cΠ exactly, else None: the shape of every optimal schedule

    [eq:matching_equality_characterization]
    """
    n = len(L)
    if n < 2:
        raise ValueError(f"a Laplacian of {n} nodes has no second eigenvalue; give 2 nodes or more")
    c = Fraction(L[0, 0]) * n / (n - 1)
    return c if (c * centring(n) == L).all() else None


def centring(n: int) -> Array:
    """Π = I − 11ᵀ/N in rationals."""
    centred: Array = identity(n) - Fraction(1, n)
    return centred


def identity(n: int) -> Array:
    """I in rationals."""
    return np.array([[Fraction(int(i == j)) for j in range(n)] for i in range(n)], dtype=object)


def check_coupling(coupling: str | None) -> str:
    if coupling not in COUPLINGS:
        raise ValueError(f"matchings need a coupling, one of {', '.join(COUPLINGS)}; got {coupling!r}")
    return str(coupling)


def check_ring(n: int, least: int = 4) -> None:
    """Refuse rings without perfect matchings, and rings below a size."""
    if whole("n", n, least) % 2:
        raise ValueError(f"a ring of {n} nodes has no perfect matching; make n even")


def check_edge(n: int, e: Edge) -> None:
    """Refuse a loop, and nodes other than 0 … n − 1."""
    if not 0 <= min(e) < max(e) < n:
        raise ValueError(f"edge ({e[0]}, {e[1]}) is a loop or leaves the nodes 0 to {n - 1}")


def _matching(n: int, pairs: Iterable[Edge]) -> tuple[Edge, ...]:
    """The pairs as sorted edges; refuses unknown nodes and nodes in two pairs."""
    edges = sorted((int(min(i, j)), int(max(i, j))) for i, j in pairs)
    ends = [i for e in edges for i in e]
    if ends and not 0 <= min(ends) <= max(ends) < n:
        raise ValueError(f"nodes are 0 … {n - 1}, got a matching with {min(ends)} … {max(ends)}")
    if len(set(ends)) < len(ends):
        twice = next(i for i in ends if ends.count(i) > 1)
        raise ValueError(f"pairs of a matching are disjoint, but node {twice} is in two; split the matching")
    return tuple(edges)


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
