"""Exact expectations with K directions, one side, noisy queries and dither: two rounds, every draw."""

from fractions import Fraction

import numpy as np
import pytest

from theory.enumeration import PROBLEM, X0
from theory.many import Noises, enumerated
from zocosmo.theory.directions import SIGNS, Directions, critical_alike
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import Global, complete_law, fixed_law, ring_law
from zocosmo.theory.stability import critical_step, expected_limit, spectral_radius

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
PHASES = [[(0, 1), (2, 3)], [(1, 2), (0, 3)]]
DYADIC = np.array([[2, 1, 0, 1], [1, 2, 1, 0], [0, 1, 2, 1], [1, 0, 1, 2]]) * QUARTER
QUIET = Quadratics(PROBLEM.H, PROBLEM.b)


def told(law, coupling, directions, *, problem=QUIET, q=2, beta=0, scale=0, eta=QUARTER):
    how = {"coupling": coupling, "q": q, "beta": beta, "eta": eta, "rounds": 2, "x0": X0}
    found = expectation(problem, law, **how, directions=directions, scale=scale)
    return found.F[2], found.disagreement[2], found.local[2]


def seen(laws, coupling, directions, noises=None, *, problem=QUIET, q=2, beta=0):
    how = {"K": directions.K, "sides": directions.sides, "mu": float(directions.mu) or 1.0, "eta": 0.25}
    random = noises or Noises(K=directions.K, sides=directions.sides)
    return enumerated(
        laws, coupling, problem, X0, q=q, signs=directions.signs, noises=random, beta=float(beta), **how
    )


def fixed():
    return [fixed_law(4, pairs) for pairs in PHASES]


@pytest.mark.parametrize("beta", [0, HALF])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("coupling", ["G", "S", "I"])
def test_two_orthogonal_directions_equal_all_their_draws(coupling, sides, beta):
    """n = 4, d = 3, q = 2 and K = 2, which are as many as there are."""
    how = Directions(K=2, signs="orthogonal", sides=sides, mu=1)
    assert told(fixed(), coupling, how, beta=beta) == seen(PHASES, coupling, how, beta=beta)


@pytest.mark.parametrize(("coupling", "sides"), [("G", 1), ("G", 2), ("S", 1), ("S", 2)])
def test_two_independent_directions_equal_all_their_draws(coupling, sides):
    how = Directions(K=2, sides=sides, mu=1)
    assert told(fixed(), coupling, how, beta=HALF) == seen(PHASES, coupling, how, beta=HALF)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("K", [2, 4])
@pytest.mark.parametrize(("coupling", "sides"), [("G", 1), ("G", 2), pytest.param("I", 1, marks=SLOW)])
def test_three_coordinates_of_a_matrix_of_four_equal_all_their_draws(coupling, sides, K):
    """q = d = 3 is no power of two: cut rows cross on average, and the first place is special."""
    how = Directions(K=K, signs="orthogonal", sides=sides, mu=1)
    assert told(fixed(), coupling, how, q=3) == seen(PHASES, coupling, how, q=3)


@pytest.mark.parametrize("beta", [0, HALF])
@pytest.mark.parametrize("signs", SIGNS)
def test_global_support_equals_all_its_draws(signs, beta):
    how = Directions(K=2, signs=signs, sides=1, mu=2)
    assert told(Global(DYADIC), None, how, beta=beta) == seen([DYADIC] * 2, "G", how, beta=beta)


@pytest.mark.parametrize(("coupling", "sides"), [("G", 1), ("G", 2), pytest.param("I", 1, marks=SLOW)])
def test_noisy_queries_equal_all_their_draws(coupling, sides):
    how = Directions(K=2, signs="orthogonal", sides=sides, mu=1, omega=HALF)
    noises = Noises(query=0.5, K=2, sides=sides)
    assert told(fixed(), coupling, how, beta=HALF) == seen(PHASES, coupling, how, noises, beta=HALF)


def test_a_sample_of_all_directions_equals_all_its_draws():
    """E‖ξ‖² = d/16, so σ/√d = 1/4; σ itself is irrational, and floats come close enough to it."""
    how = Directions(K=2, signs="orthogonal", sides=1, mu=1)
    noisy = Quadratics(QUIET.H, QUIET.b, np.sqrt(3 / 16))
    found = told(fixed(), "G", how, problem=noisy)
    assert found == pytest.approx(
        [float(each) for each in seen(PHASES, "G", how, Noises(0.25, K=2, sides=1))]
    )


