"""One round from given states: the disagreement it leaves, and where the network average goes."""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from zocosmo.theory.directions import ONE, Directions
from zocosmo.theory.moments import coupling_moments, pair_gradients, pair_means
from zocosmo.theory.numbers import Number, Pairs, exact, rational, same_shape, share, spread, square


class DisagreementStep(NamedTuple):
    """E𝒟⁺ and its parts: after = before − mixed − 2η alignment + η² injected."""

    before: Number  # 𝒟 = mean_i ‖x_i − x̄‖²
    mixed: Number  # removed by averaging on the supports
    alignment: Number  # C_M: positive if gradients pull states together
    injected: Number  # U_s
    after: Number


def disagreement_step(
    coupling: str,
    states: ArrayLike,
    gradients: ArrayLike,
    *,
    q: int,
    matching: Pairs,
    eta: Number,
    directions: Directions = ONE,
) -> DisagreementStep:
    """E𝒟⁺ of one round without momentum, over directions alone   [eq:corr_exact_disagreement]

        E𝒟⁺ = 𝒟 − (p/2N) Σ_{ij ∈ M} ‖x_i − x_j‖² − 2η C_M + η² U_s
        C_M = N⁻¹ Σ_{e = ij} ⟨x_i + x_j − 2x̄, a_e⟩

    Exact, although query and mixing share a support. With K directions, for exact slopes.

    >>> disagreement_step("G", [[2], [0]], [[1], [1]], q=1, matching=[(0, 1)], eta=1).after
    Fraction(0, 1)
    """
    x, g = exact("states", states), exact("gradients", gradients)
    same_shape("states", x, "gradients", g)
    n, d = x.shape
    found = pair_gradients(g, matching)
    before, middle = spread(x), pair_means(x, matching) - x.mean(axis=0)
    mixed = share(d, q) * sum(square(x[i] - x[j]) for i, j in matching) / (2 * n)
    alignment = 2 * (middle * found.a).sum() / n
    sizes = {"d": d, "q": q, "pairs": n // 2}
    U = coupling_moments(coupling, **sizes, a2=found.a2, H2=found.H2, directions=directions).U
    step = rational(eta)
    return DisagreementStep(
        before, mixed, alignment, U, before - mixed - 2 * step * alignment + step * step * U
    )


class CurvatureResidual(NamedTuple):
    """What unequal curvatures leave of the cancellation."""

    r: NDArray[Any]  # r_X = ā − ∇F(x̄)
    r2: Number  # ‖r_X‖²
    bound: Number  # δ_H² 𝒟, never below r2
    applied: Number  # E‖D r_X‖² = d ‖r_X‖²
    applied_bound: Number  # d δ_H² 𝒟


def curvature_residual(curvatures: ArrayLike, states: ArrayLike) -> CurvatureResidual:
    """r_X = N⁻¹ Σ_i (H_i − H)(x_i − x̄), ‖r_X‖² ≤ δ_H² 𝒟   [eq:curvature_residual_v23]

        under G: x̄⁺ = x̄ − η D (∇F(x̄) + r_X),  E‖D r_X‖² = d ‖r_X‖²   [eq:curvature_direction_v23]

    `curvatures` holds the diagonals of the H_i, shape (n, d), and δ_H² = mean_i ‖H_i − H‖² in operator norm.
    Equal states or equal H_i give r_X = 0.

    >>> curvature_residual([[1], [3]], [[0], [2]]).r2
    Fraction(1, 1)
    """
    x, H = exact("states", states), exact("curvatures", curvatures)
    same_shape("curvatures", H, "states", x)
    off, d = H - H.mean(axis=0), x.shape[1]
    r = (off * (x - x.mean(axis=0))).mean(axis=0)
    delta2 = (abs(off).max(axis=1) ** 2).mean()
    r2, bound = square(r), delta2 * spread(x)
    return CurvatureResidual(r, r2, bound, d * r2, d * bound)
