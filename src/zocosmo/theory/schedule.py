"""The best schedule of matchings for a graph: the law π that mixes fastest, with a certified optimality gap.

    max  λ₂(L̄),   L̄ = Σ_M π_M Σ_{e ∈ M} L_e,   over laws π on the matchings of a graph

λ₂(L̄) sets the contraction γ⋆ = pλ₂/2 of a round [thm:edge_local_contraction, thm:mixing_per_bit]. It is
concave in the marginals P(e ∈ M), so the best law is a semidefinite programme over the matching polytope.
There are too many matchings to list, so columns are generated: interior-point steps weigh those found so far,
and the next one maximises Σ_{e ∈ M} ⟨X, L_e⟩ for the dual matrix X. For any X ⪰ 0 with X1 = 0 and tr X = 1
this maximum bounds λ₂(L̄) ≤ ⟨X, L̄⟩ of every law. Per scalar, the maximum is over single edges. The search ends
when bound and law meet.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.theory.law import Edge, Law, check_edge
from zocosmo.theory.lean import TOTAL, Column, few, incidence, leaner, rounded, widened
from zocosmo.theory.numbers import Number, rational, share
from zocosmo.theory.semidefinite import FINEST, best_mixture, form, least, polished

Array = NDArray[np.float64]

UNITS = 2**52  # resolution of weights in the search for a matching: integers make the comparison exact


class Best(NamedTuple):
    """The best law found, and an upper bound on every law of the same graph."""

    edges: tuple[Edge, ...]
    law: Law  # its matchings likeliest first
    lambda2: float  # of this law, rounded weights included
    upper_bound: float  # on λ₂ of any law, or on λ₂ / E|M| per scalar
    certificate: Array  # X, (n, n), from which the upper bound follows
    per: str  # "round" or "scalar"

    @property
    def edge_marginals(self) -> tuple[Fraction, ...]:
        """P(e ∈ M), in the order of the edges."""
        return tuple(self.law.edges.get(e, Fraction(0)) for e in self.edges)

    @property
    def pairs(self) -> Fraction:
        """E|M|: pairs in a round, so 2q E|M| scalars."""
        return self.law.pairs

    @property
    def value(self) -> float:
        """The objective: λ₂, or λ₂ / E|M|."""
        return self.lambda2 if self.per == "round" else self.lambda2 / float(self.pairs)

    @property
    def gap(self) -> float:
        """Largest possible distance from the best law, relative to the bound."""
        return max(0.0, 1 - self.value / self.upper_bound)

    def whole_weights(self) -> list[int]:
        """The law's weights as integers without a common divisor."""
        total = math.lcm(*(weight.denominator for _, weight in self.law.listed()))
        return [int(weight * total) for _, weight in self.law.listed()]


def best_schedule(
    n: int,
    edges: Iterable[Edge],
    *,
    per: str = "round",
    tolerance: float = 1e-10,
    most: int = 1000,
    total: int = TOTAL,
) -> Best:
    """The law of matchings with the largest λ₂(L̄) per round, or the largest λ₂(L̄) / E|M| per scalar.

    Stops at a relative gap of `tolerance`, at the limit of rounding (1e-11 to 1e-8), or after `most`
    matchings; `gap` is the result. Weights have a small denominator if that loses nothing, and `total`
    otherwise. Per round, every matching is maximal, because idle pairs do not mix.

    >>> star = best_schedule(4, [(0, 1), (0, 2), (0, 3)])
    >>> star.law.listed()[0], star.gap < 1e-9
    ((((0, 1),), Fraction(1, 3)), True)
    """
    pairs = checked_edges(n, edges)
    if per not in ("round", "scalar"):
        raise ValueError(f"per must be 'round' or 'scalar', got {per!r}")
    if not 0 < tolerance < 1 or most < 1 or total < 1:
        raise ValueError(f"tolerance {tolerance}, most {most}, total {total} must be positive, tolerance < 1")
    a = _vectors(n, pairs)
    if per == "round":
        search = _Search(a, _colour_classes(n, pairs), lambda weights: heaviest(pairs, weights))
        columns, pi, bound, X = search.run(tolerance, most)
        columns, pi = widened(pairs, *leaner(a, *few(columns, pi, len(pairs)), tolerance))
    else:
        alone = _Search(a, [(k,) for k in range(len(pairs))], _heaviest_edge)
        _, share, bound, X = alone.run(tolerance, most + len(pairs))
        columns, pi = _packed(pairs, share, most)
    whole = rounded(a, *few(columns, pi, len(pairs)), total, per)
    named = [(tuple(pairs[k] for k in column), weight) for column, weight in whole.items()]
    law, basis = Law.of(n, sorted(named, key=lambda entry: (-entry[1], entry[0]))), _basis(n)
    found = Best(pairs, law, 0.0, bound, basis @ X @ basis.T, per)
    gap = least(a, np.array(found.edge_marginals, float))
    if gap < 1e-9 * bound:
        raise ValueError(f"weights in whole parts of {total} leave λ₂ = 0; raise total")
    return found._replace(lambda2=gap)


