"""minimize and Optimizer in a public subspace: x is an ordinary x, and the run is the simulator's."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from blackbox.cases import build
from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.minimize import minimize
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.core import Tape
from zocosmo.core.subspace import Subspace
from zocosmo.errors import InputError
from zocosmo.graphs import complete, ring
from zocosmo.methods import METHODS
from zocosmo.problems import rosenbrock
from zocosmo.problems.subspace import in_subspace
from zocosmo.sim.engine import Run, Simulation
from zocosmo.subspace import Lifting

D, M, N = 24, 6, 4
X0 = np.linspace(-1.0, 1.0, D)
STEP = {"q": 2, "eta": 0.05, "mu": 0.01}
PROBLEM = rosenbrock(N, 1, d=D)


def bowl(x):
    return float(((x - 1.0) ** 2).sum())


def rigs(n=N):
    return [lambda x, i=i: float(((x - i) ** 2).sum()) for i in range(n)]


def inside(x, x0=X0, seed=0, m=M):
    """Whether x = x0 + Pz for some z, to the bit: σ_c (x_c − x0_c) is one number in each column."""
    space = Subspace(Tape(seed), d=D, m=m)
    z = [(space.signs * (x - x0) / space.scale)[space.column == j][0] for j in range(m)]
    return np.allclose(Lifting(space, x0).lift(np.array([z]))[0], x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", METHODS)
def test_it_is_the_simulators_run_in_vectors_of_d(name):
    method, graph = build(name), complete(N)
    run = Optimizer(PROBLEM.x0, graph=graph, method=method, seed=3, subspace=M)
    sim = Simulation([Run(method, graph, in_subspace(PROBLEM, M, 3), 3)], wire="f64")
    for _ in range(6):
        run.advance(PROBLEM)
        sim.round()
    assert_array_equal(run.x, sim.states()[0])
    now = sim.checkpoint()
    assert run.disagreement == now.disagreement[0]
    assert run.x.shape == (N, D)
    assert run.mean.shape == (D,)


@pytest.mark.parametrize("name", ["cosmo", "edge_local", "dense"])
def test_ask_and_tell_is_advance(name):
    asked, led = (Optimizer(X0, graph=ring(N), method=build(name), subspace=M) for _ in range(2))
    funs = rigs()
    for _ in range(5):
        ask = asked.ask()
        assert ask.points.shape == (2, N, D)
        asked.tell([[f(x) for f, x in zip(funs, side, strict=True)] for side in ask.points])
        led.advance(Functions(funs, N))
    assert_array_equal(asked.x, led.x)
    assert asked.bits == led.bits
    again = Optimizer(X0, graph=ring(N), method=build(name), subspace=M)
    again.restore(asked.arrays())
    assert_array_equal(again.ask().points, asked.ask().points)


def test_the_optimum_is_found_where_the_subspace_holds_it():
    """‖x − x*‖² with x* in the subspace is ‖z − z*‖², whose curvature is 2 along every axis."""
    space = Lifting(Subspace(Tape(7), d=D, m=M), X0)
    best = space.lift(np.arange(1.0, M + 1.0)[None])[0]
    result = minimize(lambda x: float(((x - best) ** 2).sum()), X0, n=3, rounds=400, subspace=M, seed=7)
    assert result.x.shape == best.shape
    assert np.abs(result.x - best).max() < 1e-6
    assert result.suggestion.curvature == pytest.approx(2.0 * result.method.q, rel=1e-3)


def test_elsewhere_it_ends_at_the_nearest_point_of_the_subspace():
    """PPᵀ(1 − x0) from x0: PᵀP = I as 6 divides 24."""
    result = minimize(bowl, X0, n=N, rounds=600, subspace=M)
    space = Subspace(Tape(0), d=D, m=M)
    P = np.zeros((D, M))
    P[np.arange(D), space.column] = space.signs * space.scale
    assert np.allclose(result.x, X0 + P @ (P.T @ (1.0 - X0)), atol=1e-6)
    assert result.success


def test_the_result_is_of_d_coordinates_in_the_subspace():
    seen = []
    result = minimize(
        rigs(), X0, rounds=30, subspace=M, measure=True, callback=lambda now: seen.append(now.x), **STEP
    )
    assert result.states.shape == (N, D)
    assert all(inside(x) for x in (*result.states, result.x, *seen))
    assert result.fun == np.mean([f(result.x) for f in rigs()])
    assert result.disagreement == pytest.approx(
        ((result.states - result.x) ** 2).sum(axis=1).mean(), rel=1e-10
    )
    assert result.bits == 30 * 2 * 2 * 64  # q values of 64 bits to two neighbours: messages are of z


@pytest.mark.parametrize("method", ["cosmo", "edge_local", "dense", "fedkseed"])
def test_a_resumed_run_is_one_that_never_stopped(method):
    given = {"rounds": 20, "subspace": M, "n": N, "seed": 2}
    finished = build(method)
    half = minimize(bowl, X0, method=finished, **{**given, "rounds": 9})
    rest = minimize(bowl, X0, method=finished, resume=half.snapshot, **given)
    whole = minimize(bowl, X0, method=finished, **given)
    assert_array_equal(rest.states, whole.states)
    assert rest.bits == whole.bits
    with pytest.raises(InputError, match=r"state\.x must have shape"):
        minimize(bowl, X0, method=finished, resume=half.snapshot, **{**given, "subspace": M + 1})


def test_functions_vectors_and_problems_are_the_same_run():
    given = {"rounds": 15, "subspace": M, "n": N, **STEP}
    one = minimize(bowl, X0, **given)
    vector = minimize(lambda x: [bowl(row) for row in x], X0, vectorized=True, **given)
    assert_array_equal(one.states, vector.states)
    assert minimize(PROBLEM, PROBLEM.x0, rounds=15, subspace=M).x.shape == (D,)


def test_probes_reach_as_far_in_a_coordinate_as_without_a_subspace():
    far = []

    def watched(x):
        far.append(np.abs(x - X0).max())
        return bowl(x)

    minimize(watched, X0, rounds=0, subspace=M, reach=0.5)
    assert max(far) == pytest.approx(0.5)


def test_a_budget_is_kept():
    result = minimize(rigs(), X0, budget_bits=10_000, subspace=M, **STEP)
    assert (result.nit, result.status) == (39, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"subspace": D}, f"a subspace of size {D} does not fit d = {D}"),
        ({"subspace": 0}, "a subspace of size 0 does not fit"),
        ({"subspace": 2.5}, "the size of a subspace must be a whole number, got 2.5"),
        ({"subspace": M, "q": M + 1}, "q = 7 coordinates of d = 6"),
        ({"subspace": M, "x0": np.arange(4.0 * D).reshape(4, D)}, "nodes of a subspace share its origin"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_query(change, says):
    def never(x):
        raise AssertionError

    given = {"x0": X0, "n": N, "rounds": 5, **STEP, **change}
    with pytest.raises(InputError, match=says):
        minimize(never, **given)
