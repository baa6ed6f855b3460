"""Sparse-MeZO: what is large stays where it is."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small, small_run, states
from methods.forward import seen, slope, worst_score
from zocosmo.core.normals import normals
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete
from zocosmo.methods import World
from zocosmo.methods.sparse_mezo import bounds
from zocosmo.problems.quadratic import Quadratic, quadratic

SHAPES = ((2, 4), (3, 4))


def apart(n, d, seed=0):
    """Nodes that start apart, with entries of all sizes."""
    return np.random.default_rng(seed).normal(size=(n, d))


class Shaped(Quadratic):
    """Says what its x is made of."""

    shapes = SHAPES


def in_matrices(**changes):
    own = quadratic(4, 1, d=20, omega=0.5, zeta=1.0, sigma=0.25)
    problem = Shaped(own.half, own.b, own.sigma, own.noise)
    return small_run("sparse_mezo", "ring", problem=problem, **changes)


def level(x, sparsity):
    """The ⌈sparsity · size⌉-th smallest |x| of one matrix, in plain Python."""
    return sorted(abs(each) for each in x)[int(np.ceil(sparsity * len(x))) - 1]


@pytest.mark.parametrize(("sparsity", "moving"), [(0.25, 2 + 3), (0.5, 4 + 6), (0.75, 6 + 9), (0.01, 1 + 1)])
def test_in_each_matrix_the_smallest_move_and_no_others(sparsity, moving):
    x = apart(4, 20)
    after = seen(in_matrices(sparsity=sparsity), 1, x)[0][0]
    for before, now in zip(x, after, strict=True):
        for part in (slice(0, 8), slice(8, 20)):
            small_ones = np.abs(before[part]) <= level(before[part], sparsity)
            assert_array_equal(now[part] != before[part], small_ones)
        assert (now != before).sum() == moving


def test_what_is_above_its_bound_never_moves_however_it_got_there():
    x = apart(4, 20, seed=2)
    bound, frozen = bounds(x, [8, 12], 0.75), 0
    for now in seen(in_matrices(eta=0.05), 60, x)[0]:
        large = np.abs(x) > bound
        assert_array_equal(now[large], x[large])
        frozen, x = large.sum() - 4 * 5, now
    assert frozen > 0  # some grew past it on the way


def test_a_matrix_that_starts_at_zero_takes_part_as_a_whole():
    x = apart(4, 20)
    x[:, 8:] = 0.0
    path = [x, *seen(in_matrices(), 5, x)[0]]
    for before, now in pairwise(path):
        assert (now[:, 8:] != before[:, 8:]).all()


@pytest.mark.parametrize(("graph", "d"), [("ring", 6), ("random", 9)])
def test_every_round_is_the_published_step_node_by_node(graph, d):
    run = small_run("sparse_mezo", graph, seed=5, d=d, sparsity=0.6)
    x = apart(run.graph.n, d)
    h = [level(row, 0.6) for row in x]
    for t, found in enumerate(seen(run, 8, x)[0]):
        for i in range(run.graph.n):
            z = normals(Tape(5), "normal", t, i, size=d)
            z[np.abs(x[i]) > h[i]] = 0.0
            x[i] = x[i] - run.method.eta * (slope(run.problem, i, x[i], z, run.method.mu, t) * z)
        assert_array_equal(found, x)


def test_the_estimator_is_that_of_mezo_on_the_k_small_entries():
    """Of a linear loss: mean P g and mean square (k + 2) ‖P g‖². 40,000 rounds; scores below 5 in all 7
    numbers, which chance breaks 4 times in 10^6."""
    method, g, x = small("sparse_mezo", sparsity=0.5), np.array([1.0, -2, 0.5, 3, 1, 1.5]), apart(1, 6)
    draw = method.draw(World(complete(1), 6), Tape(1), np.arange(40_000))
    state = method.init(np.tile(x, (40_000, 1, 1)))
    z = next(method.step(0, state, draw, None)).u.signs[:, 0]
    small_ones = np.abs(x[0]) <= level(x[0], 0.5)
    estimates, kept = (z @ g)[:, None] * z, np.where(small_ones, g, 0.0)
    assert small_ones.sum() == 3
    assert worst_score(estimates, kept) < 5
    assert worst_score((estimates**2).sum(axis=1), (3 + 2) * (kept @ kept)) < 5


def test_sparsities_share_a_batch():
    runs = [small_run("sparse_mezo", "ring", seed=2, sparsity=s, eta=0.05) for s in (0.2, 0.5, 0.9)]
    alone = [states([run], 30)[0] for run in runs]
    assert_array_equal(states(runs, 30), np.stack(alone))
    x = apart(4, 6)
    paths = [seen(run, 2, x)[0][-1] for run in runs]
    assert not any(np.array_equal(paths[a], paths[b]) for a, b in ((0, 1), (1, 2)))


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_bad_sparsities_are_refused(bad):
    with pytest.raises(InputError, match="sparsity must be a finite number above 0 and below 1"):
        small("sparse_mezo", sparsity=bad)
