"""Traffic: the number of messages on each link, counted when a bill is read."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.values import ValueType
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners

MOST_TABLED = 2**20  # node pairs whose link is looked up in a table; above that, by search
MOST_WAITING = 64  # matchings that are kept before they are counted

Index = NDArray[np.int64]
Link = tuple[int, int]
Route = Literal["links", "tree", "flood", "sum"]


class MessageKind(NamedTuple):
    """What the price of a message depends on."""

    size: int  # values in it
    price: str = ""  # one of PRICES; "" is the codec of the bill
    of: int = 0  # the number of coordinates that its own are chosen from; 0 is d
    only: str = ""  # the only codec that it is billed under; "" is all of them
    or_all: bool = False  # all d values are sent instead if they cost less
    rest: ValueType | None = None  # of the values, in the second part of a wide message


class Tally:
    """Messages of one kind over one link, counted by whoever sends them."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class Traffic:
    """Messages sent since the last settlement, by kind, over the graphs of many runs.

    Only messages from `nodes` are counted: by default all nodes, otherwise those of this process. A server is
    node n, with a link to it and one from it for every node.
    """

    def __init__(
        self, graphs: Sequence[Graph], links: Sequence[Link] | Index, nodes: Index | None = None
    ) -> None:
        self.graphs, self.links, self.n = graphs, np.array(links, np.int64).reshape(-1, 2), graphs[0].n
        self.nodes = np.arange(self.n) if nodes is None else nodes
        self._keys = self.links @ (self.n, 1)
        self.silent: NDArray[np.bool_] | None = None  # (n,) nodes that send nothing
        self._routed: Counter[tuple[MessageKind, Route]] = Counter()
        self._unsent: dict[MessageKind, Index] = {}  # of those over links: what silent nodes did not send
        self._paired: dict[MessageKind, list[Partners]] = {}
        self._counted: dict[MessageKind, Index] = {}
        self._by_route: dict[Route, Index] = {}
        self._tallies: list[tuple[MessageKind, int, Tally]] = []  # with the place of the link

    def routed(self, kind: MessageKind, over: Route = "links") -> None:
        """One message from every node: over its links, relayed over a tree, summed there, or flooded."""
        if over == "sum":
            kind = kind._replace(of=kind.size)  # scalars, never coordinates, even where there are d of them
        if self.silent is not None:
            over = "links"
            self._take_back(kind, np.flatnonzero(self.silent[self.links[:, 0]]))
        self._routed[kind, over] += 1

    def _take_back(self, kind: MessageKind, links: Index) -> None:
        """One message less on some links: few of them, in a round in which all others carry one."""
        if kind not in self._unsent:
            self._unsent[kind] = np.zeros((len(self.graphs), len(self.links)), np.int64)
        self._unsent[kind][:, links] += self._messages("links")[:, links]

    def paired(self, kind: MessageKind, partners: Partners) -> None:
        waiting = self._paired.setdefault(kind, [])
        if self.silent is not None:
            partners = np.where(self.silent[self.nodes], self.nodes, partners)
        waiting.append(partners.reshape(-1, len(self.nodes)))
        if len(waiting) == MOST_WAITING:
            self._add(kind, self._count(np.stack(waiting)))
            waiting.clear()

    def tally(self, kind: MessageKind, link: Link) -> Tally:
        """A count of messages over one link, for a node that sends many alike."""
        (place,) = np.flatnonzero((self.links == link).all(axis=-1)).tolist()
        self._tallies.append((kind, place, Tally()))
        return self._tallies[-1][-1]

    def from_some(self, kind: MessageKind, senders: NDArray[np.bool_]) -> None:
        """One message over every link that leaves one of these nodes, (runs, nodes here)."""
        sending = np.zeros((len(self.graphs), self.n), np.int64)
        sending[:, self.nodes] = senders
        if self.silent is not None:
            sending[:, self.silent] = 0
        self._add(kind, self._messages("links") * sending[:, self.links[:, 0]])

    def with_server(self, kind: MessageKind, messages: Index, *, up: bool) -> None:
        """`messages` by run and node, to the server or from it."""
        counts = np.zeros((len(self.graphs), len(self.links)), np.int64)
        counts[:, self._served[up]] = messages
        self._add(kind, counts)

    def settle(self) -> Iterator[tuple[MessageKind, Index]]:
        """(kind, messages by run and link) of everything sent, which is then forgotten."""
        for (kind, over), times in self._routed.items():
            messages = times * self._messages(over)
            yield kind, messages - self._unsent.pop(kind, 0) if over == "links" else messages
        for kind, partners in self._paired.items():
            if partners:
                yield kind, self._count(np.stack(partners))
        yield from self._counted.items()
        for kind, place, tally in self._tallies:
            if tally.messages:
                counts = np.zeros((len(self.graphs), len(self.links)), np.int64)
                counts[:, place], tally.messages = tally.messages, 0
                yield kind, counts
        self._routed, self._paired, self._counted = Counter(), {}, {}

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
        """The link of sender · n + receiver; one past the last if a node is its own partner."""
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
    def _served(self) -> list[Index]:
        """Places of the links from the server and to it, by node."""
        return [np.flatnonzero(self.links[:, end] == self.n) for end in (0, 1)]

    def _messages(self, over: Route) -> Index:
        """Messages by run and link when every node sends one over a route."""
        if over not in self._by_route:
            rows = {graph: self._over(graph, over) for graph in set(self.graphs)}
            counts = np.array([rows[graph] for graph in self.graphs], np.int64).reshape(len(self.graphs), -1)
            self._by_route[over] = counts * np.isin(self.links[:, 0], self.nodes)
        return self._by_route[over]

    def _over(self, graph: Graph, over: Route) -> Index:
        """Messages by link of one graph."""
        if over == "links":
            keys = graph.link_ends @ (self.n, 1)
            if np.array_equal(self._keys, keys):  # of one graph, which may be large
                return np.ones(len(keys), np.int64)
            return np.isin(self._keys, keys).astype(np.int64)
        count = ROUTES[over](graph)
        return np.array([count.get((i, j), 0) for i, j in self.links.tolist()], np.int64)


