"""Verdicts are computed: what makes a row agree, and what makes it disagree."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.checks.measurement import About, among, share_errors

ABOUT = About("a formula", "eq:label", "a setting")


def sample(mean, error, size=400):
    """Values of exactly this mean and standard error."""
    signs = np.resize([1.0, -1.0], size)
    return mean + signs * error * math.sqrt(size - 1)


@pytest.mark.parametrize(("off", "verdict"), [(3.99, "agrees"), (-3.99, "agrees"), (4.01, "disagrees")])
def test_a_sampled_row_agrees_within_four_standard_errors(off, verdict):
    row = ABOUT.sampled(10.0, sample(10.0 + off * 0.5, 0.5))
    assert (row.verdict, round(row.z, 6)) == (verdict, off)


def test_the_interval_holds_95_percent_of_the_mean_s_own_law():
    row = ABOUT.sampled(0.0, sample(7.0, 0.5))
    assert (row.low, row.high) == pytest.approx((7 - 0.9799819922, 7 + 0.9799819922))


def test_predictions_of_each_draw_take_their_spread_out_of_the_error():
    known = np.arange(100.0)
    row = ABOUT.sampled(known, known + sample(0.0, 0.01, 100))
    assert (row.verdict, row.predicted) == ("agrees", 49.5)
    assert row.high - row.low < 0.05


@pytest.mark.parametrize(("measured", "verdict"), [(1 / 3, "agrees"), (1 / 3 + 1e-8, "disagrees")])
def test_draws_that_are_all_alike_must_be_right_to_rounding(measured, verdict):
    row = ABOUT.sampled(1 / 3, np.full(50, measured))
    assert (row.verdict, row.sign) == (verdict, "==")


def test_what_should_be_zero_may_be_rounding_if_a_floor_says_so():
    assert ABOUT.sampled(-2e-16, np.full(9, 6e-36), floor=1e-12).verdict == "agrees"
    assert ABOUT.sampled(-2e-16, np.full(9, 6e-36)).verdict == "disagrees"


def test_measurements_that_are_no_numbers_disagree():
    assert ABOUT.sampled(1.0, [1.0, math.inf, 1.0]).verdict == "disagrees"


@pytest.mark.parametrize(("measured", "verdict"), [(128, "agrees"), (129, "disagrees")])
def test_an_exact_row_agrees_where_both_sides_are_equal(measured, verdict):
    assert ABOUT.equal(128, measured).verdict == verdict


@pytest.mark.parametrize(("measured", "verdict"), [(1.0, "agrees"), (1.0000001, "disagrees")])
def test_a_bound_holds_up_to_itself(measured, verdict):
    assert ABOUT.at_most(1.0, measured).verdict == verdict


def test_the_worst_of_many_is_shown_and_judged_as_one_of_many():
    row = ABOUT.worst(0.5, [0.5, 0.54, 0.49], 0.01)
    assert (row.measured, row.verdict) == (0.54, "agrees")
    assert 3 < row.z < 4


def test_the_worst_of_many_can_disagree():
    assert ABOUT.worst(0.5, [0.5, 0.56, 0.49], 0.01).verdict == "disagrees"


def test_many_numbers_without_errors_must_all_be_right():
    assert ABOUT.worst([0.5, 0.25], [0.5, 0.25], 0.0).verdict == "agrees"
    assert ABOUT.worst([0.5, 0.25], [0.5, 0.26], 0.0).verdict == "disagrees"


@given(st.floats(-8, 8), st.integers(1, 1000))
def test_being_one_of_many_never_makes_a_deviation_more_surprising(z, many):
    assert abs(among(z, many)) <= abs(z) + 1e-9


@given(st.floats(4.5, 8), st.integers(2, 1000))
def test_bonferroni_multiplies_the_chance_by_how_many_there_are(z, many):
    chance, single = (math.erfc(each / math.sqrt(2)) for each in (among(z, many), z))
    assert chance == pytest.approx(min(1.0, many * single), rel=1e-6)


def test_errors_of_shares_are_binomial():
    assert share_errors([0.5, 1.0], 100).tolist() == [0.05, 0.0]
