"""K directions: moments against every support, sign, row and noise there is, in whole numbers."""

from fractions import Fraction as Fr
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from theory.many import estimates, lifted, losses, sign_draws, uncorrelated
from zocosmo.theory import sides
from zocosmo.theory.directions import (
    SIGNS,
    Directions,
    common,
    critical_alike,
    cross,
    norm_factor,
    order,
    query_noise,
    scatter,
)
from zocosmo.theory.moments import coupling_moments

H5 = np.array([[2, 4, -2, 0, 6], [4, 6, 2, -4, 0], [-2, 2, 4, 2, 8], [0, -4, 2, -2, 2], [6, 0, 8, 2, 2]])
X5, B5 = np.array([1, -2, 0, 3, 1]), np.array([0, 1, -1, 2, 5])
INDEPENDENT = [(3, 2, 1), (3, 2, 2), (4, 3, 2), (4, 4, 2), (3, 2, 3), (5, 1, 2)]
ORTHOGONAL = [
    (3, 2, 2),
    (4, 3, 2),
    (4, 3, 3),
    (4, 3, 4),
    (4, 4, 2),
    (4, 4, 4),
    (5, 5, 2),
    (5, 5, 3),
    (5, 3, 3),
]
CASES = [(*size, "independent") for size in INDEPENDENT] + [(*size, "orthogonal") for size in ORTHOGONAL]


def square(a):
    return int((a * a).sum())


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize(("d", "q", "K", "signs"), CASES)
def test_mean_and_second_moment_equal_full_enumeration(d, q, K, signs, sides):
    """A quadratic with a full Hessian, μ = 3: every support, sign and choice of rows."""
    H, x, b = H5[:d, :d], X5[:d], B5[:d]
    found = estimates(x, H, b, lifted(d, q, K, signs), 3, sides)
    by, g = Fr(d, q * K * 3 * sides), H @ x + b
    assert [by * Fr(int(each), len(found)) for each in found.sum(axis=0)] == list(g)
    told = scatter(g, H, q=q, directions=Directions(K=K, signs=signs, sides=sides, mu=3))
    assert told.total == by**2 * Fr(square(found), len(found))
    assert (told.bend > 0) == (sides == 1)


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize(("d", "q", "K", "signs"), [c for c in CASES if c[1] * c[2] <= 9])
def test_noisy_queries_equal_full_enumeration(d, q, K, signs, sides):
    """ω = 5 at every evaluation; on one side that of f(x) is in all K slopes."""
    x, b, H = X5[:d], B5[:d], np.diag(np.diagonal(H5))[:d, :d]
    u = lifted(d, q, K, signs)
    noise = 5 * uncorrelated(2 * K if sides == 2 else K + 1)
    found = estimates(x, H, b, u[:, None], 2, sides, noise[None])
    by, how = Fr(d, q * K * 2 * sides), Directions(K=K, signs=signs, sides=sides, mu=2, omega=5)
    told = scatter(H @ x + b, H, q=q, directions=how)
    count = len(u) * len(noise)
    assert told.total == by**2 * Fr(square(found), count)
    quiet = estimates(x, H, b, u, 2, sides)
    for c in range(d):
        extra = Fr(square(found[..., c]), count) - Fr(square(quiet[..., c]), len(u))
        assert query_noise(d, q, c, how) == extra / (K * 2 * sides) ** 2


@pytest.mark.parametrize(("d", "q", "K", "signs"), CASES)
def test_what_all_directions_share_meets_their_mean_sign(d, q, K, signs):
    """On one side the lowest coordinate of S takes most of it under orthogonal signs."""
    u = lifted(d, q, K, signs)
    for c in range(d):
        assert common(d, q, c, Directions(K=K, signs=signs)) == Fr(square(u.sum(axis=1)[:, c]), len(u) * K**2)


@pytest.mark.parametrize(("d", "q", "K", "signs"), CASES)
def test_curvature_on_one_side_by_coordinate_and_node(d, q, K, signs):
    u = lifted(d, q, K, signs)
    h = np.array([[1, 3, -2, 5, 2], [2, 0, 4, -1, 7]])[:, :d]
    how, on = Directions(K=K, signs=signs, sides=1, mu=2), np.abs(u[:, 0])
    told = sides.added((h.T * Fr(1)).astype(object), q, Fr(0), how)
    traces = on @ h.T  # (draws, nodes)
    seen = u.sum(axis=1)[:, :, None] * traces[:, None, :]  # (draws, d, nodes)
    for c in range(d):
        assert (told[c] == (seen[:, c].T @ seen[:, c]) * Fr(1, len(u) * K**2)).all()


@pytest.mark.parametrize("signs", SIGNS)
def test_a_sample_that_directions_share_is_not_averaged_and_rows_are(signs):
    """ξ_k = ±2 at every entry; of its own for each direction with rows, else common."""
    d, q, K = 4, 3, 2
    u, zero = lifted(d, q, K, signs), np.zeros((d, d), int)
    for rows, size in ((False, d), (True, K * d)):
        xi = 2 * uncorrelated(size).reshape(-1, K if rows else 1, d)
        slope = (u[:, None] * xi[None]).sum(axis=-1)
        found = (slope[..., None] * u[:, None]).sum(axis=-2)
        told = scatter([0] * d, zero, q=q, sigma2=4 * d, directions=Directions(K=K, signs=signs, rows=rows))
        assert told.total == Fr(d, q * K) ** 2 * Fr(square(found), len(u) * len(xi))


