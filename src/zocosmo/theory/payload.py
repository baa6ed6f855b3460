"""What a round costs, in bits   [appendix:comm_accounting, prop:conditional_support_cost]

d coordinates, q of them sent, n nodes, B bits per value, ℓ = ⌈log₂ d⌉ bits per index, K rounds between
refreshes, T rounds. A cost is that of one directed link and one round unless its function says otherwise.
Results are exact integers and Fractions; only entropies are floats.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from zocosmo.theory.numbers import check_size, rational, whole

HEAD = 2**16  # terms of an entropy that are summed one by one; Euler–Maclaurin gives the rest

Exact = int | Fraction


def support_entropy(d: int, q: int) -> float:
    """log₂ C(d, q): bits that any code needs on average for a uniform support   [eq:entropy_lower_bound]

        log₂ C(d, q) = Σ_{k=1}^{q} log₂((d − q + k) / k),   q ≤ d/2 by symmetry

    Every term is 1 or more, so nothing cancels and the sum has 15 correct digits. After 2¹⁶ terms the rest is
    an integral with end corrections; the first one left out is below 10⁻¹⁷.

    >>> round(support_entropy(6_525_621_760, 8192), 3)
    172402.336
    """
    d, q = check_size(d, q)
    q = min(q, d - q)
    c, head = d - q, min(q, HEAD)
    total = math.fsum(math.log((c + k) / k) for k in range(1, head + 1))
    if q > head:
        total += _tail(c, head, q)
    return total / math.log(2)


def _tail(c: int, m: int, q: int) -> float:
    """Σ_{k=m+1}^{q} ln((c + k) / k) by Euler–Maclaurin, with logarithms paired so that none is large."""
    h, a = q - m, c + m
    integral = h * math.log(a / m) + (c + q) * math.log1p(h / a) - q * math.log1p(h / m)
    ends = (math.log((c + q) / q) - math.log(a / m)) / 2
    slopes = ((1 / (c + q) - 1 / q) - (1 / a - 1 / m)) / 12
    return integral + ends + slopes


def index_bits(d: int) -> int:
    """ℓ = ⌈log₂ d⌉   [eq:index_bits_def]

    >>> index_bits(2_523_136), index_bits(6_525_621_760)
    (22, 33)
    """
    return (whole("d", d) - 1).bit_length()


class LinkCosts(NamedTuple):
    """Bits of one message, by how it conveys the support."""

    values: int  # not at all: it is public
    entropy: float  # by the best possible code
    coordinate_list: int  # by q indices
    dense: int  # by sending all d values


def link_costs(d: int, q: int, B: int = 32) -> LinkCosts:
    """q B; q B + log₂ C(d, q); q (B + ℓ); d B   [eq:appendix_sparse_costs, eq:conditional_total_sparse_cost]

    >>> link_costs(2_523_136, 8192).coordinate_list
    442368
    """
    (d, q), B = check_size(d, q), whole("B", B)
    values = q * B
    return LinkCosts(values, values + support_entropy(d, q), values + q * index_bits(d), d * B)


def index_share(d: int, B: int = 32) -> Fraction:
    """ℓ / (B + ℓ): share of an indexed message that public supports save   [eq:index_fraction_def]"""
    return Fraction(index_bits(d), whole("B", B) + index_bits(d))


def reuse_multiplier(d: int, *, K: int, B: int = 32) -> Fraction:
    """1 + ℓ / (K B): cost relative to values alone if K rounds share a list
    [eq:periodic_adaptive_multiplier]
    """
    return 1 + Fraction(index_bits(d), whole("K", K) * whole("B", B))


def sync_bits(T: int, *, counter: int = 32, every: int = 100) -> int:
    """counter · ⌊T / every⌋: bits of a counter that is sent once in `every` rounds"""
    return whole("counter", counter, 0) * (whole("T", T) // whole("every", every))


def seed_cost(q: int, *, T: int, B: int = 32, seed: int = 128, sync: int | None = None) -> Fraction:
    """q B + (B_seed + B_sync(T)) / T   [eq:seed_amortized_cost]

    `sync` is the number of control bits in T rounds, by default those of a 32-bit counter every 100 rounds.

    >>> seed_cost(8192, T=1000) - 8192 * 32
    Fraction(56, 125)
    """
    control = whole("seed", seed, 0) + (sync_bits(T) if sync is None else whole("sync", sync, 0))
    return whole("q", q) * whole("B", B) + Fraction(control, whole("T", T))


def marina_cost(d: int, q: int, *, K: int, B: int = 32) -> Fraction:
    """(K − 1)/K · q (B + ℓ) + d B / K, over a whole cycle   [eq:appendix_marina_cost]"""
    costs, K = link_costs(d, q, B), whole("K", K)
    return Fraction((K - 1) * costs.coordinate_list + costs.dense, K)


def marina_total(d: int, q: int, *, K: int, T: int, B: int = 32) -> int:
    """C_T = ⌈T/K⌉ d B + (T − ⌈T/K⌉) q (B + ℓ); a dense round comes first   [appendix:marina_like_definition]

    >>> marina_total(2_523_136, 8192, K=25, T=1)
    80740352
    """
    (d, q), T, B = check_size(d, q), whole("T", T, 0), whole("B", B)
    dense = -(-T // whole("K", K))
    return dense * d * B + (T - dense) * q * (B + index_bits(d))


def marina_multiplier(d: int, q: int, *, K: int, B: int = 32) -> Fraction:
    """(K − 1)/K · (1 + ℓ/B) + d / (K q)   [eq:marina_round_multiplier]"""
    return marina_cost(d, q, K=K, B=B) / (whole("q", q) * whole("B", B))


def flood_cost(n: int, b: int) -> int:
    """(N − 1) b bits per node: N messages of b bits, each to N − 1 others, N (N − 1) b over the network"""
    return (whole("n", n) - 1) * whole("b", b)


def tree_cost(n: int, b: int) -> Fraction:
    """2 (N − 1)/N · b bits per node: a message of b bits over each link of a spanning tree, up and down

    >>> [str(tree_cost(n, 8)) for n in (2, 8, 64)]
    ['8', '14', '63/4']
    """
    return Fraction(2 * (whole("n", n) - 1) * whole("b", b), n)


def flood_crossover(q: int, *, B: int = 32, b: int = 96) -> int:
    """The smallest N with (N − 1) b > q B, from which a flood costs a node more than a matching

    >>> flood_crossover(8192)
    2732
    """
    return whole("q", q) * whole("B", B) // whole("b", b) + 2


def diameter(n: int, edges: Iterable[tuple[int, int]]) -> int:
    """D_G, the largest number of links between two nodes: no flood has fewer stages

    >>> diameter(6, [(i, (i + 1) % 6) for i in range(6)])
    3
    """
    import networkx as nx

    graph = nx.empty_graph(whole("n", n))
    graph.add_edges_from(edges)
    reached = len(nx.node_connected_component(graph, 0))
    if reached < n:
        raise ValueError(f"the graph is not connected: node 0 reaches {reached} of {n}; add an edge")
    return int(nx.diameter(graph))


class Operator(NamedTuple):
    """Bits of a round per node on average, and the number of links that it waits for in sequence."""

    bits: Fraction
    stages: int


def operators(
    n: int, edges: Iterable[tuple[int, int]], q: int, *, B: int = 32, b: int = 96, matched: Exact = 1
) -> dict[str, Operator]:
    """δ̄ q B in 1 stage, q B in 1, (N − 1) b in D_G   [tab:public_randomness_operators]

    δ̄ = 2 |E| / N. `matched` is the share of nodes that a matching pairs, 1 if it is perfect.

    >>> operators(4, [(0, 1), (1, 2), (2, 3), (0, 3)], q=3)["global"]
    Operator(bits=Fraction(192, 1), stages=1)
    """
    edges = list(edges)
    slice_bits = whole("q", q) * whole("B", B)
    if not 0 < matched <= 1:
        raise ValueError(f"the share of matched nodes must lie above 0 and up to 1, got {matched}")
    return {
        "global": Operator(Fraction(2 * len(edges), whole("n", n)) * slice_bits, 1),
        "edge_local": Operator(Fraction(matched) * slice_bits, 1),
        "flooding": Operator(Fraction(flood_cost(n, b)), diameter(n, edges)),
    }


def affordable_rounds(budget: Exact, cost: Exact) -> int:
    """⌊budget / cost⌋   [eq:budget_T_cosmo, eq:budget_T_indexed]

    >>> affordable_rounds(403_701_760, 8192 * 32), affordable_rounds(403_701_760, 8192 * (32 + 22))
    (1540, 912)
    """
    if not cost > 0 or budget < 0:
        raise ValueError(f"a budget must be 0 bits or more and a cost above 0, got {budget} and {cost}")
    return int(Fraction(rational(budget)) // Fraction(rational(cost)))


def marina_rounds(d: int, q: int, *, K: int, budget: Exact, B: int = 32) -> int:
    """The largest T with C_T ≤ budget: whole cycles, then what the rest pays, the dense round first"""
    costs, K = link_costs(d, q, B), whole("K", K)
    cycle = costs.dense + (K - 1) * costs.coordinate_list
    cycles = affordable_rounds(budget, cycle)
    rest = Fraction(rational(budget)) - cycles * cycle - costs.dense
    return cycles * K + (0 if rest < 0 else 1 + affordable_rounds(rest, costs.coordinate_list))
