import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.logs import hand_made_log
from zocosmo.errors import InputError
from zocosmo.report.stats import contrasts, paired_interval

LOG = hand_made_log()
WHOLE = st.integers(-1000, 1000).map(float)
PAIRS = st.lists(st.tuples(WHOLE, WHOLE), min_size=2, max_size=12)


def by_seed(values):
    return {str(seed): float(value) for seed, value in enumerate(values)}


def test_the_interval_of_eight_coins_is_that_of_a_binomial():
    """Four differences of 0 and four of 1: a resampled mean is Binomial(8, 1/2) / 8, with P(0) = 0.0039 and
    P(≤ 1) = 0.0352. Over 10,000 resamples these have standard errors of 0.0006 and 0.0018, so that 0.025 lies
    30 of them above the one and 5 below the other: the bounds are 1/8 and, by symmetry, 7/8."""
    interval = paired_interval(by_seed([0, 1] * 4), by_seed([0] * 8))
    assert interval == (0.5, 1 / 8, 7 / 8, 8, 0)


@given(pairs=PAIRS)
def test_the_interval_lies_within_the_differences(pairs):
    a, b = zip(*pairs, strict=True)
    differences = [x - y for x, y in pairs]
    interval = paired_interval(by_seed(a), by_seed(b))
    assert min(differences) <= interval.low <= interval.high <= max(differences)
    assert interval.difference == pytest.approx(sum(differences) / len(pairs), rel=1e-12, abs=1e-12)


@given(pairs=PAIRS)
def test_the_interval_is_the_same_each_time_and_scales(pairs):
    """Doubling is exact in binary, so the same resamples give twice the same bounds, bit for bit."""
    a, b = (by_seed(side) for side in zip(*pairs, strict=True))
    once = paired_interval(a, b)
    twice = paired_interval({s: 2 * x for s, x in a.items()}, {s: 2 * x for s, x in b.items()})
    assert once == paired_interval(a, b)
    assert twice[:3] == tuple(2 * x for x in once[:3])


def test_a_tie_is_no_win_and_the_metric_says_which_side_wins():
    a, b = by_seed([1, 2, 3, 4]), by_seed([2, 2, 5, 1])
    assert paired_interval(a, b).wins == 2
    assert paired_interval(a, b, greater=True).wins == 1


def test_seeds_of_only_one_side_are_dropped():
    interval = paired_interval({"1": 3.0, "2": 5.0, "9": 1e9}, {"2": 4.0, "1": 2.0, "8": -1e9})
    assert interval == (1.0, 1.0, 1.0, 2, 0)


def test_equal_differences_are_their_own_interval():
    """0.1 + 0.1 + 0.1 rounds; the mean of three equal differences does not."""
    assert paired_interval(by_seed([0.1] * 3), by_seed([0.0] * 3)) == (0.1, 0.1, 0.1, 3, 0)


@pytest.mark.parametrize(
    ("a", "difference"), [({"1": 2.0}, 1.0), ({}, math.nan), ({"1": math.inf, "2": 0.0}, math.inf)]
)
def test_without_two_finite_pairs_there_is_no_interval(a, difference):
    interval = paired_interval(a, {"1": 1.0, "2": 1.0})
    assert interval[:3] == pytest.approx((difference, math.nan, math.nan), nan_ok=True)
    assert interval.pairs == len(a)


def test_contrasts_subtract_the_baseline_seed_by_seed():
    """Ring, 1000 bits: sparse 2, 1, 3 and dense 3, 5, diverged; differences −1 and −4."""
    row = contrasts(LOG, 1000, "dense", "objective").iloc[0]
    assert tuple(row[["problem", "graph", "method", "baseline"]]) == ("bowl", "ring", "sparse", "dense")
    assert tuple(row[["difference", "low", "high", "pairs", "wins"]]) == (-2.5, -4.0, -1.0, 2, 2)
    assert tuple(row[["unpaired", "diverged", "baseline_diverged"]]) == (1, 0, 1)


def test_a_baseline_that_always_diverged_leaves_no_pairs():
    row = contrasts(LOG, None, "dense", "objective").iloc[1]
    assert (row["graph"], row["pairs"], row["unpaired"], row["baseline_diverged"]) == ("grid", 0, 3, 2)
    assert math.isnan(row["difference"])


def test_greater_accuracy_wins():
    log = LOG.assign(accuracy=-LOG["objective"])
    assert contrasts(log, 1000, "dense", "accuracy").iloc[0]["wins"] == 2


def test_a_baseline_that_was_not_run_is_refused():
    with pytest.raises(InputError, match="baseline method 'flood' is not known; choose from sparse, dense"):
        contrasts(LOG, 100, "flood", "objective")
