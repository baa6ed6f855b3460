"""Rates: inequalities by enumeration where that can be, constants by hand, bounds against real runs."""

from dataclasses import replace
from fractions import Fraction as Fr
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.joint import directions
from zocosmo.graphs.graph import complete
from zocosmo.graphs.weights import metropolis, rho
from zocosmo.methods.cosmo import Cosmo
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.problems.quadratic import quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.bounds import core_bound, coupling_bound, masked_recursion, momentum_bound
from zocosmo.theory.certificates import certified_step, ring_chi
from zocosmo.theory.law import complete_law
from zocosmo.theory.rates import Regime, bias_scale, canonical_mu, first_useful, horizon_steps

HAND = Regime(d=4, q=2, n=4, L=1.0, Delta0=1.0, L3=3.0, G2=1.0, sigma2=1.0, zeta2=1.0)
EXACT = replace(HAND, sigma2=0.0)
W = (np.eye(3, dtype=int) * Fr(1, 2)) + np.full((3, 3), Fr(1, 6))  # ρ = 1/2


@pytest.mark.parametrize(
    "ask",
    [
        lambda s: core_bound(s, eta=1e-3, mu=1e-3, rho=0.5, T=9),
        lambda s: momentum_bound(s, eta=1e-3, mu=1e-3, beta=0.5, h=1, gamma=0.5, T=9),
    ],
)
def test_no_result_takes_gradients_that_nobody_bounded_for_none(ask):
    with pytest.raises(ValueError, match="needs G2"):
        ask(replace(HAND, G2=None))


def values(rate):
    return {name: term.value for name, term in rate.terms.items()}


def scaled(rate, factor):
    return pytest.approx({name: factor * value for name, value in values(rate).items()}, rel=1e-13)


def disagreement(x):
    return ((x - x.mean(axis=0)) ** 2).sum() / len(x)


def bounds(setting, scale=1.0, mu=0.5):
    """The three bounds of one problem; `scale` multiplies η, for problems in other units."""
    exact = replace(setting, sigma2=0.0)
    return [
        core_bound(setting, eta=2**-6 * scale, mu=mu, rho=0.5, T=256),
        momentum_bound(setting, eta=2**-6 * scale, mu=mu, beta=0.5, h=2, gamma=0.5, T=256),
        coupling_bound("S", exact, eta=2**-6 * scale, mu=mu, chi=Fr(1, 3), T=256),
    ]


@pytest.mark.parametrize("mu", [Fr(1, 10), Fr(1), Fr(3)])
def test_the_moment_of_an_estimate_keeps_its_bound(mu):
    """Σ x³ at (1, −2, 0) with a two-point noise, every draw of d = 3, q = 2; L₃ = 6 since |Σu| ≤ ‖u‖³."""
    gradient, noise = np.array([3, 12, 0]) * Fr(1), np.array([1, 0, 2]) * Fr(1)
    estimates = [
        Fr(3, 2) * (u @ (gradient + sign * noise) + mu**2 * u.sum()) * u
        for found in directions(3, 2)
        for u, sign in product(found, (-1, 1))
    ]
    B = bias_scale(L3=6, mu=mu, d=3, q=2)
    bias = sum(estimates) / len(estimates) - gradient
    assert bias @ bias <= B**2
    moment = sum(g @ g for g in estimates) / len(estimates)
    regime = Regime(d=3, q=2, n=1, L=1.0, Delta0=1.0, L3=6.0, G2=float(gradient @ gradient), sigma2=5.0)
    assert moment <= regime.M2(float(mu))


@settings(max_examples=25)
@given(st.lists(st.integers(-4, 4), min_size=18, max_size=18), st.integers(1, 3))
def test_masked_disagreement_keeps_its_recursion(numbers, q):
    """ℰ⁺ over every direction of d = 3, three nodes that mix with ρ = 1/2 on the support they query."""
    x, g = np.array(numbers).reshape(2, 3, 3) * Fr(1)
    after, pushed, eta = [], [], Fr(1, 3)
    for u in (u for found in directions(3, q) for u in found):
        estimate = Fr(3, q) * (g @ u)[:, None] * u
        y = x - eta * estimate
        after.append(disagreement(np.where(u != 0, W @ y, y)))
        pushed.append(disagreement(estimate))
    known = masked_recursion(d=3, q=q, rho2=Fr(1, 4))
    bound = known.kappa * disagreement(x) + known.factor * eta**2 * sum(pushed) / len(pushed)
    assert sum(after) / len(after) <= bound


