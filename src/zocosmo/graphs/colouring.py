"""Edge colourings: an order of exchanges that cannot deadlock."""

from collections.abc import Iterable

Edge = tuple[int, int]


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
