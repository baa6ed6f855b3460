"""Frozen moments: draws against identities, verdicts that can fail, and the study itself (slow)."""

from fractions import Fraction

import numpy as np
import pytest
from quadratics import verdicts

from zocosmo_paper.items import moments
from zocosmo_paper.items.moments import (
    LEVELS,
    PAIRS,
    Drawn,
    applied,
    exact,
    findings,
    frozen,
    measure,
    measured,
    orderings,
    predicted,
)
from zocosmo_paper.items.studies import COUPLINGS
from zocosmo_paper.run import reproduce
from zocosmo_paper.write import as_csv


@pytest.fixture(scope="module")
def found():
    return measure(range(2), draws=200)


def test_frozen_gradients_have_the_norms_that_are_asked_for():
    """Sums of 32 and 128 squares round in the last bits of 1."""
    a, apart = frozen(0)
    assert (a @ a, (apart * apart).sum() / PAIRS) == pytest.approx((1.0, 1.0), rel=1e-14)
    assert abs(apart.mean(axis=0)).max() < 1e-15


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_an_applied_direction_squares_to_d_times_itself(coupling):
    """D² = d D, so ‖D a‖² = d aᵀ D a, draw for draw; signs and 32/4 are exact, sums round."""
    rows = np.arange(PAIRS * 32.0).reshape(PAIRS, 32)
    v = applied(coupling, 0, 50, rows)
    np.testing.assert_allclose((v * v).sum(axis=-1), 32 * (v * rows).sum(axis=-1), rtol=1e-13)


def test_common_directions_make_the_error_blind_to_heterogeneity(found):
    first = found["V", "G", 0].draws
    for level in LEVELS:
        np.testing.assert_allclose(found["V", "G", level].draws, first, rtol=1e-9, atol=1e-9)


def test_pairs_that_agree_inject_nothing_under_common_directions(found):
    assert found["U", "G", 0].draws.max() == 0


def test_there_are_six_levels_of_three_couplings_and_two_moments(found):
    assert len(found) == 36


def test_printed_values_are_those_of_the_closed_forms():
    assert set(verdicts(predicted()).values()) == {"within"}


@pytest.mark.parametrize("place", list(moments.PRINTED))
def test_a_misprint_is_found(monkeypatch, place):
    monkeypatch.setitem(moments.PRINTED, place, f"{float(moments.PRINTED[place]) + 0.5}")
    coupling, level = place
    assert verdicts(predicted())[f"V of {coupling} at H2 = {level}, closed form"] == "no"


def test_draws_of_another_law_are_found(found):
    assert measured(found).verdict == "within"
    other = {place: Drawn(1.3 * drawn.draws, drawn.exact) for place, drawn in found.items()}
    assert measured(other).verdict == "no"


def test_orderings_flip_with_the_couplings():
    """Draws that are their closed form: no chance is in it."""
    drawn = {
        (which, coupling, level): Drawn(np.full((2, 1), float(exact(which, coupling, level))), Fraction(0))
        for which in "VU"
        for coupling in COUPLINGS
        for level in LEVELS
    }
    assert set(verdicts(orderings(drawn)).values()) == {"ordering"}
    turned = {(w, {"G": "I", "I": "G"}.get(c, c), level): each for (w, c, level), each in drawn.items()}
    assert set(verdicts(orderings(turned)).values()) == {"no"}


def test_the_same_seeds_give_the_same_bytes(found, tmp_path):
    one, two = findings(found), findings(measure(range(2), draws=200))
    assert as_csv(one.tables[0]) == as_csv(two.tables[0])
    for k, each in enumerate((one, two)):
        each.pictures[0].draw(tmp_path / f"{k}.svg")
    assert (tmp_path / "0.svg").read_bytes() == (tmp_path / "1.svg").read_bytes()


@pytest.mark.slow
def test_the_study_shows_what_is_printed(tmp_path):
    (result,) = reproduce(["frozen-moments"], tmp_path)
    assert "no" not in verdicts(result.findings.claims).values()
