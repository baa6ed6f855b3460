"""A public subspace: every permutation and sign of small ones. Touches until nodes agree."""

import math
from fractions import Fraction as Fr
from itertools import permutations, product

import numpy as np
import pytest

from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import complete_law, ring_law
from zocosmo.theory.subspace import kept, stretch, together
from zocosmo.theory.touches import largest_subspace, rounds_to_agree, share_left, touches_needed

SIZES = [(4, 2), (4, 4), (5, 2), (5, 3), (4, 1)]
H = np.array([[2, 1, 0, -1, 3], [1, 3, 2, 0, 1], [0, 2, 1, 1, 0], [-1, 0, 1, 4, 2], [3, 1, 0, 2, 5]])
g5 = np.array([1, -2, 3, 1, 2])


def subspaces(d, m):
    """P √(d/m) of every permutation and sign, (count, d, m)."""
    places = np.array(list({tuple(c % m for c in order) for order in permutations(range(d))}))
    for where in places:
        for signs in product((1, -1), repeat=d):
            P = np.zeros((d, m), int)
            P[np.arange(d), where] = signs
            yield P


@pytest.mark.parametrize(("d", "m"), SIZES)
def test_a_subspace_keeps_gradients_and_traces_in_proportion(d, m):
    g, A = g5[:d], H[:d, :d]
    norms, traces = [], []
    for P in subspaces(d, m):
        norms.append(int(((P.T @ g) ** 2).sum()))
        traces.append(int(np.trace(P.T @ A @ P)))
    part, count = Fr(m, d), len(norms)
    told = kept(g, m, trace=int(np.trace(A)))
    mean = Fr(sum(norms), count)
    assert told.gradient == part * mean == part * int(g @ g)
    assert told.trace == part * Fr(sum(traces), count)
    assert told.deviation2 == part**2 * (Fr(sum(v * v for v in norms), count) - mean**2)


@pytest.mark.parametrize(("d", "m"), SIZES)
def test_lengths_stretch_by_the_sizes_of_groups(d, m):
    found = {tuple((P * P).sum(axis=0)) for P in subspaces(d, m)}
    sizes = [Fr(m, d) * int(size) for each in found for size in each]
    assert stretch(d, m) == (min(sizes), max(sizes))
    assert (stretch(d, m) == (1, 1)) == (d % m == 0)


@pytest.mark.parametrize(("d", "m"), SIZES)
def test_two_coordinates_fall_together(d, m):
    same = [h[0] == h[1] for h in ([c % m for c in order] for order in permutations(range(d)))]
    assert together(d, m) == Fr(sum(same), len(same))


def test_a_large_subspace_hardly_varies():
    """Relative variance 2/m at most: 2.2 % of standard deviation for 4,096 dimensions of a LoRA."""
    g, m = np.ones(8192), 512
    found = kept(g, m)
    assert found.deviation2 / found.gradient**2 <= 2 / m


def test_touches_on_a_complete_graph_are_exact():
    """Without steps E disagreement falls by 1 − γ q/m, γ = λ₂/2, in every round: equal in rationals."""
    law, still = complete_law(4), Quadratics([[1, 2, 3]] * 4, [[0] * 3] * 4)
    x0 = [[1, 0, 2], [-1, 1, 0], [2, 2, -1], [0, -2, 1]]
    found = expectation(still, law, coupling="I", q=2, eta=0, rounds=5, x0=x0).disagreement
    for T in range(6):
        assert found[T] == share_left(3, 2, T, law.lambda2 / 2) * found[0]


def test_touches_on_a_ring_are_enough():
    law, still = ring_law(8), Quadratics([[1.0, 2.0]] * 8, [[0] * 2] * 8)
    x0 = np.cos(2 * math.pi * np.arange(8) / 8)[:, None] * [1.0, 2.0]
    gap = float(law.lambda2) / 2
    T = rounds_to_agree(2, 1, gap, 0.01)
    found = expectation(still, law, coupling="G", q=1, eta=0.0, rounds=T, x0=x0).disagreement
    assert found[T] <= 0.01 * found[0] * (1 + 1e-9)
    assert found[1] == pytest.approx(float(share_left(2, 1, 1, gap)) * found[0])  # x0 is the slowest mode
    assert T / 2 <= touches_needed(gap, 0.01) < T / 2 + gap * T


@pytest.mark.parametrize(
    ("q", "m", "gap", "left"), [(1, 7, 0.3, 0.1), (8, 64, 0.146, 0.01), (4, 4, 0.5, 0.5)]
)
def test_rounds_to_agree_are_the_least(q, m, gap, left):
    T = rounds_to_agree(m, q, gap, left)
    assert share_left(m, q, T, gap) <= left < share_left(m, q, T - 1, gap)


def test_the_largest_subspace_has_touches_enough():
    m = largest_subspace(64, 400, 0.5, 0.01)
    assert 400 * 64 / m >= touches_needed(0.5, 0.01) > 400 * 64 / (m + 1)
    assert share_left(m, 64, 400, 0.5) <= 0.01
    assert largest_subspace(64, 3, 0.1, 0.01) == 64


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: touches_needed(0, 0.1), "gap = 0"),
        (lambda: touches_needed(0.5, 1), "left = 1"),
        (lambda: stretch(4, 5), "q = 5|5 coordinates of d = 4"),
    ],
)
def test_what_has_no_meaning_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
