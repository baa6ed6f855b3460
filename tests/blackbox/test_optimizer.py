from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from blackbox.cases import PROBLEM, build, make
from problems.drifting import Drifting
from problems.drifting import drifting as python_drifting
from zocosmo.blackbox.functions import Functions
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.errors import InputError, OracleError
from zocosmo.graphs import complete, path, ring, star
from zocosmo.methods import METHODS, Cosmo, Method
from zocosmo.methods.base import Draw, State, own_directions
from zocosmo.oracle import Query
from zocosmo.problems import rosenbrock
from zocosmo.sim import Run, Simulation


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
@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"marina_type", "rand_k_average"}))
def test_asking_by_hand_is_advancing_to_the_bit(name, graph):
    by_hand, advanced = make(build(name), graph), make(build(name), graph)
    while by_hand.t < 20:
        ask = by_hand.ask()
        by_hand.tell(np.where(ask.active, [PROBLEM(x, ask.round) for x in ask.points], np.nan))
    for _ in range(20):
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
            slope = yield Query(x, (draw.u,), self.mu)
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


def drifting():
    """An oracle of losses that remember how often they were asked."""
    return Functions([Drifting(node) for node in range(4)], 4)


def advanced(run, oracle, rounds):
    for _ in range(rounds):
        run.advance(oracle)
    return run


def test_losses_with_a_memory_go_on_where_they_were():
    (straight, first), (resumed, then) = ((make(build("cosmo")), drifting()) for _ in range(2))
    resumed.restore(advanced(straight, first, 7).arrays(first), then)
    assert (advanced(resumed, then, 5).x == advanced(straight, first, 5).x).all()
    assert [loss.asked for loss in then.funs] == [loss.asked for loss in first.funs] == [24] * 4


def test_without_their_oracle_arrays_hold_no_memory_and_losses_keep_theirs():
    (straight, first), (resumed, then) = ((make(build("cosmo")), drifting()) for _ in range(2))
    saved = advanced(straight, first, 7).arrays()
    assert not any(name.startswith("oracle.") for name in saved)
    resumed.restore(saved)
    assert (advanced(resumed, then, 5).x != advanced(straight, first, 5).x).any()


def test_a_problem_of_losses_with_a_memory_goes_on_too():
    (straight, first), (resumed, then) = ((make(build("cosmo")), python_drifting()) for _ in range(2))
    resumed.restore(advanced(straight, first, 7).arrays(first), then)
    assert (advanced(resumed, then, 5).x == advanced(straight, first, 5).x).all()


def test_saved_memory_is_not_touched_by_later_rounds():
    run, oracle = make(build("cosmo")), drifting()
    saved = advanced(run, oracle, 3).arrays(oracle)
    later = advanced(run, oracle, 4).x
    run.restore(saved, oracle)
    assert (advanced(run, oracle, 4).x == later).all()


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
@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"marina_type", "rand_k_average"}))
def test_the_price_of_a_round_is_known_before_it(name, graph):
    problem = rosenbrock(5, 1, d=6)
    run = Optimizer(problem.x0, graph=graph, method=build(name))
    for _ in range(6):
        before, price, x = run.bits, run.next_bits(), run.x
        assert (run.x == x).all()
        run.advance(problem)
        paid = run.bits.total - before.total
        assert paid == price.total or (name == "ef21" and paid < price.total)  # a union that is private


@pytest.mark.parametrize("participants", [0, 2])
def test_the_price_of_what_nodes_missed_is_known_though_nobody_asked_before(participants):
    run = make(build("decomfl", participants=participants, local_steps=2))
    for _ in range(9):
        run.advance(PROBLEM)
    before, price = run.bits, run.next_bits()
    assert run.next_bits() == price
    run.advance(PROBLEM)
    assert run.bits == before.plus(price)


def test_nodes_that_catch_up_do_so_once_though_the_round_was_saved_when_it_had_been_asked():
    straight, resumed = (make(build("decomfl", participants=2)) for _ in range(2))
    for _ in range(7):
        straight.advance(PROBLEM)
    x, bits = straight.x, straight.bits
    straight.ask()
    assert (straight.x == x).all()
    resumed.restore(straight.arrays())
    assert resumed.bits == bits


def test_marina_type_s_dense_rounds_are_priced_too():
    run = make(build("marina_type", period=2))
    prices = []
    for _ in range(4):
        prices.append(run.next_bits().values // (12 * 64))
        run.advance(PROBLEM)
    assert prices == [6, 2, 6, 2]


def test_arrays_of_another_seed_are_refused():
    saved = Optimizer(PROBLEM.x0, graph=complete(4), method=build("cosmo"), seed=4).arrays()
    with pytest.raises(InputError, match="another seed"):
        make(build("cosmo")).restore(saved)


def test_told_float32_is_advancing_on_float32_answers():
    """Functions hand over float64; what is told in float32 must not be subtracted in float32."""
    told, advanced = make(build("cosmo", mu=0.3)), make(build("cosmo", mu=0.3))
    for _ in range(5):
        told.tell(np.float32([np.exp(x).sum(axis=-1) for x in told.ask().points]))
        advanced.advance(Functions(lambda x: np.float32(np.exp(x).sum()), 4))
    assert (told.x == advanced.x).all()


def test_finiteness_is_looked_for_where_the_round_was_or_everywhere():
    run = make(Cosmo(q=2, eta=1e-3, mu=0.01))
    run.advance(PROBLEM)
    untouched = np.setdiff1d(np.arange(6), run._touched.index.ravel())
    run._state.x[0, untouched[0]] = np.inf
    assert run.is_finite(everywhere=False)
    assert not run.is_finite()
    run._state.x[0, run._touched.index.ravel()[0]] = np.nan
    assert not run.is_finite(everywhere=False)
