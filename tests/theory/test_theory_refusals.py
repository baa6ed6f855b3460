"""What theory cannot mean, it refuses in one line that says what was found."""

from fractions import Fraction as Fr

import numpy as np
import pytest

from zocosmo.theory import mixing
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import Law, complete_law, fixed_law

HALF = Fr(1, 2)
PAIR = Quadratics([[2], [2]], [[1], [-1]])


def expected(eta):
    return expectation(PAIR, complete_law(2), coupling="I", q=1, eta=eta, rounds=2, x0=[1]).F.tolist()


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: mixing.one_hop({0}, {1: {1}}, {1: HALF}, R=-3), "got -3"),
        (lambda: mixing.metropolis_weights(3, [(0, 0), (0, 1), (1, 2)]), r"edge \(0, 0\)"),
        (lambda: mixing.metropolis_weights(2, [(0, 5)]), r"edge \(0, 5\)"),
        (lambda: fixed_law(1, []).lambda2, "1 nodes"),
        (lambda: Law.of(3, [([(0, 5)], 1)]), "nodes are 0 … 2, got a matching with 0 … 5"),
        (lambda: complete_law(4).listed(), "not listed"),
        (lambda: expected(float("nan")), "got nan in round 0"),
        (lambda: expected([0.5, float("inf")]), "got inf in round 1"),
        (lambda: expected([0.5]), "too few for round 1"),
    ],
)
def test_a_refusal_says_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()


@pytest.mark.parametrize("eta", [np.float32(0.25), np.float64(0.25), [0.25, 0.25], lambda t: 0.25])
def test_a_step_may_be_a_number_of_numpy(eta):
    assert expected(eta) == expected(Fr(1, 4)) == [1, Fr(1, 4), Fr(1, 16)]
