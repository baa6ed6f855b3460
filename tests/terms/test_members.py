"""Terms: who is there, what graph they have, and what changes of members are refused."""

import numpy as np
import pytest

from terms.networks import SEED, topology
from zocosmo.core import draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs import ring
from zocosmo.graphs.graph import rings_among
from zocosmo.methods import METHODS
from zocosmo.terms import Dead, Join, Leave, change_members, first_term, next_term


def test_founders_have_the_graph_and_the_schedule_of_the_plan():
    for rules in (topology(), topology("grid", 6), topology("rings", 9, degree=4)):
        term = first_term(rules)
        assert (term.graph, term.schedule) == (rules.founders, "auto")
        assert term.ids.tolist() == term.shares.tolist() == list(range(rules.founders.n))


def test_a_ring_closes_over_who_left_and_takes_in_who_came():
    changes, term = change_members(first_term(topology(n=4)), 9, joining=["ada"], leaving=[1])
    assert term.ids.tolist() == [0, 2, 3, 4]
    assert [term.peers(i) for i in (0, 2, 3, 4)] == [[2, 4], [0, 3], [2, 4], [0, 3]]
    assert changes == (Leave(round=9, node=1), Join(round=9, node=4, name="ada", share=1, source=0))


def test_nodes_and_host_make_the_same_term():
    term = first_term(topology("rings", 12, degree=4))
    changes, hosted = change_members(term, 5, joining=["a", "b"], leaving=[3], dead={7: 2})
    made = next_term(term, 5, reversed(changes))
    assert (made.members, made.graph, made.start) == (hosted.members, hosted.graph, 5)
    assert {type(change) for change in changes} == {Leave, Dead, Join}


def test_rings_change_few_edges_when_few_members_change():
    """A member stands between two others in each of two rings: at most 4 edges go, and 2 come."""
    ids = np.arange(200)
    one, other = rings_among(ids, 4, SEED), rings_among(np.delete(ids, 90), 4, SEED)
    before = {tuple(pair) for pair in ids[one.ends].tolist()}
    after = {tuple(pair) for pair in np.delete(ids, 90)[other.ends].tolist()}
    assert len(before - after) <= 4
    assert len(after - before) <= 2


def test_rings_follow_the_written_rule():
    """Node by node: sort by the first word of stream("rings", r, id), and join each to the next."""
    ids = [1, 4, 5, 9, 12]
    found = set()
    for r in range(2):
        words = {i: int(Tape(SEED).coins("rings", r, i).words(1)[0]) for i in ids}
        order = sorted(ids, key=words.get)
        found |= {frozenset(pair) for pair in zip(order, [*order[1:], order[0]], strict=True)}
    graph = rings_among(np.array(ids), 4, SEED)
    assert {frozenset(np.array(ids)[list(edge)].tolist()) for edge in graph.edges} == found


def test_draws_of_an_edge_name_ids_and_not_positions():
    _, term = change_members(first_term(topology(n=4)), 9, joining=["ada"], leaving=[0])
    how = METHODS["edge_local"](q=2, eta=0.1, mu=0.1)
    draw = how.draw(term.world(8), Tape(SEED), np.array(10))
    for here, there in enumerate(draw.partners.tolist()):
        i, j = sorted(term.ids[[here, there]].tolist())
        assert draw.u.index[here].tolist() == draw_support(Tape(SEED), 10, i, j, d=8, q=2).index.tolist()


@pytest.mark.parametrize("kind", ["edge_local", "cosmo"])
def test_a_process_draws_what_all_draw(kind):
    _, term = change_members(first_term(topology(n=7)), 9, joining=["a", "b"], leaving=[2])
    how = METHODS[kind](q=3, eta=0.1, mu=0.1)
    whole = how.draw(term.world(8), Tape(SEED), np.array(11))
    for at, member in enumerate(term.ids.tolist()):
        one = how.draw(term.world(8, [member]), Tape(SEED), np.array(11))
        rows = np.broadcast_to(whole.u.index, (len(term.ids), 3))
        assert np.broadcast_to(one.u.index, (1, 3))[0].tolist() == rows[at].tolist()


def test_an_odd_ring_falls_back_to_a_schedule_that_fits():
    rules = topology(n=6, schedule="alternating")
    _, term = change_members(first_term(rules), 3, leaving=[0])
    assert (first_term(rules).schedule, term.schedule) == ("alternating", "maximal")


def test_joiners_take_free_shares_and_then_any():
    changes, term = change_members(first_term(topology(n=4)), 3, joining=["a", "b", "c"], leaving=[2])
    assert [join.share for join in changes if isinstance(join, Join)] == [2, 1, 2]
    assert term.next_id == 7


def test_random_regular_graphs_keep_their_degree_where_they_can():
    rules = topology("random_regular", 8, degree=3)
    degrees = {k: {*rules.graph(range(k)).degrees.tolist()} for k in (2, 3, 4, 7, 10)}
    assert degrees == {2: {1}, 3: {2}, 4: {3}, 7: {4}, 10: {3}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([Leave(round=3, node=9)], "member 9 is not in the term"),
        ([Leave(round=4, node=1)], "member 1 changes with round 4, the term with 3"),
        ([Join(round=3, node=3, share=0, source=0)], "the next member to join has id 4, got 3"),
        ([Leave(round=3, node=0), Join(round=3, node=4, share=0, source=0)], "who does not stay"),
        ([Join(round=3, node=4, share=4, source=0)], "has share 4; the problem has 4 shares"),
        ([Leave(round=3, node=i) for i in range(4)], "nobody is left in round 3"),
    ],
)
def test_changes_that_cannot_be_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        next_term(first_term(topology(n=4)), 3, changes)


def test_a_graph_that_cannot_follow_its_members_is_refused():
    _, term = change_members(first_term(topology("grid", 6)), 3, leaving=[0])
    with pytest.raises(GraphError, match="graph grid is only known for its 6 nodes"):
        _ = term.graph


def test_a_term_of_founders_is_the_plain_ring():
    assert topology(n=5).graph([0, 1, 2, 3, 4]) == ring(5)
