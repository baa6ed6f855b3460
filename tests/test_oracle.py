import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from zocosmo.core import Direction, Tape, draw_direction
from zocosmo.oracle import Query, ask_slopes, estimate, objective
from zocosmo.problems.rosenbrock import rosenbrock


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_states_come_back_to_the_bit(dtype):
    x = np.random.default_rng(0).normal(size=(3, 50)).astype(dtype)
    before, u = x.copy(), draw_direction(Tape(0), 0, np.arange(3), d=50, q=7)
    for t in range(20):
        ask_slopes(lambda y, t, active=None: y.sum(axis=-1), Query(x, (u,), 1e-3), t)
    assert_array_equal(x.view(np.uint8), before.view(np.uint8))


def test_states_come_back_even_when_the_oracle_fails():
    x = np.zeros((2, 5))
    u = draw_direction(Tape(0), 0, d=5, q=2)

    def broken(y, t, active=None):
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError):
        ask_slopes(broken, Query(x, (u,), 1.0), 0)
    assert_array_equal(x, 0)


def test_the_two_queries_stand_on_either_side_and_share_a_round():
    seen = []
    x, u = np.full((1, 4), 2.0), Direction(np.array([1, 3]), 4, np.array([1, -1], np.int8))

    def oracle(y, t, active=None):
        seen.append((t, y[0].tolist()))
        return np.zeros(1)

    ask_slopes(oracle, Query(x, (u,), 0.5), 9)
    assert seen == [(9, [2, 2.5, 2, 1.5]), (9, [2, 1.5, 2, 2.5])]


def test_points_are_what_the_oracle_is_asked():
    x, u = np.ones((2, 6)), draw_direction(Tape(1), 4, np.arange(2), d=6, q=3)
    query, seen = Query(x, (u,), 0.25), []
    ask_slopes(lambda y, t, active=None: seen.append(y.copy()) or np.zeros(2), query, 0)
    assert_array_equal(np.stack(query.points()), np.stack(seen))


@given(st.integers(1, 6), st.integers(0, 99))
def test_the_estimate_of_a_linear_loss_is_its_slope_along_u(q, seed):
    """f(x) = aᵀx with integer a, μ = 1: (d/q) (uᵀa) ε, exactly."""
    a = np.random.default_rng(seed).integers(-9, 9, size=6) * 1.0
    u = draw_direction(Tape(seed), 0, d=6, q=q)
    slope = ask_slopes(lambda x, t, active=None: x @ a, Query(np.zeros((1, 6)), (u,), 1.0), 0)
    expected = 6 / q * (a[u.index] * u.signs).sum() * u.signs
    assert_array_equal(estimate(u, slope)[0], expected)


def test_the_objective_is_the_mean_of_the_nodes():
    problem, x = rosenbrock(5, 1, d=7), np.linspace(-1, 1, 7)
    each = [problem.local(np.tile(x, (5, 1)))[i] for i in range(5)]
    assert objective(problem, x) == np.mean(each)


def test_an_oracle_may_answer_in_one_array():
    answers, u = np.zeros(2), draw_direction(Tape(0), 0, d=4, q=1)

    def oracle(x, t, active=None):
        answers[...] = x.sum(axis=-1)
        return answers

    assert np.abs(ask_slopes(oracle, Query(np.zeros((2, 4)), (u,), 0.5), 0)).tolist() == [[1.0], [1.0]]
