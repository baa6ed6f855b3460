"""Neighbourhoods as slots: the k-th neighbours of all nodes at once, so that sums have a fixed order."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.graphs.graph import Graph
from zocosmo.graphs.weights import metropolis, place_in_row

Values = NDArray[Any]
Index = NDArray[np.int64]


class Slot(NamedTuple):
    """The k-th peer that each of `rows` hears, in ascending order of nodes, and its weight."""

    rows: Any  # positions of the listeners, or slice(None) where all have a k-th
    source: Index
    weight: Values  # (rows, 1)


def slots(graphs: Sequence[Graph], dtype: np.dtype[Any], peers_only: bool) -> Iterator[Slot]:
    """Neighbourhoods of all graphs, cut by position."""
    heard = {graph: _heard(graph, peers_only) for graph in set(graphs)}
    n, depth = graphs[0].n, max(len(columns) for columns in heard.values())
    for k in range(depth):
        parts = [
            (run * n + columns[k][0], run * n + columns[k][1], columns[k][2])
            for run, graph in enumerate(graphs)
            if k < len(columns := heard[graph])
        ]
        rows, source, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        whole = len(rows) == n * len(graphs)
        yield Slot(slice(None) if whole else rows, source, weight.astype(dtype)[:, None])


def _heard(graph: Graph, peers_only: bool) -> list[tuple[Values, ...]]:
    """By position k: the nodes that hear a k-th, that k-th, and its weight."""
    weights, (i, j), degrees = metropolis(graph), graph.link_ends.T, graph.degrees
    weight = 1.0 / (1 + np.maximum(degrees[i], degrees[j]))
    if not peers_only:
        nodes = np.arange(graph.n)
        i, j, weight = (np.concatenate(two) for two in ((i, nodes), (j, nodes), (weight, weights.own)))
        order = np.lexsort((j, i))
        i, j, weight = i[order], j[order], weight[order]
    k = place_in_row(i, graph.n)
    return [(i[k == p], j[k == p], weight[k == p]) for p in range(int(k.max(initial=-1)) + 1)]
