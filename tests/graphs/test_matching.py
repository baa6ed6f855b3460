import itertools
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import reference
from zocosmo.core import Tape
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs import (
    SCHEDULES,
    Graph,
    complete,
    edge_colouring,
    erdos_renyi,
    expected_laplacian,
    grid,
    hypercube,
    laplacian_gap,
    matching,
    mean_laplacian,
    path,
    random_regular,
    ring,
    rings,
    star,
)
from zocosmo.graphs.matching import fits

ALPHA = 1e-6
SEVEN = Graph.of(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4)])
SETTINGS = [
    ("alternating", ring(8)), ("iid", ring(8)), ("alternating", ring(2)), ("iid", ring(2)),
    ("complete", complete(8)), ("complete", complete(7)), ("complete", complete(2)),
    ("maximal", SEVEN), ("maximal", ring(7)), ("maximal", star(5)), ("maximal", grid(9)),
    ("maximal", path(1)),
    ("round_robin", grid(9)), ("round_robin", complete(7)), ("round_robin", erdos_renyi(10, 0.4)),
    ("perfect", random_regular(10, 3)), ("perfect", complete(8)), ("perfect", path(2)),
]  # fmt: skip


def pairs(name, graph, t, seed=0):
    return matching(SCHEDULES[name](graph), Tape(seed), t).pairs


def text(found):
    return " ".join(f"{i}{j}" for i, j in found)


def test_matchings_are_those_of_the_protocol():
    assert [text(pairs("complete", complete(8), t)) for t in (0, 1)] == ["05 14 23 67", "01 24 36 57"]
    assert text(pairs("complete", complete(7), 0)) == "02 14 56"
    assert matching(SCHEDULES["complete"](complete(7)), Tape(0), 0).idle == (3,)
    assert [(0, 1) not in pairs("iid", ring(6), t) for t in range(8)] == [0, 1, 1, 1, 0, 0, 1, 1]
    assert [text(pairs("maximal", SEVEN, t)) for t in range(3)] == ["05 14 23", "01 23 45", "12 45"]
    assert [text(pairs("perfect", complete(6), t)) for t in range(3)] == ["03 12 45", "05 14 23", "01 24 35"]


@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), t=st.integers(0, 10**6))
def test_matchings_equal_the_plain_implementation(seed, n, t):
    graph = erdos_renyi(n, 0.5, seed=seed)
    assert list(pairs("maximal", graph, t, seed)) == reference.matching_greedy(seed, graph.edges, t)
    assert list(pairs("complete", complete(n), t, seed)) == reference.matching_complete(seed, n, t)
    even = n + n % 2
    assert list(pairs("iid", ring(even), t, seed)) == reference.matching_ring_iid(seed, even, t)
    assert list(pairs("alternating", ring(even), t, seed)) == reference.matching_ring_alternating(even, t)


@given(
    seed=st.integers(0, 10**6), half=st.integers(3, 8), degree=st.sampled_from([3, 4]), t=st.integers(0, 99)
)
@settings(deadline=None, max_examples=40)
def test_perfect_matchings_equal_the_plain_implementation(seed, half, degree, t):
    graph = random_regular(2 * half, degree=degree, seed=seed)
    assume(fits("perfect", graph))
    assert list(pairs("perfect", graph, t, seed)) == reference.matching_perfect(seed, graph.n, graph.edges, t)


@pytest.mark.parametrize("graph", [random_regular(64, 4, 3), hypercube(16), ring(6), complete(6)], ids=repr)
def test_perfect_matchings_leave_nobody_idle_and_have_every_edge_once(graph):
    schedule = SCHEDULES["perfect"](graph)
    drawn = {matching(schedule, Tape(0), t) for t in range(300)}
    assert all(not one.idle for one in drawn)
    assert sorted(pair for one in drawn for pair in one.pairs) == list(graph.edges)


def test_classes_of_a_regular_graph_are_drawn_alike():
    """χ² over four classes in 40,000 rounds, at level 1e-6."""
    partners = SCHEDULES["perfect"](random_regular(8, 4)).partners(Tape("uniform"), np.arange(40_000))
    _, counts = np.unique(partners, axis=0, return_counts=True)
    assert len(counts) == 4
    assert ((counts - 10_000) ** 2 / 10_000).sum() < chi2.isf(ALPHA, 3)


