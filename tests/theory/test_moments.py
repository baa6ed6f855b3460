"""V, U and what they are made of: every identity by enumeration in rationals, then against our own draws."""

from fractions import Fraction as Fr

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from theory.joint import directions, joint_directions, mapped, perfect_matchings
from zocosmo.core import COUPLINGS, Tape
from zocosmo.graphs.graph import complete
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.moments import coupling_coefficients, coupling_moments, crossover, pair_gradients
from zocosmo.theory.steps import curvature_residual, disagreement_step

SIZES = st.integers(1, 40).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, d)))
SMALL = [(3, 2, [[1, 2, -1], [0, 3, 5]]), (3, 1, [[1, 2, -1], [0, 3, 5]]), (3, 3, [[1, 2, -1], [0, 3, 5]])]
LARGER = [(4, 2, [[1, 2, -1, 0], [0, 3, 5, 1], [2, 2, -4, 1]]), (4, 3, [[1, 2, -1, 0], [0, 3, 5, 1]])]


def square(a):
    return int((a * a).sum())


def measured(coupling, q, a):
    """V and U over all draws, in whole numbers until the last division."""
    a = np.array(a)
    m, d = a.shape
    v = mapped(joint_directions(coupling, d, q, m), a, q)  # q · v_e
    total = v.sum(axis=1)
    V = Fr(square(total - q * a.sum(axis=0)), len(v) * (q * m) ** 2)
    U = Fr(square(m * v - total[:, None]), len(v) * (q * m) ** 2 * m)
    return V, U


def fractions_of(a):
    a = np.array(a) * Fr(1)
    mean = a.mean(axis=0)
    return (mean * mean).sum(), ((a - mean) ** 2).sum() / len(a)


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize(("d", "q", "a"), SMALL + LARGER)
def test_moments_equal_full_enumeration(coupling, d, q, a):
    """Every support and sign pattern of two pairs (d = 3 and 4) and of three (d = 4, q = 2)."""
    a2, H2 = fractions_of(a)
    assert coupling_moments(coupling, d=d, q=q, pairs=len(a), a2=a2, H2=H2) == measured(coupling, q, a)


@pytest.mark.parametrize(("H2", "V"), [(0, (31, 13, Fr(31, 4))), (3, (31, 31, 31)), (15, (31, 103, 124))])
def test_the_frozen_state_study_has_these_moments(H2, V):
    """d = 32, q = 4, four pairs and ‖ā‖ = 1: the six numbers that the paper prints, and the crossover."""
    found = [coupling_moments(s, d=32, q=4, pairs=4, a2=1, H2=H2) for s in "GSI"]
    assert tuple(each.V for each in found) == V
    assert {each.V + each.U for each in found} == {31 + 32 * H2}


@settings(max_examples=25)
@given(SIZES, st.integers(1, 9), st.fractions(0, 50), st.fractions(0, 50))
def test_the_sum_of_moments_does_not_depend_on_the_coupling(size, pairs, a2, H2):
    sums = {sum(coupling_moments(s, d=size[0], q=size[1], pairs=pairs, a2=a2, H2=H2)) for s in "GSI"}
    assert sums == {(size[0] - 1) * a2 + size[0] * H2}


@settings(max_examples=25)
@given(SIZES, st.integers(1, 9), st.fractions(0, 50), st.fractions(0, 50), st.permutations("GSI"))
def test_all_three_couplings_cross_at_one_heterogeneity(size, pairs, a2, H2, names):
    """V_r − V_s = (τ_r − τ_s)(H² − (m − 1)‖ā‖²): one factor, one root, for any two of them."""
    sizes = {"d": size[0], "q": size[1], "pairs": pairs}
    one, other = (coupling_moments(s, **sizes, a2=a2, H2=H2).V for s in names[:2])
    slope = coupling_coefficients(names[0], **sizes).tau - coupling_coefficients(names[1], **sizes).tau
    assert one - other == slope * (H2 - (pairs - 1) * a2)


@settings(max_examples=25)
@given(SIZES, st.integers(2, 9), st.permutations("GSI"))
def test_at_the_crossover_two_couplings_agree_and_elsewhere_they_do_not(size, pairs, names):
    sizes = {"d": size[0], "q": size[1], "pairs": pairs}
    at = crossover(*names[:2], **sizes, a2=1)
    gaps = [
        coupling_moments(names[0], **sizes, a2=1, H2=H2).V
        - coupling_moments(names[1], **sizes, a2=1, H2=H2).V
        for H2 in (pairs - 1, pairs, pairs + 5)
    ]
    assert gaps[0] == 0
    assert (at == pairs - 1 and 0 not in gaps[1:]) if at is not None else gaps == [0, 0, 0]


