"""Coverage by enumeration of all supports of all rounds, and by what the tape really draws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo import Tape, draw_support
from zocosmo.theory import coverage
from zocosmo.theory.coverage import (
    balanced_coverage,
    coverage_deviation,
    coverage_variance,
    epoch_length,
    expected_coverage,
    expected_coverage_float,
    exposure,
    max_balanced_gap,
    missed,
    waiting_time,
)

LORA, FULL, Q = 2_523_136, 6_525_621_760, 8192
CASES = [(1, 1, 2), (2, 1, 4), (3, 2, 3), (4, 1, 4), (4, 2, 3), (5, 3, 2), (4, 4, 2), (5, 2, 0)]

small = st.integers(1, 40).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d), st.integers(0, 30)))


def draws(d, q, T):
    """All sequences of T supports, equally likely."""
    return list(itertools.product(itertools.combinations(range(d), q), repeat=T))


def mean(values):
    values = list(values)
    return Fraction(sum(values), len(values))


@pytest.mark.parametrize(("d", "q", "T"), CASES)
def test_exposure_and_misses_equal_full_enumeration(d, q, T):
    visits = [sum(0 in support for support in rounds) for rounds in draws(d, q, T)]
    assert exposure(d, q, T) == mean(visits)
    assert missed(d, q, T) == mean(count == 0 for count in visits)


@pytest.mark.parametrize(("d", "q", "T"), CASES)
def test_mean_and_variance_of_coverage_equal_full_enumeration(d, q, T):
    shares = [Fraction(len(set().union(*rounds)), d) for rounds in draws(d, q, T)]
    average = sum(shares) / len(shares)
    assert expected_coverage(d, q, T) == average
    assert coverage_variance(d, q, T) == sum((share - average) ** 2 for share in shares) / len(shares)


@given(small)
def test_floats_are_the_fractions_rounded(case):
    assert expected_coverage_float(*case) == pytest.approx(float(expected_coverage(*case)), rel=1e-13)


def test_a_tiny_share_keeps_its_digits():
    """One round visits exactly q/d; 1 − (1 − q/d) as floats would lose nine digits of it."""
    assert expected_coverage_float(10**18, 10**9, 1) == pytest.approx(1e-9, rel=1e-15)


@pytest.mark.parametrize(("d", "q", "T"), [(50, 3, 20), (1000, 10, 400), (LORA, Q, 1540)])
def test_the_deviation_without_fractions_agrees_with_the_exact_one(d, q, T, monkeypatch):
    """Two terms of Var cancel in part: c − a² against (a − c)/d, a factor of ten at most in these cases."""
    exact = math.sqrt(coverage_variance(d, q, T))
    monkeypatch.setattr(coverage, "LONGEST", 0)
    assert coverage_deviation(d, q, T) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize(("d", "q"), [(1, 1), (3, 1), (5, 2), (7, 7)])
def test_the_mean_waiting_time_sums_over_when_the_next_visit_comes(d, q):
    """Σ_{t ≥ 0} P(no visit in t rounds) is a geometric series: 1 / (1 − r) where r = 1 − q/d."""
    assert waiting_time(d, q) == 1 / (1 - missed(d, q, 1))


def test_the_long_study_visits_each_coordinate_five_times():
    """Exposure 5; printed coverage 99.33–99.34 %, the expected one and what four deviations allow."""
    share, off = expected_coverage_float(LORA, Q, 1540), 4 * coverage_deviation(LORA, Q, 1540)
    assert exposure(LORA, Q, 1540) == 5
    assert f"{100 * share:.2f}" == "99.33"
    assert f"{100 * (share + off):.2f}" >= "99.34" > f"{100 * (share - off):.2f}"


def test_the_tape_covers_what_is_expected_of_it():
    """400 tapes; the mean's own deviation is that of one tape over 20."""
    d, q, T, tapes = 60, 5, 18, 400
    shares = []
    for seed in range(tapes):
        index = draw_support(Tape(seed), np.arange(T), d=d, q=q).index
        shares.append(len(np.unique(index)) / d)
    z = (np.mean(shares) - float(expected_coverage(d, q, T))) / (coverage_deviation(d, q, T) / tapes**0.5)
    assert abs(z) < 4


def blocks(order, q):
    return [set(order[k : k + q]) for k in range(0, len(order), q)]


@pytest.mark.parametrize(("d", "q"), [(1, 1), (3, 1), (4, 2), (5, 2), (4, 3), (4, 4)])
def test_the_longest_balanced_gap_over_all_pairs_of_epochs(d, q):
    gaps = []
    for first, second in itertools.product(itertools.permutations(range(d)), repeat=2):
        rounds = blocks(first, q) + blocks(second, q)
        assert len(rounds) == 2 * epoch_length(d, q)
        visits = [[t for t, block in enumerate(rounds) if k in block] for k in range(d)]
        gaps += [b - a for a, b in visits]
    assert max(gaps) == max_balanced_gap(d, q)


@given(small)
def test_balanced_rounds_never_visit_twice_before_all_are_visited(case):
    d, q, T = case
    seen = set().union(*blocks(range(d), q)[:T])
    assert balanced_coverage(d, q, T) == Fraction(len(seen), d)
    assert balanced_coverage(d, q, T) >= expected_coverage(d, q, T)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: exposure(4, 5, 1), "q = 5"),
        (lambda: missed(4, 2, -1), "got -1"),
    ],
)
def test_a_refusal_says_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()
