"""PermK against a version that goes node by node, and against what its authors define."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from methods.by_node import ETA, MU, WIRES, Nodes, bill
from methods.cases import small, small_run
from zocosmo.core.support import draw_signs
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import PermK, World
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation

METHOD = PermK(eta=ETA, mu=MU)
SIZES = [(4, 12), (5, 12), (5, 3), (1, 4)]  # n divides d, does not, is more than d, is one


def blocks(tape, t, n, d):
    """The coordinates of each node in round t."""
    order, r = tape.coins("permutation", t).permutation(d), tape.coins("offset", t).permutation(n)[0]
    return [order[(i * d + r) // n : ((i + 1) * d + r) // n] for i in range(n)]


def plain_perm_k(nodes, rounds):
    """Models after each round, and the sizes of the blocks in it."""
    x, n, d = nodes.x[0], nodes.n, nodes.d
    for t in range(rounds):
        signs, g = draw_signs(nodes.tape, t, q=d), np.zeros(d)
        for i, block in enumerate(blocks(nodes.tape, t, n, d)):
            if len(block):
                u = np.zeros(d)
                u[block] = signs[block]
                g[block] = nodes.cross((n * nodes.slope(i, x, u, t)) * u[block])
        x = x - ETA * nodes.cross(g / n)
        yield x, [len(block) for block in blocks(nodes.tape, t, n, d)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_it_is_what_nodes_and_server_do_one_by_one(n, d, wire):
    simulation = Nodes(complete(n), d, wire).simulation(METHOD)
    for expected, _ in plain_perm_k(Nodes(complete(n), d, wire), 8):
        simulation.round()
        assert_array_equal(simulation.states()[0], np.broadcast_to(expected, (n, d)))


@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 99))
def test_supports_divide_the_coordinates_among_the_nodes(n, d, t):
    u = METHOD.draw(World(complete(n), d), Tape(7), np.array(t)).u
    held = [u.index[i][u.signs[i] != 0].tolist() for i in range(n)]
    assert sorted(j for block in held for j in block) == list(range(d))
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert held == [sorted(block.tolist()) for block in blocks(Tape(7), t, n, d)]


@pytest.mark.parametrize(("n", "d"), [(4, 6), (5, 3)])
def test_every_node_has_every_coordinate_with_the_same_chance(n, d):
    """So that E ĝ_i = ∇F_i with the factor n. 8,000 rounds: 5.5 standard deviations in each of at most 24
    counts, which chance passes in fewer than one of 10^6 runs of this test."""
    u = METHOD.draw(World(complete(n), d), Tape(1), np.arange(8000)).u
    counts = np.zeros((n, d))
    for i in range(n):
        np.add.at(counts[i], u.index[:, i][u.signs[:, i] != 0], 1)
    assert np.abs(counts - 8000 / n).max() < 5.5 * np.sqrt(8000 / n * (1 - 1 / n))


@pytest.mark.parametrize("d", [4, 8])
def test_where_all_losses_are_alike_and_blocks_single_a_round_is_gradient_descent(d):
    """n = d: each node asks along one coordinate, exactly on a quadratic, and the pieces make up ∇F."""
    rng = np.random.default_rng(0)
    half, b = (np.tile(rng.integers(1, 5, size=d) / 2.0, (d, 1)) for _ in range(2))
    method = PermK(eta=2.0**-4, mu=0.5)
    simulation = Simulation([Run(method, complete(d), Quadratic(half, b, 0.0, None), 1)])
    simulation.state = simulation.method.init(np.ones((1, d, d)))
    for _ in range(3):
        x = simulation.state.x.copy()
        simulation.round()
        assert_array_equal(simulation.state.x, x - 2.0**-4 * (2 * half * x + b))


@pytest.mark.parametrize(("n", "d"), SIZES)
@pytest.mark.parametrize("codec", PermK.codecs)
def test_each_way_costs_what_was_sent(codec, n, d):
    """Up the values of a block, and nothing where it is empty; down all d."""
    simulation = Nodes(complete(n), d).simulation(PermK(eta=ETA, mu=MU, codec=codec))
    for _ in range(7):
        simulation.round()
    sizes = [size for _, size in plain_perm_k(Nodes(complete(n), d), 7)]
    ledger = simulation.channel.ledger(codec)
    for i in range(n):
        assert ledger.link(i, n) == bill(codec, d, [size[i] for size in sizes if size[i]])
        assert ledger.link(n, i) == bill(codec, d, [d] * 7)
    assert simulation.queries[0] == sum(2 for size in sizes for each in size if each)


def test_a_block_of_values_costs_its_share_of_the_dense_message():
    """d = 128, n = 8: 16 values up and 128 down, with no coordinate."""
    simulation = Nodes(ring(8), 128).simulation(METHOD)
    simulation.round()
    ledger = simulation.channel.ledger("values")
    assert (ledger.link(3, 8).payload, ledger.link(8, 3).payload) == (16 * 32, 128 * 32)


def test_models_never_part_over_any_wire():
    simulation = Simulation([small_run("perm_k", "random")], wire="bf16")
    for _ in range(20):
        simulation.round()
    assert simulation.checkpoint().disagreement.tolist() == [0.0]


@pytest.mark.parametrize(
    ("changes", "says"), [({"mu": 0.0}, "mu must be"), ({"codec": "votes"}, "of perm_k")]
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says):
        small("perm_k", **changes)
