"""MARINA against a version that goes node by node, and against what its authors define."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.by_node import ETA, MU, SEED, WIRES, Nodes, bill, lifted
from methods.cases import small, small_run
from zocosmo.core.normals import uniforms
from zocosmo.core.support import draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import Marina
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation, batch_key

K, P = 3, 0.3


def marina(q=2, **changes):
    return Marina(**{"eta": ETA, "mu": MU, "q": q, "refresh": P, "directions": K, **changes})


def refreshes(t, seed=SEED):
    return t == 0 or uniforms(Tape(seed), "refresh", t, size=1)[0] < P


def estimates(nodes, i, x, y, t):
    """ĝ_i(y) and ĝ_i(y) − ĝ_i(x) along the K directions of node i."""
    whole, change = np.zeros(nodes.d), np.zeros(nodes.d)
    for u in draw_signs(nodes.tape, t, i, q=K * nodes.d).astype(float).reshape(K, nodes.d):
        slopes = [nodes.slope(i, point, u, t) for point in (y, x)]
        whole, change = whole + slopes[0] * u, change + (slopes[0] - slopes[1]) * u
    return whole / K, change / K


def plain_marina(nodes, q, rounds):
    """Models after each round, and how many coordinates went up and came down in it."""
    n, d, x, g = nodes.n, nodes.d, nodes.x[0], np.zeros(nodes.d)
    for t in range(rounds):
        y, total, sent = x - ETA * g, np.zeros(d), set()
        for i in range(n):
            whole, change = estimates(nodes, i, x, y, t)
            at = draw_support(nodes.tape, t, i, d=d, q=q).index
            sparse = lifted(d, at, nodes.cross(change[at] * (d / q)))
            total = total + (nodes.cross(whole) if refreshes(t) else sparse)
            sent |= set(at.tolist())
        heard = nodes.cross(total / n)
        x, g = y, heard if refreshes(t) else g + heard
        yield x, *((d, d) if refreshes(t) else (q, len(sent)))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("n", "d", "q"), [(5, 7, 2), (4, 12, 1)])
def test_it_is_what_nodes_and_server_do_one_by_one(n, d, q, wire):
    """Of the 12 rounds some refresh and some do not."""
    assert 1 < sum(map(refreshes, range(12))) < 11
    simulation = Nodes(ring(n), d, wire).simulation(marina(q))
    for expected, *_ in plain_marina(Nodes(ring(n), d, wire), q, 12):
        simulation.round()
        assert_array_equal(simulation.states()[0], np.broadcast_to(expected, (n, d)))


@pytest.mark.parametrize("codec", Marina.codecs)
def test_each_way_costs_what_was_sent(codec):
    """A refresh is d values up and d down; else q up, and down the union, or all d where these cost less."""
    simulation = Nodes(ring(4), 20).simulation(marina(6, codec=codec))
    for _ in range(12):
        simulation.round()
    ups, downs = zip(*((up, down) for _, up, down in plain_marina(Nodes(ring(4), 20), 6, 12)), strict=True)
    ledger = simulation.channel.ledger(codec)
    for i in range(4):
        assert ledger.link(i, 4) == bill(codec, 20, ups)
        assert ledger.link(4, i) == bill(codec, 20, downs)
    assert ledger.network() == bill(codec, 20, 4 * (*ups, *downs))


def test_a_run_pays_and_asks_alone_what_it_does_in_company():
    """Coins differ by seed: in most rounds some runs refresh and others do not."""
    runs = [Run(marina(), ring(4), Nodes(ring(4), 6).problem, seed) for seed in range(5)]
    together, alone = Simulation(runs), [Simulation([run]) for run in runs]
    for _ in range(9):
        for simulation in (together, *alone):
            simulation.round()
    now, each = together.checkpoint(), [simulation.checkpoint() for simulation in alone]
    assert now.queries.tolist() == [one.queries[0] for one in each]
    assert_array_equal(now.bits["values"], np.concatenate([one.bits["values"] for one in each]))
    assert_array_equal(together.states(), np.concatenate([simulation.states() for simulation in alone]))


def test_queries_are_counted_at_both_points():
    """2K a node and round at the new point, and 2K more at the old one unless the round refreshes."""
    simulation = Nodes(ring(4), 6).simulation(marina())
    for t in range(10):
        before = simulation.queries[0]
        simulation.round()
        assert simulation.queries[0] - before == 4 * 2 * K * (1 if refreshes(t) else 2)


def test_on_linear_losses_an_estimate_stays_until_it_is_refreshed():
    """Both points give the same slope, so differences are 0 whatever the directions; nothing rounds."""
    b = np.random.default_rng(0).integers(-2, 3, size=(4, 8)) * 1.0
    method = marina(eta=2.0**-3, mu=0.5, directions=2)
    simulation = Simulation([Run(method, complete(4), Quadratic(0 * b, b, 0.0, None), SEED)])
    simulation.state = simulation.method.init(np.ones((1, 4, 8)))
    for t in range(8):
        before = simulation.state.g.copy()
        simulation.round()
        assert (simulation.state.g == before).all() == (not refreshes(t))


def test_round_0_asks_and_does_not_move():
    simulation = Simulation([small_run("marina")])
    start = simulation.states()
    simulation.round()
    assert_array_equal(simulation.states(), start)
    assert (simulation.state.g != 0).all()


def test_coins_come_up_as_often_as_they_should():
    """20,000 rounds at p = 0.3: 5 standard deviations, which chance passes 6 times in 10^7."""
    world = small_run("marina").world
    sparse = small("marina", refresh=P, directions=1).draw(world, Tape(3), np.arange(1, 20_001)).sparse
    assert abs((~sparse[:, 0]).sum() - 6000) < 5 * np.sqrt(20_000 * 0.3 * 0.7)
    assert (sparse == sparse[:, :1]).all()


def test_models_never_part_over_any_wire():
    simulation = Simulation([small_run("marina", "random")], wire="bf16")
    for _ in range(20):
        simulation.round()
    assert simulation.checkpoint().disagreement.tolist() == [0.0]


def test_runs_of_one_batch_share_the_coins_bias():
    one, two = (small_run("marina", refresh=p) for p in (0.25, 0.5))
    assert batch_key(one) != batch_key(two)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"q": 0}, "q must be 1 or more, got 0"),
        ({"refresh": 1.5}, "refresh must be a finite number at least 0 and at most 1, got 1.5"),
        ({"directions": 0}, "directions must be 1 or more, got 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says):
        small("marina", **changes)
