"""Laws of schedules, written apart from the code that draws them, against that code."""

from fractions import Fraction

import pytest

from zocosmo.checks.laws import colour_classes, cycle_of, greedy_law
from zocosmo.graphs import GRAPHS, SCHEDULES, edge_colouring
from zocosmo.graphs.listed import Listed
from zocosmo.theory.mixing import energy_after

CASES = [
    ("complete", 6, "complete"),
    ("complete", 5, "complete"),
    ("ring", 6, "alternating"),
    ("ring", 2, "alternating"),
    ("ring", 8, "iid"),
    ("grid", 6, "maximal"),
    ("star", 5, "maximal"),
    ("path", 7, "round_robin"),
    ("grid", 6, "round_robin"),
    ("hypercube", 8, "perfect"),
    ("ring", 6, "perfect"),
]


@pytest.mark.parametrize(("graph", "n", "name"), CASES)
def test_the_edge_law_is_the_one_that_our_schedule_states(graph, n, name):
    schedule = SCHEDULES[name](GRAPHS[graph](n))
    stated = dict(zip(schedule.graph.edges, schedule.edge_law(), strict=True))
    assert cycle_of(name, schedule).mean.edges == {e: share for e, share in stated.items() if share}


def test_a_listed_schedule_brings_its_own_law():
    schedule = Listed(GRAPHS["path"](4), [[(0, 1), (2, 3)], [(1, 2)]], [3, 1])
    cycle = cycle_of("listed-0000", schedule)
    assert (cycle.is_iid, cycle.is_perfect) == (True, False)
    assert cycle.mean.edges[1, 2] == Fraction(1, 4)


def test_greedy_matchings_of_a_path_of_four_end_in_the_middle_one_time_in_three():
    law = dict(greedy_law(4, [(0, 1), (1, 2), (2, 3)]).matchings)
    assert law == {((0, 1), (2, 3)): Fraction(2, 3), ((1, 2),): Fraction(1, 3)}


def test_a_graph_with_too_many_matchings_has_no_listed_law():
    assert greedy_law(16, GRAPHS["complete"](16).edges) is None


def test_colour_classes_come_in_the_order_of_our_colouring():
    graph = GRAPHS["grid"](12)
    colours = edge_colouring(graph)
    ours = [[e for e, c in zip(graph.edges, colours, strict=True) if c == k] for k in range(max(colours) + 1)]
    assert colour_classes(graph.edges) == ours


@pytest.mark.parametrize(
    ("graph", "n", "name", "perfect"),
    [("ring", 6, "alternating", True), ("complete", 5, "complete", False), ("torus", 16, "perfect", True)],
)
def test_perfect_means_that_nobody_ever_idles(graph, n, name, perfect):
    assert cycle_of(name, SCHEDULES[name](GRAPHS[graph](n))).is_perfect == perfect


@pytest.mark.parametrize(("n", "q"), [(6, 1), (5, 2)])
def test_the_complete_graph_needs_no_list_to_know_its_energy(n, q):
    """Against the list of its matchings, in rationals; a maximal matching of it is a uniform perfect one."""
    graph = GRAPHS["complete"](n)
    Y = [[(i * i + 3 * k) % 5 for k in range(3)] for i in range(n)]
    (whole,) = cycle_of("complete", SCHEDULES["complete"](graph)).laws
    (listed,) = cycle_of("maximal", SCHEDULES["maximal"](graph)).laws
    assert energy_after(Y, whole, q=q) == energy_after(Y, listed, q=q)
