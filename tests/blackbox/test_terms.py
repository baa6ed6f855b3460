"""Runs that stop by themselves: what they reach, and what they say of it."""

import numpy as np
import pytest

from zocosmo import minimize
from zocosmo.blackbox.place import as_place
from zocosmo.blackbox.poll import Noise, Poller
from zocosmo.blackbox.probes import Asker


def rosenbrock(x):
    return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)


def badly_scaled(x):
    return float((x[0] / 2e5 - 1.3) ** 2 + (x[1] / 0.3 - 0.8) ** 2)


def test_a_tolerance_alone_ends_a_run_at_a_minimum():
    result = minimize(lambda x: float(((x - 3) ** 2).sum()), np.zeros(6), tol=1e-6)
    assert (result.success, result.status) == (True, 6)
    assert np.allclose(result.x, 3, atol=1e-3)
    assert "Converged after" in result.message


def test_coordinates_of_different_size_need_no_advice():
    result = minimize(badly_scaled, [2e5, 0.3], tol=1e-6)
    assert result.success
    assert np.allclose(result.x, [2.6e5, 0.24], rtol=1e-3)


@pytest.mark.parametrize("method", ["cosmo", "edge_local"])
def test_rigs_that_differ_agree_on_the_best_common_setting(method):
    """Pairs of edge_local draw directions of their own, so its average settles less well, and it says so."""
    rigs = [lambda x, c=c: float(((x - c) ** 2).sum()) for c in (1.0, 2.0, 3.0, 6.0)]
    result = minimize(rigs, np.zeros(5), tol=1e-5, method=method)
    assert result.success == (method == "cosmo")
    assert np.allclose(result.x, 3.0, atol=0.1)


def test_a_constant_function_is_no_success():
    for options in ({"tol": 1e-3}, {"rounds": 40, "q": 1, "eta": 0.1, "mu": 0.1}):
        result = minimize(lambda x: 4.0, np.ones(3), **options)
        assert not result.success
        assert "F does not answer to" in result.message


def test_rosenbrock_with_a_thousand_rounds_is_no_success():
    result = minimize(rosenbrock, [-1.0, 1.0], rounds=1000)
    assert result.fun > 0.1
    assert not result.success
    assert "Not shown to be a minimum" in result.message


def test_a_coordinate_that_never_moved_is_no_success():
    """Its slope is where it was, while the other's fell by orders of magnitude."""
    result = minimize(
        lambda x: float(x[0] ** 2 + 1e-6 * (x[1] - 9) ** 2), [1.0, 1.0], rounds=200, q=1, eta=0.2, mu=0.1
    )
    assert result.fun < 1e-3
    assert not result.success
    assert "the slope along 1 coordinate is still above a tenth of its largest" in result.message


def test_a_coordinate_without_effect_is_named():
    result = minimize(lambda x: float((x[0] - 2) ** 2 + x[2] ** 2), np.ones(3), tol=1e-4)
    assert (result.success, result.status) == (False, 7)
    assert "F does not answer to coordinates 1" in result.message
    assert abs(result.x[0] - 2) < 0.05


def test_a_start_at_the_minimum_is_a_success_without_a_round():
    result = minimize(lambda x: float(x @ x), np.zeros(3), tol=1e-3)
    assert (result.success, result.nit) == (True, 0)


def test_noise_that_hides_what_is_left_is_said():
    rng = np.random.default_rng(0)
    result = minimize(lambda x: float(0.01 * x @ x + rng.normal()), np.full(3, 3.0), tol=1e-3, rounds=400)
    assert not result.success


def test_limits_end_a_run_with_a_tolerance_too():
    few = minimize(rosenbrock, [-1.2, 1.0], tol=1e-6, rounds=5)
    poor = minimize([rosenbrock] * 3, [-1.2, 1.0], tol=1e-6, budget_bits=600)
    assert (few.status, few.nit, few.success) == (0, 5, False)
    assert (poor.status, poor.success) == (1, False)
    assert poor.bits <= 600
    assert "the tolerance was not reached" in few.message


def test_every_query_is_counted():
    asked = []
    result = minimize(lambda x: asked.append(0) or rosenbrock(x), [-1.2, 1.0], n=3, tol=1e-3)
    assert result.nfev == len(asked)


def test_given_steps_are_kept_and_only_the_end_is_judged():
    result = minimize(lambda x: float(x @ x), np.ones(4), tol=1e-4, rounds=500, q=1, eta=0.1, mu=0.1)
    assert (result.method.eta, result.method.mu, result.scale) == (0.1, 0.1, None)
    assert result.success
    assert result.nit < 500


def poll_of(f, x, bounds=None):
    x = np.array(x)
    place = as_place(bounds, None, x, by_itself=False)

    def oracle(points, t):
        return np.array([f(point) for point in points])

    return Poller(Asker(oracle), 1, place, np.ones(x.size), Noise(1e-16, 1e-16, True))(x, 0)


@pytest.mark.parametrize("bounds", [None, (0, 4), (2, 4), (0, 2)])
def test_a_poll_of_a_parabola_is_exact_and_one_sided_at_a_bound(bounds):
    """f = 3 (x − 1)² at 2, with dyadic shifts: slope 6, curvature 6; the gain 3, or what the bounds leave of
    it."""
    poll = poll_of(lambda x: float(3 * (x[0] - 1) ** 2), [2.0], bounds)
    assert (poll.value, poll.slope.tolist(), poll.curved.tolist()) == (3.0, [6.0], [6.0])
    assert poll.promise == (0.0 if bounds == (2, 4) else 3.0)


def test_a_coordinate_that_is_flat_everywhere_is_seen_at_the_widest_shift():
    poll = poll_of(lambda x: float(x[0] ** 2), [1.0, 1.0])
    assert poll.flat.tolist() == [False, True]
    assert poll.shift[1] == 0.25


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("tree_mean", {}),
        ("tree_mean", {"hold": 3}),
        ("edge_local", {"hold": 2}),
        ("cosmo", {"correction": 0.125}),
    ],
)
def test_a_method_that_keeps_more_than_x_runs_to_a_tolerance_with_the_step_it_began_with(method, more):
    centres = np.linspace(-1, 1, 4)
    rigs = [lambda x, c=c: float(((x - c) ** 2).sum()) for c in centres]
    result = minimize(rigs, np.full(4, 3.0), tol=1e-2, graph="ring", method=method, **more)
    assert result.success
    assert result.message.startswith("Converged")
    assert np.abs(result.x).max() < 0.5
