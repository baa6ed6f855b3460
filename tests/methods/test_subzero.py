"""SubZero: directions of rank r within subspaces that orthonormal columns span."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small_run, states
from methods.forward import seen, slope, worst_score
from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import complete
from zocosmo.methods import Subzero, World
from zocosmo.methods.matrices import draw_factors, near_square

SHAPES = ((5, 5), (2, 18), (7, 1), (3, 8))  # taken as 5×5, 6×6, 1×7 and 4×6: 92 entries
SQUARED = tuple(near_square(rows * cols) for rows, cols in SHAPES)


def drawn(r, rounds, n=2, refresh=10**9):
    """Directions of each matrix in its most square shape, (rounds, n, rows, cols)."""
    method = Subzero(eta=0.1, mu=0.1, rank=r, refresh=refresh)
    u = method.draw(World(complete(n), 92, shapes=SHAPES), Tape(2), np.arange(rounds)).u.signs
    ends = np.cumsum([rows * cols for rows, cols in SHAPES])[:-1]
    parts = np.split(u, ends, axis=-1)
    return [part.reshape(rounds, n, *shape) for part, shape in zip(parts, SQUARED, strict=True)]


def spaces(r, t=0, refresh=10**9):
    """U (rows × r) and V (cols × r) of each matrix, but of no vector."""
    shapes = SQUARED
    ranks = [min(r, rows) for rows, _ in shapes]
    found = draw_factors(Tape(2), np.array([t]), shapes, ranks, refresh, orthonormal=True)
    return [(U[0].T, V[0].T) for U, V in found]


def test_matrices_are_taken_in_their_most_square_shape():
    assert SQUARED == ((5, 5), (6, 6), (1, 7), (4, 6))


@pytest.mark.parametrize("r", [1, 2, 3, 5, 9])
def test_in_every_matrix_a_direction_has_rank_r_or_all_that_there_is(r):
    for part in drawn(r, 6):
        ranks = np.linalg.matrix_rank(part)
        assert (ranks == min(r, part.shape[-2])).all()


@pytest.mark.parametrize("r", [1, 3, 5])
def test_columns_are_orthonormal(r):
    """To 1e-12: Householder's columns are, to a few roundings of 2^-53 each."""
    for U, V in spaces(r):
        for side in (U, V):
            assert np.abs(side.T @ side - np.eye(side.shape[1])).max() < 1e-12


@pytest.mark.parametrize("r", [1, 3])
def test_directions_lie_in_the_subspace_that_all_nodes_share(r):
    """U Uᵀ u V Vᵀ = u, but for roundings of a few products of numbers below 10."""
    for k, (part, (U, V)) in enumerate(zip(drawn(r, 4), spaces(r), strict=True)):
        if k != 2:  # the vector
            assert np.abs(U @ U.T @ part @ V @ V.T - part).max() < 1e-13


def test_a_subspace_is_kept_for_refresh_rounds():
    """Directions of two rounds span 3 + 3 columns of 6 × 6, or the same 3."""
    part = drawn(3, 9, refresh=4)[1][:, 0]
    both = [np.linalg.matrix_rank(np.hstack([part[t], part[t + 1]])) for t in range(8)]
    assert both == [3, 3, 3, 6, 3, 3, 3, 6]


def test_a_vector_gets_the_gaussian_of_mezo():
    (vector,) = [part for part in drawn(3, 2) if part.shape[-2] == 1]
    assert_array_equal(vector[1, 1, 0], normals(Tape(2), "normal", 1, 1, 2, size=7))


@pytest.mark.parametrize("r", [1, 2, 3])
def test_the_estimator_has_the_moments_of_a_gaussian_of_r_squared_entries(r):
    """Of a linear loss s = ⟨UᵀGV, Z⟩: mean U UᵀGV Vᵀ, mean square (k + 2) Σ ‖UᵀGV‖² with k = Σ r² + 7 entries
    of Z in all. 20,000 rounds; scores of 93 numbers below 5.5, which chance breaks 4 times in 10^6."""
    parts, G = drawn(r, 20_000, n=1), np.random.default_rng(5).normal(size=92)
    u = np.concatenate([part.reshape(20_000, -1) for part in parts], axis=1)
    estimates, means, square, at = (u @ G)[:, None] * u, [], 0.0, 0
    for (rows, cols), (U, V) in zip(SQUARED, spaces(r), strict=True):
        g = G[at : at + rows * cols].reshape(rows, cols)
        inner = g if rows == 1 else U.T @ g @ V
        means.append((g if rows == 1 else U @ inner @ V.T).ravel())
        square, at = square + (inner**2).sum(), at + rows * cols
    assert worst_score(estimates, np.concatenate(means)) < 5.5
    assert worst_score((estimates**2).sum(axis=1), (3 * r * r + 7 + 2) * square) < 5.5


@pytest.mark.parametrize(("graph", "d"), [("ring", 6), ("random", 12)])
def test_every_round_is_the_published_step_node_by_node(graph, d):
    """A QR for each subspace alone, products written out in the order that is promised."""
    run, (rows, cols), r = small_run("subzero", graph, seed=5, d=d), near_square(d), 2
    x = np.tile(run.problem.x0, (run.graph.n, 1))
    for t, found in enumerate(seen(run, 8)[0]):
        U, V = (
            np.linalg.qr(normals(Tape(5), "subspace", t // 3, 0, k, size=r * m).reshape(r, m).T).Q
            for k, m in ((0, rows), (1, cols))
        )
        for i in range(run.graph.n):
            Z = normals(Tape(5), "normal", t, i, 0, size=4).reshape(2, 2)
            inner = [Z[a, 0] * V[:, 0] + Z[a, 1] * V[:, 1] for a in range(2)]
            u = (np.outer(U[:, 0], inner[0]) + np.outer(U[:, 1], inner[1])).ravel()
            x[i] = x[i] - run.method.eta * (slope(run.problem, i, x[i], u, run.method.mu, t) * u)
        assert_array_equal(found, x)


@pytest.mark.parametrize("d", [7, 128])
def test_any_size_and_rank_runs_in_company_as_alone(d):
    """7 is no matrix; of 8 × 16 rank 20 leaves 8."""
    runs = [
        small_run("subzero", "ring", seed=s, d=d, rank=20, eta=eta) for s in (1, 2) for eta in (0.01, 0.02)
    ]
    alone = [states([run], 7)[0] for run in runs]
    assert_array_equal(states(runs, 7), np.stack(alone))
