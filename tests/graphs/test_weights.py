from fractions import Fraction

import numpy as np
import pytest

from zocosmo.graphs import complete, erdos_renyi, grid, laplacian_gap, metropolis, path, rho, ring, star

GRAPHS = [ring(2), ring(7), path(5), star(6), complete(8), grid(12), erdos_renyi(10, 0.4), complete(1)]


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_weights_follow_the_papers_formula(graph):
    """Off the diagonal exactly 1 / (1 + max degree); the diagonal by ascending subtraction."""
    W, degree = metropolis(graph).matrix(), [len(peers) for peers in graph.neighbours]
    expected = np.zeros((graph.n, graph.n))
    for i, j in graph.edges:
        expected[i, j] = expected[j, i] = float(Fraction(1, 1 + max(degree[i], degree[j])))
    for i in range(graph.n):
        expected[i, i] = 1.0
        for j in graph.neighbours[i]:
            expected[i, i] -= expected[i, j]
    assert (expected == W).all()


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_weights_are_symmetric_and_doubly_stochastic(graph):
    W = metropolis(graph).matrix()
    assert (W == W.T).all()
    assert (W >= 0).all()
    assert W.sum(axis=1) == pytest.approx(np.ones(graph.n), abs=graph.n * 2**-53)


def test_dyadic_weights_sum_to_one_exactly():
    assert (metropolis(complete(8)).matrix() == 1 / 8).all()
    assert (metropolis(complete(4)).matrix().sum(axis=0) == 1).all()


@pytest.mark.parametrize(
    ("graph", "printed"), [(complete(64), "0.0000"), (grid(64), "0.9677"), (ring(64), "0.9968")], ids=repr
)
def test_rho_is_what_the_paper_prints(graph, printed):
    assert f"{rho(metropolis(graph)):.4f}" == printed


@pytest.mark.parametrize("n", [3, 8, 31])
def test_rho_of_a_ring_in_closed_form(n):
    """Eigenvalues (1 + 2 cos 2πk/n) / 3."""
    values = [abs(1 + 2 * np.cos(2 * np.pi * k / n)) / 3 for k in range(1, n)]
    assert rho(metropolis(ring(n))) == pytest.approx(max(values), rel=1e-12)


def test_laplacian_gaps_in_closed_form():
    assert laplacian_gap(complete(9).laplacian()) == pytest.approx(9)
    assert laplacian_gap(star(9).laplacian()) == pytest.approx(1)
    assert laplacian_gap(ring(10).laplacian()) == pytest.approx(2 - 2 * np.cos(2 * np.pi / 10))
    assert laplacian_gap(complete(1).laplacian()) == 0


def test_memory_grows_with_edges_and_not_with_n_squared():
    weights = metropolis(ring(4096))
    assert weights.edge.size + weights.own.size == 2 * 4096
