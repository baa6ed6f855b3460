"""FZOO: one-sided slopes over their spread, so that no step depends on the scale of the loss."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run
from methods.forward import seen
from zocosmo.core.support import draw_signs
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete
from zocosmo.methods.fzoo import spread
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation


@pytest.mark.parametrize("K", [2, 8])
def test_every_round_is_the_published_step(K):
    """From losses, not slopes: the same to the last bits of eight rounds of numbers below 4."""
    run = small_run("fzoo", "ring", seed=5, d=9, directions=K)
    x, tape, eta, mu = np.tile(run.problem.x0, (4, 1)), Tape(5), run.method.eta, run.method.mu
    for t, found in enumerate(seen(run, 8)[0]):
        for i in range(4):
            at = run.problem.at([i])
            u = [draw_signs(tape, t, i, k, q=9).astype(float) for k in range(K)]
            f0, *f = [float(at(point[None], t)[0]) for point in (x[i], *(x[i] + mu * one for one in u))]
            step = sum((value - f0) * one for value, one in zip(f, u, strict=True))
            x[i] = x[i] - eta * step / (K * np.std(f, ddof=1))
        assert np.abs(found - x).max() < 2.0**-30
        x = found.copy()


def test_a_loss_times_a_power_of_two_makes_the_same_steps():
    b = np.random.default_rng(0).normal(size=(4, 6))
    runs = [
        Run(small("fzoo"), complete(4), Quadratic(c * np.ones((4, 6)), c * b, 0.0, None), 3)
        for c in (1.0, 2.0**-20, 2.0**40)
    ]
    first, *others = (seen(run, 12)[0][-1] for run in runs)
    for other in others:
        assert_array_equal(other, first)


def test_where_all_losses_are_equal_nothing_moves():
    flat = Quadratic(np.zeros((2, 6)), np.zeros((2, 6)), 0.0, None)
    simulation = Simulation([Run(small("fzoo"), complete(2), flat, 1)])
    x = simulation.states().copy()
    simulation.round()
    assert_array_equal(simulation.states(), x)


def test_the_spread_is_the_standard_deviation():
    s = np.random.default_rng(1).normal(size=(3, 2, 8))
    np.testing.assert_allclose(spread(s)[..., 0], s.std(axis=-1, ddof=1), rtol=1e-14)


def test_a_round_asks_once_at_x_and_once_along_each_direction_and_sends_nothing():
    checkpoint = seen(small_run("fzoo", "ring", directions=5), 3)[1].checkpoint()
    assert checkpoint.queries.tolist() == [3 * 4 * 6]
    assert checkpoint.stages.tolist() == [0]
    assert {bits.sum() for bits in checkpoint.bits.values()} == {0}


def test_one_direction_has_no_spread():
    with pytest.raises(InputError, match="directions must be 2 or more, got 1"):
        small("fzoo", directions=1)
