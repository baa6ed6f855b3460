"""Verdicts: where each rule begins and ends, and what it counts."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from quadratics import made

from zocosmo_paper.claim import (
    Printed,
    below,
    check,
    close,
    constant,
    figure,
    fisher,
    frequency,
    much_below,
    order,
    repeated,
    rounds_to,
    together,
    unknown,
)
from zocosmo_paper.headline import Judged, headline, of_claims
from zocosmo_paper.interval import student_interval


def seeds(*values):
    return {str(k): value for k, value in enumerate(values, 1)}


@pytest.mark.parametrize(("mean", "verdict"), [(2.0, "within"), (2.5, "within"), (2.5 + 1e-9, "no")])
def test_a_figure_may_be_off_by_the_printed_std(mean, verdict):
    """Equal values have no spread; two standard errors over 64 seeds are 0.125, less than the std."""
    values = seeds(*[mean] * 4)
    assert figure("x", Printed(2.0, 0.5, 64), values).verdict == verdict


@pytest.mark.parametrize(("mean", "verdict"), [(1.125, "within"), (1.25, "no")])
def test_a_figure_without_std_may_be_off_by_two_standard_errors_of_ours(mean, verdict):
    """Values mean ± 1, twice each: their variance is 4/3, so 2 · sqrt(4/3 / 4) = 1.1547."""
    values = seeds(mean - 1, mean - 1, mean + 1, mean + 1)
    assert figure("x", Printed(0.0), values).verdict == verdict


@pytest.mark.parametrize(("mean", "verdict"), [(0.0605, "within"), (0.0604, "no")])
def test_a_figure_without_std_that_rounds_to_the_printed_digits_agrees(mean, verdict):
    """Equal values have no spread, so the half of a digit decides."""
    assert figure("x", Printed(0.061), seeds(mean, mean), half=0.0005 + 1e-12).verdict == verdict


def test_a_limit_has_no_tolerance():
    claim = below("a gap", "0.004", seeds(0.0041, 0.0059))
    assert claim.verdict == "no"
    assert math.isnan(claim.tolerance)


@given(st.floats(0, 1e3), st.integers(2, 60))
def test_our_std_narrows_the_tolerance_and_never_widens_it(spread, count):
    """At most what the printed std gives with both means, as if ours had that std too."""
    values = seeds(*(spread * (-1) ** k for k in range(count)))
    tolerance = figure("x", Printed(0.0, 1.0, 5), values).tolerance
    assert 1.0 <= tolerance <= max(1.0, 2 * math.sqrt(1 / 5 + 1 / count)) + 1e-12


def test_two_standard_errors_count_both_sides():
    """Off by 1.5, more than the std of 1. Ours is 0, so the bound is 2 · 1/√seeds: 2 for one, 1 for four."""
    values = seeds(1.5, 1.5)
    assert figure("x", Printed(0.0, 1.0, 1), values).verdict == "within"
    assert figure("x", Printed(0.0, 1.0, 4), values).verdict == "no"


def test_a_figure_that_is_off_still_counts_where_its_ordering_holds():
    values = seeds(9.0, 9.0)
    kept = figure("x", Printed(1.0, 0.1), values, held="a below b")
    assert (kept.verdict, kept.note) == ("ordering", "in order only: a below b")
    assert figure("x", Printed(1.0, 0.1), values).verdict == "no"


def test_a_figure_over_no_run_is_never_within():
    found = figure("x", Printed(1.0, 0.1), {}, diverged=5)
    assert (found.verdict, found.seeds, found.diverged) == ("no", 0, 5)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=6), st.floats(0, 5))
def test_a_larger_printed_std_never_turns_within_into_no(values, std):
    tight, wide = (figure("x", Printed(0.5, s), seeds(*values)).verdict for s in (std, 2 * std))
    assert (tight, wide) != ("within", "no")


def test_an_order_holds_where_the_whole_interval_lies_below_0():
    found = order("a < b", "", seeds(1, 2, 3), seeds(2, 3.5, 5))
    assert (found.verdict, found.note, found.seeds) == ("ordering", "3 of 3 pairs", 3)
    assert found.low <= found.ours <= found.high < 0
    few = order("a < b", "", seeds(1, 2, 3), seeds(2, 3, 5))  # all pairs below, yet −1.33 ± 1.43
    assert (few.verdict, few.note, few.high > 0) == ("no", "3 of 3 pairs", True)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=12))
def test_the_interval_is_that_of_scipy(values):
    from scipy.stats import ttest_1samp

    assume(np.std(values) > 1e-3)
    at = student_interval(seeds(*values), seeds(*[0.0] * len(values)))
    ends = ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert (at.low, at.high) == pytest.approx((ends.low, ends.high), rel=1e-9, abs=1e-9)
    assert at.wins == sum(value < 0 for value in values)


def test_an_interval_needs_two_pairs_and_keeps_equal_differences_exact():
    assert math.isnan(student_interval(seeds(1.0), seeds(2.0)).high)
    assert math.isnan(student_interval({}, {}).difference)
    assert student_interval(seeds(0.3, 0.3, 0.3), seeds(0.1, 0.1, 0.1))[:3] == (0.3 - 0.1,) * 3


def test_a_figure_shows_its_tolerance_and_whom_it_covers():
    """The larger of the std, 0.5, and 2 · 0.5/√4 with our equal values: 0.5."""
    near = figure("x", Printed(2.0, 0.5, 4), seeds(2.0, 2.0), rivals={"a": 2.5, "b": 2.6})
    assert near.tolerance == 0.5
    assert near.note == "the tolerance also covers a (2.5): does not tell them apart"
    assert figure("x", Printed(2.0, 0.5, 4), seeds(2.0, 2.0), rivals={"b": 2.6}).note == ""


def test_a_wide_tolerance_is_told():
    """0.6 of 2 is 30 %, 0.5 of 2 is a quarter."""
    wide, narrow = (figure("x", Printed(2.0, std, 4), seeds(2.0, 2.0)).note for std in (0.6, 0.5))
    assert (wide, narrow) == ("the tolerance is 30 % of the print", "")


@pytest.mark.parametrize(
    ("other", "std", "verdict", "state"),
    [(1.2, 0.1, "within", "shown"), (3.0, 0.1, "no", "refused"), (2.2, 2.0, "no", "neither shown")],
)
def test_close_holds_only_where_an_interval_shows_it(other, std, verdict, state):
    claim = close("x", "close", made(1.0, 0.05), made(other, std))
    assert (claim.verdict, claim.kind) == (verdict, "ordering")
    assert f": {state}" in claim.note


@pytest.mark.parametrize(("apart", "verdict"), [(0.05, "within"), (0.5, "no")])
def test_close_may_have_a_limit_instead(apart, verdict):
    assert close("x", "", made(1.0, 0.01), made(1.0 + apart, 0.01), 0.1).verdict == verdict


@pytest.mark.parametrize(("higher", "verdict"), [(1.9, "no"), (2.1, "ordering")])
def test_much_is_more_than_twice(higher, verdict):
    assert much_below("x", "", made(1.0, 0.01), made(higher, 0.01)).verdict == verdict


def test_much_needs_the_means_apart_as_well_as_their_ratios():
    """Ratios of 2,000 and, once, 40,000: by log far more than 2, and the interval of the mean holds 0."""
    lower = made(1.0, 0.0)
    last = len(lower.values) - 1
    tailed = lower._replace(
        values={s: 40_000.0 if k == last else 2_000.0 for k, s in enumerate(lower.values)}
    )
    claim = much_below("x", "", lower, tailed)
    assert (claim.verdict, claim.high < 0) == ("no", True)


def parts_of(*verdicts):
    """Orders that hold or not, each with an interval of its own."""
    ends = {"ordering": (2, 3.5, 5), "no": (1, 2, 3)}
    return [order(f"part {k}", "", seeds(1, 2, 3), seeds(*ends[v])) for k, v in enumerate(verdicts)]


@pytest.mark.parametrize(("second", "verdict"), [("ordering", "ordering"), ("no", "no")])
def test_a_sentence_holds_if_all_its_parts_do(second, verdict):
    whole, *parts = together("all", "said", parts_of("ordering", second))
    assert (whole.verdict, whole.kind, whole.words, whole.paper) == (verdict, "ordering", "all", "said")
    assert [part.kind for part in parts] == ["check", "check"]
    assert {part.note.rpartition("; ")[2] for part in parts} == {"counted once, as all"}


def test_a_sentence_shows_the_numbers_of_a_part_that_fails():
    whole = together("all", "said", parts_of("ordering", "no", "ordering"))[0]
    assert whole.note.startswith("2 of 3 parts hold; numbers of one that does not, part 1")
    assert (whole.ours, whole.seeds) == (0.0, 3)


def test_a_sentence_with_a_part_that_was_not_run_is_not_judged():
    absent = unknown("b", "", "give a model")
    assert together("all", "said", [*parts_of("ordering"), absent])[0].verdict == "not run"
    assert together("all", "said", [*parts_of("no"), absent])[0].verdict == "no"


def test_what_is_printed_twice_is_counted_once():
    claim = constant("x", "1", 1, note="a")
    assert repeated(claim, "the other").kind == "check"
    assert repeated(claim, "the other").note == "a; counted once, as the other"


def test_a_printed_figure_keeps_its_digits():
    assert str(Printed(65.4, 3.57)) == "65.40 ± 3.57"
    assert str(Printed(64.58, 5.4)) == "64.58 ± 5.40"
    assert str(Printed(0.0106, 0.0027, 8, "(10.60 ± 2.70)e-3")) == "(10.60 ± 2.70)e-3"


def test_agreements_on_fitted_settings_are_told():
    lines = [Judged(*each) for each in (("figure", "within", "", "β"), ("ordering", "ordering", "", "β"))]
    more = [
        Judged("figure", "no", "", "β"),
        Judged("constant", "within", "", "β"),
        Judged("figure", "within"),
    ]
    told = headline([*lines, *more])
    assert (told.fitted, told.all.agree) == (2, 4)
    assert "of the other 4, 3 agree, 0 in order only, 1 do not, and 2 of those 3 rest on" in told.details


@pytest.mark.parametrize("worse", [(0.5, 1.5, 2.5), (1.0, 2.0, 3.0), (2.0, 1.0, 3.0)])
def test_an_order_that_is_reversed_equal_or_mixed_does_not_hold(worse):
    assert order("a < b", "", seeds(1.0, 2.0, 3.0), seeds(*worse)).verdict == "no"


def test_an_order_over_one_pair_does_not_hold():
    assert order("a < b", "", seeds(1.0), seeds(2.0)).verdict == "no"


@pytest.mark.parametrize(
    ("value", "printed", "fits"),
    [
        (Fraction(262_144), "262.1K", True),
        (Fraction(262_144), "262.2K", False),
        (80_740_352, "80.7M", True),
        (80_740_352, "80.6M", False),
        (Fraction(270_336, 532_480), "50.8%", True),
        (1540, "1540", True),
        (1541, "1540", False),
        (3.19e4, "3.19e4", True),
        (Fraction(5, 2), "2", True),
        (Fraction(5, 2), "3", True),
    ],
)
def test_a_constant_is_right_if_it_rounds_to_what_is_printed(value, printed, fits):
    """Half-way numbers may be rounded either way."""
    assert constant("x", printed, value).verdict == ("within" if fits else "no")


def test_what_is_no_number_cannot_be_a_printed_one():
    with pytest.raises(ValueError, match="'about 5' is not a printed number"):
        rounds_to(5, "about 5")


def test_what_was_not_run_says_why():
    found = unknown("x", "95 %", "give a model")
    assert (found.verdict, found.note, math.isnan(found.ours)) == ("not run", "give a model", True)


def test_our_std_counts_up_to_the_printed_one():
    """Off by 1.5. Printed 0 ± 1 over 4, ours ± 4 over 4: with 4 the bound is 4.1, with 1 it is √2."""
    values = seeds(1.5 - 4, 1.5 - 4, 1.5 + 4, 1.5 + 4)
    assert figure("x", Printed(0.0, 1.0, 4), values).verdict == "no"
    assert figure("x", Printed(0.0), values).verdict == "within"


def test_an_order_over_few_surviving_pairs_says_so():
    found = order("a < b", "", seeds(1, 2, 3), seeds(2, 3, 5), of=5)
    assert found.note == "3 of 3 pairs; rests on 3 of 5 seeds, the others lost a run"


@pytest.mark.parametrize(("ours", "verdict"), [((0, 5), "within"), ((2, 40), "within"), ((30, 40), "no")])
def test_shares_of_runs_are_told_apart_by_an_exact_test(ours, verdict):
    assert frequency("x", (1, 5), ours).verdict == verdict


def test_the_exact_test_is_that_of_scipy():
    from scipy.stats import fisher_exact

    for k in range(6):
        for j in range(9):
            table = [[k, 5 - k], [j, 8 - j]]
            assert fisher((k, 5), (j, 8)) == pytest.approx(fisher_exact(table).pvalue)


def test_what_the_paper_prints_is_counted_and_checks_of_ours_are_not():
    claims = [
        constant("a", "1", 1),
        figure("b", Printed(1.0, 0.1), seeds(9.0, 9.0), held="b below a"),
        order("c", "", seeds(1, 2, 3), seeds(2, 3.5, 5)),
        check(constant("d", "1", 2)),
        unknown("e", "95 %", "give a model"),
    ]
    found = of_claims(("a model", claim) for claim in claims)
    assert found.all == (2, 1, 0, 1, 0)
    assert found.rows[-1] == ["all", "3", "2", "1", "0", "1", "0"]
    assert found.sentence.endswith("2 agree, 1 agree in order only, 0 do not; 1 need a 7B model.")
