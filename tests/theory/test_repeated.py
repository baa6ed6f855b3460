"""Pure mixing over several rounds: the recursion against enumeration, Kronecker products, our simulator."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from zocosmo.graphs import GRAPHS
from zocosmo.methods import EdgeLocal
from zocosmo.oracle import disagreement
from zocosmo.problems import quadratic
from zocosmo.sim import Run, Simulation
from zocosmo.theory import mixing, repeated
from zocosmo.theory.law import Law, centring, complete_law, fixed_law, identity, laplacian, ring_law
from zocosmo.theory.numbers import exact

THIRD = Fraction(1, 3)
LAW = Law.of(4, [([(0, 1), (2, 3)], THIRD), ([(1, 2)], THIRD), ([(0, 3), (1, 2)], THIRD)])
COLUMN = [[1], [-2], [5], [0]]
TAPES = 400


def coin_draws(pairs, p, common):
    """Which pairs average a coordinate, and how likely that is."""
    if common:
        yield pairs, p
        yield [], 1 - p
        return
    for coins in itertools.product((0, 1), repeat=len(pairs)):
        heads = sum(coins)
        yield [e for e, b in zip(pairs, coins, strict=True) if b], p**heads * (1 - p) ** (len(pairs) - heads)


def enumerated(z, laws, p, common):
    """E‖Πz_T‖² of one coordinate by every matching and every coin."""
    if not laws:
        return mixing.energy(z)
    total = Fraction(0)
    for pairs, chance in laws[0].listed():
        for active, likely in coin_draws(pairs, p, common):
            moved = exact("states", z).copy()
            for i, j in active:
                moved[i] = moved[j] = (moved[i] + moved[j]) / 2
            total += chance * likely * enumerated(moved, laws[1:], p, common)
    return total


def second_moment(n, law, p, common):
    """E[A ⊗ A], N² × N² in rationals, written with Kronecker products

    common support:      1 − p + p A_M ⊗ A_M                                   averaged over M
    independent:         1 − ½p (L_M ⊗ 1 + 1 ⊗ L_M) + ¼ Σ_{e,f} E[b_e b_f] L_e ⊗ L_f
                         with E[b_e b_f] = p if e = f, else p²
    """
    one, out = identity(n), np.full((n * n, n * n), Fraction(0), dtype=object)
    for pairs, chance in law.listed():
        each = [laplacian(n, {e: 1}) for e in pairs]
        L = sum(each, np.zeros_like(one))
        if common:
            A = one - L / 2
            moved = (1 - p) * np.kron(one, one) + p * np.kron(A, A)
        else:
            same = sum((np.kron(e, e) for e in each), np.zeros_like(out))
            apart = np.kron(L, L) - same
            moved = np.kron(one, one) - p * (np.kron(L, one) + np.kron(one, L)) / 2
            moved = moved + (p * same + p * p * apart) / 4
        out = out + chance * moved
    return out


@pytest.mark.parametrize("common", [True, False])
@pytest.mark.parametrize("p", [Fraction(1, 4), Fraction(1)])
def test_three_rounds_equal_full_enumeration(p, common):
    Q = repeated.energy_form([LAW] * 3, p=p, common=common)
    z = exact("states", COLUMN)
    assert (z * (Q @ z)).sum() == enumerated(COLUMN, [LAW] * 3, p, common)


@pytest.mark.parametrize("common", [True, False])
def test_the_recursion_is_the_kronecker_operator(common):
    p, Q = Fraction(2, 5), centring(4)
    whole = second_moment(4, LAW, p, common)
    assert (whole @ Q.reshape(-1) == repeated.pulled_back(Q, LAW, p=p, common=common).reshape(-1)).all()
    assert (whole == whole.T).all()


@pytest.mark.parametrize("common", [True, False])
def test_one_round_is_the_expected_energy_of_the_theorem(common):
    Y = np.array([[1, 0, 5], [3, -2, 0], [0, 7, 1], [2, 2, -4]])
    after = repeated.energy_after_rounds(Y, [LAW], q=2, common=common)
    assert after == mixing.energy_after(Y, LAW, q=2)


def test_two_rounds_tell_a_common_support_from_independent_ones():
    """Three pairs: a pair of one round then meets two different pairs of the next."""
    laws = [fixed_law(4, pairs) for pairs in ([(0, 1), (2, 3)], [(1, 2), (0, 3)])]
    z = [[3], [1], [-4], [0]]
    common, apart = (repeated.energy_after_rounds(np.repeat(z, 2, axis=1), laws, q=1, common=c)
                     for c in (True, False))  # fmt: skip
    assert common != apart


@pytest.mark.parametrize("common", [True, False])
def test_isotropic_laws_contract_every_state_by_the_same_factor_in_every_round(common):
    matchings = [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)]]
    law = Law.of(4, [(pairs, THIRD) for pairs in matchings])
    gamma = complete_law(4).lambda2 / 4  # p = 1/2
    path = repeated.energy_path([[1, 0], [-2, 4], [5, 1], [0, 9]], law, 3, q=1, common=common)
    assert path == [path[0] * (1 - gamma) ** t for t in range(4)]


@pytest.mark.parametrize("common", [True, False])
def test_the_asymptotic_rate_is_the_largest_eigenvalue_on_centred_moments(common):
    p, Pi = Fraction(1, 2), centring(4)
    whole = np.kron(Pi, Pi) @ second_moment(4, LAW, p, common)
    rate = repeated.asymptotic_rate([LAW], p=float(p), common=common)
    assert rate == pytest.approx(np.linalg.eigvalsh(whole.astype(float)).max(), rel=1e-12)
    assert rate <= 1 - float(p) * LAW.lambda2 / 2 + 1e-12


@pytest.mark.parametrize("common", [True, False])
def test_late_energies_fall_by_the_asymptotic_rate(common):
    """Over 100 rounds the slower of two close eigenvalues wins by 2 %."""
    Y = np.array([[1.0, 0.0], [-2.0, 4.0], [5.0, 1.0], [0.0, 9.0]])
    path = repeated.energy_path(Y, LAW, 100, q=1, common=common)
    rate = repeated.asymptotic_rate([LAW], p=0.5, common=common)
    assert (path[100] / path[80]) ** (1 / 20) == pytest.approx(rate, rel=0.005)


@pytest.mark.parametrize("common", [True, False])
def test_the_route_for_large_graphs_finds_the_eigenvalue_of_the_dense_one(common, monkeypatch):
    dense = repeated.asymptotic_rate([LAW], p=0.5, common=common)
    monkeypatch.setattr(repeated, "MOST_DENSE", 0)
    assert repeated.asymptotic_rate([LAW], p=0.5, common=common) == pytest.approx(dense, rel=1e-8)


@pytest.mark.parametrize("coupling", ["S", "I"])
def test_our_simulator_mixes_as_the_recursion_says(coupling):
    """η = 0 on an i.i.d. ring, 6 rounds; z from the variance over tapes, |z| < 4 fails one time in 16,000."""
    n, d, q, rounds = 6, 8, 3, 6
    x = np.array([[(3 * i * i + 5 * k) % 7 for k in range(d)] for i in range(n)], float)
    method, graph, problem = (
        EdgeLocal(q=q, eta=0.0, mu=1e-3, coupling=coupling),
        GRAPHS["ring"](n),
        quadratic(n, 0, d=d),
    )
    sim = Simulation([Run(method, graph, problem, seed, "iid") for seed in range(TAPES)])
    sim.state = method.init(np.broadcast_to(x, (TAPES, n, d)).copy())
    for _ in range(rounds):
        sim.round()
    left = n * disagreement(sim.states(), sim.states().mean(axis=-2))
    expected = repeated.energy_after_rounds(x, [ring_law(n)] * rounds, q=q, common=coupling == "S")
    assert abs(left.mean() - expected) < 4 * left.std(ddof=1) / TAPES**0.5