def test_below_the_crossover_independent_pairs_average_best_and_above_it_common_ones():
    below, above = (
        [coupling_moments(s, d=32, q=4, pairs=4, a2=1, H2=H2).V for s in "ISG"] for H2 in (Fr(29, 10), 4)
    )
    assert below == sorted(below)
    assert above == sorted(above, reverse=True)


@pytest.mark.parametrize(("same", "sizes"), [("GS", (6, 1, 3)), ("SI", (6, 6, 3)), ("GI", (6, 2, 1))])
def test_couplings_that_coincide_never_cross(same, sizes):
    d, q, pairs = sizes
    assert crossover(*same, d=d, q=q, pairs=pairs, a2=1) is None


def one_round(coupling, x, g, matching, q, eta):
    """States after every draw, mixed pair by pair as the method does it; (draws, n, d) of Fractions."""
    d = x.shape[1]
    for u in joint_directions(coupling, d, q, len(matching)):
        new = x.copy()
        for e, (i, j) in enumerate(matching):
            y_i, y_j = (x[k] - eta * Fr(d, q) * u[e] * (u[e] @ g[k]) for k in (i, j))
            new[i], new[j] = (np.where(u[e] != 0, (y_i + y_j) / 2, y) for y in (y_i, y_j))
        yield new


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize("matching", [[(0, 1), (2, 3)], [(0, 3), (2, 1)]])
def test_the_disagreement_step_equals_full_enumeration(coupling, matching):
    """d = 3, q = 2, two pairs: every draw is mixed literally, with queries and mixing on one support."""
    rng, eta = np.random.default_rng(4), Fr(1, 7)
    x, g = (rng.integers(-4, 5, (4, 3)) * Fr(1) for _ in range(2))
    after = [fractions_of(new)[1] for new in one_round(coupling, x, g, matching, 2, eta)]
    found = disagreement_step(coupling, x, g, matching=matching, q=2, eta=eta)
    assert found.after == sum(after) / len(after)


@pytest.mark.parametrize("coupling", "GSI")
def test_one_round_from_the_optimum_leaves_it_by_tau_times_the_heterogeneity(coupling):
    """x_i = 0 and Σ b_i = 0: E‖x̄⁺‖² = η² τ E_M H_M² over every draw and matching of four nodes

    [prop:corr_quadratic]
    """
    b = np.array([[1, 2, 0], [-3, 1, 1], [0, 0, -2], [2, -3, 1]]) * Fr(1)
    eta, every = Fr(1, 5), perfect_matchings([0, 1, 2, 3])
    moved = [
        (new.mean(axis=0) ** 2).sum()
        for pairs in every
        for new in one_round(coupling, 0 * b, b, pairs, 2, eta)
    ]
    H2 = sum(pair_gradients(b, pairs).H2 for pairs in every) / len(every)
    tau = coupling_coefficients(coupling, d=3, q=2, pairs=2).tau
    assert eta**2 * tau * H2 == sum(moved) / len(moved)


def test_under_common_directions_the_average_sees_neither_the_matching_nor_the_linear_terms():
    """x̄⁺ = x̄ − η D H x̄ with one curvature and Σ b_i = 0   [eq:corr_cancellation]"""
    rng, eta, h = np.random.default_rng(2), Fr(1, 9), np.array([1, 2, 5]) * Fr(1)
    x = rng.integers(-4, 5, (4, 3)) * Fr(1)
    b = np.array([[1, 2, 0], [-3, 1, 1], [0, 0, -2], [2, -3, 1]]) * Fr(1)
    mean = x.mean(axis=0)
    for matching in perfect_matchings([0, 1, 2, 3]):
        draws = joint_directions("G", 3, 2, 2)[:, 0]
        for u, new in zip(draws, one_round("G", x, h * x + b, matching, 2, eta), strict=True):
            assert (new.mean(axis=0) == mean - eta * Fr(3, 2) * u * (u * h * mean).sum()).all()


def test_unequal_curvatures_leave_the_residual_and_it_keeps_its_bound():
    rng = np.random.default_rng(3)
    H, b, x = (rng.integers(-4, 5, (4, 3)) * Fr(1) for _ in range(3))
    found = curvature_residual(H, x)
    gradient = H.mean(axis=0) * x.mean(axis=0) + b.mean(axis=0)  # ∇F(x̄)
    assert ((H * x + b).mean(axis=0) == gradient + found.r).all()
    assert found.r2 <= found.bound
    estimates = [(Fr(3, 2) * u * (u @ found.r)) for draws in directions(3, 2) for u in draws]
    assert found.applied == sum((e * e).sum() for e in estimates) / len(estimates) == 3 * found.r2