def test_a_graph_without_perfect_matchings_that_make_it_up_is_refused():
    petersen = Graph.from_networkx(nx.petersen_graph())
    with pytest.raises(GraphError, match=r"no perfect matchings that make up .* 300 attempts; use 'maximal'"):
        SCHEDULES["perfect"](petersen)
    assert not fits("perfect", petersen)


@pytest.mark.parametrize(("name", "graph"), SETTINGS, ids=str)
def test_partners_are_mutual_and_joined_by_an_edge(name, graph):
    partners = SCHEDULES[name](graph).partners(Tape(3), np.arange(200))
    assert (np.take_along_axis(partners, partners, axis=-1) == np.arange(graph.n)).all()
    allowed = {*graph.links, *((i, i) for i in range(graph.n))}
    assert {(i, int(j)) for row in partners for i, j in enumerate(row)} <= allowed


@pytest.mark.parametrize(("name", "graph"), SETTINGS, ids=str)
def test_a_batch_of_tapes_and_rounds_equals_one_by_one(name, graph):
    schedule, tapes, t = SCHEDULES[name](graph), Tape.stack([1, 2]), np.arange(5)
    batch = schedule.partners(tapes[:, None], t)
    assert batch.shape == (2, 5, graph.n)
    for s, k in np.ndindex(2, 5):
        assert (batch[s, k] == schedule.partners(tapes[s], k)).all()


@pytest.mark.parametrize("graph", [SEVEN, ring(7), star(5), grid(9), random_regular(10, 3)], ids=repr)
def test_greedy_matchings_are_maximal(graph):
    for t in range(100):
        found = matching(SCHEDULES["maximal"](graph), Tape(1), t)
        assert not any(i in found.idle and j in found.idle for i, j in graph.edges)
        assert sorted([*found.idle, *(i for pair in found.pairs for i in pair)]) == list(range(graph.n))


@pytest.mark.parametrize("n", [4, 5, 6])
def test_matchings_of_a_complete_graph_are_uniform(n):
    """χ² over all perfect (or near-perfect) matchings in 30,000 rounds, at level 1e-6."""
    partners = SCHEDULES["complete"](complete(n)).partners(Tape("uniform"), np.arange(30_000))
    _, counts = np.unique(partners, axis=0, return_counts=True)
    size = {4: 3, 5: 15, 6: 15}[n]
    assert len(counts) == size
    assert ((counts - 30_000 / size) ** 2 / (30_000 / size)).sum() < chi2.isf(ALPHA, size - 1)


def test_phases_of_a_ring_are_fair():
    """A fair coin 40,000 times: within 4.9 standard deviations, which misses once in a million."""
    heads = (SCHEDULES["iid"](ring(6)).partners(Tape("coin"), np.arange(40_000))[:, 0] == 1).sum()
    assert abs(heads - 20_000) < 4.9 * 100


@pytest.mark.parametrize("graph", [SEVEN, ring(7), star(5), grid(6)], ids=repr)
def test_the_law_of_maximal_matchings_by_full_enumeration(graph):
    """Every order of the edges, greedily; in rationals."""
    if len(graph.edges) > 7:
        pytest.skip("more than 5040 orders")
    counts, orders = dict.fromkeys(graph.edges, 0), 0
    for order in itertools.permutations(graph.edges):
        free, orders = set(range(graph.n)), orders + 1
        for i, j in order:
            if {i, j} <= free:
                free -= {i, j}
                counts[i, j] += 1
    assert SCHEDULES["maximal"](graph).edge_law() == [Fraction(counts[e], orders) for e in graph.edges]


