"""Traffic: how many messages crossed which links. Counted only when someone reads the bill."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners

MOST_TABLED = 2**20  # node pairs whose link is looked up in a table; above that, by search
MOST_WAITING = 64  # matchings that are kept before they are counted

Index = NDArray[np.int64]


class Traffic:
    """Messages sent since the last settlement, by size, over the graphs of many runs.

    Only what `nodes` send is counted: all nodes, or those of this process.
    """

    def __init__(
        self, graphs: Sequence[Graph], links: Sequence[tuple[int, int]], nodes: Index | None = None
    ) -> None:
        self.graphs, self.links, self.n = graphs, links, graphs[0].n
        self.nodes = np.arange(self.n) if nodes is None else nodes
        self._keys = np.array([i * self.n + j for i, j in links], np.int64)
        self._everywhere: dict[int, int] = {}
        self._paired: dict[int, list[Partners]] = {}
        self._counted: dict[int, Index] = {}
        self._trees: dict[int, int] = {}

    def everywhere(self, size: int) -> None:
        self._everywhere[size] = self._everywhere.get(size, 0) + 1

    def paired(self, size: int, partners: Partners) -> None:
        waiting = self._paired.setdefault(size, [])
        waiting.append(partners.reshape(-1, len(self.nodes)))
        if len(waiting) == MOST_WAITING:
            self._counted[size] = self._counted.get(size, 0) + self._count(np.stack(waiting))
            waiting.clear()

    def over_trees(self, size: int) -> None:
        self._trees[size] = self._trees.get(size, 0) + 1

    def settle(self) -> Iterator[tuple[int, Index]]:
        """(size, messages by run and link) of all that was sent; then nothing is owed."""
        for size, times in self._everywhere.items():
            yield size, times * self._present
        for size, partners in self._paired.items():
            if partners:
                yield size, self._count(np.stack(partners))
        yield from self._counted.items()
        for size, times in self._trees.items():
            yield size, times * self._tree_counts
        self._everywhere, self._paired, self._counted, self._trees = {}, {}, {}, {}

    def _count(self, partners: Partners) -> Index:
        """Messages by run and link of many rounds of pairs, partners of shape (rounds, runs, n)."""
        runs, links = len(self.graphs), len(self.links)
        place = self._place(partners + self.nodes * self.n)
        shape = len(partners), runs, len(self.nodes)
        place = np.broadcast_to(place, shape) + np.arange(runs)[:, None] * (links + 1)
        counts = np.bincount(place.reshape(-1), minlength=runs * (links + 1))
        return counts.reshape(runs, links + 1)[:, :links]

    def _place(self, key: Index) -> Index:
        """The link of sender · n + receiver; one past the last where a node is its own partner."""
        if self.n * self.n <= MOST_TABLED:
            return self._table[key]
        own = key % (self.n + 1) == 0  # i · n + i
        return np.where(own, len(self.links), np.searchsorted(self._keys, key))

    @cached_property
    def _table(self) -> Index:
        table = np.full(self.n * self.n, len(self.links), np.int64)
        table[self._keys] = np.arange(len(self.links))
        return table

    @cached_property
    def _present(self) -> Index:
        """Which links each run has."""
        sets = {graph: set(graph.links) for graph in set(self.graphs)}
        rows = {graph: [link in have for link in self.links] for graph, have in sets.items()}
        return self._by_run(rows)

    @cached_property
    def _tree_counts(self) -> Index:
        """How many messages cross each link when one from every node is relayed over the spanning tree."""
        counts = {graph: tree_messages(graph) for graph in set(self.graphs)}
        rows = {graph: [count.get(link, 0) for link in self.links] for graph, count in counts.items()}
        return self._by_run(rows)

    def _by_run(self, rows: Mapping[Graph, Sequence[int]]) -> Index:
        counts = np.array([rows[graph] for graph in self.graphs], np.int64).reshape(len(self.graphs), -1)
        return counts * np.isin([sender for sender, _ in self.links], self.nodes)


def tree_messages(graph: Graph) -> dict[tuple[int, int], int]:
    """Messages on each link of node 0's breadth-first tree when every node's goes to all: N(N − 1) in sum.

    A message crosses an edge away from its source, so a link carries one for every node behind it.

    >>> from zocosmo.graphs.graph import path
    >>> tree_messages(path(3))
    {(2, 1): 1, (1, 2): 2, (1, 0): 2, (0, 1): 1}
    """
    parent, order = {0: 0}, [0]
    for i in order:
        for j in graph.neighbours[i]:
            if j not in parent:
                parent[j] = i
                order.append(j)
    below = dict.fromkeys(order, 1)
    out = {}
    for i in reversed(order[1:]):
        below[parent[i]] += below[i]
        out[i, parent[i]], out[parent[i], i] = below[i], graph.n - below[i]
    return out