def test_the_factor_of_the_recursion_cannot_be_smaller():
    """d = q = 1 and a gradient that drives states apart in proportion: equality in each step of the proof."""
    x, rho2 = np.array([[1], [-2], [1]]) * Fr(1), Fr(1, 4)
    alpha = (1 - rho2) / (2 * rho2)
    after = disagreement(W @ (x + alpha * x))
    known = masked_recursion(d=1, q=1, rho2=rho2)
    assert after == known.kappa * disagreement(x) + known.factor * disagreement(alpha * x)


def test_constants_of_the_core_bound_by_hand():
    """B = 3/6 · ¼ · 8 = 1, M² = 18, ρ² = ¼: κ = 13/16, f = 5/12; Δ₀ = L = 1, η = 1/64, T = 256."""
    found = values(core_bound(HAND, eta=2**-6, mu=0.5, rho=0.5, T=256, E0=1.0))
    assert found["descent"] == 2 * 64 / 256
    assert found["noise"] == 2 / 64 * 4 / 4
    assert found["bias"] == 17 / 4
    assert found["mixing"] == pytest.approx(4.5 * (5 / 12) * 18 / 4096 * (16 / 3), rel=1e-14)
    assert found["start"] == pytest.approx(4.5 * (16 / 3) / 256, rel=1e-14)


def test_constants_of_the_momentum_bound_by_hand():
    """a_β = 1, p = ½, h = 2, γ = ½: (√6 h/γ + h − 1)² = (4√6 + 1)² = 97 + 8√6."""
    found = values(momentum_bound(HAND, eta=2**-6, mu=0.5, beta=0.5, h=2, gamma=0.5, T=256))
    assert (found["descent"], found["noise"], found["bias"]) == (1.0, 2 * 18 / 64, 6.0)
    assert found["mixing"] == pytest.approx(6 * 18 / 4096 * (97 + 8 * 6**0.5), rel=1e-14)
    assert found["memory"] == 8 * 18 / 4096 / 0.5


def test_constants_of_the_coupling_bound_by_hand():
    """S at d = 4, q = 2, two pairs, χ = 1/3: τ = 1, γ = 1/3, J = 3, B = 1."""
    found = values(coupling_bound("S", EXACT, eta=2**-6, mu=0.5, chi=Fr(1, 3), T=256))
    assert found["descent"] == 4 * 64 / 256
    assert found["heterogeneity"] == pytest.approx(8 / 64 / 3, rel=1e-14)
    assert found["mixing"] == pytest.approx(192 / 4096 * 9, rel=1e-14)
    assert found["bias"] == pytest.approx(12 + 48 / 4096 * 3 * 14, rel=1e-14)


@pytest.mark.parametrize("s", [0.25, 8.0])
def test_bounds_do_not_depend_on_the_unit_of_the_loss(s):
    """s·F has s times L, L₃ and Δ₀, s² times G², σ² and ζ², and steps of η/s: R_T is s² times as large."""
    other = Regime(d=4, q=2, n=4, L=s, Delta0=s, L3=3 * s, G2=s * s, sigma2=s * s, zeta2=s * s)
    for here, there in zip(bounds(HAND), bounds(other, 1 / s), strict=True):
        assert values(there) == scaled(here, s * s)


@pytest.mark.parametrize("r", [0.25, 8.0])
def test_bounds_do_not_depend_on_the_unit_of_the_states(r):
    """F(x/r) has L/r², L₃/r³, gradients over r, steps times r² and radii times r: R_T is divided by r²."""
    k = 1 / r**2
    other = Regime(d=4, q=2, n=4, L=k, Delta0=1.0, L3=3 / r**3, G2=k, sigma2=k, zeta2=k)
    for here, there in zip(bounds(HAND), bounds(other, r * r, 0.5 * r), strict=True):
        assert values(there) == scaled(here, k)


def test_under_common_directions_heterogeneity_enters_by_mixing_alone():
    rate = coupling_bound("G", EXACT, eta=2**-6, mu=0.5, chi=Fr(1, 3), T=256)
    assert values(rate)["heterogeneity"] == 0 < values(rate)["mixing"]


