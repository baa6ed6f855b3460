"""Edge colourings: an order of exchanges that cannot deadlock, and perfect matchings of a regular graph."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping

Edge = tuple[int, int]
Nodes = Mapping[int, dict[int, int]]  # node → colour → the neighbour over the edge of that colour


def edge_colours(edges: Iterable[Edge]) -> dict[Edge, int]:
    """A colour for each edge, in lexicographic order: the lowest not yet used at either end.

    Nodes that go through their edges by ascending colour, exchanging both directions of an edge at once,
    cannot deadlock: both ends of the lowest remaining edge are at that edge. With degrees up to Δ there
    are at most 2Δ − 1 colours.

    >>> edge_colours([(0, 1), (1, 2), (2, 3), (0, 3)])
    {(0, 1): 0, (0, 3): 1, (1, 2): 1, (2, 3): 0}
    """
    used: dict[int, set[int]] = {}
    colours: dict[Edge, int] = {}
    for i, j in sorted({(min(edge), max(edge)) for edge in edges}):
        taken = used.setdefault(i, set()) | used.setdefault(j, set())
        colour = next(k for k in range(len(taken) + 1) if k not in taken)
        colours[i, j] = colour
        used[i].add(colour)
        used[j].add(colour)
    return colours


def colours_in_order(edges: Iterable[Edge], count: int) -> dict[Edge, int] | None:
    """`count` colours for these edges (i, j), i < j, or None if one edge gets none.

    An edge gets the lowest colour that is free at both ends. If there is none, take the least α that is free
    at i and β that is free at j, and swap the two colours along the path that leaves i by its edge of colour
    β: then β is free at both. That fails if the path leads to j, and the next (α, β) is tried.

    >>> colours_in_order([(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)], 3)
    {(0, 1): 0, (0, 2): 1, (0, 3): 2, (1, 3): 1, (1, 2): 2, (2, 3): 0}
    """
    nodes: Nodes = defaultdict(dict)
    for i, j in edges:
        colour = _freed(nodes, i, j, count)
        if colour is None:
            return None
        nodes[i][colour], nodes[j][colour] = j, i
    return {(i, j): colour for i, peers in nodes.items() for colour, j in peers.items() if i < j}


def _freed(nodes: Nodes, i: int, j: int, count: int) -> int | None:
    """A colour that is free at i and j, after a swap along a path if need be."""
    free_i, free_j = ([c for c in range(count) if c not in nodes[end]] for end in (i, j))
    both = [c for c in free_i if c in free_j]
    if both:
        return both[0]
    for a, b in itertools.product(free_i, free_j):
        path = _path(nodes, i, b, a)
        if path[-1] != j:
            for node in path:
                nodes[node].update(_swapped(nodes[node], a, b))
            return b
    return None


def _path(nodes: Nodes, start: int, first: int, second: int) -> list[int]:
    """The nodes that edges of two colours in turn lead to, from a node that has no edge of the second."""
    path, turn = [start], itertools.cycle((first, second))
    while (peer := nodes[path[-1]].get(next(turn))) is not None:
        path.append(peer)
    return path


def _swapped(peers: dict[int, int], a: int, b: int) -> dict[int, int]:
    """The edges of colours a and b at a node, taken from it, with the colours exchanged."""
    return {b if c == a else a: peers.pop(c) for c in (a, b) if c in peers}
