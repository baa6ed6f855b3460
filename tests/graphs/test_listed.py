"""Matchings of one's own: drawn by the tape's own rule, checked before use, named by what they list."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

import reference
from zocosmo.blackbox.minimize import minimize
from zocosmo.core import Tape
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs import (
    Listed,
    Listing,
    Matching,
    complete,
    expected_laplacian,
    grid,
    laplacian_gap,
    matching,
    path,
    ring,
)
from zocosmo.methods.base import World
from zocosmo.theory.schedule import best_schedule

THREE = [[(0, 1), (2, 3)], [(1, 2)], [(0, 1)]]
LAW = Listed(path(4), THREE, [3, 1, 2])


def place(seed, weights, t):
    """Which matching a round takes, by plain code over the plain tape."""
    value = reference.Stream(reference.key(seed), "matching", (t,)).below(sum(weights))
    return next(k for k in range(len(weights)) if value < sum(weights[: k + 1]))


def test_the_first_rounds_are_these():
    """Computed once by tests/reference.py; a change is a new version of the protocol."""
    rows = [[1, 0, 3, 2], [0, 2, 1, 3], [1, 0, 2, 3]]
    places = [0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0]
    assert LAW.partners(Tape(0), np.arange(16)).tolist() == [rows[k] for k in places]
    large = Listed(path(4), THREE, [342446117393, 270273936989, 207309477917])
    places = [2, 0, 0, 2, 1, 1, 1, 0, 1, 0, 1, 1, 2, 0, 1, 0]
    assert large.partners(Tape("alpha"), np.arange(16)).tolist() == [rows[k] for k in places]
    assert matching(LAW, Tape(0), 1) == (((1, 2),), (0, 3))


WEIGHTS = st.lists(st.one_of(st.integers(1, 9), st.integers(1, 2**60)), min_size=3, max_size=3)


@given(seed=st.integers(0, 10**6), weights=WEIGHTS, t=st.integers(0, 10**9))
def test_draws_equal_the_plain_implementation(seed, weights, t):
    drawn = matching(Listed(path(4), THREE, weights), Tape(seed), t).pairs
    assert list(drawn) == THREE[place(seed, weights, t)]


def test_words_that_would_favour_some_are_drawn_again():
    """Of 3 · 2^61 parts a quarter of all words is rejected, and both implementations go on alike."""
    weights = [2**61, 2**61, 2**61]
    law = Listed(path(4), THREE, weights)
    drawn = [list(Matching.of(row).pairs) for row in law.partners(Tape(5), np.arange(200))]
    assert drawn == [THREE[place(5, weights, t)] for t in range(200)]


def test_a_batch_of_tapes_and_rounds_equals_one_by_one():
    tapes, t = Tape.stack([1, 2]), np.arange(5)
    batch = LAW.partners(tapes[:, None], t)
    assert batch.shape == (2, 5, 4)
    for s, k in np.ndindex(2, 5):
        assert (batch[s, k] == LAW.partners(tapes[s], k)).all()


def test_one_matching_of_weight_one_needs_no_coins():
    sure = Listed(complete(2), [[(0, 1)]], [1])
    assert sure.partners(Tape.stack([1, 2, 3])[:, None], np.arange(4)).tolist() == [[[1, 0]] * 4] * 3
    assert sure.edge_law() == [1]


def test_matchings_come_as_often_as_their_weights_say():
    """χ² over 30,000 rounds at level 1e-6."""
    partners = LAW.partners(Tape("often"), np.arange(30_000))
    counts = np.array(
        [(partners == row).all(axis=1).sum() for row in ([1, 0, 3, 2], [0, 2, 1, 3], [1, 0, 2, 3])]
    )
    expected = 30_000 * np.array([3, 1, 2]) / 6
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-6, 2)


def test_the_law_of_edges_is_exact():
    assert LAW.edge_law() == [Fraction(5, 6), Fraction(1, 6), Fraction(1, 2)]


def test_the_best_law_of_the_theory_is_a_schedule_of_the_same_gap():
    graph = grid(9)
    law = best_schedule(graph.n, graph.edges)
    schedule = Listed(graph, [pairs for pairs, _ in law.law.listed()], law.whole_weights())
    assert laplacian_gap(expected_laplacian(schedule)) == pytest.approx(law.lambda2, rel=1e-12)


@pytest.mark.parametrize(
    ("matchings", "weights", "says"),
    [
        (
            [[(0, 1), (1, 2)], [(2, 3)]],
            [1, 1],
            "matching 0 pairs node 1 2 times; a node can have only one partner",
        ),
        ([[(0, 1)], [(0, 2)]], [1, 1], r"matching 1 pairs 0 and 2, which is not an edge of Graph\(n=4"),
        ([[(0, 1)], [(4, 3)]], [1, 1], "matching 1 pairs 3 and 4, which is not an edge"),
        ([[(0, 1), (2, 3)]], [1], "not connected: .* so λ₂ = 0 and nodes never agree; list more pairs"),
        ([[(0, 1)], [(1, 2)], [(0, 1)]], [1, 1, 1], "not connected: .* λ₂ = 0"),
        (THREE, [1, 1], "3 matchings need one weight each, got 2"),
        (THREE, [1, 0, 2], "weight 1 must be an integer ≥ 1, got 0"),
        (THREE, [1, 0.5, 2], "weight 1 must be an integer ≥ 1, got 0.5"),
        (THREE, [1, True, 2], "weight 1 must be an integer ≥ 1, got True"),
        (THREE, [2**63, 1, 1], r"more than 2\^63; scale them down"),
        ([[]], [1], "matching 0 has no pairs; remove it"),
        ([], [], "lists 1 to 10,000 matchings, got 0"),
        ([[(0, 1, 2)]], [1], r"matching 0 must list pairs of nodes such as \[0, 1\]; got \(0, 1, 2\)"),
        ([[(0, "1")]], [1], r"matching 0 must list pairs of nodes"),
        ([[0, 1]], [1], "matching 0 must list pairs of nodes such as .* got 0"),
        ("01", [1], "matchings of a schedule must be a list, got '01'"),
        ([[(0, 1)]], 1, "weights of a schedule must be a list, got 1"),
    ],
)
def test_lists_that_are_no_schedule_are_refused(matchings, weights, says):
    with pytest.raises(GraphError, match=says):
        Listed(path(4), matchings, weights)


def test_a_pair_may_be_written_either_way_round_and_in_any_order():
    turned = Listing.of([[(3, 2), (1, 0)], [(2, 1)], [(1, 0)]], [3, 1, 2])
    assert turned == LAW.listing
    assert turned.name == LAW.listing.name


@pytest.mark.parametrize(
    "other",
    [
        ([*THREE[1:], THREE[0]], [1, 2, 3]),
        (THREE, [3, 2, 1]),
        (THREE, [6, 2, 4]),
        ([THREE[0], THREE[1], THREE[1]], [3, 1, 2]),
    ],
)
def test_lists_that_draw_otherwise_have_other_names(other):
    """Even where the law is the same: what counts is the matching of each round."""
    assert Listing.of(*other).name != LAW.listing.name


def test_names_are_of_one_length_and_labels_are_short():
    assert repr(LAW.listing) == LAW.listing.name == "listed-" + LAW.listing.name[7:]
    assert (len(LAW.listing.name), str(LAW.listing)) == (39, LAW.listing.name[:11])


def test_a_mapping_is_read_and_given_back():
    given = {"matchings": [[[0, 1], [2, 3]], [[1, 2]]], "weights": [3, 1]}
    assert Listing.read(given).plain() == given
    with pytest.raises(InputError, match="key of a schedule 'weight' is not known; choose from matchings"):
        Listing.read({**given, "weight": 1})
    with pytest.raises(GraphError, match="add 'weights'"):
        Listing.read({"matchings": given["matchings"]})


@pytest.mark.parametrize(
    "schedule", [LAW, LAW.listing, LAW.listing.plain()], ids=["Listed", "Listing", "dict"]
)
def test_a_world_takes_a_list_in_every_form(schedule):
    world = World(path(4), 3, schedule)
    assert world.schedule_name == LAW.listing.name
    assert (world.schedule.partners(Tape(2), np.arange(9)) == LAW.partners(Tape(2), np.arange(9))).all()


def test_a_world_refuses_a_list_of_another_graph():
    with pytest.raises(GraphError, match=r"this schedule is for Graph.*path.*, not for Graph.*ring"):
        World(ring(4), 3, LAW)
    with pytest.raises(GraphError, match="which is not an edge"):
        World(path(4), 3, {"matchings": [[(0, 3)]], "weights": [1]})
    with pytest.raises(
        InputError, match="a schedule must be a name, a mapping of matchings and weights, or Listed"
    ):
        World(path(4), 3, 7)


def test_minimize_takes_a_list_and_follows_it():
    """Quadratic bowls with equal minima; nodes of a matching that is never listed would never move."""
    options = {"graph": path(4), "method": "edge_local", "q": 1, "eta": 0.1, "mu": 1e-3}
    options |= {"rounds": 40, "seed": 3}
    one = minimize(lambda x: float(x @ x), [1.0, 2.0], schedule=LAW.listing.plain(), **options)
    two = minimize(lambda x: float(x @ x), [1.0, 2.0], schedule=LAW, **options)
    named = minimize(lambda x: float(x @ x), [1.0, 2.0], schedule="maximal", **options)
    assert (one.states == two.states).all()
    assert (one.states != named.states).any()
