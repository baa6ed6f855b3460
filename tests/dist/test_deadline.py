import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.dist.deadline import FACTOR, FIRST, LEAST, Deadline
from zocosmo.errors import InputError

SECONDS = st.floats(0, 1e6)


def after(rounds, fixed=None):
    """The deadline when rounds took so long."""
    deadline = Deadline(fixed)
    for seconds in rounds:
        deadline.observe(seconds)
    return deadline.seconds


def test_before_any_round_there_is_time():
    assert after([]) == FIRST == 300.0


@given(st.lists(SECONDS, min_size=1, max_size=100))
def test_it_is_twenty_times_the_longest_round_and_thirty_seconds_at_least(rounds):
    assert after(rounds) == max(30.0, 20.0 * max(rounds))
    assert (LEAST, FACTOR) == (30.0, 20.0)


@given(SECONDS, SECONDS)
def test_it_goes_by_the_last_hundred_rounds(once, since):
    assert after([once] + [since] * 99) == after([once, since])
    assert after([once] + [since] * 100) == after([since])


@given(st.lists(SECONDS, max_size=5), st.floats(0.001, 1e8))
def test_one_that_is_given_learns_nothing(rounds, fixed):
    assert after(rounds, fixed) == fixed


@pytest.mark.parametrize("fixed", [0, -1.0, math.nan, math.inf, 1e9])
def test_what_is_no_number_of_seconds_is_refused(fixed):
    with pytest.raises(InputError, match=f"above 0, got {fixed}"):
        Deadline(fixed)
