"""Graphs: which nodes may exchange messages. Peers compare the edges of a Graph in their manifests."""

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed, Tape
from zocosmo.entries import Table
from zocosmo.errors import GraphError, NotConnected, check_whole

if TYPE_CHECKING:
    import networkx as nx

MAX_DRAWS = 1000  # attempts to draw a connected random graph

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """Connected and undirected: nodes 0…n−1, edges as ascending pairs in lexicographic order.

    >>> Graph.of(4, [(1, 0), (1, 2), (3, 2)])
    Graph(n=4, edges=3, name='edges')
    """

    n: int
    edges: tuple[Edge, ...]
    name: str = "edges"

    @classmethod
    def of(cls, n: int, edges: Iterable[tuple[int, int]], name: str = "edges") -> "Graph":
        """From any list of edges, in any order and direction; duplicates are dropped."""
        pairs = [(check_whole("a node", i), check_whole("a node", j)) for i, j in edges]
        return cls(check_whole("n", n), tuple(sorted({(min(pair), max(pair)) for pair in pairs})), name)

    @classmethod
    def connected(cls, n: int, ends: NDArray[np.int64], name: str) -> "Graph":
        """From pairs (…, 2) that are known to connect n nodes, in any order and direction: large graphs are
        made without looking at each edge."""
        pairs = np.sort(ends.reshape(-1, 2), axis=-1)
        ends = np.stack(np.divmod(np.unique(pairs[:, 0] * n + pairs[:, 1]), n), axis=-1)
        graph = cls.__new__(cls)
        edges = tuple(zip(ends[:, 0].tolist(), ends[:, 1].tolist(), strict=True))
        vars(graph).update(n=n, edges=edges, name=name, ends=ends)
        return graph

    @classmethod
    def from_networkx(cls, graph: "nx.Graph", name: str = "edges") -> "Graph":
        """Nodes are numbered in sorted order or, if they cannot be sorted, in the order of networkx."""
        if graph.is_directed():
            raise GraphError("mixing needs an undirected graph; pass graph.to_undirected()")
        try:
            nodes = sorted(graph.nodes)
        except TypeError:
            nodes = list(graph.nodes)
        number = {node: k for k, node in enumerate(nodes)}
        return cls.of(len(number), ((number[i], number[j]) for i, j in graph.edges()), name)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise GraphError(f"a graph needs at least one node, got n = {self.n}")
        for i, j in self.edges:
            if not 0 <= i < j < self.n:
                raise GraphError(
                    f"edge ({i}, {j}) is a loop, descends, or leaves the nodes 0 to {self.n - 1}"
                )
        if list(self.edges) != sorted(set(self.edges)):
            raise GraphError("edges must be distinct and in lexicographic order; use Graph.of to sort them")
        if len(self.edges) < self.n - 1:
            raise NotConnected(f"{self.n} nodes need at least {self.n - 1} edges")
        reached = self._reached()
        if len(reached) < self.n:
            lost = next(i for i in range(self.n) if i not in reached)
            raise NotConnected(f"no path from node 0 to node {lost}", remedy="; add an edge")

    def __repr__(self) -> str:
        return f"Graph(n={self.n}, edges={len(self.edges)}, name={self.name!r})"

    def _reached(self) -> set[int]:
        seen, todo = {0}, [0]
        while todo:
            fresh = set(self.neighbours[todo.pop()]) - seen
            seen |= fresh
            todo.extend(fresh)
        return seen

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """For each node, its peers in ascending order."""
        lists: list[list[int]] = [[] for _ in range(self.n)]
        for i, j in self.edges:
            lists[i].append(j)
            lists[j].append(i)
        return tuple(tuple(sorted(each)) for each in lists)

    @property
    def links(self) -> tuple[Edge, ...]:
        """Directed edges (sender, receiver) in lexicographic order."""
        return tuple((i, j) for i, j in self.link_ends.tolist())

    @property
    def degrees(self) -> NDArray[np.int64]:
        return np.bincount(self.ends.reshape(-1), minlength=self.n)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """The edges as an array (edges, 2)."""
        return np.array(self.edges, np.int64).reshape(-1, 2)

    @cached_property
    def link_ends(self) -> NDArray[np.int64]:
        """The links as an array (links, 2)."""
        both = np.concatenate([self.ends, self.ends[:, ::-1]])
        return both[np.lexsort((both[:, 1], both[:, 0]))]

    def to_networkx(self) -> "nx.Graph":
        import networkx as nx

        graph = nx.empty_graph(self.n)
        graph.add_edges_from(self.edges)
        return graph

    def laplacian(self) -> NDArray[np.float64]:
        """L = Σ_e (e_i − e_j)(e_i − e_j)ᵀ"""
        return edge_laplacian(self.n, self.edges)


