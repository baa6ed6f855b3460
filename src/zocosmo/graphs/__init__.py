"""Graphs, mixing weights and public matchings."""

from zocosmo.graphs.graph import (
    GRAPHS,
    Graph,
    complete,
    erdos_renyi,
    grid,
    hypercube,
    path,
    random_regular,
    ring,
    rings,
    small_world,
    star,
    torus,
)
from zocosmo.graphs.listed import Listed, Listing
from zocosmo.graphs.matching import (
    SCHEDULES,
    Matching,
    Schedule,
    edge_colouring,
    expected_laplacian,
    matching,
    mean_laplacian,
)
from zocosmo.graphs.weights import Weights, laplacian_gap, metropolis, rho

__all__ = [
    "GRAPHS",
    "SCHEDULES",
    "Graph",
    "Listed",
    "Listing",
    "Matching",
    "Schedule",
    "Weights",
    "complete",
    "edge_colouring",
    "erdos_renyi",
    "expected_laplacian",
    "grid",
    "hypercube",
    "laplacian_gap",
    "matching",
    "mean_laplacian",
    "metropolis",
    "path",
    "random_regular",
    "rho",
    "ring",
    "rings",
    "small_world",
    "star",
    "torus",
]
