"""Mean-square stability: closed forms, dense matrices, long runs, and the settings of the mechanism study."""

import importlib.util
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from zocosmo.problems.quadratic import quadratic
from zocosmo.theory import stability
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import Global, Law, complete_law, fixed_law, ring_law, ring_phases
from zocosmo.theory.stability import MomentMap, critical_step, expected_limit, is_stable, spectral_radius

ROOT = Path(__file__).parents[2]
COUPLINGS = ["G", "S", "I"]
H = np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 1.5], [1.0, 3.0, 2.0], [4.0, 1.0, 1.0]])
PROBLEM = Quadratics(H, [[1, -1, 0], [0, 2, 1], [-2, 0, 1], [1, 1, -3]], 0.5)


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads of a matrix library only wait for each other on matrices this small."""
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def script():
    """Makes the tables and the figure of docs/expectation.md."""
    spec = importlib.util.spec_from_file_location("expectation", ROOT / "results" / "expectation.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page():
    return (ROOT / "docs" / "expectation.md").read_text(encoding="utf-8")


def alike(h, n=4):
    return Quadratics([h] * n, [[0] * len(h)] * n)


@pytest.mark.parametrize("beta", [0, 0.5])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_arnoldi_finds_what_the_dense_matrix_has(coupling, beta, monkeypatch):
    """To the accuracy that Arnoldi is asked for, 1e-10, times the condition of the eigenvalue."""
    how = {"coupling": coupling, "q": 2, "beta": beta, "eta": 0.1}
    dense = spectral_radius(PROBLEM, ring_law(4), **how)
    monkeypatch.setattr(stability, "DENSE", 0)
    monkeypatch.setattr(stability, "QUICK", (24, 50))
    assert spectral_radius(PROBLEM, ring_law(4), **how) == pytest.approx(dense, abs=1e-8)


@pytest.mark.parametrize("beta", [0, 0.5])
def test_the_resolvent_is_the_inverse(beta):
    """48 or 144 unknowns, well conditioned: 1e-10 leaves room for rounding only."""
    linear = MomentMap(PROBLEM, ring_law(4), q=2, coupling="S", beta=beta)
    vector = linear.inside() + linear.apply(linear.inside(), 0.2)
    solved = stability.Resolvent(linear, 0.1).apply(vector)
    np.testing.assert_allclose(solved - linear.apply(solved, 0.1), vector, atol=1e-10)


def test_where_arnoldi_fails_the_resolvent_finds_it(monkeypatch):
    """Eight vectors are too few for the map, whose eigenvalues crowd below 1, but enough for its inverse."""
    how = {"coupling": "I", "q": 2, "beta": 0.5, "eta": 0.001}
    dense = spectral_radius(PROBLEM, ring_law(4), **how)
    for name, value in {"DENSE": 0, "QUICK": (8, 2), "PATIENT": ()}.items():
        monkeypatch.setattr(stability, name, value)
    assert spectral_radius(PROBLEM, ring_law(4), **how) == pytest.approx(dense, abs=1e-8)
    with pytest.raises(ValueError, match=r"no eigenvalue at eta = 0\.001"):  # in turn: no resolvent
        spectral_radius(PROBLEM, [ring_law(4)] * 2, **how)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("q", [1, 2, 4])
def test_one_curvature_under_G_has_its_critical_step_at_two_over_dh(n, q):
    """E‖x̄⁺‖² = (1 − 2ηh + η²dh²)‖x̄‖²   [eq:corr_cancellation, lemma:sparse_direction_identities]"""
    found = critical_step(alike([3.0] * 4, n), complete_law(n), coupling="G", q=q)
    assert found == pytest.approx(2 / (4 * 3), rel=2e-6)


@pytest.mark.parametrize("q", [1, 3, 5])
def test_shared_curvatures_under_G_solve_a_scalar_equation(q):
    """E x̄_k² is fixed where Σ_k η c₂ h_k / (2 − η (c₁ − c₂) h_k) = 1, c₁ = d/q, c₂ = d(q−1)/(q(d−1))."""
    h, d = np.array([1.0, 2.0, 3.0, 5.0, 8.0]), 5
    c1, c2 = d / q, d * (q - 1) / (q * (d - 1))
    pole = 2 / ((c1 - c2) * h.max()) if q < d else np.inf
    if q == 1:
        crossing = pole  # each coordinate on its own
    else:
        crossing = brentq(
            lambda eta: (eta * c2 * h / (2 - eta * (c1 - c2) * h)).sum() - 1, 1e-6, min(0.999999 * pole, 1)
        )
    assert critical_step(alike(h.tolist()), ring_law(4), coupling="G", q=q) == pytest.approx(
        crossing, rel=2e-6
    )


@pytest.mark.parametrize("beta", [0, 0.5])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_the_critical_step_parts_stable_from_unstable(coupling, beta):
    how = {"coupling": coupling, "q": 2, "beta": beta}
    edge = critical_step(PROBLEM, ring_law(4), **how)
    below, above = (is_stable(PROBLEM, ring_law(4), eta=edge * by, **how) for by in (0.9999, 1.0001))
    assert (below, above) == (True, False)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_an_unstable_expectation_grows_by_the_radius(coupling):
    """The second eigenvalue is 0.6 of the first at most, and 0.6^100 is 1e-22."""
    how = {"coupling": coupling, "q": 2, "eta": 1.2, "beta": 0.5}
    F = expectation(PROBLEM, complete_law(4), rounds=100, x0=[1, 1, 1], **how).F
    assert F[100] / F[99] == pytest.approx(spectral_radius(PROBLEM, complete_law(4), **how), rel=1e-9)


def test_a_law_in_turn_with_itself_has_the_same_radius():
    how = {"coupling": "I", "q": 2, "eta": 0.2, "beta": 0.5}
    once, twice = (spectral_radius(PROBLEM, law, **how) for law in (ring_law(4), [ring_law(4)] * 2))
    assert twice == pytest.approx(once, rel=1e-12)


def test_alternating_phases_grow_as_their_expectation_does():
    """One turn is two rounds, and the radius its root."""
    laws, how = [fixed_law(4, pairs) for pairs in ring_phases(4)], {"coupling": "S", "q": 2, "eta": 0.6}
    F = expectation(PROBLEM, laws, rounds=100, x0=[1, 1, 1], **how).F
    assert (F[100] / F[98]) ** 0.5 == pytest.approx(spectral_radius(PROBLEM, laws, **how), rel=1e-9)
    assert not is_stable(PROBLEM, laws, **how)


@pytest.mark.parametrize("beta", [0, 0.5])
@pytest.mark.parametrize("coupling", COUPLINGS)
def test_the_limit_is_where_a_long_expectation_ends(coupling, beta):
    """The radius is 0.75 at most here, and 0.75^200 is 1e-25."""
    how = {"coupling": coupling, "q": 2, "eta": 0.1, "beta": beta}
    last = [column[-1] for column in expectation(PROBLEM, complete_law(4), rounds=200, x0=[1, 1, 1], **how)]
    assert list(expected_limit(PROBLEM, complete_law(4), **how)) == pytest.approx(last, rel=1e-10)


def test_global_support_has_limits_and_radii_too():
    W = Global(np.array([[2, 1, 0, 1], [1, 2, 1, 0], [0, 1, 2, 1], [1, 0, 1, 2]]) * Fraction(1, 4))
    how = {"q": 2, "eta": 0.1, "beta": 0.5}
    assert spectral_radius(PROBLEM, W, **how) < 0.8
    last = expectation(PROBLEM, W, rounds=200, x0=[1, 1, 1], **how).F[-1]
    assert pytest.approx(last, rel=1e-10) == expected_limit(PROBLEM, W, **how).F


def test_a_node_that_never_meets_anyone_keeps_the_radius_at_one():
    never = Law.of(4, [([(0, 1)], 1)])
    assert spectral_radius(PROBLEM, never, coupling="I", q=2, eta=0.1) == pytest.approx(1, abs=1e-12)


def mechanism(omega=0.6):
    """Problem of seed 0 of the 1,536-run study; b and σ play no part in stability."""
    found = quadratic(8, 0, d=32, kappa=4.0, omega=omega, zeta=2.0)
    return Quadratics(2 * found.half, found.b)


@pytest.mark.parametrize("law", [complete_law(8), ring_law(8)], ids=["complete", "ring"])
def test_of_the_large_momentum_steps_only_that_of_G_is_unstable(law):
    stable = {c: is_stable(mechanism(), law, coupling=c, q=4, eta=0.04, beta=0.9) for c in COUPLINGS}
    assert stable == {"G": False, "S": True, "I": True}


@pytest.mark.parametrize("law", [complete_law(8), ring_law(8)], ids=["complete", "ring"])
def test_the_same_first_step_without_momentum_is_stable(law):
    assert all(is_stable(mechanism(), law, coupling=c, q=4, eta=0.004) for c in COUPLINGS)


def test_unstable_steps_have_no_limit():
    with pytest.raises(ValueError, match=r"eta = 1.2 is unstable, spectral radius 12\.\d+; use a step below"):
        expected_limit(PROBLEM, ring_law(4), coupling="G", q=2, eta=1.2)


def test_laws_in_turn_have_no_limit():
    with pytest.raises(ValueError, match="one law, got 2"):
        expected_limit(PROBLEM, [ring_law(4)] * 2, coupling="G", q=2, eta=0.1)


def test_no_step_is_stable_without_curvature():
    with pytest.raises(ValueError, match="least mean curvature is 0; it must be above 0"):
        critical_step(alike([1.0, 0.0]), ring_law(4), coupling="G", q=1)


@pytest.mark.parametrize("eta", [-0.1, float("nan"), float("inf")])
def test_steps_that_are_none_are_refused(eta):
    with pytest.raises(ValueError, match=f"eta = {eta}"):
        spectral_radius(PROBLEM, ring_law(4), coupling="I", q=2, eta=eta)


def test_the_page_shows_critical_steps_as_they_are(script):
    assert f"{script.critical_row('ring', 0.6, 0.0)}\n" in page()
    assert f"| {script.critical('ring', 'G', 0.6, 0.9):.5f} |" in page()


def test_the_page_shows_expectations_as_they_are(script):
    setting = script.PRINTED[4].setting
    assert f"| {setting.words} | {script.exact_mean(setting):.4g} |" in page()


@pytest.mark.slow
def test_the_page_shows_what_the_script_computes(script):
    for name, table in script.tables().items():
        assert f"<!-- {name} -->\n{table}<!-- end -->\n" in page()


@pytest.mark.slow
def test_the_figure_is_drawn_and_small(script, tmp_path):
    script.draw(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size <= 80_000
    assert script.PICTURE.stat().st_size <= 80_000
