import numpy as np
import pytest

from zocosmo.errors import InputError
from zocosmo.problems.data import load
from zocosmo.problems.draws import normals, private
from zocosmo.problems.logistic import logistic
from zocosmo.problems.network import Network, network

KINDS = [{}, {"hidden": 1, "batch": 1}, {"batch": None, "split": "dirichlet", "alpha": 0.1, "l2": 0.1}]


def states(*shape):
    return normals(private("states"), "x", size=int(np.prod(shape))).reshape(shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize("n", [1, 4])
def test_trials_answer_the_same_to_the_bit_however_they_are_stacked(kind, trials, n):
    alone = [network(n, seed, **kind) for seed in range(trials)]
    together, x = Network.stack(alone), states(trials, n, alone[0].d)
    for k, problem in enumerate(alone):
        assert (together(x, 7)[k] == problem(x[k], 7)).all()
        assert (together.local(x)[k] == problem.local(x[k])).all()
        assert together.report(x[:, 0])["accuracy"][k] == problem.report(x[k, 0])["accuracy"]


@pytest.mark.parametrize("kind", KINDS)
def test_type_and_layout_of_the_states_do_not_matter_and_they_are_not_changed(kind):
    problem = network(3, 5, **kind)
    x = states(3, problem.d).astype(np.float32)
    before, answers = x.copy(), problem(x, 2)
    assert (problem(np.asfortranarray(x.astype(np.float64)), 2) == answers).all()
    assert (x == before).all()


def test_a_loss_equals_its_formula():
    """Means of 599 terms of order 10, summed in another order: they agree to 1e-12."""
    problem, data = network(3, 2, hidden=4, l2=0.5), load("digits")
    x = states(3, 310)
    for i, part in enumerate(problem.parts):
        A, B = x[i, :260].reshape(4, 65), x[i, 260:].reshape(10, 5)
        scores = np.tanh(data.features[part] @ A.T) @ B[:, :4].T + B[:, 4]
        mean = (np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(599), data.labels[part]]).mean()
        assert abs(problem.local(x)[i] - mean - 0.25 * (x[i] ** 2).sum()) < 1e-12


def test_all_trials_start_at_one_point_of_unit_scale():
    """A mean of m squares of unit normals has deviation √(2/m); six of them are allowed."""
    x0 = network(4, 0).x0
    assert (x0 == network(7, "other", split="dirichlet", batch=None).x0).all()
    A, B = x0[:1040].reshape(16, 65), x0[1040:].reshape(10, 17)
    assert abs((A[:, :-1] ** 2).mean() * 64 - 1) < 6 * np.sqrt(2 / 1024)
    assert abs((B[:, :-1] ** 2).mean() * 16 - 1) < 6 * np.sqrt(2 / 160)


def test_biases_start_at_zero():
    x0 = network(4, 0).x0
    assert not x0[:1040].reshape(16, 65)[:, -1].any()
    assert not x0[1040:].reshape(10, 17)[:, -1].any()


def test_the_start_of_a_stack_is_that_of_each_trial():
    assert (Network.stack([network(2, 0), network(2, 1)]).x0 == network(2, 0).x0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls_against_its_numerical_gradient(kind):
    problem = network(1, 1, **{**kind, "hidden": 2})
    x, step = problem.x0[None], 1e-5
    shifts = step * np.eye(problem.d)[:, None, :]
    gradient = ((problem(x + shifts, 3) - problem(x - shifts, 3)) / (2 * step)).T
    assert (problem(x - 1e-2 * gradient, 3) < problem(x, 3)).all()


def test_batches_are_unbiased_for_the_loss_of_a_node():
    """Rounds are independent, so a mean of T answers has deviation s/√T, s from the sample; six allowed."""
    problem, rounds = network(3, 1, hidden=4, batch=8, split="dirichlet", alpha=0.5), 1500
    x = states(3, problem.d)
    answers = np.array([problem(x, t) for t in range(rounds)])
    error = answers.mean(axis=0) - problem.local(x)
    assert (np.abs(error) < 6 * answers.std(axis=0, ddof=1) / np.sqrt(rounds)).all()


def test_the_mean_of_the_nodes_is_the_loss_on_all_data():
    """All three hold 599 examples. Means of terms of order 10 in two orders agree to 1e-12."""
    many, one = network(3, 0), network(1, 0)
    x = states(1210)
    assert abs(many.local(np.tile(x, (3, 1))).mean() - one.local(x[None])[0]) < 1e-12


def test_accuracy_is_the_share_of_all_examples_that_are_right():
    problem, data, x = network(4, 1, hidden=3), load("digits"), states(235)
    A, B = x[:195].reshape(3, 65), x[195:].reshape(10, 4)
    guess = (np.tanh(data.features @ A.T) @ B[:, :3].T + B[:, 3]).argmax(axis=1)
    assert problem.report(x)["accuracy"] == (guess == data.labels).sum() / 1797


@pytest.mark.parametrize(("hidden", "d"), [(1, 85), (16, 1210), (100, 7510)])
def test_the_number_of_units_follows_from_the_dimension(hidden, d):
    problem = network(2, 0, hidden=hidden)
    assert (problem.d, problem.hidden, problem.x0.shape) == (d, hidden, (d,))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"hidden": 0}, "hidden must be 1 or more, got 0"),
        ({"hidden": 2.5}, "hidden must be a whole number"),
        ({"batch": -1}, "batch must be 1 or more"),
        ({"l2": -1.0}, "l2 must be a number ≥ 0"),
        ({"n": 1798}, "between 1 and 1797, got 1798"),
        ({"split": "even"}, "split 'even' is not known"),
    ],
)
def test_a_bad_argument_is_refused(bad, says):
    with pytest.raises(InputError, match=says):
        network(**{"n": 4, "seed": 0, **bad})


def test_only_networks_of_one_size_stack():
    for other in (network(2, 0, hidden=3), logistic(2, 0, data="digits", batch=32)):
        with pytest.raises(InputError, match="only single problems"):
            Network.stack([network(2, 0), other])