def edge_laplacian(
    n: int, edges: Iterable[Edge], weights: Iterable[float] | None = None
) -> NDArray[np.float64]:
    """Σ_e c_e (e_i − e_j)(e_i − e_j)ᵀ, with c_e = 1 unless weights are given."""
    out = np.zeros((n, n))
    pairs = list(edges)
    for (i, j), c in zip(pairs, [1.0] * len(pairs) if weights is None else weights, strict=True):
        out[[i, j], [i, j]] += c
        out[[i, j], [j, i]] -= c
    return out


def ring(n: int) -> Graph:
    """Each node joined to the next; a ring of two nodes has one edge.

    >>> ring(4).edges
    ((0, 1), (0, 3), (1, 2), (2, 3))
    """
    _at_least(2, n, "ring")
    nodes = np.arange(check_whole("n", n))
    return Graph.connected(int(n), np.stack([nodes, (nodes + 1) % n], axis=-1), "ring")


def path(n: int) -> Graph:
    """A ring with one edge less."""
    _at_least(1, n, "path")
    return Graph.of(n, pairwise(range(n)), "path")


def star(n: int) -> Graph:
    """Node 0 joined to every other."""
    _at_least(2, n, "star")
    return Graph.of(n, ((0, i) for i in range(1, n)), "star")


def complete(n: int) -> Graph:
    """Every pair of nodes joined."""
    _at_least(1, n, "complete")
    return Graph.of(n, combinations(range(n), 2), "complete")


def grid(n: int, rows: int | None = None) -> Graph:
    """rows × (n / rows) nodes; by default as close to a square as n allows: 10 nodes are 2 × 5."""
    import networkx as nx

    return Graph.from_networkx(nx.grid_2d_graph(*_sides(n, rows, "grid")), "grid")


def torus(n: int, rows: int | None = None) -> Graph:
    """A grid whose opposite sides are joined."""
    import networkx as nx

    return Graph.from_networkx(nx.grid_2d_graph(*_sides(n, rows, "torus"), periodic=True), "torus")


def hypercube(n: int) -> Graph:
    """n = 2^k nodes, joined if their numbers differ in one bit."""
    n = check_whole("n", n)
    if n < 2 or n & (n - 1):
        raise GraphError(f"a hypercube has 2, 4, 8, 16, … nodes, got n = {n}")
    bits = [1 << k for k in range(n.bit_length() - 1)]
    return Graph.of(n, ((i, i ^ bit) for i in range(n) for bit in bits), "hypercube")


def erdos_renyi(n: int, p: float, seed: Seed = 0) -> Graph:
    """Each edge with probability p, redrawn from the tape until the graph is connected.

    Attempt a has edge k, in lexicographic order, if word k of stream("graph", a) is below ⌊p · 2^64⌋.
    """
    if not 0 < p <= 1:
        raise GraphError(f"an edge probability must be above 0 and at most 1, got p = {p}")
    pairs, bar = list(combinations(range(n), 2)), int(p * 2**64)

    def draw(tape: Tape, attempt: int) -> Iterable[Edge]:
        words = tape.coins("graph", attempt).words(len(pairs)).tolist()
        return [pair for pair, word in zip(pairs, words, strict=True) if word < bar]

    return _connected(n, "erdos_renyi", seed, draw, f"p = {p}")


def random_regular(n: int, degree: int, seed: Seed = 0) -> Graph:
    """All nodes of the same degree, by networkx with seeds from the tape, redrawn until connected."""
    import networkx as nx

    if not 2 <= degree < n or n * degree % 2:
        raise GraphError(
            f"no connected graph of {n} nodes has degree {degree}: 2 ≤ degree < n, n · degree even"
        )
    draw = _seeded(partial(nx.random_regular_graph, degree, n))
    return _connected(n, "random_regular", seed, draw, f"degree {degree}")


def rings(n: int, degree: int, seed: Seed = 0) -> Graph:
    """degree / 2 rings, each through all nodes in a random order: connected, and a good expander.

    Edges that two rings share count once, so a few nodes may have a lower degree.
    """
    return rings_among(np.arange(check_whole("n", n, 1)), degree, seed)


