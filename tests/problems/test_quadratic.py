"""Quadratics against their definition, written out with sums over nodes and coordinates."""

import importlib
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zocosmo.errors import InputError
from zocosmo.oracle import objective
from zocosmo.problems.quadratic import MOST_BLOCKS, Quadratic, quadratic
from zocosmo.problems.rosenbrock import rosenbrock

noise_blocks = importlib.import_module("zocosmo.problems.quadratic")._drawn


def test_every_value_is_its_formula():
    """½ Σ_j H_ij x_ij² + Σ_j b_ij x_ij, coordinate by coordinate; 6 terms of order 1 round to 1e-14."""
    problem, x = quadratic(3, 1, d=6, omega=0.5, zeta=2.0), np.random.default_rng(0).normal(size=(3, 6))
    H, b = 2 * problem.half, problem.b
    by_hand = [sum(H[i, j] * x[i, j] ** 2 / 2 + b[i, j] * x[i, j] for j in range(6)) for i in range(3)]
    assert np.abs(problem.local(x) - by_hand).max() < 1e-14


def test_curvatures_are_spread_geometrically_and_deviations_cancel():
    problem = quadratic(8, 1, d=32, kappa=4.0, omega=0.6)
    H = 2 * problem.half
    assert np.abs(H.mean(axis=0) - np.geomspace(1, 4, 32)).max() < 1e-14
    R = (H / np.geomspace(1, 4, 32) - 1) / 0.6
    assert np.abs(R).max() == pytest.approx(1.0, abs=1e-12)  # one entry of all reaches 1 …
    assert (np.abs(R).max(axis=0) > 0.999).sum() == 1  # … and not one of each coordinate


def test_linear_terms_cancel_and_have_the_asked_size():
    b = quadratic(8, 1, d=32, zeta=2.0).b
    assert np.abs(b.sum(axis=0)).max() < 1e-13
    assert (b * b).sum(axis=1).mean() == pytest.approx(4.0, abs=1e-12)


def test_the_minimum_is_zero_at_zero():
    problem = quadratic(8, 1, d=32, omega=0.6, zeta=2.0)
    assert objective(problem, np.zeros(32)) == 0.0
    x = np.random.default_rng(1).normal(size=32)
    assert objective(problem, x) == pytest.approx(0.5 * (np.geomspace(1, 4, 32) * x * x).sum(), rel=1e-12)


def test_noise_has_the_asked_variance():
    """ε_i ~ N(0, σ² I/d): σ̂² over 200 rounds × 8 nodes = 1,600 sums of 32 squares; its relative deviation is
    √(2/51200) = 0.0063, and 5 of those are allowed."""
    problem, zero = quadratic(8, 1, d=32, sigma=0.5), quadratic(8, 1, d=32)
    unit = np.eye(32)
    eps = [[problem(np.tile(e, (8, 1)), t) - zero(np.tile(e, (8, 1)), t) for e in unit] for t in range(200)]
    variance = np.mean(np.square(eps)) * 32
    assert variance == pytest.approx(0.25, rel=5 * 0.0063)


def test_noise_is_fresh_in_every_round_and_node_and_shared_by_two_queries():
    problem, x = quadratic(4, 1, d=8, sigma=1.0), np.ones((4, 8))
    assert_array_equal(problem(x, 3), problem(x, 3))
    extra = np.array([problem(x, t) - problem.local(x) for t in range(5)])
    assert len(set(extra.ravel().tolist())) == 20


def test_noise_does_not_depend_on_the_order_of_rounds():
    a, b, x = quadratic(4, 1, d=8, sigma=1.0), quadratic(4, 1, d=8, sigma=1.0), np.ones((4, 8))
    forward = [a(x, t).tolist() for t in (0, 1, 5000, 2)]
    assert [b(x, t).tolist() for t in (2, 5000, 1, 0)] == forward[::-1]


@pytest.mark.parametrize("count", [1, 3, 12])
def test_stacked_trials_are_the_trials_alone(count):
    problems = [
        quadratic(4, k % 3, d=8, omega=0.1 * (k % 2), zeta=1.0 * k, sigma=0.5 * (k % 3)) for k in range(count)
    ]
    x = np.random.default_rng(2).normal(size=(count, 4, 8))
    stacked = Quadratic.stack(problems)
    for t in (0, 7):
        assert_array_equal(stacked(x, t), np.stack([p(each, t) for p, each in zip(problems, x, strict=True)]))


def test_the_layout_of_states_does_not_matter():
    problem, x = quadratic(5, 1, d=7, zeta=1.0), np.random.default_rng(3).normal(size=(5, 7))
    assert_array_equal(problem(np.asfortranarray(x), 0), problem(x, 0))


@pytest.mark.parametrize("bad", [{"omega": 1.0}, {"zeta": -1}, {"sigma": -0.1}, {"kappa": 0}, {"d": 0}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InputError):
        quadratic(4, 1, **{"d": 8, **bad})


@pytest.mark.parametrize("d", [1, 33, 9001, 20000, 300_001])
@pytest.mark.parametrize("n", [1, 2])
def test_a_lone_row_is_summed_like_one_of_many(n, d):
    problems = [quadratic(n, k, d=d, zeta=1.0) for k in range(3)]
    x = np.random.default_rng(4).normal(size=(3, n, d))
    alone = Quadratic.stack(problems[:1]).local(x[:1])
    assert_array_equal(Quadratic.stack(problems).local(x)[:1], alone)
    assert_array_equal(problems[0].local(x[0]), alone[0])


def test_noise_that_is_kept_stays_within_its_bound():
    """One round of 2^17 normals is larger than a block: none of it is kept."""
    before = dict(noise_blocks)
    problem, x = quadratic(2, "large", d=2**16, sigma=0.1), np.zeros((2, 2**16))
    for t in range(3):
        problem(x, t)
    assert noise_blocks.keys() == before.keys()
    small = quadratic(2, "small", d=8, sigma=0.1)
    for t in range(0, 2**22, 2**13):
        small(np.zeros((2, 8)), t)
    assert len(noise_blocks) <= MOST_BLOCKS


@pytest.mark.parametrize("build", [quadratic, rosenbrock])
def test_threads_may_share_a_problem(build):
    """Each computes in arrays of its own: answers are those of one thread alone."""
    problem = build(4, 0, d=4001, **({"sigma": 0.1} if build is quadratic else {}))
    x = np.random.default_rng(5).normal(size=(8, 4, 4001))
    alone = [[problem(x[k], t).tolist() for t in range(30)] for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        shared = list(pool.map(lambda k: [problem(x[k], t).tolist() for t in range(30)], range(8)))
    assert shared == alone


def test_a_problem_can_be_copied():
    problem, x = quadratic(3, 1, d=5, sigma=0.5), np.ones((3, 5))
    assert_array_equal(pickle.loads(pickle.dumps(problem))(x, 2), problem(x, 2))


def test_one_point_for_all_nodes_is_broadcast():
    problem, x = quadratic(3, 1, d=5, zeta=1.0), np.arange(5.0)
    assert_array_equal(problem.local(x), problem.local(np.tile(x, (3, 1))))