def test_a_bound_is_vacuous_until_its_horizon_and_never_after():
    setting = replace(EXACT, L3=0.0, zeta2=0.01)
    rate = coupling_bound("I", setting, eta=2**-7, mu=0.5, chi=Fr(1, 3), T=10)
    first = rate.horizon
    assert rate.ceiling == 2.0
    assert [rate.at(T).vacuous for T in (10, first - 1, first, 100 * first)] == [True, True, False, False]
    asked = coupling_bound("I", setting, eta=2**-7, mu=0.5, chi=Fr(1, 3), T=first)
    assert asked.total == pytest.approx(rate.at(first).total, rel=1e-12)


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize("chi", [complete_law(8).chi, ring_chi(8)])
@pytest.mark.parametrize("zeta", [0.0, 0.5, 2.0])
def test_the_certified_runs_of_the_mechanism_study_end_before_their_bound_speaks(coupling, chi, zeta):
    """η = 1e-4 and 1,600 rounds; at fixed η the descent term alone is below 2LΔ₀ only after 2/ηL = 5,000."""
    Delta0 = float(np.geomspace(1, 4, 32).mean() / 2)
    setting = Regime(d=32, q=4, n=8, L=4.0, Delta0=Delta0, zeta2=zeta**2)
    rate = coupling_bound(coupling, setting, eta=1e-4, mu=1e-3, chi=chi, T=1600)
    assert rate.vacuous
    assert 5000 < rate.horizon < 5600


def test_a_bound_whose_floor_is_too_high_is_vacuous_at_every_horizon():
    rate = coupling_bound("I", replace(EXACT, zeta2=1e3), eta=2**-7, mu=0.5, chi=Fr(1, 3), T=10**12)
    assert rate.vacuous
    assert rate.horizon is None
    assert "at no T with these steps" in str(rate)


def test_a_known_gradient_at_the_start_makes_the_test_stricter():
    loose, strict = (
        momentum_bound(setting, eta=1e-4, mu=1e-3, beta=0.0, h=1, gamma=0.5, T=10**6)
        for setting in (replace(HAND, L3=0.0), replace(HAND, L3=0.0, start2=0.01))
    )
    assert (loose.vacuous, strict.vacuous) == (False, True)


@pytest.mark.parametrize(("coupling", "power"), [("G", 2 / 3), ("S", 1 / 2), ("I", 1 / 2)])
def test_steps_by_the_horizon_give_the_rate_that_is_claimed(coupling, power):
    """Total over a factor 2^30 of T falls by 2^(30 · power) to 1 %: what is left are lower orders."""
    totals = []
    for T in (2**60, 2**90):
        eta, mu = horizon_steps(coupling, d=4, q=2, T=T)
        totals.append(coupling_bound(coupling, EXACT, eta=eta, mu=mu, chi=Fr(1, 3), T=T).total)
    assert totals[0] / totals[1] == pytest.approx(2 ** (30 * power), rel=0.01)


def test_with_steps_by_the_horizon_every_bound_says_something_in_the_end():
    """S has a floor at fixed steps; with η = T^(−1/2) the first useful T exists, and is the first."""

    def rate_at(T):
        eta, mu = horizon_steps("S", d=4, q=2, T=T)
        limit = certified_step("S", d=4, q=2, pairs=2, chi=Fr(1, 3), L=1.0)
        return coupling_bound("S", EXACT, eta=min(eta, limit), mu=mu, chi=Fr(1, 3), T=T)

    first = first_useful(rate_at)
    assert [rate_at(T).vacuous for T in (first - 1, first)] == [True, False]


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 10**9))
def test_canonical_radii_make_the_bias_fall_as_the_rate_does(d, T):
    q = (d + 1) // 2
    assert canonical_mu(d=d, q=q, T=T) ** 4 * (d * q) ** 2 * T == pytest.approx(1, rel=1e-12)
    common = horizon_steps("G", d=d, q=q, T=T).mu
    assert common**4 * (d * q) ** 2 * T ** (2 / 3) == pytest.approx(1, rel=1e-12)


