import subprocess
import sys
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.minimize import minimize
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.errors import GraphError, InputError, OracleError
from zocosmo.graphs import complete, path, ring, star
from zocosmo.methods import METHODS, Cosmo, Dense, EdgeLocal, Method
from zocosmo.methods.base import Draw, State, own_directions
from zocosmo.oracle import TwoQuery
from zocosmo.problems import rosenbrock
from zocosmo.sim import Run, Simulation

PROBLEM = rosenbrock(4, 1, d=6)
SMALL = {"q": 2, "eta": 2e-3, "mu": 0.01}


def build(name, **change):
    known = {field.name for field in fields(METHODS[name])}
    return METHODS[name](**{k: v for k, v in {**SMALL, **change}.items() if k in known})


def make(method, graph=None, **options):
    return Optimizer(PROBLEM.x0, graph=graph or complete(4), method=method, seed=3, **options)


def local(i):
    """f_i of the problem as people would write it."""
    s = PROBLEM.shifts[i]
    return lambda x: PROBLEM.local(np.broadcast_to(x, (4, 6)) - s + PROBLEM.shifts)[i]


def bowl(x):
    return float(x @ x)


@pytest.mark.parametrize(("dtype", "wire"), [("f8", "f64"), ("f8", "f16"), ("f4", "bf16")])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("name", METHODS)
def test_one_run_is_the_simulator_s_to_the_bit(name, beta, dtype, wire):
    method = build(name, beta=beta)
    sim = Simulation([Run(method, complete(4), PROBLEM, 3)], wire=wire, dtype=dtype)
    run = make(method, wire=wire, dtype=dtype)
    for _ in range(30):
        sim.round()
        run.advance(PROBLEM)
    now = sim.checkpoint()
    assert (run.x == sim.states()[0]).all()
    assert (tuple(run.bits), run.nfev) == (tuple(now.bits[method.codec][0]), now.queries[0])
    assert run.disagreement == now.disagreement[0]


@pytest.mark.parametrize("graph", [ring(4), star(4), path(4)], ids=lambda graph: graph.name)
@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"marina_type"}))
def test_asking_by_hand_is_advancing_to_the_bit(name, graph):
    by_hand, advanced = make(build(name), graph), make(build(name), graph)
    for t in range(20):
        ask = by_hand.ask()
        by_hand.tell(np.where(ask.active, [PROBLEM(x, t) for x in ask.points], np.nan))
        advanced.advance(PROBLEM)
    assert (by_hand.x == advanced.x).all()
    assert (by_hand.t, by_hand.nfev, by_hand.bits) == (20, advanced.nfev, advanced.bits)
    assert by_hand.query_loss == pytest.approx(advanced.query_loss, rel=1e-15)


def test_asking_twice_gives_the_same_points_and_they_are_x_plus_and_minus_mu_u():
    run = make(build("edge_local"), star(4))
    first = run.ask()
    first.points[...] = 7.0  # scribbling on them does no harm
    again = run.ask()
    assert (again.points.mean(axis=0) == run.x).all()
    assert (np.count_nonzero(again.points[0] != run.x, axis=-1) == 2).all()
    assert (again.active.sum(), again.round) == (2, 0)


def test_advancing_finishes_a_round_that_was_asked_for():
    half, whole = make(build("cosmo")), make(build("cosmo"))
    half.ask()
    for run in (half, whole):
        run.advance(PROBLEM)
    assert (half.x == whole.x).all()
    assert half.t == whole.t == 1


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        (np.zeros((4, 2)), InputError, "shape (2, 4), got float64 of (4, 2)"),
        (np.full((2, 4), "a"), InputError, "tell takes numbers"),
        ([[0, 0, 0, 0], [0, 0, np.nan, 0]], OracleError, "node 2, round 0, query x − μu: the loss is nan"),
        ([[0, np.inf, 0, 0], [0] * 4], OracleError, "node 1, round 0, query x + μu: the loss is inf"),
    ],
)
def test_a_refused_tell_changes_nothing_and_may_be_told_again(values, error, words):
    run, fine = make(build("cosmo")), make(build("cosmo"))
    points = run.ask().points
    with pytest.raises(error) as caught:
        run.tell(values)
    assert words in str(caught.value)
    assert (run.ask().points == points).all()
    run.tell([PROBLEM(x, 0) for x in points])
    fine.advance(PROBLEM)
    assert (run.x == fine.x).all()


def test_telling_before_asking_is_refused():
    with pytest.raises(InputError, match=r"call ask\(\) before tell\(\)"):
        make(build("cosmo")).tell(np.zeros((2, 4)))


