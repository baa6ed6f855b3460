"""One round with stored momentum and a noisy oracle: V and U again.

Given states, momenta and the matching, the applied update of a pair is

    w_e = β P_e c_e + θ D_e (a_e + ε_e),    c_e = (m_i + m_j)/2,  θ = 1 − β        [eq:momentum_pair_v23]

with the mean ν = βp c̄ + θ ā over pairs. P projects on the support and D = u uᵀ/p, so that E P = pI, E D = I
and D² = d D   [eq:corr_D_moments]. Rows of `a` and `c` are pairs.
"""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.theory.law import check_coupling
from zocosmo.theory.moments import Moments
from zocosmo.theory.numbers import Number, check_beta, check_finite, exact, same_shape, share, square


class Psi(NamedTuple):
    """Ψ_β(a, c), split into the part of the support and the part of the signs."""

    support: Number  # p(1 − p) ‖βc + θa/p‖²
    signs: Number  # θ² (d − 1/p) ‖a‖²

    @property
    def total(self) -> Number:
        return self.support + self.signs


def psi(a: ArrayLike, c: ArrayLike, *, q: int, beta: Number) -> Psi:
    """E‖β(P − pI)c + θ(D − I)a‖² of one pair   [eq:psi_v23]

        Ψ_β(a, c) = β² p(1 − p) ‖c‖² + θ² (d − 1) ‖a‖² + 2βθ (1 − p) ⟨c, a⟩
                  = p(1 − p) ‖βc + θa/p‖² + θ² (d − 1/p) ‖a‖²

    By the second line it is never negative, and momentum enters only through the support.

    >>> psi([1, 0], [0, 1], q=1, beta=Fraction(1, 2)).total
    Fraction(5, 16)
    """
    gradient, memory = _alike(a, c, ndim=1)
    d, beta = len(gradient), check_beta(beta)
    p = share(d, q)
    kept = _times(beta, memory) + _times((1 - beta) / p, gradient)
    return Psi(p * (1 - p) * square(kept), (1 - beta) ** 2 * (d - 1 / p) * square(gradient))


def momentum_moments(
    coupling: str, a: ArrayLike, c: ArrayLike, *, q: int, beta: Number, sigma2: Number = 0
) -> Moments:
    """V = E‖w̄ − ν‖² and U = mean_e E‖w_e − w̄‖²   [prop:momentum_moments_v23]

        G:  V = Ψ(ā, c̄)                    S:  V = Ψ_support(ā, c̄) + Σ_e Ψ_signs(a_e) / m²
        I:  V = Σ_e Ψ(a_e, c_e) / m²            each + θ² d σ²/N;    U = (V + U) − V

    sigma2 = σ_X² is the mean over nodes of E‖ε_i‖²; noise of nodes is independent, of any shape.

    >>> momentum_moments("I", [[1, 0], [0, 1]], [[0, 0], [0, 0]], q=1, beta=0)
    Moments(V=Fraction(1, 2), U=Fraction(1, 1))
    """
    check_coupling(coupling)
    gradient, memory = _alike(a, c)
    m, d = gradient.shape
    beta = check_beta(beta)
    V = _variance(coupling, gradient, memory, q, beta)
    V += (1 - beta) ** 2 * d * check_finite("sigma2", sigma2) / (2 * m)
    return Moments(V, momentum_energy(a, c, q=q, beta=beta, sigma2=sigma2) - V)


def momentum_energy(a: ArrayLike, c: ArrayLike, *, q: int, beta: Number, sigma2: Number = 0) -> Number:
    """V + U, the same for every coupling   [eq:momentum_energy_v23]

        mean_e [β² p ‖c_e‖² + θ² d ‖a_e‖² + 2βθ ⟨c_e, a_e⟩] + θ² d σ²/2 − ‖ν‖²

    >>> momentum_energy([[1, 0], [0, 1]], [[0, 0], [0, 0]], q=1, beta=0)
    Fraction(3, 2)
    """
    gradient, memory = _alike(a, c)
    m, d = gradient.shape
    p, beta = share(d, q), check_beta(beta)
    theta = 1 - beta
    each = beta**2 * p * square(memory) + theta**2 * d * square(gradient)
    each += 2 * beta * theta * (memory * gradient).sum()
    nu = _times(beta * p, memory.mean(axis=0)) + _times(theta, gradient.mean(axis=0))
    total: Number = each / m + theta**2 * d * check_finite("sigma2", sigma2) / 2 - square(nu)
    return total


def momentum_gap(first: str, second: str, *, a: ArrayLike, c: ArrayLike, q: int, beta: Number) -> Number:
    """V_first − V_second at the same states and momenta; noise drops out   [eq:momentum_crossover_v23]

        I over G:  (mean_e Ψ(a_e − ā, c_e − c̄) − (m − 1) Ψ(ā, c̄)) / m
        S over G:  the same with the signs' part of Ψ only, I over S: with the support's part only

    So momentum does not move the point where S and G are equal, H² = (m − 1) ‖ā‖². It moves the other two
    crossings, and the three curves no longer meet in one point.

    >>> momentum_gap("I", "G", a=[[1, 0], [-1, 0]], c=[[0, 0], [0, 0]], q=1, beta=0)
    Fraction(1, 2)
    """
    for name in (first, second):
        check_coupling(name)
    gradient, memory = _alike(a, c)
    beta, m = check_beta(beta), len(gradient)
    mean, stored = gradient.mean(axis=0), memory.mean(axis=0)
    centre = psi(mean, stored, q=q, beta=beta)
    around = [
        psi(a_e - mean, c_e - stored, q=q, beta=beta) for a_e, c_e in zip(gradient, memory, strict=True)
    ]
    support, signs = (
        (sum(parts) / m - (m - 1) * of_mean) / m
        for parts, of_mean in zip(zip(*around, strict=True), centre, strict=True)
    )
    over_G: dict[str, Number] = {"G": Fraction(0), "S": signs, "I": signs + support}
    return over_G[first] - over_G[second]


def _variance(coupling: str, a: NDArray[Any], c: NDArray[Any], q: int, beta: Number) -> Number:
    m, centre = len(a), psi(a.mean(axis=0), c.mean(axis=0), q=q, beta=beta)
    if coupling == "G":
        return centre.total
    each = [psi(a_e, c_e, q=q, beta=beta) for a_e, c_e in zip(a, c, strict=True)]
    if coupling == "S":
        return centre.support + sum(own.signs for own in each) / m**2
    return sum(own.total for own in each) / m**2


def _alike(a: ArrayLike, c: ArrayLike, ndim: int = 2) -> tuple[NDArray[Any], NDArray[Any]]:
    gradient, memory = exact("a", a, ndim), exact("c", c, ndim)
    same_shape("gradients", gradient, "momenta", memory)
    return gradient, memory


def _times(factor: Number, a: NDArray[Any]) -> NDArray[Any]:
    """factor · a, in floats if either is."""
    if a.dtype != object and isinstance(factor, Fraction):
        factor = float(factor)  # NumPy would return an object array
    product: NDArray[Any] = a * factor
    return product if a.dtype == object and isinstance(factor, Fraction) else product.astype(np.float64)
