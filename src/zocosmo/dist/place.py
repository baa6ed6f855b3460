"""Placement of nodes: each process hosts one node, or several consecutive ones."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.dist.tree import Tree
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph

Index = NDArray[np.int64]


class Hop(NamedTuple):
    """A process in the tree along which measurements are collected."""

    parent: int | None
    children: tuple[int, ...]
    below: dict[int, Index]  # by child: the nodes in its subtree, ascending


class Place:
    """The nodes of a graph over `world` processes, in consecutive parts whose sizes differ by at most one.

    >>> from zocosmo.graphs import ring
    >>> [part.tolist() for part in Place(ring(5), 2).parts]
    [[0, 1, 2], [3, 4]]
    """

    def __init__(self, graph: Graph, world: int) -> None:
        if world > graph.n:
            raise InputError(
                f"{world} processes for {graph.n} nodes; start at most one per node of the graph"
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
        tree = Tree(Graph.of(self.world, self.edges))
        children = tuple(b for b, a in tree.parent.items() if b and a == rank)
        below = {b: np.concatenate([self.parts[k] for k in sorted(tree.below[b])]) for b in children}
        return Hop(tree.parent[rank] if rank else None, children, below)
