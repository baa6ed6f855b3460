"""The best schedule of matchings for a graph: the law π that mixes fastest, with a proof of how near it is.

    max  λ₂(L̄),   L̄ = Σ_M π_M Σ_{e ∈ M} L_e,   over laws π on the matchings of a graph

λ₂(L̄) sets the contraction γ⋆ = pλ₂/2 of a round [thm:edge_local_contraction, thm:mixing_per_bit]. It is
concave in the marginals P(e ∈ M), so the best law is a semidefinite programme over the matching polytope.
Matchings are far too many to list, so they come in one by one: interior-point steps weigh those found so far,
and the dual matrix X asks for the matching of most weight Σ_{e ∈ M} ⟨X, L_e⟩. For any X ⪰ 0 with X1 = 0 and
tr X = 1 that weight bounds λ₂ of every law, and the search ends where bound and law meet.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.theory.lean import TOTAL, Column, few, incidence, leaner, rounded, widened
from zocosmo.theory.semidefinite import FINEST, best_mixture, form, mixed, polished

Pair = tuple[int, int]
Pairs = tuple[Pair, ...]
Law = Sequence[tuple[Sequence[Pair], Fraction]]
Array = NDArray[np.float64]

UNITS = 2**52  # of a weight in the search for a matching: whole numbers leave no doubt which is best


class Best(NamedTuple):
    """The best law that was found, and what no law of the same graph can exceed."""

    n: int
    edges: tuple[Pair, ...]
    law: tuple[tuple[Pairs, Fraction], ...]  # matchings, the likeliest first
    lambda2: float  # of this law as it stands, fractions and all
    upper_bound: float  # on λ₂ of any law; on λ₂ / E|M| where that was asked for
    edge_marginals: tuple[Fraction, ...]  # P(e ∈ M), in the order of the edges
    certificate: Array  # X, (n, n): dual_bound(n, edges, X) is the upper bound
    per: str  # "round" or "scalar"

    @property
    def pairs(self) -> Fraction:
        """E|M|: pairs in a round, so 2q E|M| scalars."""
        return sum(self.edge_marginals, Fraction(0))

    @property
    def value(self) -> float:
        """What was maximised: λ₂, or λ₂ / E|M|."""
        return self.lambda2 if self.per == "round" else self.lambda2 / float(self.pairs)

    @property
    def gap(self) -> float:
        """How far the law can be from the best, relative to the bound."""
        return max(0.0, 1 - self.value / self.upper_bound)

    @property
    def efficiency(self) -> float:
        """Share of what scalars can buy at all   [eq:mixing_per_bit_converse]"""
        return float(mixing_efficiency(self.n, self.lambda2, self.pairs))

    def whole_weights(self) -> list[int]:
        """The law's weights as whole numbers without a common divisor."""
        total = math.lcm(*(weight.denominator for _, weight in self.law))
        return [int(weight * total) for _, weight in self.law]


def best_schedule(
    n: int,
    edges: Iterable[Pair],
    *,
    per: str = "round",
    tolerance: float = 1e-10,
    most: int = 1000,
    total: int = TOTAL,
) -> Best:
    """The law of matchings of most λ₂(L̄) a round, or of most λ₂(L̄) / E|M| a scalar.

    Ends at a relative gap of `tolerance`, where rounding allows no more (1e-11 to 1e-8), or after `most`
    matchings; `gap` says where. Weights are whole parts of a small number where that loses nothing, and of
    `total` elsewhere. Per round, every matching is maximal: pairs that idle would mix nothing.

    >>> star = best_schedule(4, [(0, 1), (0, 2), (0, 3)])
    >>> star.law[0], star.gap < 1e-9
    ((((0, 1),), Fraction(1, 3)), True)
    """
    pairs = checked_edges(n, edges)
    if per not in ("round", "scalar"):
        raise ValueError(f"per is 'round' or 'scalar', got {per!r}")
    if not 0 < tolerance < 1 or most < 1 or total < 1:
        raise ValueError(
            f"tolerance {tolerance}, most {most} and total {total} must be positive, tolerance < 1"
        )
    a = _vectors(n, pairs)
    if per == "round":
        search = _Search(a, _colour_classes(n, pairs), lambda weights: heaviest(n, pairs, weights))
        columns, pi, bound, X = search.run(tolerance, most)
        columns, pi = widened(pairs, *leaner(a, *few(columns, pi, len(pairs)), tolerance))
    else:
        alone = _Search(a, [(k,) for k in range(len(pairs))], _heaviest_edge)
        _, share, bound, X = alone.run(tolerance, most + len(pairs))
        columns, pi = _packed(n, pairs, share, most)
    law = rounded(a, *few(columns, pi, len(pairs)), total, per)
    marginals = _marginals(law, len(pairs))
    named = sorted(((tuple(pairs[k] for k in column), weight) for column, weight in law.items()), key=_rank)
    basis = _basis(n)
    gap = float(np.linalg.eigvalsh(mixed(a, np.array(marginals, float)))[0])
    if gap < 1e-9 * bound:
        raise ValueError(f"weights in whole parts of {total} leave λ₂ = 0; raise total")
    return Best(n, pairs, tuple(named), gap, bound, tuple(marginals), basis @ X @ basis.T, per)