@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 128), st.sampled_from(SIGNS))
def test_the_factor_in_its_other_form(q, more, K, signs):
    d, Q = q + more, order(q)
    if signs == "independent":
        assert norm_factor(d, q, Directions(K=K)) == Fr(d, q) * Fr(q + K - 1, K)
    elif K <= Q and Q > 1:
        told = Fr(d, q) * (q + Fr((K - 1) * (Q - q), Q - 1)) / K
        assert norm_factor(d, q, Directions(K=K, signs=signs)) == told


@pytest.mark.parametrize("q", [1, 2, 4, 8])
def test_as_many_orthogonal_directions_as_coordinates_are_the_gradient(q):
    """C = I: κ = 0, except for q = 1, where there is nothing to cross."""
    how = Directions(K=q, signs="orthogonal")
    drawn = sign_draws(q, q, "orthogonal") if q < 8 else sign_draws(8, 2, "orthogonal")[:1]
    if q < 8:
        assert (drawn.swapaxes(1, 2) @ drawn == q * np.eye(q)).all()
    assert norm_factor(3 * q, q, how) == 3
    assert cross(q, how) == (0 if q > 1 else 1)


@given(st.integers(2, 64), st.data())
def test_orthogonal_signs_never_scatter_more(q, data):
    K = data.draw(st.integers(1, order(q)))
    loose, tight = (cross(q, Directions(K=K, signs=signs)) for signs in SIGNS)
    assert tight <= loose
    assert (tight < loose) == (K > 1)


@pytest.mark.parametrize("signs", SIGNS)
def test_one_side_has_the_mean_of_two_on_any_loss(signs):
    """f(x) = Σ x_c³ x_{c+1} + x_c²: the mean of ĝ is the same, though it is not the gradient."""
    d, q, K, x, mu = 4, 3, 2, np.array([1, -1, 2, 1]), 2
    u = lifted(d, q, K, signs)

    def f(z):
        return (z[..., :-1] ** 3 * z[..., 1:]).sum(-1) + (z * z).sum(-1)

    one = ((f(x + mu * u) - f(x))[..., None] * u).sum(axis=(0, 1))
    two = ((f(x + mu * u) - f(x - mu * u))[..., None] * u).sum(axis=(0, 1))
    assert (2 * one == two).all()


def test_the_figures_of_the_design():
    """d = 32, q = 16: K = 8 orthogonal directions scatter 4 ‖g‖², independent ones 5.75 ‖g‖², one 32 ‖g‖²."""
    told = [
        norm_factor(32, 16, Directions(K=K, signs=s))
        for K, s in ((1, SIGNS[0]), (8, SIGNS[0]), (8, SIGNS[1]))
    ]
    assert told == [32, Fr(23, 4), 4]
    assert critical_alike(32, 16, 2, Directions(K=8, signs="orthogonal")) == Fr(1, 4)


def test_one_side_pays_four_times_the_query_noise():
    """Per direction; so twice at equal queries. In total the same for both kinds of signs where q = Q."""
    g, how = [0] * 8, {"mu": 1, "omega": 1}
    for K, signs in ((2, "independent"), (4, "orthogonal"), (8, "orthogonal")):
        one, two = (
            scatter(g, q=8, directions=Directions(K=K, signs=signs, sides=s, **how)).query for s in (1, 2)
        )
        assert one == 4 * two == Fr(16, K)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Directions(K=0), "K must be 1 or more"),
        (lambda: Directions(signs="random"), "got 'random'"),
        (lambda: Directions(sides=3), "1 or 2 sides, got 3"),
        (lambda: Directions(rows=True, sides=1), "use 2 sides"),
        (lambda: Directions(omega=1), "give mu above 0"),
        (lambda: cross(3, Directions(K=5, signs="orthogonal")), "K = 5 .* q = 3 coordinates: 4 at most"),
        (lambda: scatter([1, 2], [[1, 2], [3, 4]], q=1, directions=Directions(sides=1, mu=1)), "symmetric"),
    ],
)
def test_what_does_not_fit_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("coupling", "GSI")
@pytest.mark.parametrize(
    ("q", "K", "signs"),
    [(2, 2, "independent"), (2, 2, "orthogonal"), (3, 2, "orthogonal"), (3, 3, "orthogonal")],
)
def test_moments_of_couplings_equal_full_enumeration(coupling, q, K, signs):
    """V and U of two pairs in three dimensions: every draw of K directions of both."""
    d, a = 3, np.array([[1, 2, -1], [0, 3, 5]])
    drawn = lifted(d, q, K, signs)
    blocks = np.split(drawn, {2: 3, 3: 1}[q])
    alike = [[u, u] for u in drawn]
    signed = [list(us) for block in blocks for us in product(block, repeat=2)]
    own = [list(us) for us in product(drawn, repeat=2)]
    u = np.array({"G": alike, "S": signed, "I": own}[coupling])  # (draws, pairs, K, d)
    v = ((u * a[:, None]).sum(axis=-1, keepdims=True) * u).sum(axis=-2) * d  # q K v_e
    total, by = v.sum(axis=1), len(v) * (2 * q * K) ** 2
    V = Fr(square(total - q * K * a.sum(axis=0)), by)
    U = Fr(square(2 * v - total[:, None]), 2 * by)
    mean = a.sum(axis=0)
    a2, H2 = Fr(square(mean), 4), Fr(square(2 * a - mean), 8)
    how = Directions(K=K, signs=signs)
    assert coupling_moments(coupling, d=d, q=q, pairs=2, a2=a2, H2=H2, directions=how) == (V, U)


def test_losses_are_what_they_say():
    assert losses(np.array([1, 2]), np.array([[2, 4], [4, 6]]), np.array([1, 1])) == 1 + 8 + 12 + 3
