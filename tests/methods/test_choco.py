"""CHOCO-SGD against a version that goes node by node, and against what its authors prove."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.by_node import ETA, MU, WIRES, Nodes, largest, lifted
from methods.cases import small, small_run, states
from zocosmo.core.price import PRICES
from zocosmo.core.support import draw_signs, draw_support
from zocosmo.core.values import F32
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, path, ring, star
from zocosmo.graphs.weights import metropolis
from zocosmo.methods import Choco
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation

GAMMA = 0.3
COMPRESSORS = ["top_k", "rand_k", "sign"]


def choco(compressor, q=2, **changes):
    return Choco(**{"eta": ETA, "mu": MU, "gamma": GAMMA, "q": q, "compressor": compressor, **changes})


def compressed(nodes, compressor, v, i, t, q):
    """Q_i, as all hear it."""
    if compressor == "sign":
        return nodes.cross(np.abs(v).sum() / nodes.d) * np.where(v < 0, -1.0, 1.0)
    at = largest(v, q) if compressor == "top_k" else draw_support(nodes.tape, t, i, d=nodes.d, q=q).index
    return lifted(nodes.d, at, nodes.cross(v[at]))


def mixed(nodes, Q, i, compressor):
    """Σ_j w_ij Q_j, in the order of nodes; dense messages as the house mixes them, by differences."""
    weights, peers = metropolis(nodes.graph).matrix(), nodes.graph.neighbours[i]
    total = Q[i].copy() if compressor == "sign" else np.zeros(nodes.d)
    for j in peers if compressor == "sign" else sorted((i, *peers)):
        total = total + weights[i, j] * (Q[j] - Q[i] if compressor == "sign" else Q[j])
    return total


def plain_choco(nodes, compressor, q, rounds):
    x, x_hat, s = nodes.x, np.stack(nodes.x), np.stack(nodes.x)
    for t in range(rounds):
        u = [draw_signs(nodes.tape, t, i, q=nodes.d).astype(float) for i in range(nodes.n)]
        y = [x[i] - ETA * (nodes.slope(i, x[i], u[i], t) * u[i]) for i in range(nodes.n)]
        Q = [compressed(nodes, compressor, y[i] - x_hat[i], i, t, q) for i in range(nodes.n)]
        for i in range(nodes.n):
            x_hat[i], s[i] = x_hat[i] + Q[i], s[i] + mixed(nodes, Q, i, compressor)
        x = [y[i] + GAMMA * (s[i] - x_hat[i]) for i in range(nodes.n)]
        yield np.stack(x)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("graph", "d"), [(ring(5), 7), (star(4), 12)], ids=["ring", "star"])
@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_it_is_what_nodes_do_one_by_one(compressor, graph, d, wire):
    simulation = Nodes(graph, d, wire).simulation(choco(compressor))
    for expected in plain_choco(Nodes(graph, d, wire), compressor, 2, 8):
        simulation.round()
        assert_array_equal(simulation.states()[0], expected)


def apart(method, graph, rounds, wire="nominal_f32"):
    """Step 0 from whole numbers that differ between nodes, d = 8."""
    problem = Quadratic(np.ones((graph.n, 8)), np.zeros((graph.n, 8)), 0.0, None)
    simulation = Simulation([Run(method, graph, problem, 1)], wire=wire)
    x = np.random.default_rng(0).integers(-8, 9, size=(1, graph.n, 8)) * 1.0
    simulation.state = simulation.method.init(x.copy())
    for _ in range(rounds):
        simulation.round()
    return x[0], simulation


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_the_average_is_kept_to_the_bit(compressor):
    """Weights 1/4, γ = 1/4, d = 8: three rounds of it round nothing."""
    x, simulation = apart(choco(compressor, eta=0.0, gamma=0.25), complete(4), 3)
    assert_array_equal(simulation.state.x[0].sum(axis=0), x.sum(axis=0))
    assert (simulation.state.x[0] != x).any()


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_the_sum_that_a_node_keeps_is_that_of_its_neighbours_copies(compressor):
    """s = W x̂ after three rounds without rounding."""
    _, simulation = apart(choco(compressor, eta=0.0, gamma=0.25), complete(4), 3)
    x_hat = simulation.state.x_hat[0]
    assert_array_equal(simulation.state.s[0], np.broadcast_to(x_hat.sum(axis=0) / 4, x_hat.shape))


@pytest.mark.parametrize(("compressor", "gamma"), [("top_k", 0.25), ("rand_k", 0.125), ("sign", 0.125)])
def test_compressed_differences_bring_nodes_to_agree(compressor, gamma):
    """Without steps, on a path of 5: what is left after 1,500 rounds is below a millionth of a millionth."""
    x, simulation = apart(choco(compressor, eta=0.0, gamma=gamma), path(5), 1500)
    left = simulation.checkpoint().disagreement[0]
    assert left < 1e-12 * ((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()


def test_with_nothing_left_out_and_a_whole_step_it_is_dense():
    """q = d, γ = 1: x̂⁺ = y and x⁺ = W y, to the last bits of 4 rounds of numbers below 4."""
    graph = ring(4)
    dense, all_of_it = (
        small_run("dense", graph),
        small_run("choco", graph, q=6, gamma=1.0),
    )
    assert np.abs(states([dense], 4) - states([all_of_it], 4)).max() < 4 * 16 * 2.0**-51


@pytest.mark.parametrize(
    ("compressor", "codec", "bits"),
    [
        ("top_k", "indexed", 16 * (32 + 7)),
        ("top_k", "plain", 16 * (32 + 32)),
        ("rand_k", "values", 16 * 32),
        ("rand_k", "indexed", 16 * (32 + 7)),
        ("sign", "scaled_signs", 128 + 32),
    ],
)
def test_a_message_costs_what_the_paper_charges(compressor, codec, bits):
    """d = 128, q = 16: q numbers with or without coordinates, or d bits and a number, on every link."""
    simulation = Nodes(ring(4), 128).simulation(choco(compressor, q=16, codec=codec))
    for _ in range(3):
        simulation.round()
    ledger = simulation.channel.ledger(codec)
    assert {ledger.link(*link).payload for link in ledger.links} == {3 * bits}


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_one_run_has_the_bill_of_every_codec(compressor):
    method = choco(compressor, q=3)
    simulation = Nodes(ring(4), 40).simulation(method, codecs=method.codecs)
    for _ in range(2):
        simulation.round()
    for codec in method.codecs:
        size = 40 if compressor == "sign" else 3
        expected = PRICES[codec](40, size, F32).times(2)
        found = simulation.channel.ledger(codec).link(0, 1)
        assert (found.values, found.indices) == (expected.values, expected.indices)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"compressor": "bottom_k"}, "compressor 'bottom_k' is not known; choose from top_k, rand_k, sign"),
        ({"codec": "values"}, "codec of choco 'values' is not known; choose from indexed, plain, delta, ent"),
        ({"compressor": "sign", "codec": "indexed"}, "choose from scaled_signs"),
        ({"gamma": -0.1}, "gamma must be a finite number at least 0, got -0.1"),
        ({"q": 0}, "q must be 1 or more, got 0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says) as error:
        small("choco", **changes)
    assert "\n" not in str(error.value)


def test_the_first_codec_goes_with_the_compressor():
    assert [choco(c).codec for c in COMPRESSORS] == ["indexed", "values", "scaled_signs"]