def law_gap(n: int, law: Law) -> float:
    """λ₂(L̄) of a law [(pairs, weight), …]   [thm:edge_local_contraction]

    >>> round(law_gap(4, [([(0, 1), (2, 3)], Fraction(1, 2)), ([(1, 2), (0, 3)], Fraction(1, 2))]), 12)
    1.0
    """
    share: dict[Pair, Fraction] = {}
    for pairs, weight in law:
        for i, j in pairs:
            if not 0 <= min(i, j) < max(i, j) < n:
                raise ValueError(f"pair ({i}, {j}) is a loop or leaves the nodes 0 to {n - 1}")
            share[min(i, j), max(i, j)] = share.get((min(i, j), max(i, j)), Fraction(0)) + weight
    if n < 2:
        raise ValueError(f"a law of matchings needs two nodes or more, got n = {n}")
    L = mixed(_vectors(n, tuple(share)), np.array(list(share.values()), float)) if share else np.zeros((1, 1))
    return float(np.linalg.eigvalsh(L)[0])


def dual_bound(n: int, edges: Sequence[Pair], X: Array, *, per: str = "round") -> float:
    """max_M Σ_{e ∈ M} ⟨X, L_e⟩ ≥ λ₂(L̄) of every law, for any X ⪰ 0 with X1 = 0 and tr X = 1

    λ₂(L̄) ≤ ⟨X, L̄⟩ because L̄ ⪰ λ₂Π, and ⟨X, L̄⟩ is an average over matchings. Per scalar the maximum is
    over single edges.
    """
    weights = np.array([X[i, i] - X[i, j] - X[j, i] + X[j, j] for i, j in edges])
    return (heaviest(n, edges, weights) if per == "round" else _heaviest_edge(weights))[1]


def round_contraction(lambda2: Fraction | float, *, q: int, d: int) -> Fraction | float:
    """γ⋆ = (q/2d) λ₂(L̄), the share of disagreement that a round removes   [eq:edge_spectral_contraction]

    >>> round_contraction(Fraction(8, 7), q=4, d=32)
    Fraction(1, 14)
    """
    q, d = int(q), int(d)  # NumPy's would overflow
    if not 1 <= q <= d:
        raise ValueError(f"q must lie between 1 and d = {d}, got {q}")
    return Fraction(q, 2 * d) * lambda2 if isinstance(lambda2, Fraction | int) else q / (2 * d) * lambda2


def mixing_efficiency(n: int, lambda2: Fraction | float, pairs: Fraction | float) -> Fraction | float:
    """γ⋆ over its bound C_dir/(2d(N−1)), C_dir = 2q E|M|   [eq:mixing_per_bit_converse]

        λ₂ (N−1) / (2 E|M|)

    1 on a complete graph of even size, and never more.

    >>> mixing_efficiency(8, Fraction(8, 7), 4)
    Fraction(1, 1)
    """
    if n < 2 or not pairs > 0:
        raise ValueError(f"needs two nodes or more and pairs that mix, got n = {n} and E|M| = {pairs}")
    top, bottom = lambda2 * (n - 1), 2 * pairs
    exact = not isinstance(top, float) and not isinstance(bottom, float)
    return Fraction(top) / Fraction(bottom) if exact else float(top) / float(bottom)


