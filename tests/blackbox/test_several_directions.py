"""Several directions, one side and normalised steps over users' own losses."""

import numpy as np
import pytest

from blackbox.cases import PROBLEM, build, local, make
from zocosmo import minimize
from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.suggest import suggest
from zocosmo.errors import InputError, OracleError
from zocosmo.graphs import complete, star
from zocosmo.methods import Cosmo
from zocosmo.problems import logistic
from zocosmo.sim import Run, Simulation

GIVEN = [
    {"directions": 3, "sides": 1},
    {"directions": 2, "signs": "orthogonal"},
    {"directions": 2, "signs": "orthogonal", "sides": 1, "step_rule": "normalised"},
    {"sides": 1},
]
NAMES = ["cosmo", "edge_local", "rand_k", "dense"]


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_one_run_is_the_simulator_s_to_the_bit(name, given):
    method = build(name, **given)
    sim = Simulation([Run(method, complete(4), PROBLEM, 3)], wire="f64")
    run = make(method)
    for _ in range(10):
        sim.round()
        run.advance(PROBLEM)
    now = sim.checkpoint()
    assert (run.x == sim.states()[0]).all()
    assert (tuple(run.bits), run.nfev) == (tuple(now.bits[method.codec][0]), now.queries[0])


@pytest.mark.parametrize("given", GIVEN, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_asking_by_hand_is_advancing_to_the_bit(name, given):
    by_hand, advanced = make(build(name, **given), star(4)), make(build(name, **given), star(4))
    asked = 0
    while by_hand.t < 8:
        ask = by_hand.ask()
        assert (by_hand.ask().points == ask.points).all()
        asked += len(ask.points) * int(ask.active.sum())
        by_hand.tell(np.where(ask.active, [PROBLEM(x, ask.round) for x in ask.points], np.nan))
        assert by_hand.nfev == asked
    for _ in range(8):
        advanced.advance(PROBLEM)
    assert (by_hand.x == advanced.x).all()
    assert by_hand.bits == advanced.bits


def test_the_first_point_of_one_side_is_x():
    run = make(build("cosmo", directions=2, sides=1))
    first = run.ask()
    assert (first.points == run.x).all()
    run.tell(np.zeros((1, 4)))
    assert (np.count_nonzero(run.ask().points[0] != run.x, axis=-1) == 2).all()


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_oracle_that_raises_leaves_all_as_it_was(at):
    given = {"directions": 2, "sides": 1}
    run, fine = make(build("cosmo", **given)), make(build("cosmo", **given))
    calls = iter(range(99))

    def flaky(x, t, *, active=None):
        if next(calls) == at:
            raise OracleError("no contact")
        return PROBLEM(x, t)

    with pytest.raises(OracleError, match="no contact"):
        run.advance(flaky)
    assert (run.x == PROBLEM.x0).all()
    run.advance(flaky)
    fine.advance(PROBLEM)
    assert (run.x == fine.x).all()
    assert (run.nfev, run.query_loss) == (fine.nfev, fine.query_loss)


@pytest.mark.parametrize(
    ("fails", "where"), [(0, "query x:"), (1, "query x \\+ μu:"), (2, "query x \\+ μu:")]
)
def test_an_error_names_the_point(fails, where):
    calls = iter(range(99))
    oracle = Functions(lambda x: float("nan") if next(calls) == fails else 1.0, 1)
    method = Cosmo(q=2, eta=0.1, mu=0.1, directions=2, sides=1)
    with pytest.raises(OracleError, match=where):
        minimize(oracle, np.zeros(4), n=1, method=method, rounds=1)


def test_a_tell_of_another_shape_names_the_one_wanted():
    run = make(build("cosmo", sides=1))
    run.ask()
    with pytest.raises(InputError, match=r"shape \(1, 4\), got float64 of \(2, 4\)"):
        run.tell(np.zeros((2, 4)))


def test_minimize_takes_directions_signs_sides_and_step():
    funs = [local(i) for i in range(4)]
    given = {"directions": 2, "signs": "orthogonal", "sides": 1, "step": "normalised"}
    result = minimize(funs, PROBLEM.x0, q=2, eta=0.01, mu=0.01, rounds=10, seed=3, graph="complete", **given)
    method = Cosmo(q=2, eta=0.01, mu=0.01, directions=2, signs="orthogonal", sides=1, step_rule="normalised")
    run = make(method)
    for _ in range(10):
        run.advance(PROBLEM)
    assert result.method == method
    assert (result.x == run.mean).all()
    assert result.nfev == 10 * 4 * 3 + 4  # and the loss at the average


def test_a_run_with_a_scale_resumes_to_the_bit():
    given = {"q": 2, "eta": 0.01, "mu": 0.01, "directions": 2, "step": "normalised"}
    funs = [local(i) for i in range(4)]
    whole = minimize(funs, PROBLEM.x0, rounds=20, **given)
    half = minimize(funs, PROBLEM.x0, rounds=10, **given)
    rest = minimize(funs, PROBLEM.x0, rounds=20, method=half.method, resume=half.snapshot)
    assert (rest.x == whole.x).all()


def test_without_noise_auto_takes_a_direction_for_each_coordinate():
    def loss(x):
        return float(((x - 1) ** 2).sum())

    found = suggest(loss, np.zeros(64), n=1, directions="auto")
    assert (found.q, found.directions, found.signs, found.sides) == (8, 8, "orthogonal", 1)
    result = minimize(loss, np.zeros(64), n=1, rounds=400, directions="auto")
    assert result.method.directions == result.method.q == 8
    assert result.fun < 64 / 100


def test_with_noise_auto_stays_with_one_direction():
    rng = np.random.default_rng(0)
    found = suggest(lambda x: float((x**2).sum() + rng.normal()), np.ones(64), n=1, directions="auto")
    assert (found.directions, found.sides) == (1, 2)
    assert "answers are noisy" in found.reasons[-1]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"directions": 0}, "directions must be 1 or more"),
        ({"directions": 5, "signs": "orthogonal"}, "5 orthogonal directions do not fit on q = 4"),
        ({"sides": 0}, "sides must be between 1 and 2"),
        ({"step": "normalised", "eta": None}, "give eta"),
        ({"directions": "auto", "sides": 1}, "leave out sides"),
        ({"directions": "auto", "method": "dense", "q": None}, "dense has no q"),
        ({"method": "flood", "q": None, "directions": 2}, "method flood has no 'directions'"),
    ],
)
def test_bad_options_are_refused_before_anything_is_asked(given, says):
    asked = []
    with pytest.raises(InputError, match=says):
        minimize(
            lambda x: asked.append(1) or 0.0,
            np.zeros(8),
            n=2,
            rounds=1,
            **{"q": 4, "eta": 0.1, "mu": 0.1, **given},
        )
    assert asked == []


def test_one_side_with_split_rows_is_refused_before_anything_is_asked():
    problem = logistic(2, 0, batch=8, rows="split")
    with pytest.raises(InputError, match="use sides 2, not 1"):
        minimize(problem, problem.x0, q=4, rounds=1, sides=1, directions=2)