def round_contraction(lambda2: Number, *, d: int, q: int) -> Number:
    """γ⋆ = (q/2d) λ₂(L̄), the share of disagreement that a round removes   [eq:edge_spectral_contraction]

    >>> round_contraction(Fraction(8, 7), d=32, q=4)
    Fraction(1, 14)
    """
    return share(d, q) / 2 * rational(lambda2)


def mixing_efficiency(lambda2: Number, *, n: int, pairs: Number) -> Number:
    """γ⋆ over its bound C_dir/(2d(N−1)), C_dir = 2q E|M|   [eq:mixing_per_bit_converse]

        λ₂ (N−1) / (2 E|M|)

    At most 1, which complete graphs of even size attain.

    >>> mixing_efficiency(Fraction(8, 7), n=8, pairs=4)
    Fraction(1, 1)
    """
    if n < 2 or not pairs > 0:
        raise ValueError(f"efficiency needs n ≥ 2 nodes and E|M| > 0, got n = {n} and E|M| = {pairs}")
    return rational(lambda2) * (n - 1) / (2 * rational(pairs))


def heaviest(edges: Sequence[Edge], weights: Array) -> tuple[Column, float]:
    """The matching of largest weight, as indices into `edges`, and its weight, rounded up."""
    import networkx as nx

    units = [math.ceil(float(weight) * UNITS) for weight in weights]
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, unit) for (i, j), unit in zip(edges, units, strict=True) if unit > 0)
    place = {pair: k for k, pair in enumerate(edges)}
    column = tuple(sorted(place[min(i, j), max(i, j)] for i, j in nx.max_weight_matching(graph)))
    return column, sum(units[k] for k in column) / UNITS


