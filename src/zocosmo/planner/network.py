"""Properties of a graph that a plan needs: degrees, flood diameter and load, mixing rates."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known
from zocosmo.graphs.graph import Graph, ring
from zocosmo.graphs.matching import SCHEDULES, expected_laplacian, fits, mean_laplacian
from zocosmo.graphs.weights import laplacian_gap, metropolis, rho

MOST_NODES = 512
SMALL = 12  # up to this many nodes the law of maximal matchings is enumerated for any edges
MOST_EXACT = 16, 32  # nodes and edges up to which enumeration takes a second or two
FEWEST, MOST = 200, 4000  # rounds of the tape sampled for an estimate


@dataclass(frozen=True)
class NetworkShape:
    """What the cost model uses of a graph."""

    graph: Graph
    mean_degree: Fraction
    max_degree: int
    diameter: int
    load: Fraction  # messages that the busiest node sends in a flood
    rho: float


@dataclass(frozen=True)
class Pairing:
    """What the cost model uses of a schedule of matchings."""

    name: str
    active: tuple[Fraction, ...]  # share of rounds in which each node has a partner
    gap: float  # λ₂ of the expected Laplacian
    exact: bool  # False: estimated from rounds of the tape

    @property
    def matched(self) -> Fraction:
        """Mean share of nodes that have a partner."""
        return sum(self.active, Fraction(0)) / len(self.active)

    @property
    def in_turn(self) -> bool:
        """Whether the schedule is a fixed cycle without randomness."""
        return self.name in ("alternating", "round_robin")


def network(graph: Graph) -> NetworkShape:
    """Measure a graph of 2 or more nodes."""
    if not 2 <= graph.n <= MOST_NODES:
        raise InputError(f"a plan covers 2 to {MOST_NODES} nodes, got {graph.n}")
    diameter, load = flood_shape(graph)
    mean = Fraction(2 * len(graph.edges), graph.n)
    return NetworkShape(graph, mean, int(graph.degrees.max()), diameter, load, rho(metropolis(graph)))


def flood_shape(graph: Graph) -> tuple[int, Fraction]:
    """Stages of the shortest possible flood, and the messages its busiest node sends.

    Each message travels along shortest paths and reaches each node once: D stages and N (N − 1) deliveries,
    both minimal. Peers at the same distance from the source take turns delivering to a node.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    sender, receiver = np.array(graph.links).T
    shape = graph.n, graph.n
    links = csr_array((np.ones(len(sender), np.int8), (sender, receiver)), shape)
    far = shortest_path(links, unweighted=True).astype(np.int64)  # (source, node)
    peers = [np.array(each) for each in graph.neighbours]
    parents = np.zeros(shape, np.int64)
    for i, near in enumerate(peers):
        parents[:, near] += far[:, [i]] + 1 == far[:, near]
    loads = []
    for i, near in enumerate(peers):
        shared = np.bincount(parents[:, near][far[:, [i]] + 1 == far[:, near]])
        loads.append(sum((Fraction(int(many), k) for k, many in enumerate(shared) if many), Fraction(0)))
    return int(far.max()), max(loads)


def pairing(graph: Graph, name: str, tape: Tape) -> Pairing:
    """A schedule by name; `auto` takes the one that contracts disagreement most per round."""
    if name != "auto":
        check_known("schedule", name, ("auto", *SCHEDULES))
        return _measured(graph, name, tape)
    found = [_measured(graph, each, tape) for each in _fitting(graph)]
    return max(found, key=lambda one: round(one.gap, 12))  # ties go to the first


def _fitting(graph: Graph) -> tuple[str, ...]:
    """Schedules to try. Uniform perfect matchings are optimal   [thm:mixing_per_bit]"""
    if len(graph.edges) == graph.n * (graph.n - 1) // 2:
        return ("complete",)
    if graph.n % 2 == 0 and graph.edges == ring(graph.n).edges:
        return ("alternating",)
    return tuple(name for name in ("maximal", "round_robin", "perfect") if fits(name, graph))


def _measured(graph: Graph, name: str, tape: Tape) -> Pairing:
    schedule, edges = SCHEDULES[name](graph), len(graph.edges)
    listed = graph.n <= SMALL or (graph.n <= MOST_EXACT[0] and edges <= MOST_EXACT[1])
    if name != "maximal" or listed:
        active = [Fraction(0)] * graph.n
        for (i, j), often in zip(graph.edges, schedule.edge_law(), strict=True):
            active[i] += often
            active[j] += often
        return Pairing(name, tuple(active), laplacian_gap(expected_laplacian(schedule)), True)
    rounds = min(MOST, max(FEWEST, 2_000_000 // edges))
    laplacian = mean_laplacian(schedule, tape, rounds)
    counts = np.rint(np.diag(laplacian) * rounds).astype(int).tolist()
    return Pairing(name, tuple(Fraction(k, rounds) for k in counts), laplacian_gap(laplacian), False)
