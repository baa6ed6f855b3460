"""Whole numbers of NumPy are numbers like any other: no 64 bits to overflow inside a Fraction."""

from fractions import Fraction as Fr

import numpy as np
import pytest

from zocosmo.theory import bounds, certificates, coverage, mixing, moments, payload, rates, schedule
from zocosmo.theory.law import complete_law

D, Q = 6_525_621_760, 8192
FINE = Fr(10**9 + 7, 10**10)


def regime(k):
    return rates.Regime(d=k(D), q=k(Q), n=k(8), L=1.0, Delta0=1.0, G2=1.0, sigma2=1.0)


CALLS = {
    "moments": lambda k: moments.coupling_moments("I", d=k(D), q=k(Q), pairs=k(4), a2=10**10, H2=0),
    "constants": lambda k: certificates.coupling_constants("S", d=k(D), q=k(Q), pairs=k(4), chi=FINE),
    "bias": lambda k: rates.bias_scale(L3=FINE, mu=FINE, d=k(D), q=k(D)),
    "radius": lambda k: rates.canonical_mu(d=k(D), q=k(D), T=k(16)),
    "recursion": lambda k: bounds.masked_recursion(d=k(D), q=k(Q), rho2=FINE).kappa * FINE**2,
    "mixing": lambda k: mixing.masked_factor(FINE, q=k(Q - 1), d=k(D)),
    "complete": lambda k: complete_law(k(8)).lambda2 * FINE**2,
    "chi": lambda k: complete_law(k(10**6)).chi * FINE**2,
    "schedule": lambda k: schedule.round_contraction(FINE, q=k(Q), d=k(D)),
    "bound": lambda k: bounds.core_bound(regime(k), eta=1e-11, mu=1e-3, rho=0.5, T=10).total,
    "link": lambda k: payload.link_costs(k(2**62), k(Q), k(32)).dense,
    "marina": lambda k: payload.marina_total(k(D), k(Q), K=k(25), T=k(10**10)),
    "visits": lambda k: coverage.coverage_variance(k(D), k(Q), k(9)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_whole_numbers_of_numpy_give_what_whole_numbers_give(call):
    assert call(np.int64) == call(int)


def test_numbers_that_mean_nothing_are_refused():
    with pytest.raises(ValueError, match="-5"):
        payload.marina_rounds(100, 10, K=5, budget=-5)


def test_the_law_of_a_schedule_holds_numbers_of_python():
    best = schedule.best_schedule(3, np.array([[0, 1], [1, 2]]))
    assert {type(node) for pairs, _ in best.law.listed() for pair in pairs for node in pair} == {int}
