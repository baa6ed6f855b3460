import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zocosmo.errors import InputError
from zocosmo.problems.rosenbrock import Rosenbrock, rosenbrock


def by_hand(x, s, alpha):
    """eq:appendix_rosenbrock_objective, term by term."""
    z = [a - b for a, b in zip(x, s, strict=True)]
    return sum(alpha * (z[r + 1] - z[r] ** 2) ** 2 + (1 - z[r]) ** 2 for r in range(len(z) - 1))


def test_every_value_is_its_formula():
    """Integers and no shift: nothing rounds."""
    problem, x = rosenbrock(3, 1, d=5, shift=0.0, alpha=2.0), np.arange(15.0).reshape(3, 5) - 7
    assert problem.local(x).tolist() == [by_hand(row, [0] * 5, 2.0) for row in x.tolist()]


def test_shifts_move_the_valley():
    problem, x = rosenbrock(3, 1, d=5, shift=0.3), np.random.default_rng(0).normal(size=(3, 5))
    expected = [by_hand(row, s, 2.0) for row, s in zip(x.tolist(), problem.shifts.tolist(), strict=True)]
    assert problem.local(x) == pytest.approx(expected, rel=1e-13)
    assert np.abs(problem.local(1.0 + problem.shifts)).max() < 1e-28


def test_shifts_have_the_asked_deviation():
    """8 × 4,096 normals: relative deviation of the standard deviation 1/√(2 · 32768) = 0.0039; 5 allowed."""
    shifts = rosenbrock(8, 1, d=4096, shift=0.3).shifts
    assert shifts.std() == pytest.approx(0.3, rel=5 * 0.0039)
    assert not np.array_equal(shifts[0], shifts[1])


def test_all_nodes_of_all_seeds_start_alike():
    assert rosenbrock(3, 1, d=4).x0.tolist() == rosenbrock(3, 2, d=4).x0.tolist() == [-1.0] * 4


def test_stacked_trials_are_the_trials_alone():
    problems = [rosenbrock(4, k, d=6, alpha=1.0 + k, shift=0.1) for k in range(3)]
    x = np.random.default_rng(1).normal(size=(3, 4, 6))
    alone = [p.local(each) for p, each in zip(problems, x, strict=True)]
    assert_array_equal(Rosenbrock.stack(problems).local(x), np.stack(alone))


def test_states_are_not_changed():
    x = np.ones((3, 5))
    rosenbrock(3, 1, d=5)(x, 0)
    assert_array_equal(x, 1.0)


@pytest.mark.parametrize("bad", [{"d": 1}, {"shift": -0.1}, {"alpha": -2.0}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InputError):
        rosenbrock(3, 1, **{"d": 5, **bad})
