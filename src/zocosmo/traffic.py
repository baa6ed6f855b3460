"""Traffic: how many messages crossed which links. Counted only when someone reads the bill."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners

MOST_TABLED = 2**20  # node pairs whose link is looked up in a table; above that, by search
MOST_WAITING = 64  # matchings that are kept before they are counted

Index = NDArray[np.int64]


class MessageKind(NamedTuple):
    """What a message's price depends on."""

    size: int  # values in it
    price: str = ""  # one of PRICES; "" is the codec of the bill
    of: int = 0  # how many things its coordinates choose from; 0 is d
    only: str = ""  # the one codec on whose bill it stands; "" is all of them
    or_all: bool = False  # all d values go in its place where they cost less


class Traffic:
    """Messages sent since the last settlement, by kind, over the graphs of many runs.

    Only what `nodes` send is counted: all nodes, or those of this process. Where there is a server it is node
    n, and every node has a link to it and one from it.
    """

    def __init__(
        self, graphs: Sequence[Graph], links: Sequence[tuple[int, int]], nodes: Index | None = None
    ) -> None:
        self.graphs, self.links, self.n = graphs, links, graphs[0].n
        self.nodes = np.arange(self.n) if nodes is None else nodes
        self._keys = np.array([i * self.n + j for i, j in links], np.int64)
        self._everywhere: dict[MessageKind, int] = {}
        self._paired: dict[MessageKind, list[Partners]] = {}
        self._counted: dict[MessageKind, Index] = {}
        self._trees: dict[MessageKind, int] = {}
        self._floods: dict[MessageKind, int] = {}

    def everywhere(self, kind: MessageKind) -> None:
        self._everywhere[kind] = self._everywhere.get(kind, 0) + 1

    def paired(self, kind: MessageKind, partners: Partners) -> None:
        waiting = self._paired.setdefault(kind, [])
        waiting.append(partners.reshape(-1, len(self.nodes)))
        if len(waiting) == MOST_WAITING:
            self._add(kind, self._count(np.stack(waiting)))
            waiting.clear()

    def over_trees(self, kind: MessageKind) -> None:
        self._trees[kind] = self._trees.get(kind, 0) + 1

    def flooded(self, kind: MessageKind) -> None:
        self._floods[kind] = self._floods.get(kind, 0) + 1

    def with_server(self, kind: MessageKind, messages: Index, *, up: bool) -> None:
        """`messages` by run and node, to the server or from it."""
        counts = np.zeros((len(self.graphs), len(self.links)), np.int64)
        counts[:, self._up if up else self._down] = messages
        self._add(kind, counts)

    def settle(self) -> Iterator[tuple[MessageKind, Index]]:
        """(kind, messages by run and link) of all that was sent; then nothing is owed."""
        for kind, times in self._everywhere.items():
            yield kind, times * self._present
        for kind, partners in self._paired.items():
            if partners:
                yield kind, self._count(np.stack(partners))
        yield from self._counted.items()
        for kind, times in self._trees.items():
            yield kind, times * self._tree_counts
        for kind, times in self._floods.items():
            yield kind, times * self._flood_counts
        self._everywhere, self._paired, self._counted, self._trees, self._floods = {}, {}, {}, {}, {}

    def _add(self, kind: MessageKind, counts: Index) -> None:
        self._counted[kind] = self._counted.get(kind, 0) + counts

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
    def _up(self) -> list[int]:
        """Places of the links to the server, by node."""
        return [k for k, (_, receiver) in enumerate(self.links) if receiver == self.n]

    @cached_property
    def _down(self) -> list[int]:
        """Places of the links from the server, by node."""
        return [k for k, (sender, _) in enumerate(self.links) if sender == self.n]

    @cached_property
    def _tree_counts(self) -> Index:
        """How many messages cross each link when one from every node is relayed over the spanning tree."""
        counts = {graph: tree_messages(graph) for graph in set(self.graphs)}
        rows = {graph: [count.get(link, 0) for link in self.links] for graph, count in counts.items()}
        return self._by_run(rows)

    @cached_property
    def _flood_counts(self) -> Index:
        """How many messages cross each link when one from every node is passed on by all who hear it."""
        counts = {graph: flood_messages(graph) for graph in set(self.graphs)}
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


def flood_hops(graph: Graph) -> Iterator[list[tuple[tuple[int, int], int]]]:
    """Stage by stage, which link carries whose message when every node's goes to all: whoever heard one in
    the last stage passes it on to all neighbours who did not bring it.

    A neighbour as far from the source sends in the same stage, and both hear it twice; after the last who had
    not heard there is such a stage still.
    """
    far = distances(graph)
    for stage in range(int(far.max()) + 1):
        yield [
            ((i, j), source)
            for i, j in graph.links
            for source in np.flatnonzero((far[:, i] == stage) & (far[:, j] >= stage)).tolist()
        ]


def flood_messages(graph: Graph) -> dict[tuple[int, int], int]:
    """Messages on each link in all stages of `flood_hops`: N(N − 1) in sum, and those heard again.

    >>> from zocosmo.graphs.graph import ring
    >>> sum(flood_messages(ring(4)).values()), sum(flood_messages(ring(5)).values())
    (16, 30)
    """
    far = distances(graph)
    return {(i, j): int((far[:, i] <= far[:, j]).sum()) for i, j in graph.links}


@lru_cache(maxsize=256)
def distances(graph: Graph) -> Index:
    """How many links lie between two nodes, (n, n)."""
    far = np.full((graph.n, graph.n), -1, np.int64)
    for source in range(graph.n):
        far[source, source], order = 0, [source]
        for i in order:  # grows while it is read
            for j in graph.neighbours[i]:
                if far[source, j] < 0:
                    far[source, j] = far[source, i] + 1
                    order.append(j)
    far.setflags(write=False)
    return far
