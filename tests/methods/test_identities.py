"""What the paper proves of the updates, held to the bit where the arithmetic is exact."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run, states
from zocosmo.graphs.graph import complete, path, ring
from zocosmo.problems.quadratic import Quadratic, quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation


def dyadic(n, d):
    """A quadratic and states in small integers: few rounds on them round nothing in float64."""
    rng = np.random.default_rng(0)
    half, b = rng.integers(1, 3, size=(n, d)) / 2.0, rng.integers(-2, 3, size=(n, d)) * 1.0
    return Quadratic(half, b, 0.0, None), rng.integers(-3, 4, size=(1, n, d)) * 1.0


def stepped(run, x=None):
    """States before and after each of a few rounds, with the draw of the round."""
    simulation = Simulation([run])
    if x is not None:
        simulation.state = simulation.method.init(x)
    for t in range(4):
        draw, m = simulation.draws.at(t), simulation.state.m
        before = simulation.state.x.copy(), None if m is None else m.copy()
        simulation.round()
        yield before, draw, (simulation.state.x.copy(), simulation.state.m)


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_with_one_coordinate_common_signs_do_not_matter(graph):
    """q = 1: flipping the only sign swaps the queries and flips the estimate back, to the bit."""
    runs = [small_run("edge_local", graph, q=1, coupling=c, beta=0.5) for c in "GS"]
    assert_array_equal(*(states([run], 40) for run in runs))


def test_with_all_coordinates_own_supports_do_not_matter():
    """q = d: S and I draw the same support, all of it, and the same signs."""
    runs = [small_run("edge_local", "ring", q=6, coupling=c) for c in "SI"]
    assert_array_equal(*(states([run], 20) for run in runs))


def test_with_two_nodes_the_couplings_have_one_law():
    """One pair has no other to share with. Mean log-objectives of 600 seeds each: |z| < 4.5 for all three
    differences, which chance breaks less than once in 10^5 runs of this test."""
    logs = []
    for coupling in "GSI":
        problem = quadratic(2, 0, d=5, omega=0.5, zeta=1.0)
        method = small("edge_local", coupling=coupling, eta=2.0**-5)
        runs = [Run(method, complete(2), problem, f"{coupling} {seed}") for seed in range(600)]
        simulation = Simulation(runs)
        for _ in range(12):
            simulation.round()
        logs.append(np.log(simulation.checkpoint().objective))
    for a, b in ((0, 1), (0, 2), (1, 2)):
        z = (logs[a].mean() - logs[b].mean()) / np.sqrt((logs[a].var() + logs[b].var()) / 600)
        assert abs(z) < 4.5


@pytest.mark.parametrize("name", ["cosmo", "edge_local"])
def test_the_average_moves_by_the_average_estimate(name):
    """z = x̄ − ηβ/(1 − β) m̄ obeys z⁺ = z − η ḡ   [appendix:momentum_convergence]; β = ½, nothing rounds.

    ḡ is rebuilt here from the exact gradients: central differences of quadratics are exact.
    """
    (problem, start), eta = dyadic(4, 6), 2.0**-5
    run = Run(small(name, eta=eta, beta=0.5, mu=0.5), complete(4), problem, 3)
    for (x, m), draw, (x_new, m_new) in stepped(run, start):
        u = draw.u.pick(lambda a: np.broadcast_to(a, (1, 4, 2)))
        dense = np.zeros((1, 4, 6))
        np.put_along_axis(dense, u.index, u.signs, axis=-1)
        gradient = 2 * problem.half * x + problem.b
        g = 3.0 * (gradient * dense).sum(axis=-1, keepdims=True) * dense
        z, z_new = (a.sum(axis=1) - eta * b.sum(axis=1) for a, b in ((x, m), (x_new, m_new)))
        assert_array_equal(z_new, z - eta * g.sum(axis=1))


@pytest.mark.parametrize("coupling", "GSI")
def test_both_ends_of_a_pair_get_the_same_bits_and_nothing_else_moves(coupling):
    """𝒜V = V: on S_e the two new states are equal; off it the states are what they were."""
    run = small_run("edge_local", ring(6), coupling=coupling, beta=0.9)
    for (x, m), draw, (x_new, m_new) in stepped(run):
        on = np.zeros((1, 6, 6), bool)
        np.put_along_axis(on, np.broadcast_to(draw.u.index, (1, 6, 2)), True, axis=-1)
        peers = x_new[:, draw.partners[0]]
        assert_array_equal(x_new[on], peers[on])
        assert_array_equal(x_new[~on], x[~on])
        assert_array_equal(m_new[~on], m[~on])  # inactive momentum is kept, not decayed


def test_idle_nodes_keep_everything():
    run = small_run("edge_local", path(5), beta=0.9)
    for (x, m), draw, (x_new, m_new) in stepped(run):
        idle = draw.partners == np.arange(5)
        assert idle.any()
        assert_array_equal(x_new[idle], x[idle])
        assert_array_equal(m_new[idle], m[idle])


@pytest.mark.parametrize("name", ["marina_type", "rand_k_average", "flood"])
def test_replicas_stay_alike_to_the_bit(name):
    x = states([small_run(name, problem=rosenbrock(4, 1, d=6), eta=1e-3)], 12, wire="f16")[0]
    assert_array_equal(x, np.broadcast_to(x[0], x.shape))


def test_passes_are_as_many_mixes_and_as_many_charges():
    """Step 0: two passes a round are two rounds of one, on the same support, at the same price."""
    one, two = (small_run("cosmo", "ring", q=6, passes=p, eta=0.0) for p in (1, 2))
    x = np.random.default_rng(0).normal(size=(1, 4, 6))
    simulations = Simulation([one]), Simulation([two])
    for simulation, rounds in zip(simulations, (6, 3), strict=True):
        simulation.state = simulation.method.init(x.copy())
        for _ in range(rounds):
            simulation.round()
    assert_array_equal(simulations[0].state.x, simulations[1].state.x)
    bills = [s.channel.ledger("values").network() for s in simulations]
    assert bills[0] == bills[1]
    assert [s.checkpoint().stages.tolist() for s in simulations] == [[6], [6]]


def test_a_balanced_rule_visits_every_coordinate_once_in_an_epoch():
    simulation = Simulation([small_run("cosmo", q=4, rule="balanced")])
    visited = []
    for t in range(2):
        visited += simulation.draws.at(t).u.index.reshape(-1).tolist()
        simulation.round()
    assert sorted(visited) == list(range(6))


def test_common_signs_cancel_linear_heterogeneity():
    """G on common curvature: x̄ does not see the b_i (eq:corr_cancellation); to rounding of 30 rounds."""
    runs = []
    for zeta in (0.0, 2.0):
        problem = quadratic(8, 0, d=12, zeta=zeta)
        runs.append(Run(small("edge_local", coupling="G", eta=2.0**-7), ring(8), problem, 4, "iid"))
    means = [states([run], 30).mean(axis=1) for run in runs]
    assert np.abs(means[0] - means[1]).max() < 1e-10