@pytest.mark.parametrize(("name", "graph"), SETTINGS, ids=str)
def test_the_law_of_every_schedule_is_what_the_tape_draws(name, graph):
    """Edge frequencies over 20,160 rounds (a multiple of every cycle), within 5 standard deviations."""
    schedule, rounds = SCHEDULES[name](graph), 20_160
    drawn, law = mean_laplacian(schedule, Tape("law"), rounds), expected_laplacian(schedule)
    share = -law[*np.triu_indices(graph.n, 1)]
    spread = 5 * np.sqrt(np.clip(share * (1 - share), 0, None) / rounds) + 1e-12
    assert (np.abs((drawn - law)[*np.triu_indices(graph.n, 1)]) <= spread).all()


def test_expected_gaps_in_closed_form():
    """N/(N−1) on complete graphs, 1 − cos 2π/N on even rings   [eq:edge_ring_gap]"""
    for n in (4, 8, 10):
        assert laplacian_gap(expected_laplacian(SCHEDULES["complete"](complete(n)))) == pytest.approx(
            n / (n - 1)
        )
        for name in ("alternating", "iid"):
            gap = laplacian_gap(expected_laplacian(SCHEDULES[name](ring(n))))
            assert gap == pytest.approx(1 - np.cos(2 * np.pi / n))


@pytest.mark.parametrize("graph", [ring(7), grid(12), star(6), complete(7), erdos_renyi(12, 0.4)], ids=repr)
def test_a_round_robin_visits_every_edge_once_in_a_cycle(graph):
    schedule = SCHEDULES["round_robin"](graph)
    visits = [pair for t in range(schedule.cycle) for pair in matching(schedule, Tape(0), t).pairs]
    assert sorted(visits) == list(graph.edges)
    assert schedule.cycle <= 2 * graph.degrees.max() - 1


def test_even_rings_and_powers_of_two_take_the_fewest_colours():
    assert max(edge_colouring(ring(10))) + 1 == 2
    assert max(edge_colouring(complete(8))) + 1 == 7


def test_colours_that_meet_differ():
    graph = erdos_renyi(14, 0.5)
    line = nx.line_graph(graph.to_networkx())
    colour = dict(zip(graph.edges, edge_colouring(graph), strict=True))
    assert all(colour[min(a), max(a)] != colour[min(b), max(b)] for a, b in line.edges)


@pytest.mark.parametrize(
    ("name", "graph"),
    [
        ("alternating", ring(7)),
        ("iid", grid(4)),
        ("iid", ring(3)),
        ("complete", ring(6)),
        ("alternating", path(1)),
        ("perfect", ring(7)),
        ("perfect", grid(6)),
        ("perfect", rings(5_002, 2)),
    ],
    ids=str,
)
def test_a_schedule_refuses_graphs_that_it_is_not_for(name, graph):
    with pytest.raises(GraphError, match=f"schedule '{name}' needs .*; use 'maximal'"):
        SCHEDULES[name](graph)


def test_the_law_of_large_maximal_matchings_is_left_to_the_tape():
    with pytest.raises(GraphError, match="use mean_laplacian"):
        SCHEDULES["maximal"](ring(17)).edge_law()


@pytest.mark.parametrize("t", [-1, 1.5, 2**64, True])
@pytest.mark.parametrize("name", ["alternating", "iid", "round_robin", "maximal", "perfect"])
def test_rounds_that_are_none_are_refused(name, t):
    with pytest.raises(InputError, match="an id must be an integer"):
        SCHEDULES[name](ring(4)).partners(Tape(0), t)


def test_means_are_over_all_tapes_and_rounds():
    schedule, tapes = SCHEDULES["iid"](ring(6)), Tape.stack([1, 2, 3])
    apart = np.mean([mean_laplacian(schedule, Tape(seed), 50) for seed in (1, 2, 3)], axis=0)
    assert mean_laplacian(schedule, tapes, 50) == pytest.approx(apart)


def test_one_matching_is_of_one_tape_and_round():
    with pytest.raises(InputError, match="one tape and one round"):
        matching(SCHEDULES["maximal"](ring(4)), Tape.stack([1, 2]), 0)


def test_one_node_alone_has_no_edges_to_weigh():
    for name in ("complete", "maximal", "round_robin"):
        assert SCHEDULES[name](complete(1)).edge_law() == []
        assert matching(SCHEDULES[name](complete(1)), Tape(0), 0) == ((), (0,))
