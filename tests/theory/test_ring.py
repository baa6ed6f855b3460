"""The alternating ring: the block form by enumeration in rationals, its closed form, the published bound."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from zocosmo.theory import mixing, repeated, ring
from zocosmo.theory.law import centring, fixed_law, identity, laplacian, ring_phases
from zocosmo.theory.numbers import exact

SIZES = [4, 6, 8, 10, 16, 34, 100]
SHARES = [(1, 1000), (1, 32), (1, 8), (1, 4), (1, 2), (3, 4), (1, 1)]
BOTH = pytest.mark.parametrize("common", [True, False], ids=["common", "independent"])


def average(X, pairs, supports):
    X = X.copy()
    for (i, j), S in zip(pairs, supports, strict=True):
        X[[i, j], S] = (X[i, S] + X[j, S]) / 2
    return X


def draws(pairs, d, q, common):
    """Every support of every pair; equally likely."""
    subsets = [np.array(S)[:, None] for S in itertools.combinations(range(d), q)]
    repeat = 1 if common else len(pairs)
    for chosen in itertools.product(subsets, repeat=repeat):
        yield chosen * len(pairs) if common else chosen


def block_laws(n):
    return [fixed_law(n, pairs) for pairs in ring_phases(n)]


def block_form(n, p, common):
    """Q with E‖ΠX₂‖² = tr(X₀ᵀ Q X₀), in rationals if p is one."""
    return repeated.energy_form(block_laws(n), p=p, common=common)


def states(n, d):
    return exact("states", [[(7 * i * i + 3 * k * i + k) % 11 for k in range(d)] for i in range(n)])


@BOTH
@pytest.mark.parametrize(("n", "d", "q"), [(4, 2, 1), (4, 3, 2), (6, 2, 1), (4, 3, 3)])
def test_the_block_form_equals_every_draw_of_both_rounds(n, d, q, common):
    first, second = ring_phases(n)
    X = states(n, d)
    after = [
        mixing.energy(average(average(X, first, S), second, R))
        for S in draws(first, d, q, common)
        for R in draws(second, d, q, common)
    ]
    Q = block_form(n, Fraction(q, d), common)
    assert (X * (Q @ X)).sum() == Fraction(sum(after), len(after))


@BOTH
@pytest.mark.parametrize("n", [4, 6, 10])
@pytest.mark.parametrize(("q", "d"), SHARES)
def test_the_block_form_is_the_formula_of_the_module(n, q, d, common):
    """(1 − p) B + p A₀BA₀, and Ā₀BĀ₀ outside the pairs of phase 0; all in rationals."""
    p, one = Fraction(q, d), identity(n)
    L0, L1 = (laplacian(n, dict.fromkeys(pairs, 1)) for pairs in ring_phases(n))
    A, mean, B = one - L0 / 2, one - p * L0 / 2, centring(n) - p * L1 / 2
    together = (1 - p) * B + p * (A @ B @ A)
    expected = np.where((L0 != 0) | common, together, mean @ B @ mean)
    assert (block_form(n, p, common) == expected).all()


@BOTH
@pytest.mark.parametrize("n", [4, 6, 10, 16, 34])
@pytest.mark.parametrize(("q", "d"), SHARES)
def test_the_closed_form_is_the_largest_eigenvalue_on_centred_states(n, q, d, common):
    """In floats: an eigenvalue near 1 is known to about 1e-15, and so is the gap below it."""
    Q = block_form(n, q / d, common)
    gap = 1 - np.linalg.eigvalsh(Q).max()  # the constant vector has eigenvalue 0 here
    assert ring.block_gap(n, q=q, d=d, common=common) == pytest.approx(gap, abs=1e-13)


@BOTH
@pytest.mark.parametrize("n", SIZES)
def test_the_published_bound_is_loose_by_three_to_six(n, common):
    """3 where supports are small, 6 cos²(π/N) where they are everything, and always in between."""
    loose = [ring.looseness(n, q=q, d=d, common=common) for q, d in SHARES]
    most = 6 * math.cos(math.pi / n) ** 2
    assert all(3 - 1e-9 <= each <= most + 1e-9 for each in loose)
    assert loose[-1] == pytest.approx(most, rel=1e-12)
    assert loose[0] == pytest.approx(3, rel=2e-3)


@BOTH
@pytest.mark.parametrize(("q", "d"), SHARES)
def test_four_nodes_contract_by_p_and_the_bound_is_loose_by_exactly_three(q, d, common):
    assert ring.block_gap(4, q=q, d=d, common=common) == pytest.approx(q / d, rel=1e-12)
    assert ring.looseness(4, q=q, d=d, common=common) == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize("n", [4, 8])
def test_common_and_independent_supports_are_alike_on_rings_of_four_and_eight(n):
    """κ stands beside cos(4π/N), which is 0 at N = 8; at N = 4 the sum wave is the slower one under both."""
    common, apart = (ring.block_gap(n, q=1, d=3, common=c) for c in (True, False))
    assert common == pytest.approx(apart, rel=1e-13)


def test_common_and_independent_supports_differ_on_a_ring_of_ten():
    common, apart = (ring.block_gap(10, q=1, d=2, common=c) for c in (True, False))
    assert (round(common, 4), round(apart, 4)) == (0.1455, 0.1445)


@BOTH
@pytest.mark.parametrize("n", [4, 8, 16])
def test_the_witness_loses_exactly_the_gap(n, common):
    """Its floats are rationals, so the energies below are exact; only the eigenvector is rounded."""
    v = ring.block_witness(n, q=1, d=4, common=common)
    z = exact("states", [[Fraction(each)] for each in v.tolist()])
    Q = block_form(n, Fraction(1, 4), common)
    kept = (z * (Q @ z)).sum() / mixing.energy(z)
    assert float(1 - kept) == pytest.approx(ring.block_gap(n, q=1, d=4, common=common), rel=1e-11)


@BOTH
def test_blocks_in_the_long_run_are_faster_than_the_worst_block(common):
    laws = block_laws(8)
    rate = repeated.asymptotic_rate(laws, p=0.25, common=common)
    assert 0 < rate <= 1 - ring.block_gap(8, q=1, d=4, common=common) + 1e-12


@pytest.mark.parametrize("n", [2, 3, 5, 0])
def test_rings_without_two_perfect_matchings_are_refused(n):
    with pytest.raises(ValueError, match=rf"n must be 4 or more, got {n}|a ring of {n} nodes"):
        ring.block_gap(n, q=1, d=2, common=True)
