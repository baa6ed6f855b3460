"""Matchings: which nodes are paired in a round, and the public schedules that decide it   [PROTOCOL.md]

A schedule maps the tape and a round to partners. Rounds and tapes may be arrays: partners have shape (…, n),
and an idle node is its own partner.
"""

from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.distinct import first_distinct
from zocosmo.core.tape import BLOCK_WORDS, Coins, Ids, Tape, id_words
from zocosmo.errors import GraphError, InputError, check_whole
from zocosmo.graphs.colouring import colours_in_order, edge_colours
from zocosmo.graphs.graph import Edge, Graph, edge_laplacian, ring

MOST_IN_TURN = 64  # edges for each of many matchings; beyond, each is found in passes over all its edges
MOST_ATTEMPTS = 300  # at colouring a regular graph with as many colours as it has edges at a node
MOST_COLOURED = 2_500  # edges of such a graph: an attempt takes 3 ms, and 1,000 nodes of degree 4 up to 150
MAX_EXACT_NODES = 16  # for the exact law of maximal matchings, which enumerates sets of free nodes

Partners = NDArray[np.int64]


class Matching(NamedTuple):
    """Disjoint edges of one round, ascending, and the idle nodes."""

    pairs: tuple[Edge, ...]
    idle: tuple[int, ...]

    @classmethod
    def of(cls, partners: Partners) -> "Matching":
        """From one row of partners."""
        ends = list(enumerate(partners.tolist()))
        return cls(tuple((i, j) for i, j in ends if i < j), tuple(i for i, j in ends if i == j))


class Schedule(Protocol):
    """Which nodes are paired in round t."""

    graph: Graph

    def partners(self, tape: Tape, t: Ids) -> Partners:
        """The partner of each node, shape (…, n); its own number if it is idle."""
        ...

    def edge_law(self) -> list[Fraction]:
        """The exact long-run frequency of each edge of the graph."""
        ...


def matching(schedule: Schedule, tape: Tape, t: int) -> Matching:
    """The pairs of one round.

    >>> from zocosmo.graphs.graph import complete
    >>> matching(Complete(complete(8)), Tape(0), 0).pairs
    ((0, 5), (1, 4), (2, 3), (6, 7))
    """
    partners = schedule.partners(tape, t)
    if partners.ndim != 1:
        raise InputError(f"a matching needs one tape and one round, got shape {partners.shape[:-1]}")
    return Matching.of(partners)


def expected_laplacian(schedule: Schedule) -> NDArray[np.float64]:
    """L̄ = E Σ_{e ∈ M_t} L_e; its second eigenvalue sets the contraction   [thm:edge_local_contraction]"""
    return edge_laplacian(schedule.graph.n, schedule.graph.edges, map(float, schedule.edge_law()))


def mean_laplacian(schedule: Schedule, tape: Tape, rounds: int) -> NDArray[np.float64]:
    """L̄ averaged over rounds 0 … rounds − 1 of a tape: an estimate for graphs of any size."""
    partners = schedule.partners(tape[..., None], np.arange(check_whole("rounds", rounds, 1)))
    share = [float(np.mean(partners[..., i] == j)) for i, j in schedule.graph.edges]
    return edge_laplacian(schedule.graph.n, schedule.graph.edges, share)


class Alternating:
    """Alternates between the two perfect matchings of an even ring: phase t mod 2."""

    name = "alternating"

    def __init__(self, graph: Graph) -> None:
        if graph.n < 2 or graph.n % 2 or graph.edges != ring(graph.n).edges:
            raise GraphError(
                f"schedule {self.name!r} needs a ring with an even number of nodes, got {graph!r}; "
                "use 'maximal'"
            )
        self.graph = graph
        nodes = np.arange(graph.n)  # phase 0 joins (0,1), (2,3), …, and phase 1 (1,2), …, (N−1,0)
        self._by_phase = np.stack([nodes ^ 1, ((nodes - 1 ^ 1) + 1) % graph.n])

    def partners(self, tape: Tape, t: Ids) -> Partners:
        return self._by_phase[_turn(tape, t, 2)]

    def edge_law(self) -> list[Fraction]:
        """Each edge is in one of two phases; the only edge of two nodes is in both."""
        return [Fraction(1, 2) if self.graph.n > 2 else Fraction(1)] * len(self.graph.edges)


