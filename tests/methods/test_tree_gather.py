"""Own directions over a tree: what nodes do one by one, the mean of all estimates, N K numbers a message."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.by_node import ETA, MU, SEED, Nodes
from methods.cases import small, small_run
from methods.forward import seen
from zocosmo.core.payload import Bits
from zocosmo.core.signs import draw_sign_vectors
from zocosmo.core.support import draw_support
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, path, ring, star
from zocosmo.problems.quadratic import Quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation
from zocosmo.traffic import sum_messages


def rounds_by_node(nodes, rounds, *, q, K, signs, wire, step):
    """x of all nodes after each round, from slopes of two sides."""
    v, read = 0.0, {"f64": np.float64, "f16": np.float16}[wire]
    for t in range(rounds):
        index, told, vectors = draw_support(nodes.tape, t, d=nodes.d, q=q).index, [], []
        for i in range(nodes.n):
            for eps in draw_sign_vectors(nodes.tape, t, i, q=q, directions=K, signs=signs).astype(float):
                u = np.zeros(nodes.d)
                u[index] = eps
                told.append(float(read(nodes.slope(i, nodes.x[i], u, t))))
                vectors.append(eps)
        total = told[0] * vectors[0]
        for s, eps in zip(told[1:], vectors[1:], strict=True):
            total = total + s * eps
        if step == "normalised":
            mean = told[0] * told[0]
            for s in told[1:]:
                mean += s * s
            mean /= len(told)
            v = mean if v == 0 else 0.95 * v + 0.05 * mean
            total = total * (1 / np.sqrt(q * len(told) * v))
        else:
            total = total * (nodes.d / (q * len(told)))
        for i in range(nodes.n):
            nodes.x[i] = nodes.x[i].copy()
            nodes.x[i][index] = nodes.x[i][index] - ETA * total
        yield np.stack(nodes.x)


@pytest.mark.parametrize("graph", [ring(6), star(4), path(3), complete(2)], ids=lambda g: f"{g.name} {g.n}")
@pytest.mark.parametrize("step", ["plain", "normalised"])
@pytest.mark.parametrize(("K", "signs"), [(1, "independent"), (3, "independent"), (4, "orthogonal")])
@pytest.mark.parametrize("wire", ["f64", "f16"])
def test_it_is_what_nodes_do_one_by_one(graph, step, K, signs, wire):
    options = {"directions": K, "signs": signs, "wire": wire}
    method = small("tree_gather", eta=ETA, mu=MU, q=3, step_rule=step, **options)
    nodes = Nodes(graph, 7)
    simulation = Simulation([Run(method, graph, nodes.problem, SEED)])
    for expected in rounds_by_node(nodes, 6, q=3, K=K, signs=signs, wire=wire, step=step):
        simulation.round()
        assert_array_equal(simulation.states()[0], expected)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("wire", ["f32", "f16", "bf16"])
def test_nodes_that_start_alike_stay_alike(wire, dtype):
    run = small_run("tree_gather", "random", directions=2, wire=wire)
    assert all((x == x[:1]).all() for x in seen(run, 8, dtype=dtype)[0])


def test_steps_follow_the_mean_of_all_nodes():
    """Linear losses with gradients b_i, q = d: ĝ has the mean b̄, and in coordinate j the variance
    Σ_i (‖b_i‖² − b_ij²) / (N² K). Over 4,000 rounds, within 5 standard deviations of each mean.
    """
    b = np.random.default_rng(1).normal(size=(4, 6)) + 1.0
    method = small("tree_gather", q=6, directions=2, eta=2.0**-10, mu=0.5)
    simulation = Simulation([Run(method, ring(4), Quadratic(np.zeros_like(b), b, 0.0, None), 3)])
    start = simulation.states()[0][0].copy()
    for _ in range(4000):
        simulation.round()
    moved = (start - simulation.states()[0][0]) / (4000 * 2.0**-10)
    spread = np.sqrt(((b * b).sum(axis=1, keepdims=True) - b * b).sum(axis=0) / (16 * 2) / 4000)
    assert (np.abs(moved - b.mean(axis=0)) < 5 * spread).all()
    assert (spread < 0.05).all()


@pytest.mark.parametrize("graph", [complete(5), ring(6), star(4), path(3)], ids=lambda g: g.name)
def test_a_link_of_the_tree_carries_the_numbers_of_all_nodes(graph):
    method = small("tree_gather", q=4, directions=3, wire="f16")
    simulation = Simulation([Run(method, graph, rosenbrock(graph.n, 1, d=6), 1)])
    for _ in range(5):
        simulation.round()
    ledger, tree = simulation.channel.ledger("scalars"), sum_messages(graph)
    expected = Bits(values=16 * 3 * graph.n).padded().plus(Bits(framing=256)).times(5)
    for link in ledger.links:
        assert ledger.link(*link) == (expected if link in tree else Bits())
    assert simulation.queries.tolist() == [5 * 2 * 3 * graph.n]


def test_a_node_alone_steps_and_sends_nothing():
    run = small_run("tree_gather", path(1), directions=2)
    found, simulation = seen(run, 3)
    assert (found[-1] != found[0]).any()
    assert simulation.channel.ledger("scalars").network() == Bits()


def test_wires_that_make_noise_of_zeros_are_refused():
    with pytest.raises(InputError, match=r"wire grid4 makes noise of zeros, .*; use f16"):
        Simulation([small_run("tree_gather", "ring", wire="grid4")])