@pytest.mark.parametrize("coupling", ["G", pytest.param("I", marks=SLOW)])
def test_dither_equals_all_its_draws(coupling):
    """Δ = 1/2: an error of variance Δ²/12 at every value of every sender, by the other end and by its own."""
    how = Directions()
    noises = Noises(dither=0.5)
    assert told(fixed(), coupling, how, scale=HALF) == seen(PHASES, coupling, how, noises)


def test_dither_among_all_neighbours_equals_all_its_draws():
    found = told(Global(DYADIC), None, Directions(), scale=HALF, beta=HALF)
    assert found == seen([DYADIC] * 2, "G", Directions(), Noises(dither=0.5), beta=HALF)


@pytest.mark.parametrize("coupling", ["G", "I"])
def test_dither_keeps_the_average_and_sets_a_floor(coupling):
    """Without steps D⁺ = (1 − (q/d) λ₂/2) D + (q/d) d Δ²/24, and F(x̄) does not move."""
    d, q, law, scale = 3, 2, complete_law(4), Fraction(1, 8)
    how = {"coupling": coupling, "q": q, "eta": 0, "rounds": 6, "x0": X0}
    found = expectation(QUIET, law, **how, scale=scale)
    p, D = Fraction(q, d), found.disagreement
    for t in range(6):
        assert D[t + 1] == (1 - p * law.lambda2 / 2) * D[t] + p * d * scale**2 / 24
    assert set(found.F.tolist()) == {found.F[0]}


def test_one_direction_of_today_is_what_it_was():
    """Defaults change nothing, to the bit."""
    floats = Quadratics(PROBLEM.H.astype(float), PROBLEM.b.astype(float), 0.3)
    how = {"coupling": "S", "q": 2, "eta": 0.1, "beta": 0.5, "rounds": 9, "x0": X0}
    plain = expectation(floats, ring_law(4), **how)
    given = expectation(floats, ring_law(4), **how, directions=Directions(K=1, signs="orthogonal", mu=0.1))
    assert (plain.F == given.F).all()


@pytest.mark.parametrize("signs", SIGNS)
@pytest.mark.parametrize(("q", "K"), [(2, 2), (3, 2), (4, 3), (4, 4)])
def test_the_critical_step_of_equal_curvatures(q, K, signs):
    """2/(φ h): K orthogonal directions on q = 2^j coordinates allow K times the step of one."""
    alike, how = (
        Quadratics([[3.0] * 5] * 4, [[0] * 5] * 4),
        Directions(K=K, signs=signs, sides=1, mu=1, omega=1),
    )
    found = critical_step(alike, ring_law(4), coupling="G", q=q, directions=how)
    assert found == pytest.approx(float(critical_alike(5, q, 3, how)), rel=2e-6)


def test_exact_slopes_are_stable_coordinate_by_coordinate():
    """K = q = 4: x_k⁺ = (1 − η h_k d/q) x_k where k is drawn, so the largest curvature decides: 2q/(d h)."""
    curved = Quadratics([[1.0, 2.0, 3.0, 5.0, 8.0]] * 4, [[0] * 5] * 4)
    how = Directions(K=4, signs="orthogonal")
    found = critical_step(curved, ring_law(4), coupling="G", q=4, directions=how)
    assert found == pytest.approx(2 * 4 / (5 * 8), rel=2e-6)


def test_more_directions_allow_larger_steps_under_every_coupling():
    for coupling in "GSI":
        steps = [
            critical_step(
                PROBLEM, ring_law(4), coupling=coupling, q=2, directions=Directions(K=K, signs=signs)
            )
            for K, signs in ((1, "independent"), (2, "independent"), (2, "orthogonal"))
        ]
        assert steps[0] < steps[1] < steps[2]


def test_sides_and_noise_do_not_change_growth_but_the_limit():
    how = {"coupling": "I", "q": 2, "eta": 0.1}
    one, two = Directions(K=2, sides=1, mu=0.5, omega=0.1), Directions(K=2)
    assert spectral_radius(PROBLEM, ring_law(4), **how, directions=one) == spectral_radius(
        PROBLEM, ring_law(4), **how, directions=two
    )
    limits = [expected_limit(PROBLEM, ring_law(4), **how, directions=each) for each in (one, two)]
    assert limits[0].F > limits[1].F
    path = expectation(PROBLEM, ring_law(4), **how, rounds=300, x0=[1, 1, 1], directions=one, scale=0.25)
    limit = expected_limit(PROBLEM, ring_law(4), **how, directions=one, scale=0.25)
    assert [column[-1] for column in path] == pytest.approx([float(each) for each in limit], rel=1e-9)
