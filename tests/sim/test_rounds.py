"""The driver of a round: what is asked, told, passed over or begun again."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import Toy, small
from zocosmo.channel import MemoryChannel
from zocosmo.graphs.graph import complete
from zocosmo.methods import State, World
from zocosmo.problems.quadratic import quadratic
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import Rounds

GRAPH, PROBLEM = complete(4), quadratic(4, 1, d=6, zeta=1.0, sigma=0.25)


def rounds_of(method):
    """One run without an axis of runs, at the start of the problem."""
    options = {"d": 6, "wire": "f64", "codecs": (method.codec,), "dtype": "float64", "server": method.server}
    channel = MemoryChannel([GRAPH], **options)
    draws = DrawAhead(method, [World(GRAPH, 6)], [3], np.dtype("f8"), runs=False)
    return Rounds(method, method.init(np.tile(PROBLEM.x0, (4, 1))), draws, channel)


def told(rounds):
    """One round by hand; what it asked."""
    t, asked = rounds.t, []
    while rounds.t == t and (query := rounds.ask()) is not None:
        asked.append(query)
        rounds.tell(PROBLEM.slopes(query, t))
    return asked


class Stumbling(Toy):
    """Fails as often as it is told to, before it asks or after."""

    left = {}  # noqa: RUF012

    def step(self, t, state, draw, channel):
        self.stumble("before")
        step = super().step(t, state, draw, channel)
        slope = yield next(step)
        self.stumble("after")
        try:
            step.send(slope)
        except StopIteration as done:
            return done.value

    def stumble(self, where):
        if self.left.pop(where, 0):
            raise RuntimeError(where)


class Silent(Toy):
    """Asks nothing."""

    def step(self, t, state, draw, channel):
        return State(state.x + 1)
        yield


def test_a_question_is_the_same_until_it_is_told():
    rounds = rounds_of(small("cosmo"))
    assert rounds.asking is None
    query = rounds.ask()
    assert rounds.ask() is rounds.asking is query
    rounds.tell(PROBLEM.slopes(query, 0))
    assert (rounds.t, rounds.asking) == (1, None)
    assert rounds.ask().u is not query.u


@pytest.mark.parametrize("name", ["cosmo", "edge_local", "marina", "meerkat", "decomfl"])
def test_rounds_by_hand_are_those_of_advance(name):
    by_hand, advanced = rounds_of(small(name)), rounds_of(small(name))
    for _ in range(6):
        told(by_hand)
        advanced.advance(PROBLEM)
    assert_array_equal(by_hand.state.x, advanced.state.x)
    assert_array_equal(by_hand.asked, advanced.asked)
    codec = by_hand.method.codec
    assert_array_equal(by_hand.channel.ledger(codec).counts, advanced.channel.ledger(codec).counts)


def test_queries_are_counted_where_they_were_asked():
    """Meerkat asks along 4 directions in round 0 and then along one: 8 and 2 evaluations, of 2 nodes."""
    rounds = rounds_of(small("meerkat", calibration=4, participants=2))
    for each in (8, 2, 2):
        before = rounds.asked.copy()
        rounds.advance(PROBLEM)
        assert sorted((rounds.asked - before).tolist()) == [0, 0, each, each]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_step_that_raises_leaves_all_as_it_was_and_can_be_begun_again(where):
    rounds, straight = rounds_of(Stumbling(eta=0.1, mu=0.01)), rounds_of(Toy(eta=0.1, mu=0.01))
    for each in (rounds, straight):
        told(each)
    state, x = rounds.state, rounds.state.x.copy()
    Stumbling.left[where] = 1
    with pytest.raises(RuntimeError, match=where):
        told(rounds)
    assert (rounds.t, rounds.asking, rounds.state is state) == (1, None, True)
    assert_array_equal(rounds.state.x, x)
    for each in (rounds, straight):
        told(each)
    assert_array_equal(rounds.state.x, straight.state.x)


def test_an_oracle_that_raises_leaves_the_question_open():
    rounds, straight = rounds_of(small("cosmo")), rounds_of(small("cosmo"))
    query, broken = rounds.ask(), quadratic(4, 1, d=6)
    broken.slopes = None
    with pytest.raises(TypeError):
        rounds.advance(broken)
    assert (rounds.t, rounds.asking is query, rounds.asked.sum()) == (0, True, 0)
    for each in (rounds, straight):
        each.advance(PROBLEM)
    assert_array_equal(rounds.state.x, straight.state.x)


def test_a_round_that_is_passed_asks_and_sends_nothing_and_leaves_the_state():
    rounds = rounds_of(small("cosmo"))
    x, coming = rounds.state.x.copy(), rounds.draws.at(1).u
    rounds.skip()
    assert (rounds.t, rounds.asked.sum(), rounds.channel.ledger("values").counts.sum()) == (1, 0, 0)
    assert_array_equal(rounds.state.x, x)
    assert_array_equal(rounds.ask().u.index, coming.index)


def test_a_round_can_be_passed_after_it_was_asked_for():
    asked, never = rounds_of(small("cosmo")), rounds_of(small("cosmo"))
    asked.ask()
    for rounds in (asked, never):
        rounds.skip()
        rounds.advance(PROBLEM)
    assert asked.t == never.t == 2
    assert_array_equal(asked.state.x, never.state.x)


def test_a_round_that_is_dropped_is_asked_again():
    rounds = rounds_of(small("cosmo"))
    first = rounds.ask()
    rounds.drop()
    assert rounds.asking is None
    again = rounds.ask()
    assert (again is not first, rounds.t) == (True, 0)
    assert_array_equal(again.u.index, first.u.index)


def test_a_round_without_a_question_ends_when_it_is_begun():
    rounds = rounds_of(Silent(eta=0.1, mu=0.01))
    x = rounds.state.x.copy()
    assert (rounds.ask(), rounds.t) == (None, 1)
    rounds.advance(PROBLEM)
    assert rounds.t == 2
    assert_array_equal(rounds.state.x, x + 2)


def test_other_numbers_count_from_the_next_round_on():
    changed, straight = rounds_of(small("cosmo", eta=0.5)), rounds_of(small("cosmo", eta=0.01))
    changed.use(small("cosmo", eta=0.01))
    for rounds in (changed, straight):
        rounds.advance(PROBLEM)
    assert_array_equal(changed.state.x, straight.state.x)
