"""Certified steps: the mechanism study's own numbers, closed forms against laws, and plain sentences."""

import math
from fractions import Fraction as Fr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.joint import perfect_matchings
from zocosmo.theory.certificates import (
    certified_step,
    coupling_constants,
    is_certified,
    ring_chi,
    step_limits,
)
from zocosmo.theory.law import Law, complete_law, fixed_law, ring_law

MECHANISM = {"d": 32, "q": 4, "pairs": 4, "L": 4}
CHI = {"complete": complete_law(8).chi, "ring": ring_chi(8)}


@pytest.mark.parametrize(
    ("graph", "coupling", "printed"),
    [
        ("complete", "G", "8.24e-04"),
        ("complete", "S", "6.51e-04"),
        ("complete", "I", "6.18e-04"),
        ("ring", "G", "1.925e-04"),
        ("ring", "S", "1.830e-04"),
        ("ring", "I", "1.805e-04"),
    ],
)
def test_the_mechanism_study_has_these_certified_steps(graph, coupling, printed):
    """N = 8, d = 32, q = 4, L = 4."""
    digits = len(printed.split("e")[0]) - 2
    assert f"{certified_step(coupling, **MECHANISM, chi=CHI[graph]):.{digits}e}" == printed


@pytest.mark.parametrize("graph", CHI)
@pytest.mark.parametrize("coupling", "GSI")
def test_of_the_study_s_two_steps_the_smaller_is_certified_and_the_larger_is_not(graph, coupling):
    verdicts = [
        is_certified(coupling, **MECHANISM, chi=CHI[graph], eta=eta).certified for eta in (1e-4, 4e-3)
    ]
    assert verdicts == [True, False]


def test_the_constants_are_exact_where_chi_is():
    """Worked by hand for d = 4, q = 2 and two pairs; χ = 1/3 makes γ = 1/3."""
    third = Fr(1, 3)
    found = {s: coupling_constants(s, d=4, q=2, pairs=2, chi=third) for s in "GSI"}
    assert found["G"] == (3, 0, third, third, 0, Fr(10, 3), Fr(10, 3))
    assert found["S"] == (2, 1, third, third, 1, 3, 4)
    assert found["I"] == (Fr(3, 2), Fr(3, 2), third, third, Fr(3, 2), Fr(17, 6), Fr(13, 3))


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_chi_of_complete_graphs_is_that_of_all_their_matchings(n):
    """(N − 2) / 2(N − 1), exactly."""
    every = perfect_matchings(list(range(n)))
    law = Law.of(n, [(pairs, Fr(1, len(every))) for pairs in every])
    assert law.chi == complete_law(n).chi == Fr(n - 2, 2 * (n - 1))


@pytest.mark.parametrize("n", [4, 6, 8, 12, 30])
def test_chi_of_even_rings_is_that_of_their_two_phases(n):
    assert ring_law(n).chi == pytest.approx(float(ring_chi(n)), abs=1e-13)
    assert float(ring_chi(n)) == pytest.approx((1 + math.cos(2 * math.pi / n)) / 2, abs=1e-15)


@settings(max_examples=40)
@given(st.sampled_from("GSI"), st.integers(2, 40), st.integers(1, 12), st.fractions(Fr(1, 50), Fr(49, 50)))
def test_at_its_limit_a_step_meets_one_condition_with_equality(coupling, d, pairs, chi):
    """8Lη(1 + α + τχ) = 1 or 256 η²L²K = γ, and the other is not broken; to a few roundings."""
    known = coupling_constants(coupling, d=d, q=(d + 1) // 2, pairs=pairs, chi=chi)
    eta = min(step_limits(known, L=3))
    descent = 24 * eta * float(1 + known.alpha + known.tau * chi)
    mixing = 256 * 9 * eta**2 * float(known.K / known.gamma)
    assert max(descent, mixing) == pytest.approx(1, rel=1e-12)


def test_with_two_nodes_mixing_asks_nothing_of_the_step():
    """One pair: χ = 0 and, under every coupling, K = r + J = 0; only descent limits the step."""
    for coupling in "GSI":
        limits = step_limits(coupling_constants(coupling, d=4, q=2, pairs=1, chi=complete_law(2).chi), L=1)
        assert limits == (1 / 32, math.inf)


@pytest.mark.parametrize(
    ("eta", "sentence"),
    [
        (1e-4, "eta = 0.0001 is certified: the mixing condition allows 0.0008235, this is 0.121 ×"),
        (
            9e-4,
            "eta = 0.0009 is not certified: the mixing condition allows 0.0008235, this is 1.09 ×; "
            "the descent condition holds",
        ),
        (
            4e-3,
            "eta = 0.004 is not certified: the mixing condition allows 0.0008235, this is 4.86 ×; "
            "neither condition holds",
        ),
    ],
)
def test_a_certificate_says_which_condition_binds_and_by_how_much(eta, sentence):
    assert str(is_certified("G", **MECHANISM, chi=CHI["complete"], eta=eta)) == sentence


def test_where_descent_binds_the_certificate_says_so():
    """Two nodes mix for free."""
    verdict = is_certified("G", d=4, q=2, pairs=1, chi=0, L=1, eta=0.1)
    assert (verdict.binds, verdict.certified, verdict.ratio) == ("descent", False, 3.2)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: certified_step("G", d=4, q=2, pairs=2, chi=1, L=1), "chi = 1"),
        (lambda: certified_step("G", d=4, q=2, pairs=2, chi=0, L=0), "L = 0"),
        (lambda: is_certified("G", d=4, q=2, pairs=2, chi=0, L=1, eta=-1), "eta = -1"),
        (lambda: complete_law(5).chi, "5 nodes"),
        (lambda: ring_chi(2), "got 2"),
        (lambda: ring_chi(7), "7 nodes"),
        (lambda: fixed_law(4, [(0, 1)]).chi, "4 nodes"),
    ],
)
def test_what_cannot_be_certified_is_refused_with_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()