def averaged_gradients(runs, problem, rounds):
    """R_T of every run, and the largest ‖∇F_i(x_i)‖² on the way."""
    simulation, curvature = Simulation(runs), 2 * problem.half
    total, largest = np.zeros(len(runs)), 0.0
    for _ in range(rounds):
        x = simulation.state.x
        total += ((curvature.mean(axis=0) * x.mean(axis=1)) ** 2).sum(axis=1)
        largest = max(largest, ((curvature * x + problem.b) ** 2).sum(axis=2).max())
        simulation.round()
    return total / rounds, largest


@pytest.mark.parametrize("coupling", "GSI")
def test_runs_keep_the_coupling_bound_where_it_says_something(coupling):
    """Four nodes, d = 4, 40 tapes at the certified step: mean R_T + 4 standard errors ≤ bound < 2LΔ₀.

    Equal curvatures, so ζ² is that of the linear terms and L = κ. The bound is no more than 20 times off.
    """
    problem = quadratic(4, 0, d=4, kappa=2.0, zeta=0.1)
    eta = certified_step(coupling, d=4, q=2, pairs=2, chi=complete_law(4).chi, L=2.0)
    method = EdgeLocal(eta=eta, mu=1e-3, q=2, coupling=coupling)
    runs = [Run(method, complete(4), problem, f"R {k}") for k in range(40)]
    R, _ = averaged_gradients(runs, problem, 600)
    Delta0 = float((problem.half.mean(axis=0) * problem.x0**2).sum())
    setting = Regime(d=4, q=2, n=4, L=2.0, Delta0=Delta0, zeta2=0.01)
    rate = coupling_bound(coupling, setting, eta=eta, mu=1e-3, chi=complete_law(4).chi, T=600)
    assert not rate.vacuous
    assert R.mean() + 4 * R.std(ddof=1) / 40**0.5 <= rate.total <= 20 * R.mean()


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_runs_on_a_common_support_keep_their_bounds(beta):
    """Complete graph, 20 tapes, η = 1/8Ld; G² is the largest seen, so the assumption holds on these runs."""
    problem, L = quadratic(4, 0, d=4, kappa=2.0, zeta=0.1), 2.0
    eta, factor = 1 / (8 * L * 4), rho(metropolis(complete(4)))
    runs = [Run(Cosmo(eta=eta, mu=1e-3, q=2, beta=beta), complete(4), problem, f"C {k}") for k in range(20)]
    R, G2 = averaged_gradients(runs, problem, 600)
    Delta0 = float((problem.half.mean(axis=0) * problem.x0**2).sum())
    setting = Regime(d=4, q=2, n=4, L=L, Delta0=Delta0, G2=G2)
    rates = [momentum_bound(setting, eta=eta, mu=1e-3, beta=beta, h=1, gamma=(1 - factor**2) / 2, T=600)]
    rates += [core_bound(setting, eta=eta, mu=1e-3, rho=factor, T=600)] if beta == 0 else []
    assert all(R.mean() + 4 * R.std(ddof=1) / 20**0.5 <= rate.total for rate in rates)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: core_bound(HAND, eta=0.04, mu=0.5, rho=0.5, T=9), "eta = 0.04"),
        (lambda: core_bound(HAND, eta=0.01, mu=0.5, rho=1.0, T=9), "rho = 1"),
        (lambda: core_bound(HAND, eta=0.01, mu=0.5, rho=0.5, T=0), "T = 0"),
        (lambda: core_bound(HAND, eta=0.01, mu=0.0, rho=0.5, T=9), "mu"),
        (lambda: coupling_bound("G", EXACT, eta=0.1, mu=0.5, chi=Fr(1, 3), T=9), "not certified"),
        (lambda: coupling_bound("G", HAND, eta=0.01, mu=0.5, chi=Fr(1, 3), T=9), "sigma2 = 1"),
        (lambda: momentum_bound(HAND, eta=0.1, mu=0.5, beta=1.0, h=1, gamma=0.5, T=9), "beta = 1"),
        (lambda: momentum_bound(HAND, eta=0.1, mu=0.5, beta=0.5, h=1, gamma=0.0, T=9), "gamma = 0"),
        (lambda: replace(HAND, Delta0=0.0), "Delta0"),
        (lambda: replace(HAND, q=5), "q = 5"),
        (lambda: replace(HAND, start2=3.0), "start2 = 3"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()