def tree_messages(graph: Graph) -> dict[Link, int]:
    """Messages on each link of node 0's breadth-first tree when every node sends one to all: N(N − 1) in sum.

    A message crosses an edge away from its source, so a link carries one for every node behind it.

    >>> from zocosmo.graphs.graph import path
    >>> tree_messages(path(3))
    {(2, 1): 1, (1, 2): 2, (1, 0): 2, (0, 1): 1}
    """
    parent = breadth_first(graph, 0)
    below = dict.fromkeys(parent, 1)
    out = {}
    for i in list(parent)[:0:-1]:
        below[parent[i]] += below[i]
        out[i, parent[i]], out[parent[i], i] = below[i], graph.n - below[i]
    return out


def sum_messages(graph: Graph) -> dict[Link, int]:
    """One message on each link of node 0's breadth-first tree: sums go up, the total comes down.

    >>> from zocosmo.graphs.graph import path
    >>> sum_messages(path(3))
    {(1, 0): 1, (0, 1): 1, (2, 1): 1, (1, 2): 1}
    """
    tree = list(breadth_first(graph, 0).items())[1:]
    return {link: 1 for child, parent in tree for link in ((child, parent), (parent, child))}


def flood_hops(graph: Graph) -> Iterator[list[tuple[Link, int]]]:
    """By stage, the links and the sources of the messages they carry, when every node floods one.

    A node that heard a message in the last stage sends it to all neighbours that did not send it to it.
    Neighbours at the same distance from the source send to each other in the same stage, and both get a
    duplicate; the last stage has only duplicates.
    """
    far = distances(graph)
    for stage in range(int(far.max()) + 1):
        yield [
            ((i, j), source)
            for i, j in graph.links
            for source in np.flatnonzero((far[:, i] == stage) & (far[:, j] >= stage)).tolist()
        ]


def flood_messages(graph: Graph) -> dict[Link, int]:
    """Messages on each link in all stages of `flood_hops`: N(N − 1) in sum, and duplicates.

    >>> from zocosmo.graphs.graph import ring
    >>> sum(flood_messages(ring(4)).values()), sum(flood_messages(ring(5)).values())
    (16, 30)
    """
    far = distances(graph)
    return {(i, j): int((far[:, i] <= far[:, j]).sum()) for i, j in graph.links}


@lru_cache(maxsize=256)
def distances(graph: Graph) -> Index:
    """The number of links on a shortest path between two nodes, (n, n)."""
    far = np.zeros((graph.n, graph.n), np.int64)
    for source in range(graph.n):
        for j, i in list(breadth_first(graph, source).items())[1:]:
            far[source, j] = far[source, i] + 1
    far.setflags(write=False)
    return far


def breadth_first(graph: Graph, source: int) -> dict[int, int]:
    """The parent of each node in the breadth-first tree of a source, in the order of the search."""
    parent, order = {source: source}, [source]
    for i in order:  # grows during the loop
        for j in graph.neighbours[i]:
            if j not in parent:
                parent[j] = i
                order.append(j)
    return parent


def up_the_tree(graph: Graph) -> dict[int, int]:
    """The parent of each node but the root, node 0, in the order in which they send sums."""
    return dict(reversed(list(breadth_first(graph, 0).items())[1:]))


def tree_stages(graph: Graph) -> int:
    """How many messages in a row a sum takes: to the root, node 0, and back."""
    return 2 * int(distances(graph)[0].max())


@lru_cache(maxsize=64)
def spanning_trees(graphs: tuple[Graph, ...]) -> tuple[Index, Index]:
    """Of each graph: nodes in the order of a breadth-first search from node 0, and parents by node."""
    trees = [breadth_first(graph, 0) for graph in graphs]
    parents = [[tree[i] for i in range(len(tree))] for tree in trees]
    return np.array([list(tree) for tree in trees]), np.array(parents)


ROUTES: dict[Route, Callable[[Graph], Mapping[Link, int]]] = {
    "tree": tree_messages,
    "flood": flood_messages,
    "sum": sum_messages,
}