def rings_among(ids: NDArray[np.int64], degree: int, seed: Seed = 0) -> Graph:
    """`rings` of some members, by their ids: node k is ids[k]. Who joins or leaves changes few edges.

    Ring r goes through the members in ascending order of the first word of stream("rings", r, id).
    """
    n = len(ids)
    _at_least(2, n, "rings")
    if check_whole("degree", degree, 2) % 2:
        raise GraphError(f"rings give every node an even degree, got degree = {degree}")
    words = Tape(seed).coins("rings", np.arange(degree // 2)[:, None], ids).words(1)[..., 0]
    order = np.argsort(words, axis=-1, kind="stable")
    return Graph.connected(n, np.stack([order, np.roll(order, -1, axis=-1)], axis=-1), "rings")


def small_world(n: int, k: int, p: float, seed: Seed = 0) -> Graph:
    """Each node joined to its k nearest on a ring, each edge rewired with probability p (Watts–Strogatz)."""
    import networkx as nx

    if not 2 <= k < n or k % 2 or not 0 <= p <= 1:
        raise GraphError(
            f"a small world needs an even k, 2 ≤ k < n, 0 ≤ p ≤ 1; got n = {n}, k = {k}, p = {p}"
        )
    draw = _seeded(partial(nx.watts_strogatz_graph, n, k, p))
    return _connected(n, "small_world", seed, draw, f"k = {k}, p = {p}")


def _seeded(build: "Callable[..., nx.Graph]") -> Callable[[Tape, int], Iterable[Edge]]:
    """A networkx generator seeded from the tape; its graphs may change between networkx releases."""

    def draw(tape: Tape, attempt: int) -> Iterable[Edge]:
        word = int(tape.coins("graph", attempt).words(1)[0])
        edges: Iterable[Edge] = build(seed=word % 2**32).edges()
        return edges

    return draw


def _connected(
    n: int, name: str, seed: Seed, draw: Callable[[Tape, int], Iterable[Edge]], what: str
) -> Graph:
    _at_least(2, n, name)
    tape = Tape(seed)
    for attempt in range(MAX_DRAWS):
        try:
            return Graph.of(n, draw(tape, attempt), name)
        except GraphError:
            continue
    raise GraphError(f"none of {MAX_DRAWS} {name} graphs of {n} nodes with {what} is connected; add edges")


def _at_least(least: int, n: int, name: str) -> None:
    if check_whole("n", n, -(2**63)) < least:
        alone = "; use graph complete for a single node" if n == 1 else ""
        raise GraphError(f"a {name} graph needs at least {least} nodes, got {n}{alone}")


def _sides(n: int, rows: int | None, name: str) -> tuple[int, int]:
    _at_least(1, n, name)
    side = rows if rows is not None else max(r for r in range(1, int(n**0.5) + 1) if n % r == 0)
    if side < 1 or n % side:
        raise GraphError(f"{n} nodes do not make a {name} of {side} rows; rows must divide n")
    if rows is None and side == 1 and n > 3:
        raise GraphError(f"{n} nodes only make a {name} of a single row; change n, or set rows = 1")
    return side, n // side


def by_edges(edges: str, n: int | None = None) -> Graph:
    """A custom graph from its edges as text, with n nodes or as many as the edges name.

    >>> by_edges("0-1, 1-2, 0-2, 2-3").edges
    ((0, 1), (0, 2), (1, 2), (2, 3))
    """
    if not is_edges(edges):
        raise GraphError(f"edges must be pairs of nodes, such as 0-1,1-2; got {edges!r}")
    pairs = [(int(i), int(j)) for i, j in (pair.split("-") for pair in edges.split(","))]
    return Graph.of(1 + max(map(max, pairs)) if n is None else n, pairs)


def is_edges(text: str) -> bool:
    """Whether a text is a list of edges rather than the name of a graph."""
    pair = r"\s*[0-9]{1,9}-[0-9]{1,9}\s*"
    return re.fullmatch(f"{pair}(,{pair})*", text) is not None


def _as_builder(name: str, found: Any) -> Callable[..., Graph]:
    """A user's graph: a function of n, and of parameters with names, that returns a Graph."""
    if not callable(found) or "n" not in inspect.signature(found).parameters:
        raise GraphError(
            f"{name} is no graph; give a function of n, and of its parameters, that returns a Graph"
        )

    @wraps(found)
    def build(*args: Any, **options: Any) -> Graph:
        built = found(*args, **options)
        if not isinstance(built, Graph):
            raise GraphError(f"{name} returned {built!r:.80}; return a Graph, such as Graph.of(n, edges)")
        return built

    return build


GRAPHS: Table[Callable[..., Graph]] = Table(
    {
        "ring": ring,
        "path": path,
        "star": star,
        "complete": complete,
        "grid": grid,
        "torus": torus,
        "hypercube": hypercube,
        "erdos_renyi": erdos_renyi,
        "random_regular": random_regular,
        "rings": rings,
        "small_world": small_world,
    },
    "zocosmo.graphs",
    _as_builder,
)