def test_floats_are_answered_in_floats_and_agree_with_fractions():
    x, g = np.random.default_rng(5).integers(-4, 5, (2, 6, 5))
    pairs = [(0, 1), (2, 3), (4, 5)]
    exact = disagreement_step("S", x, g, matching=pairs, q=2, eta=Fr(1, 8))
    rough = disagreement_step("S", x * 1.0, g * 1.0, matching=pairs, q=2, eta=0.125)
    assert {type(part) for part in exact} == {Fr}
    assert all(isinstance(part, float) for part in rough)
    assert rough == pytest.approx([float(part) for part in exact], rel=1e-12)


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda: coupling_moments("X", d=4, q=2, pairs=2, a2=1, H2=0), "'X'"),
        (lambda: coupling_moments("G", d=4, q=5, pairs=2, a2=1, H2=0), "q = 5"),
        (lambda: coupling_moments("G", d=4, q=2, pairs=0, a2=1, H2=0), "pairs must be 1 or more, got 0"),
        (lambda: coupling_moments("G", d=4, q=2, pairs=2, a2=-1, H2=0), "-1"),
        (lambda: pair_gradients([[1], [2], [3]], [(0, 1)]), "3 nodes"),
        (lambda: disagreement_step("G", [[1], [2]], [[1]], matching=[(0, 1)], q=1, eta=1), "shape"),
        (lambda: curvature_residual([[1]], [[1, 1]]), "shape"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_was_found(call, found):
    with pytest.raises(ValueError, match=found):
        call()


def dense(u, shape):
    out = np.zeros((*shape, u.d))
    np.put_along_axis(
        out, np.broadcast_to(u.index, (*shape, u.q)), np.broadcast_to(u.signs, (*shape, u.q)), -1
    )
    return out


def z_score(samples, expected):
    """From the samples' own variance, as rounds and tapes are independent; without any, 0 or infinity."""
    if not samples.std():
        return 0 if samples[0] == expected else np.inf
    return abs(samples.mean() - expected) / (samples.std(ddof=1) / np.sqrt(len(samples)))


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize("H2", [0, 3, 15])
def test_directions_that_our_code_draws_have_these_moments(coupling, H2):
    """3,000 rounds of one tape at the paper's sizes: |z| < 4 for V and for U, from their own variance."""
    rng, m, d, q = np.random.default_rng(H2), 4, 32, 4
    a = rng.normal(size=(m, d))
    a -= a.mean(axis=0)
    a *= np.sqrt(H2 * m / (a * a).sum())
    a += np.eye(d)[0]  # ‖ā‖ = 1
    t = np.arange(3000)
    u = COUPLINGS[coupling].by_node(Tape(f"V {H2}"), t, np.tile(np.arange(8) ^ 1, (3000, 1)), d=d, q=q)
    v = mapped(dense(u, (3000, 8))[:, ::2], a, q) / q
    off = v.mean(axis=1) - a.mean(axis=0)
    expected = coupling_moments(coupling, d=d, q=q, pairs=m, a2=1, H2=H2)
    assert z_score((off**2).sum(axis=1), float(expected.V)) < 4
    assert z_score(((v - v.mean(axis=1, keepdims=True)) ** 2).sum(axis=2).mean(axis=1), float(expected.U)) < 4


@pytest.mark.parametrize("coupling", "GSI")
def test_a_round_of_the_real_method_leaves_the_disagreement_that_is_expected(coupling):
    """EdgeLocal in the simulator, 800 tapes from the same unequal states: |z| < 4 from their own variance.

    The matching of two pairs is drawn anew by each tape, so the expectation is the mean over all three.
    """
    rng, n, d = np.random.default_rng(6), 4, 12
    half, b, x = rng.uniform(0.5, 2, (n, d)), rng.normal(size=(n, d)), rng.normal(size=(n, d))
    problem = Quadratic(half, b, 0.0, None)
    method = EdgeLocal(eta=0.02, mu=1e-3, q=3, coupling=coupling)
    simulation = Simulation([Run(method, complete(n), problem, f"step {k}") for k in range(800)])
    simulation.state = simulation.method.init(np.tile(x, (800, 1, 1)))
    simulation.round()
    apart = simulation.checkpoint().disagreement
    steps = [
        disagreement_step(coupling, x, 2 * half * x + b, matching=pairs, q=3, eta=0.02).after
        for pairs in perfect_matchings(list(range(n)))
    ]
    assert z_score(apart, np.mean(steps)) < 4
