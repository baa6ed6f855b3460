"""Where nodes live: each process hosts one node, or several in a row."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph

Index = NDArray[np.int64]


class Hop(NamedTuple):
    """A process in the tree that measurements travel along."""

    parent: int | None
    children: tuple[int, ...]
    below: dict[int, Index]  # by child: the nodes in its part of the tree, ascending


class Place:
    """The nodes of a graph over `world` processes, in rows as even as can be.

    >>> from zocosmo.graphs import ring
    >>> [part.tolist() for part in Place(ring(5), 2).parts]
    [[0, 1, 2], [3, 4]]
    """

    def __init__(self, graph: Graph, world: int) -> None:
        if world > graph.n:
            raise InputError(
                f"{world} processes for {graph.n} nodes; start at most one for each node of the graph"
            )
        self.graph, self.world = graph, world
        self.parts: list[Index] = np.array_split(np.arange(graph.n), world)
        self.host: Index = np.repeat(np.arange(world), [part.size for part in self.parts])

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """Pairs of processes that share an edge of the graph."""
        ends = ((int(self.host[i]), int(self.host[j])) for i, j in self.graph.edges)
        return sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]})

    def hop(self, rank: int) -> Hop:
        """This process in the breadth-first tree of rank 0 over `edges`."""
        peers: dict[int, list[int]] = {k: [] for k in range(self.world)}
        for a, b in self.edges:
            peers[a].append(b)
            peers[b].append(a)
        parent: dict[int, int | None] = {0: None}
        order = [0]
        for a in order:  # grows while it is read
            for b in sorted(peers[a]):
                if b not in parent:
                    parent[b] = a
                    order.append(b)
        under: dict[int, list[int]] = {k: [k] for k in order}
        for b in reversed(order[1:]):
            above = parent[b]
            assert above is not None
            under[above] += under[b]
        children = tuple(b for b in order if parent[b] == rank)
        below = {b: np.concatenate([self.parts[k] for k in sorted(under[b])]) for b in children}
        return Hop(parent[rank], children, below)