@pytest.mark.parametrize("at", [0, 1])
def test_an_oracle_that_raises_leaves_all_as_it_was(at):
    run, fine, calls = make(build("cosmo")), make(build("cosmo")), iter(range(9))

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


@dataclass(frozen=True, kw_only=True)
class Twice(Method):
    """Two slopes a round, the second from where the first leads; the state changes in between."""

    kind: ClassVar[str] = "twice"
    codecs: ClassVar[tuple[str, ...]] = ("dense",)

    def draw(self, world, tape, t):
        return own_directions(world, tape, t, world.d)

    def step(self, t, state, draw: Draw, channel):
        x = state.x
        for _ in range(2):
            slope = yield TwoQuery(x, draw.u, self.mu)
            x -= self.eta * slope * draw.u.signs
        return State(x)


def test_a_method_may_ask_several_times_a_round():
    by_hand, advanced = (make(Twice(eta=1e-3, mu=0.01)) for _ in range(2))
    for _ in range(2):
        assert by_hand.ask().round == 0
        by_hand.tell([PROBLEM(x, 0) for x in by_hand.ask().points])
    advanced.advance(PROBLEM)
    assert (by_hand.x == advanced.x).all()
    assert (by_hand.t, by_hand.nfev) == (advanced.t, advanced.nfev) == (1, 16)


def test_a_round_that_is_half_told_cannot_be_saved_but_can_be_left():
    run = make(Twice(eta=1e-3, mu=0.01))
    saved = run.arrays()
    run.tell([PROBLEM(x, 0) for x in run.ask().points])
    with pytest.raises(InputError, match="round 0 is half told"):
        run.arrays()
    run.restore(saved)
    assert (run.x == PROBLEM.x0).all()


@pytest.mark.parametrize("name", METHODS)
def test_going_on_from_arrays_is_never_having_stopped(name):
    straight, resumed = make(build(name, beta=0.5)), make(build(name, beta=0.5))
    for _ in range(7):
        straight.advance(PROBLEM)
    straight.ask()  # asking alone is not yet part of the state
    resumed.restore(straight.arrays())
    for run in (straight, resumed):
        for _ in range(6):
            run.advance(PROBLEM)
    assert (straight.x == resumed.x).all()
    assert straight.bits == resumed.bits
    assert (straight.t, straight.nfev, straight.query_loss) == (resumed.t, resumed.nfev, resumed.query_loss)


def test_saved_arrays_are_not_touched_by_later_rounds():
    run = make(build("cosmo"))
    saved = run.arrays()
    run.restore(saved)
    run.advance(PROBLEM)
    assert (saved["state.x"] == PROBLEM.x0).all()


def test_arrays_of_another_run_are_refused():
    with pytest.raises(InputError, match=r"state.m must have shape \(4, 6\), got nothing"):
        make(build("cosmo", beta=0.5)).restore(make(build("cosmo")).arrays())


@pytest.mark.parametrize("graph", [ring(5), star(5), path(5)], ids=lambda graph: graph.name)
@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"marina_type"}))
def test_the_price_of_a_round_is_known_before_it(name, graph):
    problem = rosenbrock(5, 1, d=6)
    run = Optimizer(problem.x0, graph=graph, method=build(name))
    for _ in range(6):
        before, price, x = run.bits, run.next_bits(), run.x
        assert (run.x == x).all()
        run.advance(problem)
        assert run.bits == before.plus(price)


def test_marina_type_s_dense_rounds_are_priced_too():
    run = make(build("marina_type", period=2))
    prices = []
    for _ in range(4):
        prices.append(run.next_bits().values // (12 * 64))
        run.advance(PROBLEM)
    assert prices == [6, 2, 6, 2]


def test_minimize_is_the_optimizer_to_the_bit_and_longer_runs_begin_like_shorter_ones():
    funs, seen = [local(i) for i in range(4)], []
    run = make(build("cosmo"), ring(4))
    for _ in range(10):
        run.advance(Functions(funs, 4))
    options = {**SMALL, "seed": 3, "log_every": 1}
    short = minimize(funs, PROBLEM.x0, rounds=10, **options)
    long = minimize(funs, PROBLEM.x0, rounds=20, callback=lambda now: seen.append(now.x), **options)
    assert (short.x == run.mean).all()
    assert (seen[9] == short.x).all()
    assert long.log.head(11).equals(short.log)


@pytest.mark.parametrize("workers", [1, 3])
def test_one_function_a_list_and_a_vectorised_one_are_the_same_run(workers):
    options = {**SMALL, "rounds": 20, "n": 4, "method": "edge_local", "graph": "star"}
    one = minimize(bowl, [1.0, 2.0], workers=workers, **options)
    each = minimize([bowl] * 4, [1.0, 2.0], **options)
    vector = minimize(lambda x: [bowl(row) for row in x], [1.0, 2.0], vectorized=True, **options)
    assert (one.states == each.states).all()
    assert (one.states == vector.states).all()
    assert one.nfev == each.nfev == vector.nfev == 20 * 2 * 2 + 4


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 5000), st.sampled_from(["ring", "star", "path"]), st.sampled_from(["cosmo", "edge_local"])
)
def test_a_budget_is_never_exceeded_and_never_left_when_a_round_fits(budget, graph, method):
    options = {"graph": graph, "n": 4, "method": method, "q": 1, "eta": 0.1, "mu": 0.1}
    spent = minimize(bowl, [1.0, 2.0], budget_bits=budget, **options)
    one_more = minimize(bowl, [1.0, 2.0], rounds=spent.nit + 1, **options)
    assert spent.bits <= budget < one_more.bits
    assert (spent.status, spent.success) == (1, True)


