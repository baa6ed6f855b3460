"""V and U with noise and stored momentum: over every draw of directions and of a two-point noise, exactly."""

from fractions import Fraction as Fr
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.joint import joint_directions
from zocosmo.core import Tape
from zocosmo.graphs.graph import ring
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.problems.quadratic import Noise, Quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.moments import coupling_moments, pair_gradients, pair_means
from zocosmo.theory.momentum import momentum_energy, momentum_gap, momentum_moments, psi

A = np.array([[1, 2, -1], [0, 3, 5]]) * Fr(1)
C = np.array([[2, 0, 1], [-1, 1, 3]]) * Fr(1)
NOISE = np.array([[1, 0, 2], [0, 0, 0], [3, -1, 0], [1, 1, 1]]) * Fr(1, 2)  # ± this, node by node
BETAS = [Fr(0), Fr(1, 2), Fr(9, 10)]
ROWS = st.lists(st.lists(st.integers(-5, 5), min_size=3, max_size=3), min_size=6, max_size=6)


def updates(coupling, a, c, q, beta, noises):
    """w_e = β P_e c_e + θ D_e (a_e + ε_e) for every draw of directions and noise: lists of (pairs, d)."""
    m, d = a.shape
    for u in joint_directions(coupling, d, q, m):
        for noise in noises:
            slope = (u * (a + noise)).sum(axis=1)
            yield beta * (u * u) * c + (1 - beta) * Fr(d, q) * u * slope[:, None]


def measured(draws):
    draws = np.array(list(draws))
    means = draws.mean(axis=1)
    V = ((means - means.mean(axis=0)) ** 2).sum() / len(draws)
    U = ((draws - means[:, None]) ** 2).sum() / (len(draws) * draws.shape[1])
    return V, U


def two_point(noise):
    """ε_e of every choice of signs at the nodes; pairs are (0, 1), (2, 3)."""
    for signs in product((-1, 1), repeat=len(noise)):
        own = noise * np.array(signs)[:, None]
        yield (own[::2] + own[1::2]) / 2


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("q", [1, 2, 3])
def test_moments_with_momentum_equal_full_enumeration(coupling, beta, q):
    """d = 3, two pairs, every support and sign."""
    found = measured(updates(coupling, A, C, q, beta, [0 * A]))
    assert momentum_moments(coupling, A, C, q=q, beta=beta) == found


@pytest.mark.parametrize("coupling", "GSI")
def test_moments_of_three_pairs_equal_full_enumeration(coupling):
    """d = 3, q = 2, three pairs: 1,728 draws under I."""
    a, c = np.vstack([A, [[2, -2, 1]]]), np.vstack([C, [[0, 4, -1]]])
    found = measured(updates(coupling, a, c, 2, Fr(2, 3), [0 * a]))
    assert momentum_moments(coupling, a, c, q=2, beta=Fr(2, 3)) == found


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize("beta", BETAS[:2])
def test_moments_with_noise_equal_full_enumeration(coupling, beta):
    """Each node's error is ± a vector of its own: unequal variances, no isotropy, all 16 patterns."""
    sigma2 = (NOISE**2).sum() / 4
    found = measured(updates(coupling, A, C, 2, beta, list(two_point(NOISE))))
    assert momentum_moments(coupling, A, C, q=2, beta=beta, sigma2=sigma2) == found


@pytest.mark.parametrize("coupling", "GSI")
@settings(max_examples=15)
@given(ROWS, st.integers(1, 3), st.fractions(0, 3))
def test_without_momentum_they_are_the_plain_moments_and_the_share_of_noise(coupling, rows, q, sigma2):
    """V gains dσ²/N and U gains dσ² (1/2 − 1/N), whatever the coupling."""
    a = np.array(rows) * Fr(1)
    mean = a.mean(axis=0)
    a2, H2 = (mean**2).sum(), ((a - mean) ** 2).sum() / 6
    plain = coupling_moments(coupling, d=3, q=q, pairs=6, a2=a2, H2=H2)
    expected = plain.V + sigma2 * Fr(3, 12), plain.U + 3 * sigma2 * (Fr(1, 2) - Fr(1, 12))
    assert momentum_moments(coupling, a, 0 * a, q=q, beta=0, sigma2=sigma2) == expected


@settings(max_examples=15)
@given(ROWS, st.integers(1, 3), st.fractions(0, Fr(99, 100)))
def test_psi_is_its_printed_form_and_never_negative(rows, q, beta):
    (a, c), p, theta = np.array(rows[:2]) * Fr(1), Fr(q, 3), 1 - beta
    printed = beta**2 * p * (1 - p) * (c @ c) + theta**2 * 2 * (a @ a) + 2 * beta * theta * (1 - p) * (c @ a)
    found = psi(a, c, q=q, beta=beta)
    assert found.total == printed >= 0
    assert min(found) >= 0


@settings(max_examples=15)
@given(ROWS, st.integers(1, 3), st.fractions(0, Fr(99, 100)), st.permutations("GSI"))
def test_gaps_are_differences_of_moments_and_noise_drops_out(rows, q, beta, names):
    a, c = np.array(rows[:3]), np.array(rows[3:])
    one, other = (momentum_moments(s, a, c, q=q, beta=beta, sigma2=7).V for s in names[:2])
    assert momentum_gap(*names[:2], a=a, c=c, q=q, beta=beta) == one - other


