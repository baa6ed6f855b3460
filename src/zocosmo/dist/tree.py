"""The tree along which messages are flooded."""

from collections.abc import Iterator

from zocosmo.graphs.graph import Graph
from zocosmo.traffic import breadth_first

Link = tuple[int, int]


class Tree:
    """The breadth-first tree of node 0, which `traffic.tree_messages` charges for."""

    def __init__(self, graph: Graph) -> None:
        self.parent, self.n, self.depth = breadth_first(graph, 0), graph.n, {0: 0}
        self.below: dict[int, set[int]] = {i: {i} for i in self.parent}
        for i in list(self.parent)[1:]:
            self.depth[i] = self.depth[self.parent[i]] + 1
        for i in list(self.parent)[:0:-1]:
            self.below[self.parent[i]] |= self.below[i]

    def hops(self) -> Iterator[list[tuple[Link, int]]]:
        """By stage, the links and the origins of the messages they carry: up to node 0, then down."""
        for up in (True, False):
            for stage in self.stages(up):
                yield [(link, origin) for link in stage for origin in self.carried(link, up)]

    def stages(self, up: bool) -> Iterator[list[Link]]:
        """Links by depth, from the leaves up or from the root down."""
        depths = range(1, max(self.depth.values()) + 1)
        for depth in reversed(depths) if up else depths:
            nodes = sorted(i for i, level in self.depth.items() if level == depth)
            yield [(i, self.parent[i]) if up else (self.parent[i], i) for i in nodes]

    def carried(self, link: Link, up: bool) -> list[int]:
        """The origins of the messages that cross a link: all nodes on the sender's side."""
        behind = self.below[link[0]] if up else set(range(self.n)) - self.below[link[1]]
        return sorted(behind)