def checked_edges(n: int, edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Ascending edges in lexicographic order; refuses loops, unknown nodes and disconnected graphs."""
    found = sorted({(int(min(i, j)), int(max(i, j))) for i, j in edges})
    if n < 2:
        raise ValueError(f"a schedule pairs two nodes or more, got n = {n}")
    for e in found:
        check_edge(n, e)
    reached, grown = {0}, True
    while grown:
        ends = {node for pair in found if reached & set(pair) for node in pair}
        grown, reached = not ends <= reached, reached | ends
    if len(reached) < n:
        lost = min(set(range(n)) - reached)
        raise ValueError(f"the graph is not connected: no path from node 0 to node {lost}; add an edge")
    return tuple(found)


class _Search:
    """Columns found so far, the best law on them, and the best bound seen."""

    def __init__(
        self, a: Array, columns: list[Column], heaviest: Callable[[Array], tuple[Column, float]]
    ) -> None:
        self.a, self.columns, self.heaviest = a, columns, heaviest
        self.bound, self.value = math.inf, -math.inf
        self.pi: Array = np.empty(0)
        self.X: Array = np.empty(0)

    def run(self, tolerance: float, most: int) -> tuple[list[Column], Array, float, Array]:
        """Add the heaviest matching for the dual matrix until bound and law meet."""
        within, idle = 0.1, 0
        while True:
            B, before = incidence(self.columns, self.a.shape[1]), self._gap()
            found = best_mixture(self.a, B, within)
            fresh = self._take(B, found.pi, found.X)
            if within < 1e-4:
                fresh = self._take(B, *polished(self.a, B, found)) or fresh
            gap = self._gap()
            idle = idle + 1 if gap > 0.9 * before else 0
            if gap <= tolerance or len(self.columns) >= most or (within <= FINEST and idle >= 5):
                return self.columns[: len(self.pi)], self.pi, self.bound, self.X
            if fresh is not None:
                self.columns.append(fresh)
                within = max(min(within, 0.3 * gap), FINEST)
            else:  # these columns allow a better law
                within = max(min(within, gap) / 10, FINEST)

    def _gap(self) -> float:
        return 1 - self.value / self.bound if self.bound < math.inf else 1.0

    def _take(self, B: Array, pi: Array, X: Array) -> Column | None:
        """Keep a better law and a better bound; return the heaviest column for X if it is new."""
        value = least(self.a, B @ pi)
        if value > self.value:
            self.value, self.pi = value, pi
        column, weight = self.heaviest(form(self.a, X))
        if weight < self.bound:
            self.bound, self.X = weight, X
        return None if column in self.columns else column


def _heaviest_edge(weights: Array) -> tuple[Column, float]:
    k = int(np.argmax(weights))
    return (k,), float(weights[k])


def _basis(n: int) -> Array:
    """(n, n − 1) orthonormal basis of the vectors of sum 0."""
    k = np.arange(1, n)
    V = np.triu(np.ones((n, n - 1)))  # column k: k ones, then −k
    V[k, k - 1] = -k
    basis: Array = V / np.sqrt(k * (k + 1.0))
    return basis


def _vectors(n: int, edges: Sequence[Edge]) -> Array:
    """Columns a_e with a_e a_eᵀ = L_e, in the basis of vectors of sum 0."""
    ends, V = np.array(edges), _basis(n)
    difference: Array = (V[ends[:, 0]] - V[ends[:, 1]]).T
    return difference


def _colour_classes(n: int, edges: Sequence[Edge]) -> list[Column]:
    """The first columns of the search: a greedy edge colouring, the better of two orders.

    The second order is that of a round-robin tournament, whose classes are optimal on complete graphs.
    """

    def day(k: int) -> int:  # on which the ends meet, by the circle method
        i, j = edges[k]
        return (2 * i if j == n - 1 and n % 2 == 0 else i + j) % (n + n % 2 - 1)

    orders = range(len(edges)), sorted(range(len(edges)), key=day)
    return min((greedy_classes(edges, order) for order in orders), key=len)


def greedy_classes(edges: Sequence[Edge], order: Iterable[int]) -> list[Column]:
    """Edges in the given order, each in the first class where both ends are free, as indices."""
    classes: list[list[int]] = []
    busy: list[set[int]] = []
    for k in order:
        free = next((c for c, ends in enumerate(busy) if not ends & set(edges[k])), len(busy))
        if free == len(busy):
            classes.append([])
            busy.append(set())
        classes[free].append(k)
        busy[free] |= set(edges[k])
    return [tuple(sorted(each)) for each in classes]


def _packed(edges: Sequence[Edge], share: Array, most: int) -> tuple[list[Column], Array]:
    """Matchings whose marginals are the largest multiple of `share`: as many pairs per round as possible.

        max θ   over   Σ_M π_M 1_M = θ · share,  Σ π = 1

    A linear programme by column generation with the heaviest matching.
    """
    from scipy.optimize import linprog

    columns: list[Column] = [(k,) for k in range(len(edges))]
    keep = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    while True:
        m = len(columns)
        equal = np.vstack(
            [np.column_stack([incidence(columns, len(edges)), -share]), np.append(np.ones(m), 0)]
        )
        right, cost = np.append(np.zeros(len(edges)), 1), np.append(np.zeros(m), -1)
        solved = linprog(cost, A_eq=equal, b_eq=right, method="highs-ds", options=keep)
        prices = -solved.eqlin.marginals
        column, weight = heaviest(edges, -prices[:-1])
        if weight <= prices[-1] * (1 + 1e-9) or column in columns or m >= most + len(edges):
            return columns, np.maximum(solved.x[:-1], 0)
        columns.append(column)
