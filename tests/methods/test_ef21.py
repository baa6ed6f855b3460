"""EF21 against a version that goes node by node, and against what its authors define."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.by_node import ETA, MU, SEED, WIRES, Nodes, bill, largest, lifted
from methods.cases import small, small_run
from zocosmo.core.support import draw_signs
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import Ef21
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation


def ef21(q=2, **changes):
    return Ef21(**{"eta": ETA, "mu": MU, "q": q, **changes})


def plain_ef21(nodes, q, rounds):
    """Models after each round, and how many coordinates the server sent in it."""
    n, d = nodes.n, nodes.d
    x, own, g = nodes.x[0], np.zeros((n, d)), np.zeros(d)
    for t in range(rounds):
        total, sent = np.zeros(d), set()
        for i in range(n):
            u = draw_signs(nodes.tape, t, i, q=d).astype(float)
            v = nodes.slope(i, x, u, t) * u - own[i]
            at = largest(v, q)
            c = lifted(d, at, nodes.cross(v[at]))
            own[i], total = own[i] + c, total + c
            sent |= set(at)
        g = g + nodes.cross(total / n)
        x = x - ETA * g
        yield x, len(sent)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("n", "d", "q"), [(5, 7, 2), (4, 12, 1)])
def test_it_is_what_nodes_and_server_do_one_by_one(n, d, q, wire):
    simulation = Nodes(ring(n), d, wire).simulation(ef21(q))
    for expected, _ in plain_ef21(Nodes(ring(n), d, wire), q, 8):
        simulation.round()
        assert_array_equal(simulation.states()[0], np.broadcast_to(expected, (n, d)))


@pytest.mark.parametrize("codec", Ef21.codecs)
def test_each_way_costs_what_was_sent(codec):
    """Up q entries a round; down the union of all supports, or all d where these cost less."""
    simulation = Nodes(ring(4), 20).simulation(ef21(6, codec=codec))
    for _ in range(7):
        simulation.round()
    unions = [size for _, size in plain_ef21(Nodes(ring(4), 20), 6, 7)]
    assert len(set(unions)) > 1
    ledger = simulation.channel.ledger(codec)
    for i in range(4):
        assert ledger.link(i, 4) == bill(codec, 20, [6] * 7)
        assert ledger.link(4, i) == bill(codec, 20, unions)
    assert ledger.network() == bill(codec, 20, 4 * [6] * 7 + 4 * unions)  # and no link else


def test_a_wide_union_is_sent_as_all_values():
    """d = 20: 18 entries of 37 bits would be more than 20 of 32."""
    simulation = Nodes(ring(4), 20).simulation(ef21(19))
    for _ in range(3):
        simulation.round()
    assert simulation.channel.ledger("indexed").link(4, 0).payload == 3 * 20 * 32


def dyadic_run(q):
    """Whole numbers and powers of two: few rounds of it round nothing."""
    rng = np.random.default_rng(0)
    half, b = rng.integers(1, 3, size=(4, 8)) / 2.0, rng.integers(-2, 3, size=(4, 8)) * 1.0
    simulation = Simulation(
        [Run(ef21(q, eta=2.0**-5, mu=0.5), complete(4), Quadratic(half, b, 0.0, None), 1)]
    )
    simulation.state = simulation.method.init(np.ones((1, 4, 8)))
    return simulation


@pytest.mark.parametrize("q", [1, 3, 8])
def test_what_all_step_by_is_the_mean_of_what_the_server_knows_of_each(q):
    simulation = dyadic_run(q)
    for _ in range(3):
        before = simulation.state.own.copy()
        simulation.round()
        _, own, g = simulation.state
        assert_array_equal(g, np.broadcast_to(own.sum(axis=1, keepdims=True) / 4, g.shape))
        assert (np.count_nonzero(own != before, axis=-1) <= q).all()


def test_with_nothing_left_out_the_server_knows_every_estimate():
    """q = d: g_i = ĝ_i, with the gradient rebuilt here: central differences of quadratics are exact."""
    simulation = dyadic_run(8)
    for t in range(3):
        x, u = simulation.state.x.copy(), simulation.draws.at(t).u.signs
        simulation.round()
        gradient = 2 * simulation.problem.half * x + simulation.problem.b
        assert_array_equal(simulation.state.own, (gradient * u).sum(axis=-1, keepdims=True) * u)


def test_models_never_part_over_any_wire():
    simulation = Simulation([small_run("ef21", "random", seed=SEED)], wire="bf16")
    for _ in range(20):
        simulation.round()
    now = simulation.checkpoint()
    assert now.disagreement.tolist() == [0.0]
    assert_array_equal(simulation.method.model(simulation.state), simulation.state.x[:, 3])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"q": 0}, "q must be 1 or more, got 0"),
        (
            {"codec": "values"},
            "codec of ef21 'values' is not known; choose from indexed, plain, delta, entropy",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says):
        small("ef21", **changes)
    with pytest.raises(InputError, match="q = 9 coordinates of d = 6"):
        Simulation([small_run("ef21", q=9)])