@settings(max_examples=15)
@given(ROWS, st.integers(1, 3), st.fractions(0, Fr(99, 100)))
def test_momentum_does_not_move_the_point_where_common_and_own_signs_agree(rows, q, beta):
    """S − G is θ² (d − 1/p)(H² − (m − 1)‖ā‖²)/m: no c in it."""
    a, c = np.array(rows[:3]) * Fr(1), np.array(rows[3:]) * Fr(1)
    mean = a.mean(axis=0)
    H2, a2 = ((a - mean) ** 2).sum() / 3, (mean**2).sum()
    expected = (1 - beta) ** 2 * (3 - Fr(3, q)) * (H2 - 2 * a2) / 3
    assert momentum_gap("S", "G", a=a, c=c, q=q, beta=beta) == expected


def test_with_momentum_the_three_couplings_need_not_meet():
    """At H² = (m − 1)‖ā‖² S and G still agree, and I does not."""
    a, c = [[2, 0, 0], [0, 0, 0]], [[0, 0, 0], [4, 0, 0]]
    gaps = [momentum_gap(*names, a=a, c=c, q=2, beta=Fr(1, 2)) for names in ("SG", "IG")]
    assert gaps[0] == 0 != gaps[1]


@settings(max_examples=15)
@given(ROWS, st.integers(1, 3), st.fractions(0, Fr(99, 100)))
def test_the_energy_is_the_sum_for_every_coupling(rows, q, beta):
    a, c = np.array(rows[:3]), np.array(rows[3:])
    sums = {sum(momentum_moments(s, a, c, q=q, beta=beta, sigma2=2)) for s in "GSI"}
    assert sums == {momentum_energy(a, c, q=q, beta=beta, sigma2=2)}


@settings(max_examples=15)
@given(ROWS, ROWS, st.fractions(0, Fr(99, 100)))
def test_the_virtual_average_moves_by_the_average_estimate(states, estimates, beta):
    """z = x̄ − η a_β m̄ obeys z⁺ = z − η ḡ   [eq:momentum_virtual_average]

    Six nodes with supports of their own; mixing keeps averages, so it is left out. On each node the applied
    direction is v = ĝ − a_β (m⁺ − m)   [eq:sparse_momentum_identity]
    """
    eta, x, m = Fr(1, 7), np.array(states) * Fr(1), np.array(estimates[::-1]) * Fr(1)
    on, a_beta = np.arange(3) == np.array([[k % 3] for k in range(6)]), beta / (1 - beta)
    g = np.where(on, estimates, 0) * Fr(1)
    m_new = np.where(on, beta * m + (1 - beta) * g, m)
    v = np.where(on, m_new, 0)
    assert (v == g - a_beta * (m_new - m)).all()
    z, z_new = ((y - eta * a_beta * stored).mean(axis=0) for y, stored in ((x, m), (x - eta * v, m_new)))
    assert (z_new == z - eta * g.mean(axis=0)).all()


def z_score(samples, expected):
    """From the samples' own variance; they are independent tapes."""
    return abs(samples.mean() - expected) / (samples.std(ddof=1) / np.sqrt(len(samples)))


@pytest.mark.parametrize("coupling", "GSI")
def test_a_round_of_the_real_method_has_these_moments(coupling):
    """EdgeLocal from unequal states and momenta with Gaussian noise, 800 tapes: |z| < 4 for V and U.

    The alternating ring gives every tape the matching (0,1), (2,3), (4,5); w̄ is (x̄ − x̄⁺)/η, and U is read
    from x_i + x_j, whose mixing cancels within a pair: w_e = (x_i + x_j − x_i⁺ − x_j⁺)/2η.
    """
    rng, n, d, q, beta, eta = np.random.default_rng(7), 6, 12, 3, 0.8, 0.05
    half, b, x, m = (rng.normal(size=(n, d)) for _ in range(4))
    method = EdgeLocal(eta=eta, mu=1e-2, q=q, coupling=coupling, beta=beta)
    noises = [Noise(Tape(f"noise {k}"), range(n), d) for k in range(800)]
    problems = [Quadratic(half, b, 1.5, noise) for noise in noises]
    runs = [Run(method, ring(n), problem, f"tape {k}") for k, problem in enumerate(problems)]
    w = applied(runs, x, m) / eta
    pairs = [(0, 1), (2, 3), (4, 5)]
    a, c = pair_gradients(2 * half * x + b, pairs).a, pair_means(m, pairs)
    V, U = momentum_moments(coupling, a, c, q=q, beta=beta, sigma2=1.5**2)
    nu, mean = beta * q / d * c.mean(axis=0) + (1 - beta) * a.mean(axis=0), w.mean(axis=1)
    assert z_score(((mean - nu) ** 2).sum(axis=1), V) < 4
    assert z_score(((w - mean[:, None]) ** 2).sum(axis=2).mean(axis=1), U) < 4


def applied(runs, x, m):
    """η w_e of the first round, (runs, pairs, d)."""
    simulation = Simulation(runs)
    state = simulation.method.init(np.tile(x, (len(runs), 1, 1)))
    simulation.state = state._replace(m=np.tile(m, (len(runs), 1, 1)))
    simulation.round()
    moved = x - simulation.states()
    return (moved[:, ::2] + moved[:, 1::2]) / 2


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: momentum_moments("X", A, C, q=2, beta=0), "'X'"),
        (lambda: momentum_moments("G", A, C, q=2, beta=1), "beta = 1"),
        (lambda: momentum_moments("G", A, C[:1], q=2, beta=0), "shape"),
        (lambda: momentum_moments("G", A, C, q=4, beta=0), "q = 4"),
        (lambda: momentum_moments("G", A, C, q=2, beta=0, sigma2=-1), "-1"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()
