"""SubCGE: one coordinate of a shared subspace each, added up where they are and applied once."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import reference
from methods.cases import small, small_run, states
from methods.forward import seen, slope, worst_score
from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, erdos_renyi, ring
from zocosmo.methods import Subcge, World
from zocosmo.methods.matrices import near_square, shapes_of
from zocosmo.methods.subcge import apply

SHAPES = ((2, 3), (4, 1), (1, 5), (3, 3))  # 24 entries; vectors are matrices like any


def drawn(n, r, shapes=SHAPES, seed=1, t=(0,), refresh=10**9):
    method = Subcge(eta=0.1, mu=0.1, rank=r, refresh=refresh)
    world = World(complete(n), sum(a * b for a, b in shapes), shapes=shapes)
    return method.draw(world, Tape.stack([seed])[None], np.array(t)[:, None])


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 99))
@settings(deadline=None, max_examples=40)
def test_one_application_is_all_dense_updates_one_by_one(n, r, seed):
    """Either way an entry is a sum of n terms s_j u_a v_b, with at most n + 2r + 3 roundings in a row: both
    lie within (n + 2r + 4) · 2^-53 · Σ_j |s_j u_j| of the exact sum."""
    draw, s = drawn(n, r, seed=seed), np.random.default_rng(seed).normal(size=(1, 1, n, 1))
    terms = s * draw.u.signs
    apart = np.abs(apply(s, draw.coordinates, list(draw.spaces)) - terms.sum(axis=-2))
    assert (apart <= 2 * (n + 2 * r + 4) * 2.0**-53 * np.abs(terms).sum(axis=-2)).all()


class Counted(np.ndarray):
    """Counts entries that products and sums of such arrays give."""

    done = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        plain = [np.asarray(each) for each in inputs]
        result = getattr(ufunc, method)(
            *plain, **options, **({"out": tuple(map(np.asarray, out))} if out else {})
        )
        Counted.done += result.size
        return result.view(Counted)


@pytest.mark.parametrize("n", [1, 8, 64])
def test_the_application_costs_r_times_d_whatever_the_number_of_nodes(n):
    """Products and sums: (2r − 1)(r cols + rows cols) of each matrix."""
    draw, r, Counted.done = drawn(n, 3), 3, 0
    apply(np.ones((1, 1, n, 1)), draw.coordinates, [side.view(Counted) for side in draw.spaces])
    assert Counted.done == sum((2 * r - 1) * (r * cols + rows * cols) for rows, cols in SHAPES)


def test_a_direction_is_a_signed_outer_product_of_two_shared_columns():
    draw, found = drawn(5, 3, t=range(40)), set()
    U, V = draw.spaces[:2]
    for t, i in itertools.product(range(40), range(5)):
        u = draw.u.signs[t, 0, i, :6].reshape(2, 3)
        fits = [
            (a, b, e)
            for a, b, e in itertools.product(range(3), range(3), (1, -1))
            if (u == e * np.outer(U[t, 0, a], V[t, 0, b])).all()
        ]
        assert len(fits) == 1
        found.update(fits)
    assert len(found) == 18  # all pairs with both signs: 200 draws miss one of 18 with chance 2e-4


def test_a_subspace_is_kept_for_refresh_rounds_and_alike_at_all_nodes():
    spaces = drawn(3, 2, t=range(9), refresh=4).spaces
    for side in spaces:
        kept = [(side[t] == side[t + 1]).all() for t in range(8)]
        assert kept == [True, True, True, False, True, True, True, False]


def test_within_a_subspace_the_mean_is_the_gradient_projected_over_r_squared():
    """24 entries, 40,000 draws: a score above 5.5 has chance 10^-6. Signs keep the matrices apart."""
    draw, G = drawn(1, 2, t=range(40_000)), np.random.default_rng(3).normal(size=24) + 1.0
    u, expected, at = draw.u.signs[:, 0, 0], [], 0
    for k, (rows, cols) in enumerate(SHAPES):
        U, V = (side[0, 0].T for side in draw.spaces[2 * k : 2 * k + 2])
        part = G[at : at + rows * cols].reshape(rows, cols)
        expected.append((U @ U.T @ part @ V @ V.T / 4).ravel())
        at += rows * cols
    assert worst_score((u @ G)[:, None] * u, np.concatenate(expected)) < 5.5


def test_over_subspaces_the_mean_is_the_gradient():
    """A subspace for each of 40,000 rounds: nothing is scaled, and scores stay below 5.5."""
    u = drawn(1, 2, t=range(40_000), refresh=1).u.signs[:, 0, 0]
    G = np.random.default_rng(4).normal(size=24)
    assert worst_score((u @ G)[:, None] * u, G) < 5.5


def plain_step(problem, x, t, *, seed, shape, eta, mu, refresh=3):
    """One round of rank 2, node by node: pairs and signs from a second tape, sums in the promised order."""
    n, (U, V) = (
        len(x),
        (
            normals(Tape(seed), "subspace", t // refresh, 0, k, size=2 * m).reshape(2, m)
            for k, m in enumerate(shape)
        ),
    )
    A = np.zeros((2, 2))
    for j in range(n):
        a, b = divmod(reference.support(seed, 4, 1, (t, j, 0))[0], 2)
        (sign,) = reference.signs(seed, 1, (t, j, 0))
        A[a, b] += sign * slope(problem, j, x[j], sign * np.outer(U[a], V[b]).ravel(), mu, t)
    inner = [A[a, 0] * V[0] + A[a, 1] * V[1] for a in range(2)]
    total = np.outer(U[0], inner[0]) + np.outer(U[1], inner[1])
    return np.stack([x[i] - (eta / n) * total.ravel() for i in range(n)])


@pytest.mark.parametrize(("graph", "d"), [(ring(4), 6), (erdos_renyi(6, 0.5, 3), 10)], ids=["ring", "random"])
def test_every_round_is_the_published_step_node_by_node(graph, d):
    run, x = small_run("subcge", graph, seed=6, d=d), np.full((graph.n, d), d**-0.5)
    given = {"seed": 6, "shape": near_square(d), "eta": run.method.eta, "mu": run.method.mu}
    for t, found in enumerate(seen(run, 8)[0]):
        x = plain_step(run.problem, x, t, **given)
        assert_array_equal(found, x)


@pytest.mark.parametrize("rank", [1, 2, 7])
def test_any_rank_runs_in_company_as_alone(rank):
    runs = [
        small_run("subcge", "ring", seed=seed, rank=rank, eta=eta) for seed in (1, 2) for eta in (0.01, 0.02)
    ]
    alone = [states([run], 7)[0] for run in runs]
    assert_array_equal(states(runs, 7), np.stack(alone))


@pytest.mark.parametrize("name", ["subcge", "subzero"])
@pytest.mark.parametrize("bad", [{"rank": 0}, {"rank": 1.5}, {"refresh": 0}])
def test_bad_ranks_and_refreshes_are_refused(name, bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        small(name, **bad)


@pytest.mark.parametrize("name", ["subcge", "subzero", "sparse_mezo"])
def test_matrices_that_do_not_make_up_x_are_refused(name):
    with pytest.raises(InputError, match="`shapes` has 6 entries in all, but d = 7"):
        small(name).check(World(ring(4), 7, shapes=((2, 3),)))


def test_a_vector_is_cut_as_square_as_it_can_be():
    assert [near_square(d) for d in (1, 2, 12, 16, 31, 1000)] == [
        (1, 1),
        (1, 2),
        (3, 4),
        (4, 4),
        (1, 31),
        (25, 40),
    ]
    assert shapes_of(World(ring(4), 12)) == ((3, 4),)
    assert shapes_of(World(ring(4), 12, shapes=((2, 3), (6, 1)))) == ((2, 3), (6, 1))
