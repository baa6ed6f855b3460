from dataclasses import replace
from math import exp, log, log1p

import numpy as np
import pytest

from zocosmo.errors import InputError
from zocosmo.problems.data import load
from zocosmo.problems.draws import normals, private
from zocosmo.problems.logistic import Logistic, logistic

KINDS = [
    {},
    {"batch": 1},
    {"data": "digits", "batch": 5, "split": "dirichlet", "alpha": 0.3},
    {"split": "dirichlet", "alpha": 0.3, "l2": 0.0},
    {"data": "digits", "split": "dirichlet", "alpha": 0.1},
]


def states(*shape):
    return normals(private("states"), "x", size=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("n", [1, 4])
def test_trials_answer_the_same_to_the_bit_however_they_are_stacked(kind, trials, n):
    """Their shards differ in size, and so does the padding that a stack needs."""
    alone = [logistic(n, seed, **kind) for seed in range(trials)]
    together, x = Logistic.stack(alone), states(trials, n, alone[0].d)
    for k, problem in enumerate(alone):
        assert (together(x, 7)[k] == problem(x[k], 7)).all()
        assert (together.local(x)[k] == problem.local(x[k])).all()
        assert together.report(x[:, 0])["accuracy"][k] == problem.report(x[k, 0])["accuracy"]


def test_trials_of_different_l2_stack():
    alone, x = [logistic(3, 0, l2=l2) for l2 in (0.0, 0.5)], states(2, 3, 31)
    together = Logistic.stack(alone)(x, 0)
    assert (together == [problem(x[k], 0) for k, problem in enumerate(alone)]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_further_leading_axes_are_points_of_their_own(kind):
    problem = Logistic.stack([logistic(3, seed, **kind) for seed in (1, 2)])
    x = states(2, 2, 3, problem.d)
    assert (problem(x, 4) == np.stack([problem(x[0], 4), problem(x[1], 4)])).all()


@pytest.mark.parametrize("kind", KINDS)
def test_layout_and_type_of_the_states_do_not_matter(kind):
    problem = logistic(3, 5, **kind)
    x = states(3, problem.d).astype(np.float32)
    answers = problem(x.astype(np.float64), 2)
    assert answers.dtype == np.float64
    assert (problem(x, 2) == answers).all()
    assert (problem(np.asfortranarray(x.astype(np.float64)), 2) == answers).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_states_are_neither_changed_nor_kept(kind):
    problem = logistic(3, 5, **kind)
    x = states(3, problem.d)
    before, answers = x.copy(), problem(x, 2)
    assert (x == before).all()
    x[:] = 0.0
    assert (problem(before, 2) == answers).all()


@pytest.mark.parametrize(("data", "classes"), [("breast_cancer", 2), ("digits", 10)])
def test_at_the_start_every_class_is_as_likely_as_every_other(data, classes):
    problem = logistic(5, 1, data=data, split="dirichlet", alpha=1.0, batch=8)
    x = np.tile(problem.x0, (5, 1))
    assert np.abs(problem.local(x) - log(classes)).max() < 1e-12
    assert np.abs(problem(x, 0) - log(classes)).max() < 1e-12


def test_a_loss_equals_its_formula_example_by_example():
    """Sums of 189 terms below 60, in another order: they agree to 1e-12."""
    problem, x, data = logistic(3, 2, l2=0.25), states(3, 31), load("breast_cancer")
    for i, part in enumerate(problem.parts):
        margins = [
            (2 * y - 1) * float(a @ x[i]) for a, y in zip(data.features[part], data.labels[part], strict=True)
        ]
        mean = sum(max(-m, 0.0) + log1p(exp(-abs(m))) for m in margins) / part.size
        assert abs(problem.local(x)[i] - mean - 0.125 * float(x[i] @ x[i])) < 1e-12


@pytest.mark.parametrize("data", ["breast_cancer", "digits"])
def test_the_mean_of_the_nodes_weighted_by_size_is_the_loss_on_all_data(data):
    """Means of 1797 terms of order 10, summed in two orders: they agree to 1e-12."""
    many, one = (logistic(n, 3, data=data, split="dirichlet") for n in (6, 1))
    x, sizes = states(one.d), [part.size for part in many.parts]
    mean = np.average(many.local(np.tile(x, (6, 1))), weights=sizes)
    assert abs(mean - one.local(x[None])[0]) < 1e-12


def test_the_plain_mean_is_the_loss_on_all_data_when_nodes_hold_equally_much():
    many, one = (logistic(n, 3, data="digits") for n in (3, 1))
    x = states(650)
    assert [part.size for part in many.parts] == [599] * 3
    assert abs(many.local(np.tile(x, (3, 1))).mean() - one.local(x[None])[0]) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls_against_its_numerical_gradient(kind):
    problem = logistic(2, 1, **kind)
    x, step = 0.1 * states(2, problem.d), 1e-5
    shifts = step * np.eye(problem.d)[:, None, :]
    gradient = ((problem(x + shifts, 3) - problem(x - shifts, 3)) / (2 * step)).T
    assert (problem(x - 1e-3 * gradient, 3) < problem(x, 3)).all()


def test_batches_are_unbiased_for_the_loss_of_a_node():
    """Rounds are independent, so a mean of T answers has deviation s/√T, s from the sample; six allowed."""
    problem = logistic(4, 1, batch=3, split="dirichlet", alpha=0.5)
    x, rounds = 0.3 * states(4, 31), 2000
    answers = np.array([problem(x, t) for t in range(rounds)])
    error = answers.mean(axis=0) - problem.local(x)
    assert (np.abs(error) < 6 * answers.std(axis=0, ddof=1) / np.sqrt(rounds)).all()


def test_a_round_has_one_sample_and_every_round_another():
    problem, x = logistic(4, 1, batch=3), states(4, 31)
    first, other, again = problem(x, 0), problem(x, 1), problem(x, 0)
    assert (first == again).all()
    assert (first != other).all()


def test_nodes_that_hold_the_same_examples_draw_their_own():
    problem = logistic(3, 1, batch=3)
    alike = replace(problem, parts=[problem.parts[0]] * 3)
    assert len(set(alike(np.tile(states(31), (3, 1)), 0).tolist())) == 3


def test_only_the_last_sample_is_kept():
    problem, x = logistic(4, 1, batch=3), states(4, 31)
    for t in range(5):
        problem(x, t)
    assert list(problem._sample) == [4]


def test_every_example_of_a_node_is_drawn_and_none_of_another():
    """100 rounds of 50 draws miss a given one of 143 examples with chance (1 − 1/143)^5000 < 1e-15."""
    problem, data = logistic(4, 1, batch=50), load("breast_cancer")
    drawn = np.stack([problem._examples(t)[0] for t in range(100)], axis=1).reshape(4, -1, 31)
    for i, part in enumerate(problem.parts):
        assert {row.tobytes() for row in drawn[i]} == {row.tobytes() for row in data.features[part]}


def test_without_a_batch_every_round_asks_all():
    problem, x = logistic(4, 1), states(4, 31)
    assert (problem(x, 0) == problem.local(x)).all()
    assert (problem(x, 9) == problem.local(x)).all()


def test_accuracy_is_the_share_of_all_examples_that_are_right():
    problem, data = logistic(4, 1, data="digits"), load("digits")
    x = states(2, 650)
    right = [(data.features @ point.reshape(10, 65).T).argmax(axis=1) == data.labels for point in x]
    assert problem.report(x)["accuracy"].tolist() == [share.sum() / 1797 for share in right]


def test_accuracy_of_two_classes_goes_by_the_sign():
    problem, data = logistic(4, 1), load("breast_cancer")
    x = states(31)
    assert problem.report(x)["accuracy"] == ((data.features @ x > 0) == data.labels).sum() / 569


def test_a_state_that_ran_away_is_answered_without_a_warning():
    problem, x = logistic(2, 1, data="digits", batch=4), states(2, 650)
    well = problem.local(x)[1]
    x[0] = 1e308 * np.sign(x[0])
    assert not np.isfinite(problem.local(x)[0])
    assert problem.local(x)[1] == well
    assert not np.isfinite(problem(x, 0)[0])


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"n": 0}, "between 1 and 569, got 0"),
        ({"data": "iris"}, "data set 'iris' is not known"),
        ({"split": "even"}, "split 'even' is not known"),
        ({"alpha": -1.0}, "alpha must be a number > 0"),
        ({"batch": 0}, "batch must be 1 or more, got 0"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"l2": -0.1}, "l2 must be a number ≥ 0, got -0.1"),
        ({"l2": float("inf")}, "l2 must be a number ≥ 0, got inf"),
        ({"seed": 1.5}, "a seed must be"),
    ],
)
def test_a_bad_argument_is_refused(bad, says):
    with pytest.raises(InputError, match=says):
        logistic(**{"n": 4, "seed": 0, **bad})


def test_states_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"ends in \(4, 31\), got \(3, 31\)"):
        logistic(4, 0)(np.zeros((3, 31)), 0)
    with pytest.raises(InputError, match=r"ends in \(2, 4, 31\), got \(4, 31\)"):
        Logistic.stack([logistic(4, 0), logistic(4, 1)]).local(np.zeros((4, 31)))


@pytest.mark.parametrize("other", [{"n": 5}, {"batch": 2}, {"data": "digits"}])
def test_problems_of_another_structure_do_not_stack(other):
    with pytest.raises(InputError, match="only single problems that differ in seed, split and l2 stack"):
        Logistic.stack([logistic(4, 0), logistic(**{"n": 4, "seed": 0, **other})])


def test_neither_nothing_nor_a_stack_can_be_stacked():
    for problems in ([], [Logistic.stack([logistic(4, 0)])]):
        with pytest.raises(InputError, match="only single problems"):
            Logistic.stack(problems)