def test_rounds_and_budget_together_stop_at_the_first():
    options = {"n": 4, "q": 1, "eta": 0.1, "mu": 0.1}  # a round on the ring: 2 messages of 64 bits
    few = minimize(bowl, [1.0, 2.0], rounds=3, budget_bits=10 * 128, **options)
    poor = minimize(bowl, [1.0, 2.0], rounds=10, budget_bits=3 * 128, **options)
    assert (few.status, few.nit, poor.status, poor.nit) == (0, 3, 1, 3)
    assert (few.states == poor.states).all()


def test_the_result_adds_up():
    asked = []
    result = minimize(
        lambda x: asked.append(x) or bowl(x), [1.0, 2.0, 3.0], n=4, rounds=25, q=1, eta=0.1, mu=0.1
    )
    assert result.nfev == len(asked) == 25 * 8 + 4
    assert result.bits == result.bits_by_kind["values"] == 25 * 2 * 64
    assert result.fun == bowl(result.x)
    assert (result.x == result.states.mean(axis=0)).all()
    assert result.log["round"].tolist() == [0, 10, 20, 25]
    assert result.log["queries"].tolist() == [0, 80, 160, 200]
    assert (result.success, result.status, result.suggestion) == (True, 0, None)


def test_query_loss_is_the_mean_of_what_was_answered():
    answers = []
    result = minimize(
        lambda x: answers.append(bowl(x)) or answers[-1], [1.0, 2.0], rounds=1, q=1, eta=0.1, mu=0.5
    )
    assert result.log["query_loss"].tolist()[1:] == [(answers[0] + answers[1]) / 2]


def test_measuring_adds_the_objective_and_counts_its_queries():
    result = minimize(bowl, [1.0, 2.0], n=2, rounds=20, q=1, eta=0.1, mu=0.1, measure=True)
    assert result.log["objective"].tolist()[0] == 5.0
    assert result.log["objective"].tolist()[-1] == result.fun
    assert result.nfev == 20 * 4 + 3 * 2
    assert result.log["queries"].tolist() == [2, 44, 86]


def test_problems_can_be_minimised_as_they_are():
    result = minimize(PROBLEM, PROBLEM.x0, rounds=300, **{**SMALL, "eta": 0.01}, measure=True)
    assert result.log["objective"].iloc[-1] < result.log["objective"].iloc[0] / 10


def stop_by_error(now):
    raise StopIteration


@pytest.mark.parametrize("callback", [lambda now: now.nit == 1, stop_by_error])
def test_a_callback_stops_the_run(callback):
    result = minimize(bowl, [1.0, 2.0], rounds=20, q=1, eta=0.1, mu=0.1, callback=callback)
    assert (result.status, result.success, result.nit) == (2, True, 1)


def test_a_callback_sees_where_the_run_is():
    seen = []
    minimize(bowl, [1.0, 2.0], n=2, rounds=3, q=1, eta=0.1, mu=0.1, callback=seen.append)
    assert [(now.nit, now.nfev, now.bits) for now in seen] == [(1, 4, 64), (2, 8, 128), (3, 12, 192)]
    assert seen[0].fun > seen[2].fun


@pytest.mark.parametrize(("funs", "eta"), [([bowl] * 2, 1e3), ([np.sum, lambda x: -x.sum()], 1.7e308)])
def test_a_run_that_diverges_ends_and_says_so(funs, eta):
    """By its loss, or by states that overflow in the first round, to infinities of both signs."""
    result = minimize(funs, [1.0, 2.0], rounds=500, q=1, eta=eta, mu=0.1, measure=True)
    assert (result.status, result.success) == (3, False)
    assert result.nit < 500
    assert np.isnan([result.fun, result.log["objective"].iloc[-1]]).all()
    assert "lower eta" in result.message


