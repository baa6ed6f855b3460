import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.suggest import best_level, resolution, suggest, suggest_q
from zocosmo.core.support import draw_direction
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


@pytest.mark.parametrize("q", [1, 4, 16])
@pytest.mark.parametrize("c", [0.25, 8.0])
def test_the_step_on_a_quadratic_is_half_the_best_one(q, c):
    """uᵀ(cI)u = c q, so η = ½ q/(d c q), whatever q is; second differences lose 1e-12 to rounding."""
    found = suggest(lambda x: c * bowl(x), X0, q=q)
    assert found.curvature == pytest.approx(c * q, rel=1e-10)
    assert found.eta == pytest.approx(0.5 / (D * c), rel=1e-10)


def test_the_step_is_safe_for_the_stiffest_node():
    found = suggest([bowl, lambda x: 100 * bowl(x)], X0, n=2, q=2)
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
    """|s| = √q on average over signs, so a coordinate moves by η (d/q) |s| = 1 % of max |x0|."""
    found = suggest(np.sum, X0, q=1)
    assert (found.curvature, found.slope) == (0.0, pytest.approx(1.0, rel=1e-9))
    assert found.eta * D * found.slope == pytest.approx(0.015, rel=1e-9)
    assert any("linear as far as seen" in reason for reason in found.reasons)


def test_a_nearly_linear_loss_does_not_leap_by_its_faint_curvature():
    found = suggest(lambda x: x.sum() + 1e-9 * bowl(x), X0, q=1)
    assert found.curvature == pytest.approx(1e-9, rel=1e-3)
    assert found.eta * D * found.slope == pytest.approx(0.015, rel=1e-6)


def test_mu_falls_with_the_third_derivative_and_rises_with_the_noise():
    def curved(x):
        return float(np.exp(3 * x).sum())

    exact, rough = suggest(curved, X0).mu, suggest(noisy(curved, 0.1), X0).mu
    assert exact < 1e-4 < rough
    assert suggest(bowl, X0).mu == 0.25 * 1.5  # no third derivative: as large as was probed


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
    assert any("0.375 on leaves where the loss is finite" in reason for reason in found.reasons)


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
    rounds = {tuple(draw_direction(Tape(0), t, d=D, q=8).shift(X0, 0.25)) for t in range(8)}
    assert rounds.isdisjoint(asked)
    assert tuple(draw_direction(Tape(0), 2**63, d=D, q=8).shift(X0, 0.25)) in asked


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
    assert best_level(1 + mu[:, None] ** 2, 1e-4 / mu) == 2
    assert best_level(np.ones((7, 1)), 1e-4 / mu) == 0


def test_noise_is_not_taken_for_truncation():
    """Neighbours that differ by μ² and the noise of both: the choice is the one that μ² alone would make."""
    mu = 8.0 ** -np.arange(7)
    noise = 1e-4 / mu
    differ = np.sqrt(mu[:-1] ** 4 + noise[:-1] ** 2 + noise[1:] ** 2)
    assert best_level(np.append(0.0, differ.cumsum())[:, None], noise) == 2


@given(st.integers(0, 6), st.lists(st.integers(1, 10**5), min_size=3, max_size=6))
def test_decimals_are_recognised(decimals, digits):
    """Half of the last decimal, or less where all answers happen to end in zeros."""
    answers = np.array([int(digit) for digit in digits]) / 10.0**decimals
    assert resolution(answers) >= 0.5 * 10.0**-decimals


def test_a_suggestion_reads_as_text():
    text = str(suggest(bowl, X0))
    assert text.splitlines()[0] == "mu = 0.375, eta = 0.0312, q = 2   (127 queries)"
    assert "½ q/(d c)" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"q": 17}, "q must be between 1 and 16, got 17"),
        ({"reach": 0.0}, "above 0, got 0.0"),
        ({"probes": 1}, "probes must be 2 or more"),
        ({"wire": "f8"}, "wire 'f8' is not known"),
        ({"n": 0}, "n must be 1 or more"),
    ],
)
def test_mistakes_are_refused(options, words):
    with pytest.raises(InputError) as caught:
        suggest(bowl, X0, **options)
    assert words in str(caught.value)
