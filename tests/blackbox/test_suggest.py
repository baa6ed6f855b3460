import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.minimize import minimize
from zocosmo.blackbox.probes import covering, resolution, truncation
from zocosmo.blackbox.suggest import suggest, suggest_q
from zocosmo.core.balanced import balanced_support
from zocosmo.core.support import draw_direction, draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, OracleError
from zocosmo.problems import rosenbrock

D = 16
X0 = np.linspace(0.5, 1.5, D)


def bowl(x):
    return 0.5 * float(x @ x)


def noisy(fun, sigma, key="noise"):
    """`fun` with noise of about that standard deviation (twelve uniform words), fresh in every call."""
    words = iter(Tape(key).coins("test", 0).words(200_000).astype(np.float64) / 2.0**64)
    return lambda x: fun(x) + sigma * (sum(next(words) for _ in range(12)) - 6.0)


def brain(f):
    return (np.array(f, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize("q", [1, 4, 16])
@pytest.mark.parametrize("c", [0.25, 8.0])
def test_the_step_on_a_quadratic_is_half_the_best_one(q, c):
    """uᵀ(cI)u = c q, so η = ½ q/(d c q), whatever q is; second differences lose 1e-12 to rounding."""
    found = suggest(lambda x: c * bowl(x), X0, q=q)
    assert found.curvature == pytest.approx(c * q, rel=1e-10)
    assert found.eta == pytest.approx(0.5 / (D * c), rel=1e-10)


def test_the_step_is_safe_for_the_stiffest_node():
    found = suggest([bowl, lambda x: 100 * bowl(x)], X0, q=2)  # two functions: two nodes
    assert found.curvature == pytest.approx(200, rel=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.floats(-6, 6), st.floats(-6, 6))
def test_a_rescaled_loss_gets_the_same_round(a, b):
    """f → 10^a f, x → 10^b x: η must scale by 10^(2b − a) and μ by 10^b, so that rounds look alike."""
    tall, wide = 10.0**a, 10.0**b
    here, there = suggest(bowl, X0, q=2), suggest(lambda x: tall * bowl(x / wide), wide * X0, q=2)
    assert there.eta == pytest.approx(here.eta * wide**2 / tall, rel=1e-6)
    assert there.mu == pytest.approx(here.mu * wide, rel=1e-12)


def test_a_linear_loss_moves_by_a_trust_length_and_says_so():
    """|s| = 1 with q = 1, so a coordinate moves by η d |s| = half the reach of 0.375."""
    found = suggest(np.sum, X0, q=1)
    assert (found.curvature, found.slope) == (0.0, pytest.approx(1.0, rel=1e-5))
    assert found.eta * D * found.slope == pytest.approx(0.1875, rel=1e-5)
    assert any("no curvature was seen" in reason for reason in found.reasons)


def test_a_nearly_linear_loss_moves_by_a_hundred_reaches_at_most():
    """Its curvature alone would allow s/2c = 5e8."""
    found = suggest(lambda x: x.sum() + 1e-9 * bowl(x), X0, q=1)
    assert found.curvature == pytest.approx(1e-9, rel=1e-3)
    assert found.eta * D * found.slope == pytest.approx(37.5, rel=1e-5)
    assert not any("linear" in reason for reason in found.reasons)


def test_a_far_optimum_is_reached_by_its_curvature():
    """1000 from a start at zero is 4000 reaches: half a reach a round would take d · 8000 rounds."""
    found = minimize(lambda x: float(((x - 1000) ** 2).sum()), np.zeros(2), rounds=1500)
    assert found.fun < 1e-6


STIFF = [(d, ratio, 20) for d in (10, 12, 20, 64) for ratio in (20.0, 100.0)] + [(1000, 1e4, 20)]


@pytest.mark.parametrize(("d", "ratio", "seeds"), STIFF)
def test_one_stiff_coordinate_never_makes_a_run_grow(d, ratio, seeds):
    """Every support has a uᵀHu ≤ 2, so no round may raise the loss, whichever coordinate is stiff."""
    for seed in range(seeds):
        h = np.ones(d)
        h[7 * seed % d] = ratio
        log = minimize(lambda x, h=h: float(h @ x**2), np.ones(d), rounds=60, seed=seed, measure=True).log
        assert (np.diff(log["objective"]) <= 0).all()


@pytest.mark.parametrize("q", [1, 3])
def test_a_stiff_coordinate_is_found_by_halving_where_probes_cannot_cover(q):
    """1000 blocks of 1, or 334 of 3, are too many; uᵀHu = 2 (1e4 + up to q − 1)."""
    for place in range(0, 1000, 77):
        h = np.ones(1000)
        h[place] = 1e4
        found = suggest(lambda x, h=h: float(h @ x**2), np.ones(1000), q=q, seed=place)
        assert 2e4 * (1 - 1e-9) <= found.curvature <= 2e4 + 2 * q
        assert found.queries < 500


def test_probes_of_a_round_loss_are_no_stiffer_than_its_supports():
    """Wide blocks of H = 2I have uᵀHu = 2 × 32, but q = 1 is what the run uses."""
    assert suggest(lambda x: float(x @ x), np.ones(1000), q=1).curvature == pytest.approx(2, rel=1e-6)


def test_truncation_that_one_node_of_eight_sees_counts():
    """Quadratics under noise of 0.05 want the largest μ. At μ = 0.375 exp(3x) is off by about
    27e³μ²/6 = 13, or 4 in the mean square of eight nodes: more than the noise of 0.75 at the next μ."""
    funs = [noisy(bowl, 0.05, f"n{i}") for i in range(8)]
    assert suggest(funs, X0, seed=1).mu == 0.375
    funs[5] = noisy(lambda x: float(np.exp(3 * x).sum()), 0.05, "n5")
    assert suggest(funs, X0, seed=1).mu < 0.375


def test_truncation_is_a_mean_square():
    one_of_eight = np.ones((3, 8))
    one_of_eight[0, 5] = 9.0
    assert truncation(one_of_eight, np.zeros(3)).tolist() == [math.sqrt(8.0), 0.0, 0.0]


def test_an_uneven_staircase_is_not_probed_inside_a_step():
    """Steps near 0.01 of uneven heights show neither noise nor a grid; inside one, both queries agree."""

    def stairs(x):
        k = math.floor(bowl(x) / 0.01)
        return 0.01 * k + 0.003 * math.sin(k)

    found = minimize(stairs, X0, rounds=300)
    assert found.suggestion.mu > 1e-3
    assert found.fun < stairs(X0) / 20


@pytest.mark.parametrize(("kind", "eps"), [(np.float16, 2.0**-11), (brain, 2.0**-8)], ids=["f16", "bf16"])
def test_narrow_floats_are_recognised_by_their_largest(kind, eps):
    """Steps near the smallest answer are finer, but errors are those of the largest."""
    answers = np.array([float(kind(f)) for f in np.linspace(0.1, 100, 50)])
    assert resolution(answers) >= eps * answers.max()


def valley(x):
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_rosenbrock_s_valley_is_followed_from_where_its_third_derivatives_vanish(seed):
    assert minimize(valley, np.zeros(2), rounds=3000, seed=seed).fun < 0.02


@pytest.mark.parametrize("d", [1, 4, 20])
def test_a_quartic_is_minimised_from_where_its_curvature_vanishes(d):
    """Σ x⁴ − x is least at x = 4^(−1/3) = 0.63."""
    found = minimize(lambda x: float((x**4 - x).sum()), np.zeros(d), rounds=100 * d)
    assert np.abs(found.x - 4 ** (-1 / 3)).max() < 1e-3


def test_a_vanishing_third_derivative_does_not_make_mu_large():
    """Noise of 1e-6 would leave any μ free; x⁴ has none at 0, and 4x off it."""
    found = suggest(noisy(lambda x: float((x**4 - x).sum()), 1e-6), np.zeros(4))
    assert found.mu < 0.25 / 8


COARSE = {"float16": np.float16, "bfloat16": brain, "whole": round, "hundredths": lambda f: round(f, 2)}


@pytest.mark.parametrize("rule", COARSE.values(), ids=COARSE)
@pytest.mark.parametrize("x0", [np.zeros(8), np.linspace(0.5, 1.5, 8)], ids=["zero", "apart"])
def test_coarse_losses_get_a_mu_that_their_slope_stands_clear_at(rule, x0):
    """Four times fewer of 8 (2 − x0)² ≥ 10 are left; a flat μ would leave all."""

    def fun(x):
        return float(rule(float(((x - 2) ** 2).sum())))

    found = minimize(fun, x0, rounds=400)
    assert found.suggestion.signal_to_noise > 1
    assert found.fun < fun(x0) / 4


def test_a_zero_one_loss_is_lowered():
    """Two hundred labels by one plane; the loss moves in steps of 1/200."""
    points = Tape("points").coins("test", 0).words(1000).astype(np.float64).reshape(200, 5) / 2.0**63 - 1
    labels = points.sum(axis=1) > 0
    start = np.array([1, -1, 1, 0.5, -0.5])
    found = minimize(lambda x: float(((points @ x > 0) != labels).mean()), start, rounds=400)
    assert found.suggestion.noise == pytest.approx(0.0025)
    assert found.fun < 0.5 * ((points @ start > 0) != labels).mean()


@pytest.mark.parametrize("size", [1e300, 1e-310])
def test_losses_that_floats_cannot_square_are_refused_in_one_line(size):
    with pytest.raises(OracleError, match="multiply the loss by a constant, or give eta and mu"):
        suggest(lambda x: size * bowl(x), X0)


def test_a_first_step_stays_within_what_was_seen_to_be_alike():
    """Σ x⁴ − x at zero: curvature grows from nothing, so a step moves by half the reach of 0.25."""
    found = suggest(lambda x: float((x**4 - x).sum()), np.zeros(1))
    assert found.eta * found.slope == pytest.approx(0.125, rel=0.15)


def test_a_loss_that_is_finite_only_close_by_is_probed_there():
    """0.375/8⁶ is the only level inside; with no second level there is no truncation to be seen."""

    def box(x):
        return bowl(x) if np.abs(x - X0).max() < 2e-6 else np.nan

    found = suggest(box, X0, q=2)
    assert found.mu == 0.375 / 8**6
    assert found.eta * D / found.q * found.slope <= 100 * found.mu * (1 + 1e-9)
    several = suggest(box, X0)  # the mean of K orthogonal slopes moves a coordinate by 1/√K of one
    assert several.directions == 2
    assert several.eta * D / 2 * several.slope / 2**0.5 <= 100 * found.mu * (1 + 1e-9)


def test_a_loss_that_ends_downhill_is_stepped_on_gently():
    """Finite on both sides of x0, but not where all coordinates go down together."""

    def edge(x):
        return float(x.sum()) + bowl(x) if x.sum() > X0.sum() - 1.0 else np.nan

    found = suggest(edge, X0, q=1)
    assert any("half a reach downhill the loss is not finite" in reason for reason in found.reasons)
    assert found.eta * D * found.slope <= 0.1875 * (1 + 1e-9)


def test_mu_falls_with_the_third_derivative_and_rises_with_the_noise():
    def curved(x):
        return float(np.exp(3 * x).sum())

    exact, rough = suggest(curved, X0).mu, suggest(noisy(curved, 0.1), X0).mu
    assert exact < 1e-4 < rough
    assert suggest(bowl, X0).mu == 0.375 / 8**6  # no noise: as small as was probed
    assert suggest(noisy(bowl, 0.1), X0).mu == 0.375  # no truncation: as large


@pytest.mark.parametrize("rule", [np.float32, lambda f: round(f, 3)], ids=["float32", "3 decimals"])
def test_coarse_answers_are_noticed(rule):
    """Both give the same answer to the same question, so repeats show no noise; their digits do."""
    exact, coarse = (
        suggest(lambda x: float(np.exp(x).sum()), X0),
        suggest(lambda x: rule(np.exp(x).sum()), X0),
    )
    assert coarse.noise > 1e6 * exact.noise
    assert coarse.mu > 10 * exact.mu


def test_the_noise_is_measured():
    """31 + 32 degrees of freedom for each of 4 nodes: 4 sigma of the estimate are 4/√504 = 18 %."""
    found = suggest([noisy(bowl, 0.5, f"node {i}") for i in range(4)], X0, n=4, probes=32)
    assert found.noise == pytest.approx(0.5, rel=0.18)


@pytest.mark.parametrize("key", "abcdef")
def test_pure_noise_is_hopeless_and_says_so(key):
    """32 slopes would have to show 2.25 times the variance of noise: less than once in a hundred draws."""
    found = suggest([noisy(lambda x: 0.0, 1.0, f"{key}{i}") for i in range(4)], X0, n=4)
    assert found.signal_to_noise < 1
    assert any(reason.startswith("hopeless") for reason in found.reasons)


@pytest.mark.parametrize("value", [0.0, 5.0, 1 / 3])
def test_a_constant_is_hopeless(value):
    found = suggest(lambda x: value, X0)
    assert found.signal_to_noise < 1
    assert np.isfinite([found.eta, found.mu]).all()


def test_a_slope_above_the_noise_is_not_hopeless():
    found = suggest(noisy(lambda x: 100 * bowl(x), 0.1), X0)
    assert found.signal_to_noise > 10
    assert not any("hopeless" in reason for reason in found.reasons)


def wall(x):
    return float(-np.log(1.6 - x).sum()) if (x < 1.6).all() else np.nan


def test_a_mu_that_leaves_the_domain_is_left_out():
    found = suggest(wall, X0, q=D)
    assert found.mu < 0.1
    assert any("0.375 on the loss is not finite" in reason for reason in found.reasons)


def test_a_loss_that_always_fails_is_an_error():
    with pytest.raises(OracleError, match="node 0, round 0, probe at x0: the loss is nan"):
        suggest(lambda x: np.nan, X0)
    with pytest.raises(OracleError, match="probe x0"):
        suggest(lambda x: 1.0 if (x == X0).all() else np.nan, X0)


def test_every_query_is_counted_and_stays_within_reach():
    asked = []
    oracle = Functions(lambda x: asked.append(np.abs(x - X0).max()) or bowl(x), 3)
    found = suggest(oracle, X0, n=3, probes=4, reach=0.01)
    assert found.queries == len(asked) == oracle.queries.sum()
    assert max(asked) == pytest.approx(0.01)


def test_of_several_reaches_the_smallest_counts():
    wide = np.full(D, 2.0)
    wide[3] = 0.01
    assert suggest(bowl, X0, reach=wide) == suggest(bowl, X0, reach=0.01)


def test_a_keyed_loss_is_compared_within_a_round():
    """A sample that changes with the round is no noise: both queries of a round share it."""
    found = suggest(lambda x, t: bowl(x) + 1000 * t, X0, q=2, keyed=True)
    assert found.curvature == pytest.approx(2, rel=1e-6)
    assert found.noise < 1e-9


def test_problems_can_be_probed():
    problem = rosenbrock(3, 0, d=D)
    assert suggest(problem, problem.x0, n=3).signal_to_noise > 1e3


def test_probes_go_where_no_round_goes():
    asked = []
    suggest(lambda x: asked.append(tuple(x)) or bowl(x), X0, q=8, reach=0.25)
    for rule in (draw_support, balanced_support):
        near = [draw_direction(Tape(0), t, d=D, q=8, rule=rule) for t in range(8)]
        assert {tuple(u.shift(X0, 0.25)) for u in near}.isdisjoint(asked)
    far = draw_direction(Tape(0), 2**63, d=D, q=8, rule=balanced_support)
    assert tuple(far.shift(X0, 0.25)) in asked


@given(st.integers(1, 300), st.integers(1, 300), st.integers(2, 12))
def test_probes_cover_every_coordinate_where_32_can(d, q, least):
    us = covering(Tape(0), d, min(q, d), least)
    covered = np.unique(np.concatenate([u.index for u in us]))
    assert len(us) >= least
    assert covered.size == d or d > 32 * q


def test_seeds_choose_the_directions():
    first, again, other = (suggest(wall, X0, q=2, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert first.slope != other.slope


@given(st.integers(1, 10**10), st.sampled_from(["f64", "f32", "f16", "bf16", "nominal_f32"]))
def test_q_is_an_eighth_at_most_and_no_more_than_ten_frames_need(d, wire):
    q, bits = suggest_q(d, wire), {"f64": 64, "f16": 16, "bf16": 16}.get(wire, 32)
    assert q == 1 or 8 * q <= d
    assert (q - 1) * bits < 2560
    assert q * bits >= 2560 or q == max(1, d // 8)


def test_the_best_level_balances_noise_and_truncation():
    """Estimates 1 + μ² with noise 1e-4/μ: the sum of both is least at the level next to (5e-5)^(1/3)."""
    mu = 8.0 ** -np.arange(7)
    noise = 1e-4 / mu
    assert np.argmin(noise + truncation(1 + mu[:, None] ** 2, noise)) == 2
    assert (truncation(np.ones((7, 1)), noise) == 0).all()


def test_noise_is_not_taken_for_truncation():
    """Neighbours that differ by the most that rounding does to both, g/2μ = √2 σ/√2μ with σ = g/2."""
    mu = 8.0 ** -np.arange(7)
    noise = 1e-4 / mu
    differ = math.sqrt(2) * (noise[:-1] + noise[1:]) * (1 - 1e-12)
    estimates = np.append(1.0, 1.0 + differ.cumsum())[:, None]
    assert truncation(estimates, noise) == pytest.approx(0, abs=1e-9)


def test_an_exact_zero_is_below_resolution_and_not_truncation():
    assert (truncation(np.array([[3.0], [0.0], [0.0]]), np.zeros(3)) == 0).all()
    assert truncation(np.array([[3.0], [1.0], [1.0]]), np.zeros(3)).tolist() == [2.0, 0.0, 0.0]


@given(st.integers(0, 6), st.lists(st.integers(1, 10**5), min_size=3, max_size=6))
def test_decimals_are_recognised(decimals, digits):
    """Half of the last decimal, or less where all answers happen to end in zeros."""
    answers = np.array([int(digit) for digit in digits]) / 10.0**decimals
    assert resolution(answers) >= 0.5 * 10.0**-decimals


def test_a_suggestion_reads_as_text():
    text = str(suggest(bowl, X0, q=2))
    assert text.splitlines()[0] == "mu = 1.43e-06, eta = 0.0312, q = 2   (183 queries)"
    assert "½ q/(d c)" in text
    head = str(suggest(bowl, X0, n=2)).splitlines()[0]
    several = "2 orthogonal directions from one side, wire mod8"
    assert head == f"mu = 1.43e-06, eta = 0.0625, q = 2, {several}   (366 queries)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"q": 17}, "q must be between 1 and 16, got 17"),
        ({"reach": 0.0}, "above 0, got 0.0"),
        ({"reach": "far"}, "reach must be a number, or one for each coordinate; got 'far'"),
        ({"reach": [1.0, 2.0]}, "one number or 16, got shape (2,)"),
        ({"probes": 1}, "probes must be 2 or more"),
        ({"wire": "f8"}, "wire 'f8' is not known"),
        ({"n": 0}, "n must be 1 or more"),
    ],
)
def test_mistakes_are_refused(options, words):
    with pytest.raises(InputError) as caught:
        suggest(bowl, X0, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(("d", "q"), [(160, 1), (160, 2), (300, 2), (2592, None)])
def test_no_stiff_coordinate_is_lost_between_blocks(d, q):
    """One coordinate of curvature 1e4 among ones, wherever it stands: halves of a block differ in size."""
    for place in range(0, d, d // 32):
        h = np.ones(d)
        h[place] = 1e4
        assert suggest(lambda x, h=h: float(0.5 * (h * x * x).sum()), np.ones(d), q=q).curvature > 0.9e4