def test_oracle_errors_are_not_swallowed():
    with pytest.raises(OracleError, match=r"node 1, round 0, query x \+ μu: the loss is nan"):
        minimize([bowl, lambda x: np.nan], [1.0], rounds=2, q=1, eta=0.1, mu=0.1)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_is_missing_is_suggested_and_every_method_then_descends(name):
    result = minimize(bowl, np.linspace(1, 2, 16), n=3, rounds=100, method=name)
    assert result.fun < bowl(np.linspace(1, 2, 16)) / 10
    assert (result.method.eta, result.method.mu) == (result.suggestion.eta, result.suggestion.mu)
    assert result.suggestion.q == getattr(result.method, "q", 16)
    assert result.nfev >= result.suggestion.queries + 2 * 100


@pytest.mark.parametrize(("name", "size"), [("cosmo", 2), ("rand_k", 2), ("dense", 16), ("com_dszo", 16)])
def test_probes_are_as_wide_as_the_method_s_directions(name, size):
    """uᵀ(2I)u = 2 × the coordinates of u; com_dszo queries all of them and sends q."""
    found = minimize(bowl, np.ones(16), rounds=0, method=name).suggestion
    assert found.curvature == pytest.approx(2 * size, rel=1e-9)
    assert found.q == (16 if name == "dense" else 2)


def test_q_alone_is_suggested_without_a_query():
    result = minimize(bowl, np.ones(80), rounds=5, eta=0.01, mu=0.1)
    assert (result.method.q, result.suggestion.q, result.suggestion.queries) == (10, 10, 0)
    assert result.nfev == 5 * 2 + 1


def test_what_is_given_is_kept():
    result = minimize(bowl, np.ones(8), rounds=5, mu=0.125, q=3, beta=0.5)
    assert (result.method.mu, result.method.q, result.method.beta) == (0.125, 3, 0.5)


def test_default_graphs_are_one_node_a_pair_and_a_ring():
    def bits(n):
        return minimize(bowl, [1.0], n=n, rounds=1, q=1, eta=0.1, mu=0.1).bits / 64

    assert [bits(n) for n in (1, 2, 3, 5)] == [0, 1, 2, 2]


OK = {"rounds": 1, "q": 1, "eta": 0.1, "mu": 0.1}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rounds": None}, "give rounds, budget_bits"),
        ({"rounds": None, "budget_bits": 100}, "a single node sends nothing"),
        ({"rounds": -1}, "rounds must be 0 or more, got -1"),
        ({"budget_bits": -1}, "budget_bits must be a finite number at least 0, got -1"),
        ({"log_every": 0}, "log_every must be 1 or more"),
        ({"method": "adam"}, "method 'adam' is not known; choose from cosmo"),
        ({"method": "dense"}, "method dense has no 'q'"),
        ({"coupling": "G"}, "method cosmo has no 'coupling'"),
        ({"method": Cosmo(**SMALL)}, "q, eta, mu and a finished method"),
        ({"graph": "web", "n": 3}, "graph 'web' is not known"),
        ({"graph": "erdos_renyi", "n": 3}, "zocosmo.graphs.erdos_renyi(3, …)"),
        ({"graph": ring(4), "n": 3}, "n: 3, graph: 4"),
        ({"wire": "f8"}, "wire 'f8' is not known"),
        ({"q": 5}, "q = 5 coordinates of d = 2"),
    ],
)
def test_mistakes_are_refused_before_anything_is_asked(options, words):
    asked = []
    with pytest.raises(InputError) as caught:
        minimize(lambda x: asked.append(x) or 1.0, [1.0, 2.0], **{**OK, **options})
    assert words in str(caught.value)
    assert asked == []


@pytest.mark.parametrize(
    "options", [{"method": "edge_local"}, {"method": "marina_type", "n": 4, "graph": "star"}]
)
def test_a_world_that_a_method_cannot_run_in_is_refused_before_probing(options):
    asked = []
    with pytest.raises(GraphError):
        minimize(lambda x: asked.append(x) or 1.0, [1.0, 2.0], rounds=1, **options)
    assert asked == []


def test_nodes_may_start_apart():
    x0 = np.array([[0.0, 0.0], [4.0, 8.0]])
    result = minimize(bowl, x0, rounds=1, method=EdgeLocal(q=2, eta=0.0, mu=0.1))
    assert result.states.tolist() == [[2.0, 4.0], [2.0, 4.0]]
    assert minimize(bowl, x0, rounds=0, method=Dense(eta=0.1, mu=0.1)).disagreement == 20.0


def test_importing_the_optimizer_is_quick():
    """Heavy libraries are imported where a result is made, not before."""
    heavy = "('scipy', 'pandas', 'typer')"
    code = f"import sys, zocosmo.blackbox.minimize; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"
