"""Floods against networkx path by path; pairings against what the tape draws."""

from fractions import Fraction

import networkx as nx
import numpy as np
import pytest

from zocosmo import Tape, draw_support
from zocosmo.errors import InputError
from zocosmo.graphs import GRAPHS, SCHEDULES, Graph, complete, erdos_renyi, grid, path, ring, star
from zocosmo.planner import network, pairing
from zocosmo.planner.crossover import CLOSED
from zocosmo.planner.network import flood_shape
from zocosmo.planner.sweep import DEGREES

SOME = [
    ring(7),
    ring(8),
    path(5),
    star(6),
    complete(5),
    grid(12),
    GRAPHS["hypercube"](8),
    erdos_renyi(14, 0.3, 2),
]


@pytest.mark.parametrize("graph", SOME, ids=str)
def test_a_flood_follows_shortest_paths(graph):
    """Every node hears every source once, from its nearer peers in turn; loads added up source by source."""
    web, loads = graph.to_networkx(), [Fraction(0)] * graph.n
    for source in range(graph.n):
        for near in nx.predecessor(web, source).values():
            for peer in near:
                loads[peer] += Fraction(1, len(near))
    assert sum(loads) == graph.n * (graph.n - 1)
    assert flood_shape(graph) == (nx.diameter(web), max(loads))


@pytest.mark.parametrize("kind", CLOSED)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 11])
def test_closed_forms_are_what_is_measured(kind, n):
    graph = GRAPHS[kind](n)
    assert CLOSED[kind](n) == flood_shape(graph)
    assert DEGREES[kind](n) == network(graph).mean_degree


@pytest.mark.parametrize(
    ("graph", "name", "matched"),
    [
        (ring(6), "alternating", 1),
        (complete(6), "complete", 1),
        (complete(5), "complete", "4/5"),
        (ring(5), "maximal", "4/5"),
    ],
)
def test_auto_takes_the_schedule_that_fits(graph, name, matched):
    found = pairing(graph, "auto", Tape(0))
    assert (found.name, found.matched, found.exact) == (name, Fraction(matched), True)


@pytest.mark.parametrize("graph", [grid(12), star(6), erdos_renyi(10, 0.4, 1), path(6)], ids=str)
def test_auto_is_no_slower_than_any_schedule_that_fits(graph):
    gaps = [pairing(graph, name, Tape(0)).gap for name in ("maximal", "round_robin")]
    assert pairing(graph, "auto", Tape(0)).gap == max(gaps)


def test_a_star_pairs_its_centre_always_and_the_others_in_turn():
    assert pairing(star(5), "maximal", Tape(0)).active == (1, *[Fraction(1, 4)] * 4)


def test_large_graphs_are_estimated_and_say_so():
    """A ring of 40 by maximal matchings: each edge in a share s of rounds, so λ₂ = s · 2 (1 − cos(2π/40)).

    A node is matched in 2 s of them. 4000 rounds leave the share of an edge off by √(s (1 − s)/4000), 1.8 %
    of s = 0.43. The slowest vector averages over 40 edges: λ₂ is off by 0.4 %; five times that is allowed.
    """
    found = pairing(ring(40), "maximal", Tape(0))
    symmetric = float(found.matched) / 2 * 2 * (1 - np.cos(2 * np.pi / 40))
    assert not found.exact
    assert 0.98 * symmetric < found.gap < 1.02 * symmetric


def test_the_contraction_of_pairs_is_that_of_drawn_matchings_and_supports():
    """States along the slowest eigenvector of L̄, 1500 tapes: the mean loss of energy is p λ₂/2, |z| < 4."""
    graph, d, q = ring(6), 8, 3
    found = pairing(graph, "iid", Tape(0))
    slow = np.linalg.eigh(SCHEDULES["iid"](graph).graph.laplacian())[1][:, 1]
    x, lost = np.outer(slow, np.arange(1.0, d + 1)), []  # unequal, so that supports differ in what they mix
    for seed in range(1500):
        partners = SCHEDULES["iid"](graph).partners(Tape(seed), 0)
        support = draw_support(Tape(seed), 0, d=d, q=q).index
        y = x.copy()
        y[:, support] = (x[:, support] + x[partners][:, support]) / 2
        lost.append(1 - (y**2).sum() / (x**2).sum())
    z = (np.mean(lost) - q / d * found.gap / 2) / (np.std(lost) / len(lost) ** 0.5)
    assert abs(z) < 4


@pytest.mark.parametrize("graph", [Graph.of(1, []), ring(513)], ids=str)
def test_a_plan_is_for_several_nodes_and_not_for_thousands(graph):
    with pytest.raises(InputError, match=f"got {graph.n}"):
        network(graph)