class IndependentPhases(Alternating):
    """One of the two perfect matchings of an even ring, by a new coin each round."""

    name = "iid"

    def partners(self, tape: Tape, t: Ids) -> Partners:
        phase = tape.coins("matching", t).bytes(1)[..., 0] & 1
        return self._by_phase[phase.astype(np.int64)]


class Complete:
    """Uniform perfect matchings of a complete graph; if n is odd, a uniformly drawn node is idle."""

    def __init__(self, graph: Graph) -> None:
        if len(graph.edges) != graph.n * (graph.n - 1) // 2:
            raise GraphError(f"schedule 'complete' needs a complete graph, got {graph!r}; use 'maximal'")
        self.graph = graph

    def partners(self, tape: Tape, t: Ids) -> Partners:
        n = self.graph.n
        order = tape.coins("matching", t).permutation(n)
        mate = order.copy()
        mate[..., 0 : n - n % 2 : 2], mate[..., 1::2] = order[..., 1::2], order[..., 0 : n - n % 2 : 2]
        out = np.empty_like(order)
        np.put_along_axis(out, order, mate, axis=-1)
        return out

    def edge_law(self) -> list[Fraction]:
        return [Fraction(self.graph.n // 2, len(self.graph.edges)) for _ in self.graph.edges]


class Maximal:
    """Greedy over the edges in a new random order: works on every graph; idle nodes are never neighbours."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def partners(self, tape: Tape, t: Ids) -> Partners:
        coins, edges = tape.coins("matching", t), self.graph.ends
        return coins.by_block(BLOCK_WORDS // max(1, len(edges)), lambda block: self._greedy(block, edges))

    def _greedy(self, coins: Coins, edges: NDArray[np.int64]) -> Partners:
        order, row = coins.permutation(len(edges)), np.arange(coins.shape[0])
        if len(edges) > MOST_IN_TURN * len(row):
            return np.stack([_by_rank(self.graph.n, edges[each]) for each in order])
        out = np.tile(np.arange(self.graph.n), (len(row), 1))
        free = np.ones(out.shape, bool)
        for k in range(len(edges)):
            i, j = edges[order[:, k]].T
            take = free[row, i] & free[row, j]
            at, i, j = row[take], i[take], j[take]
            out[at, i], out[at, j] = j, i
            free[at, i] = free[at, j] = False
        return out

    def edge_law(self) -> list[Fraction]:
        """Enumerates sets of free nodes: the next edge is uniform among those with both ends free."""
        if self.graph.n > MAX_EXACT_NODES:
            raise GraphError(
                f"the exact law of maximal matchings needs n ≤ {MAX_EXACT_NODES}, got {self.graph.n}; "
                "use mean_laplacian(schedule, tape, rounds)"
            )
        ends = [1 << i | 1 << j for i, j in self.graph.edges]
        law = [Fraction(0)] * len(ends)
        level = {(1 << self.graph.n) - 1: Fraction(1)}  # sets of free nodes, and their probabilities
        while level:
            below: dict[int, Fraction] = defaultdict(Fraction)
            for free, chance in level.items():
                open_edges = [k for k, end in enumerate(ends) if free & end == end]
                for k in open_edges:
                    law[k] += chance / len(open_edges)
                    below[free & ~ends[k]] += chance / len(open_edges)
            level = below
        return law


def _by_rank(n: int, edges: NDArray[np.int64]) -> Partners:
    """The greedy matching of edges in their order, found in a few passes over all of them.

    An edge that comes first among those left at both of its ends is in the matching: nothing that is taken
    before it can touch it.
    """
    out, left = np.arange(n), edges
    while len(left):
        (i, j), rank = left.T, np.arange(len(left))
        first = np.full(n, len(left))
        np.minimum.at(first, i, rank)
        np.minimum.at(first, j, rank)
        take = (first[i] == rank) & (first[j] == rank)
        out[i[take]], out[j[take]] = j[take], i[take]
        free = out == np.arange(n)
        left = left[free[i] & free[j]]
    return out


class RoundRobin:
    """Cycles through the colour classes of `edge_colouring`: every edge once per cycle, without coins."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.colours = edge_colouring(graph)
        self.cycle = max(self.colours, default=0) + 1
        self._by_colour = np.tile(np.arange(graph.n), (self.cycle, 1))
        for (i, j), colour in zip(graph.edges, self.colours, strict=True):
            self._by_colour[colour, [i, j]] = j, i

    def partners(self, tape: Tape, t: Ids) -> Partners:
        return self._by_colour[_turn(tape, t, self.cycle)]

    def edge_law(self) -> list[Fraction]:
        return [Fraction(1, self.cycle)] * len(self.graph.edges)


class Perfect:
    """One of the perfect matchings that make up a regular graph, drawn uniformly: no node is ever idle."""

    def __init__(self, graph: Graph) -> None:
        degree = int(graph.degrees[0])
        if graph.n % 2 or (graph.degrees != degree).any() or len(graph.edges) > MOST_COLOURED:
            raise GraphError(
                "schedule 'perfect' needs a regular graph with an even number of nodes and at most "
                f"{MOST_COLOURED:,} edges, got {graph!r}; use 'maximal'"
            )
        colours = perfect_colouring(graph)
        if colours is None:
            raise GraphError(
                f"no perfect matchings that make up {graph!r} were found in {MOST_ATTEMPTS} attempts; "
                "use 'maximal'"
            )
        self.graph = graph
        self._by_class = np.empty((degree, graph.n), np.int64)
        for (i, j), colour in colours.items():
            self._by_class[colour, [i, j]] = j, i

    def partners(self, tape: Tape, t: Ids) -> Partners:
        classes = len(self._by_class)
        if classes == 1:  # nothing to draw
            return self._by_class[_turn(tape, t, 1)]
        return self._by_class[first_distinct(tape.coins("matching", t), classes, 1)[..., 0]]

    def edge_law(self) -> list[Fraction]:
        return [Fraction(1, len(self._by_class))] * len(self.graph.edges)


@lru_cache(maxsize=64)
def perfect_colouring(graph: Graph) -> dict[Edge, int] | None:
    """A regular graph's edges in as many colours as meet at a node: each colour is at every node.

    Edges are coloured in the orders that the tape of seed 0 gives, until one works. None if none does: not
    every graph has such a colouring.
    """
    for attempt in range(MOST_ATTEMPTS):
        order = Tape(0).coins("factors", attempt).permutation(len(graph.edges)).tolist()
        colours = colours_in_order([graph.edges[k] for k in order], int(graph.degrees[0]))
        if colours is not None:
            return colours
    return None


def edge_colouring(graph: Graph) -> tuple[int, ...]:
    """A colour for each edge, in order; edges that share a node have different colours.

    >>> edge_colouring(ring(6))
    (0, 1, 1, 0, 1, 0)
    """
    return tuple(edge_colours(graph.edges).values())


def _turn(tape: Tape, t: Ids, cycle: int) -> Partners:
    """t mod cycle for each round and tape: the position in a schedule without coins."""
    turn = id_words(t) % np.uint64(cycle)
    return np.broadcast_to(turn, tape.common_shape([turn])).astype(np.int64)


SCHEDULES: dict[str, Callable[[Graph], Schedule]] = {
    "alternating": Alternating,
    "iid": IndependentPhases,
    "complete": Complete,
    "maximal": Maximal,
    "round_robin": RoundRobin,
    "perfect": Perfect,
}


def fits(name: str, graph: Graph) -> bool:
    """Whether a schedule can be made for a graph."""
    try:
        SCHEDULES[name](graph)
    except GraphError:
        return False
    return True