def heaviest(n: int, edges: Sequence[Pair], weights: Array) -> tuple[Column, float]:
    """The matching of most weight, as places in `edges`, and what it weighs, rounded up."""
    import networkx as nx

    units = [math.ceil(float(weight) * UNITS) for weight in weights]
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, unit) for (i, j), unit in zip(edges, units, strict=True) if unit > 0)
    place = {pair: k for k, pair in enumerate(edges)}
    column = tuple(sorted(place[min(i, j), max(i, j)] for i, j in nx.max_weight_matching(graph)))
    return column, sum(units[k] for k in column) / UNITS


def checked_edges(n: int, edges: Iterable[Pair]) -> tuple[Pair, ...]:
    """Ascending pairs in lexicographic order; refuses loops, unknown nodes, and a graph that falls apart."""
    found = sorted({(int(min(i, j)), int(max(i, j))) for i, j in edges})
    if n < 2:
        raise ValueError(f"a schedule pairs two nodes or more, got n = {n}")
    for i, j in found:
        if not 0 <= i < j < n:
            raise ValueError(f"edge ({i}, {j}) is a loop or leaves the nodes 0 to {n - 1}")
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
        """Add the heaviest matching of the dual matrix until bound and law meet."""
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
            else:  # the law is not yet the best of these columns
                within = max(min(within, gap) / 10, FINEST)

    def _gap(self) -> float:
        return 1 - self.value / self.bound if self.bound < math.inf else 1.0

    def _take(self, B: Array, pi: Array, X: Array) -> Column | None:
        """Keep a law and a bound that are better; the heaviest column for X, if it is new."""
        value = float(np.linalg.eigvalsh(mixed(self.a, B @ pi))[0])
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
    """(n, n − 1) orthonormal columns that span the vectors of sum 0."""
    k = np.arange(1, n)
    V = np.triu(np.ones((n, n - 1)))  # column k: k ones, then −k
    V[k, k - 1] = -k
    basis: Array = V / np.sqrt(k * (k + 1.0))
    return basis


def _vectors(n: int, edges: Sequence[Pair]) -> Array:
    """Columns a_e with a_e a_eᵀ = L_e, in the basis of vectors of sum 0."""
    ends, V = np.array(edges), _basis(n)
    difference: Array = (V[ends[:, 0]] - V[ends[:, 1]]).T
    return difference


def _colour_classes(n: int, edges: Sequence[Pair]) -> list[Column]:
    """Where the search starts: an edge colouring, by two greedy orders; the one of fewer colours.

    The second order is a tournament's, whose classes are optimal on complete graphs.
    """
    odd = n + n % 2 - 1
    orders = [list(range(len(edges)))]
    orders.append(sorted(orders[0], key=lambda k: _tournament(*edges[k], n, odd)))
    return min((_greedy_classes(n, edges, order) for order in orders), key=len)


def _tournament(i: int, j: int, n: int, odd: int) -> int:
    """The day on which i meets j when everybody meets everybody (the circle method)."""
    return (2 * i if j == n - 1 and n % 2 == 0 else i + j) % odd


def _greedy_classes(n: int, edges: Sequence[Pair], order: Sequence[int]) -> list[Column]:
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


def _packed(n: int, edges: Sequence[Pair], share: Array, most: int) -> tuple[list[Column], Array]:
    """Matchings whose marginals are the largest multiple of `share`: as many pairs a round as there can be.

        max θ   over   Σ_M π_M 1_M = θ · share,  Σ π = 1

    A linear programme whose columns the heaviest matching brings.
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
        column, weight = heaviest(n, edges, -prices[:-1])
        if weight <= prices[-1] * (1 + 1e-9) or column in columns or m >= most + len(edges):
            return columns, np.maximum(solved.x[:-1], 0)
        columns.append(column)


def _marginals(law: dict[Column, Fraction], size: int) -> list[Fraction]:
    marginals = [Fraction(0)] * size
    for column, weight in law.items():
        for k in column:
            marginals[k] += weight
    return marginals


def _rank(entry: tuple[Pairs, Fraction]) -> tuple[Fraction, Pairs]:
    return -entry[1], entry[0]
