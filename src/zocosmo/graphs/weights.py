"""Metropolis weights and spectral gaps   [eq:appendix_metropolis_offdiag, eq:appendix_rho_compute]"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zocosmo.graphs.graph import Graph

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Weights:
    """W stored sparsely: w_ij for each edge of the graph, w_ii for each node."""

    graph: Graph
    edge: Matrix  # (edges,)
    own: Matrix  # (n,)

    def matrix(self) -> Matrix:
        """W as an n × n matrix: symmetric, non-negative, with rows that sum to 1."""
        W = np.diag(self.own)
        if self.graph.edges:
            i, j = np.array(self.graph.edges).T
            W[i, j] = W[j, i] = self.edge
        return W


def metropolis(graph: Graph) -> Weights:
    """w_ij = 1 / (1 + max(deg i, deg j)) on edges; w_ii = 1 − Σ_j w_ij, subtracted in ascending order of j.

    >>> from zocosmo.graphs.graph import path
    >>> metropolis(path(3)).matrix().round(3).tolist()
    [[0.667, 0.333, 0.0], [0.333, 0.333, 0.333], [0.0, 0.333, 0.667]]
    """
    degrees = graph.degrees
    edge = 1.0 / (1 + degrees[graph.ends].max(axis=1, initial=0))
    own, (i, j) = np.ones(graph.n), graph.link_ends.T
    weight, k = 1.0 / (1 + np.maximum(degrees[i], degrees[j])), place_in_row(i, graph.n)
    for place in range(int(k.max(initial=-1)) + 1):
        own[i[k == place]] -= weight[k == place]
    return Weights(graph, edge, own)


def place_in_row(rows: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """For each of ascending rows, how many entries of the same row come before it."""
    first = np.searchsorted(rows, np.arange(n))
    return np.arange(len(rows)) - first[rows]


def rho(weights: Weights) -> float:
    """ρ = spectral radius of W − 11ᵀ/N: below 1 if mixing contracts, 0 if one step averages exactly."""
    n = weights.graph.n
    return float(np.abs(np.linalg.eigvalsh(weights.matrix() - np.full((n, n), 1 / n))).max())


def laplacian_gap(laplacian: Matrix) -> float:
    """λ₂: the second smallest eigenvalue; 0 if the graph is not connected."""
    return float(np.linalg.eigvalsh(laplacian)[1]) if len(laplacian) > 1 else 0.0
