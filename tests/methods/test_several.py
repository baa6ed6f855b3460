"""Methods with several directions on one support, slopes from one side, and normalised steps."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run, states
from methods.test_engine_is_literal import SEVERAL
from zocosmo.core import Tape, draw_direction
from zocosmo.errors import InputError
from zocosmo.graphs import complete, ring
from zocosmo.methods import Cosmo, EdgeLocal, World
from zocosmo.oracle import Query, ask_slopes
from zocosmo.problems import logistic, network, rosenbrock
from zocosmo.problems.quadratic import quadratic
from zocosmo.rounds.draws import DrawAhead
from zocosmo.sim.engine import Run, Simulation

NAMED = [pytest.param(name, changes, id=f"{name}-{k}") for k, (name, changes) in enumerate(SEVERAL)]


@pytest.mark.parametrize(("name", "changes"), NAMED)
def test_a_run_in_company_is_the_run_alone(name, changes):
    mine = small_run(name, "random", seed=5, **changes)
    others = [small_run(name, "random", seed=s, eta=eta, **changes) for s in (1, 5) for eta in (0.0, 0.125)]
    assert_array_equal(states([others[0], mine, *others[1:]], 7)[1], states([mine], 7)[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "changes"), NAMED)
def test_a_restored_run_goes_on_to_the_same_bits(name, changes, dtype):
    run = small_run(name, "ring", **changes)
    first, second = Simulation([run], dtype=dtype), Simulation([run], dtype=dtype)
    for _ in range(4):
        first.round()
    second.restore({key: value.copy() for key, value in first.arrays().items()})
    for _ in range(4):
        first.round()
        second.round()
    assert_array_equal(first.states(), second.states())
    assert_array_equal(first.queries, second.queries)


@pytest.mark.parametrize(("name", "changes"), NAMED)
def test_mixing_keeps_the_average(name, changes):
    x = np.arange(24.0).reshape(1, 4, 6) ** 2
    simulation = Simulation([small_run(name, **{**changes, "eta": 0.0})])
    simulation.state = simulation.method.init(x.copy())
    for _ in range(3):
        simulation.round()
        assert_array_equal(simulation.state.x.sum(axis=1), x.sum(axis=1))


PROBLEMS = {
    "quadratic": lambda n: quadratic(n, 1, d=12, sigma=0.5),
    "rosenbrock": lambda n: rosenbrock(n, 1, d=12),
    "logistic": lambda n: logistic(n, 1, batch=8),
    "network": lambda n: network(n, 1, hidden=2, batch=8),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("sides", [1, 2])
def test_slopes_of_every_problem_are_those_of_single_queries(problem, sides):
    """K directions of one query give the bits of K queries with one direction each."""
    problem = problem(3)
    method = Cosmo(q=8, eta=0.1, mu=2.0**-8, directions=5, signs="orthogonal")
    draw = method.draw(World(ring(3), problem.d), Tape(3), np.array(4))
    x = np.random.default_rng(0).normal(size=(3, problem.d))
    query = Query(x, draw.directions, 2.0**-8, None, sides)
    whole = problem.slopes(query, 4)
    single = [problem.slopes(one, 4) for one in query.each()]
    assert_array_equal(whole, np.concatenate(single, axis=-1))


def test_one_side_asks_at_x_first_and_once():
    seen, x, u = [], np.zeros((1, 3)), draw_direction(Tape(0), 0, d=3, q=2)
    other = u.with_entries(-u.signs)

    def oracle(y, t, active=None):
        seen.append(y[0].tolist())
        return y.sum(axis=-1)

    query = Query(x, (u, other), 0.5, None, 1)
    slopes = ask_slopes(oracle, query, 0)
    assert seen == [[0, 0, 0], u.lift(0.5 * u.signs).tolist(), u.lift(-0.5 * u.signs).tolist()]
    assert slopes.tolist() == [[float(u.signs.sum()), -float(u.signs.sum())]]
    assert (query.evaluations(), query._replace(sides=2).evaluations()) == (3, 4)
    assert_array_equal(x, 0)


@pytest.mark.parametrize(("sides", "each"), [(1, 6), (2, 10)])
def test_queries_are_counted(sides, each):
    simulation = Simulation([small_run("cosmo", "ring", q=4, directions=5, sides=sides)])
    for _ in range(3):
        simulation.round()
    assert simulation.queries.tolist() == [3 * 4 * each]


def test_directions_share_one_support_and_have_keys_of_their_own():
    run = small_run("edge_local", "ring", q=4, directions=3)
    draws = DrawAhead(run.method, [run.world], [run.seed], np.dtype("f4"))
    now, later = draws.at(0).directions, draws.at(1).directions
    assert all(u.index is now[0].index and u._places is now[0]._places for u in now)
    assert len({u.key for u in (*now, *later)}) == 6
    assert {u.entries.dtype for u in now} == {np.dtype("f4")}


def test_a_short_balanced_round_has_fewer_orthogonal_directions():
    """d = 6, q = 4: the second round of an epoch has 2 coordinates, so 2 orthogonal directions of 4."""
    run = small_run("cosmo", "ring", q=4, directions=4, signs="orthogonal", rule="balanced")
    draws = DrawAhead(run.method, [run.world], [run.seed], np.dtype("f8"))
    assert [len(draws.at(t).directions) for t in range(4)] == [4, 2, 4, 2]


@pytest.mark.parametrize("name", ["cosmo", "edge_local"])
def test_with_a_direction_for_each_coordinate_a_step_is_a_gradient_step(name):
    """q = d = K = 4, dyadic numbers, a linear loss: x⁺ = x − η g, exactly."""
    problem = quadratic(2, 1, d=4, kappa=1.0)
    problem.half[...] = 0.0
    problem.b[...] = [[1.0, -2.0, 3.0, 0.5]] * 2
    method = small(name, q=4, directions=4, signs="orthogonal", eta=0.25, sides=1, mu=0.5)
    simulation = Simulation([Run(method, complete(2), problem, 1)])
    simulation.round()
    assert_array_equal(simulation.states()[0, 0], problem.x0 - 0.25 * problem.b[0])


REFUSED = {
    "directions": ({"directions": 0}, "directions must be 1 or more, got 0"),
    "signs": ({"signs": "gaussian"}, "signs"),
    "sides": ({"sides": 3}, "sides must be between 1 and 2, got 3"),
    "step": ({"step_rule": "long"}, "step 'long' is not known"),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("kind", [Cosmo, EdgeLocal])
def test_bad_options_are_refused(kind, given, says):
    with pytest.raises(InputError, match=says):
        kind(q=4, eta=0.1, mu=0.1, **given)


def test_more_orthogonal_directions_than_fit_are_refused_before_work_starts():
    with pytest.raises(InputError, match="9 orthogonal directions do not fit on q = 5 coordinates"):
        Simulation([small_run("cosmo", "ring", q=5, directions=9, signs="orthogonal")])


# Normalised steps


def scaled(name="cosmo", graph="ring", **changes):
    return Simulation([small_run(name, graph, step_rule="normalised", **changes)])


def test_the_first_step_of_a_node_alone_has_length_eta():
    """v is the mean of s_k² then, and with orthogonal vectors ‖Σ s_k ε_k‖² = q Σ s_k²."""
    problem = quadratic(1, 3, d=8, zeta=1.0)
    given = {"q": 4, "directions": 4, "signs": "orthogonal", "eta": 0.5, "step_rule": "normalised_local"}
    simulation = Simulation([Run(small("cosmo", **given), complete(1), problem, 2)])
    simulation.round()
    moved = simulation.states()[0, 0] - problem.x0
    assert math.isclose(np.linalg.norm(moved), 0.5, rel_tol=1e-14)


def test_slopes_of_zero_make_no_step():
    problem = quadratic(4, 1, d=6)
    problem.half[...] = 0.0
    simulation = Simulation([small_run("cosmo", "ring", problem=problem, step_rule="normalised")])
    for _ in range(3):
        simulation.round()
    assert_array_equal(simulation.states()[0], np.broadcast_to(problem.x0, (4, 6)))
    assert_array_equal(simulation.state.v, 0)


def test_nobody_averages_with_a_node_that_has_seen_no_slope():
    problem = quadratic(2, 1, d=6)
    problem.half[1] = 0.0
    simulation = Simulation([small_run("edge_local", complete(2), problem=problem, step_rule="normalised")])
    simulation.round()
    v = simulation.state.v[0, :, 0]
    assert v[0] > 0
    assert v[1] == 0
    assert np.isfinite(simulation.states()).all()


def test_partners_hold_the_same_scale_after_a_round():
    simulation = scaled("edge_local", ring(4), coupling="G", directions=2)
    simulation.round()
    v, partners = simulation.state.v[0, :, 0], simulation.draws.at(0).partners[0]
    assert_array_equal(v, v[partners])
    assert len(np.unique(v)) == 2


def test_a_node_without_a_partner_keeps_its_scale():
    simulation = scaled("edge_local", "random", directions=2)
    for t in range(6):
        before, idle = simulation.state.v.copy(), simulation.draws.at(t).partners == np.arange(6)
        simulation.round()
        assert_array_equal(simulation.state.v[idle], before[idle])


@pytest.mark.parametrize(("name", "messages"), [("cosmo", 8), ("edge_local", 4), ("rand_k", 8), ("dense", 8)])
def test_a_level_costs_sixteen_bits_and_a_frame(name, messages):
    ledgers = []
    for rule in ("normalised_local", "normalised"):
        simulation = Simulation([small_run(name, "ring", step_rule=rule)])
        simulation.round()
        ledgers.append(simulation.channel.ledger(simulation.method.codec).network())
    assert ledgers[1].values - ledgers[0].values == 16 * messages
    assert ledgers[1].framing - ledgers[0].framing == 256 * messages


@pytest.mark.parametrize(("name", "passes"), [("cosmo", 1), ("cosmo", 3), ("edge_local", 1)])
def test_sharing_the_scale_takes_one_more_wait(name, passes):
    world = World(ring(4), 6)
    waits = [small(name, step_rule=rule, passes=passes).stages(world) for rule in ("plain", "normalised")]
    assert waits == [passes, passes + 1]
    assert small("cosmo", step_rule="normalised").stages(World(complete(1), 6)) == 0


def test_the_length_of_steps_does_not_depend_on_the_scale_of_the_loss():
    """Losses times 2^20: slopes, √v and levels move by whole doublings, so states are the same bits."""
    ends = []
    for factor in (1.0, 2.0**20):
        problem = quadratic(4, 1, d=6, omega=0.5, zeta=1.0)
        problem.half *= factor
        problem.b *= factor
        ends.append(states([small_run("cosmo", "ring", problem=problem, step_rule="normalised")], 9))
    assert_array_equal(*ends)
