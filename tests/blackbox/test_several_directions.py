"""Several directions, one side and normalised steps over users' own losses."""

import numpy as np
import pytest

from blackbox.cases import PROBLEM, build, local, make
from zocosmo import minimize
from zocosmo.blackbox.directions import choose, stiffest_alone
from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.suggest import suggest
from zocosmo.core.support import Direction
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


def bowl(x):
    return float(((x - 1.5) ** 2).sum())


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


def test_noise_that_hides_the_curvature_leaves_one_direction():
    rng = np.random.default_rng(0)
    found = suggest(lambda x: float((x**2).sum() + rng.normal()), np.ones(64), n=1, directions="auto")
    assert (found.directions, found.sides) == (1, 2)
    assert "directions = 1: no curvature was seen to scale a step by" in found.reasons


def test_with_a_little_noise_directions_are_asked_from_two_sides():
    rng = np.random.default_rng(0)
    found = suggest(lambda x: float((x**2).sum() + 1e-4 * rng.normal()), np.ones(64), n=1)
    assert (found.q, found.directions, found.signs, found.sides) == (8, 8, "orthogonal", 2)


def test_one_stiff_coordinate_leaves_one_direction():
    """The step cannot grow: that coordinate carries the curvature of its support."""
    h = np.ones(64)
    h[11] = 1000.0
    found = suggest(lambda x: float(h @ x**2), np.ones(64), n=1)
    assert (found.q, found.directions, found.sides) == (8, 1, 2)
    assert found.eta == 0.5 * 8 / (64 * found.curvature)


@pytest.mark.parametrize("q", [2, 4, 8, 16, 32])
def test_the_step_of_k_directions_respects_k_times_less_curvature(q):
    """H = 2I: uᵀHu = 2q on a support, 2 along a unit vector; a round has at most 8 directions."""
    several = choose(q, quiet=True, mu=1e-6, slope=1.0, together=2.0 * q, alone=2.0)
    k = min(q, 8)
    assert several[:3] == (k, 1, 2.0 * q / k)


def test_a_difference_from_one_side_that_would_be_off_is_taken_from_two():
    quiet = {"quiet": True, "slope": 1.0, "together": 16.0, "alone": 2.0}
    assert choose(8, mu=1e-3, **quiet).sides == 1  # ½ μ uᵀHu = 0.008
    assert choose(8, mu=1e-2, **quiet).sides == 2  # 0.08


def test_the_stiffest_coordinate_is_found_inside_its_block():
    h = np.ones(8)
    h[5] = 100.0
    u = Direction(np.arange(8), 8, np.ones(8))
    found = stiffest_alone(lambda v: float(h[v.index].sum()), [(float(h.sum()), u)], 0.0)
    assert found <= 100.0 <= 4 * found  # a step of ½/c bears four times as much


SILENT = {"q": 4, "directions": 1, "eta": 0.01, "mu": 0.01, "wire": "f64", "sides": 2}


@pytest.mark.parametrize("named", SILENT)
def test_one_named_choice_leaves_the_first_generation(named):
    result = minimize(bowl, np.ones(32), n=3, rounds=2, **{named: SILENT[named]})
    assert (result.method.directions, result.method.sides, result.method.wire) == (1, 2, "")
    assert result.method.rule == "uniform"


@pytest.mark.parametrize("name", ["cosmo", "edge_local"])
def test_where_nothing_is_named_directions_supports_and_bits_are_of_the_second_generation(name):
    result = minimize(bowl, np.ones(32), n=3, rounds=2, method=name)
    method = result.method
    assert (method.q, method.directions, method.signs, method.sides) == (4, 4, "orthogonal", 1)
    assert (method.rule, method.wire, result.suggestion.wire) == ("balanced", "mod8", "mod8")


def test_a_sampled_loss_keeps_one_direction_since_all_would_share_its_sample():
    method = minimize(lambda x, t: bowl(x), np.ones(32), n=3, rounds=2, keyed=True).method
    assert (method.directions, method.wire) == (1, "mod8")


def test_one_node_sends_nothing_and_needs_no_wire():
    assert minimize(bowl, np.ones(32), rounds=2).method.wire == ""


def test_a_run_with_the_defaults_resumes_to_the_bit():
    whole = minimize(bowl, np.ones(32), n=3, rounds=20)
    half = minimize(bowl, np.ones(32), n=3, rounds=10)
    rest = minimize(bowl, np.ones(32), n=3, rounds=20, method=half.method, resume=half.snapshot)
    assert (rest.states == whole.states).all()
    assert rest.bits == whole.bits


def test_the_wire_of_a_finished_method_is_used():
    method = Cosmo(q=4, eta=0.01, mu=0.01, wire="mod4")
    by_method, named = (
        minimize(bowl, np.ones(32), n=3, rounds=5, method=method),
        minimize(bowl, np.ones(32), n=3, rounds=5, q=4, eta=0.01, mu=0.01, wire="mod4"),
    )
    assert by_method.bits == named.bits < 5 * 2 * 4 * 64
    assert (by_method.states == named.states).all()


def test_a_wire_that_a_method_cannot_use_is_refused():
    with pytest.raises(InputError, match="rand_k cannot use wire mod4"):
        minimize(bowl, np.ones(32), n=3, rounds=5, method="rand_k", q=4, eta=0.01, mu=0.01, wire="mod4")


def test_such_a_wire_is_refused_before_anything_is_asked():
    asked = []
    with pytest.raises(InputError, match="dense cannot use wire mod4"):
        minimize(lambda x: asked.append(x) or bowl(x), np.ones(4), n=3, rounds=5, method="dense", wire="mod4")
    assert asked == []


def test_the_defaults_never_make_a_convex_quadratic_grow():
    """Whatever is stiff, and however coordinates interact."""
    for seed in range(16):
        rng = np.random.default_rng(seed)
        d = (16, 32, 64)[seed % 3]
        turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
        h = np.diag(10.0 ** rng.uniform(-2, 2, d))
        h = h if seed % 2 else turned @ h @ turned.T
        log = minimize(lambda x, h=h: float(x @ h @ x), np.ones(d), rounds=60, seed=seed, measure=True).log
        assert (np.diff(log["objective"]) <= 0).all()


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
