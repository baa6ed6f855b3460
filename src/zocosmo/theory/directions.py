"""K directions on one support: what a round's estimate is on average, and how far it scatters.

S is a uniform support of q out of d coordinates, ε_1 … ε_K are signs on it, and with slopes s_k

    ĝ_S = (d/q) (1/K) Σ_k s_k ε_k,        0 elsewhere.

Independent signs are K fair draws. Orthogonal signs are ε_k = ε_0 ⊙ H[r_k, :q], H the Sylvester–Hadamard
matrix of order Q, the least power of two that is q or more: ε_0 fair, rows r_k distinct, one of them the
first. On a linear loss with gradient g, ĝ_S = (d/q) C g_S with C = (1/K) Σ_k ε_k ε_kᵀ, whose diagonal is 1.
Away from it E C_cl = 0, and everything else follows from

    κ = E C_cl² = 1/K                          independent
                  (Q − K) / (K (Q − 1))        orthogonal; Q = 1 allows K = 1 only, and κ = 1

    E‖ĝ‖² = φ ‖g‖²,     φ = (d/q) (1 + (q − 1) κ).

For orthogonal signs C_cl = ε_0c ε_0l (1/K) Σ_k H[r_k, c ⊕ l], positions in S counted from 0. A column of H
other than the first has Q/2 − 1 ones and Q/2 minus ones below its first row, so its sum over K distinct
rows, one of them the first, has the mean square K (Q − K) / (Q − 1). No pair of positions is better than
another.

One side. s_k = [f(x + με_k) − f(x)] / μ is g·ε_k + (μ/2) ε_kᵀHε_k on a quadratic. Flipping all signs flips
the first part and keeps the second, so E ĝ is the same as with two sides, for every loss; the second part
only adds variance. It is common to all directions where H is diagonal, and so is the noise of f(x): both
meet m_c = (1/K) Σ_k ε_kc, whose mean square is 1/K for independent signs, κ for orthogonal ones, but 1 at
the first position of S, because the first column of H is all ones. Summed over S that is 1 + (q − 1) κ,
which is q/K, as for independent signs, where q = Q.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.theory.numbers import Number, check_finite, check_size, exact, share, square, whole

Array = NDArray[Any]
SIGNS = ("independent", "orthogonal")


@dataclass(frozen=True, kw_only=True)
class Directions:
    """K directions of a round: their signs, sides, shift μ, and the noise of their queries.

    μ matters on one side and with query noise only. `omega` is the standard deviation of the noise of an
    evaluation, independent of all others; on one side all directions share f(x) and its noise. Without `rows`
    all directions of a round see one sample; with it, each sees a sample of its own on both sides.
    """

    K: int = 1
    signs: str = "independent"
    sides: int = 2
    mu: Number = 0
    omega: Number = 0
    rows: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "K", whole("K", self.K))
        if self.signs not in SIGNS:
            raise ValueError(f"signs are {' or '.join(SIGNS)}, got {self.signs!r}")
        if self.sides not in (1, 2):
            raise ValueError(f"a slope has 1 or 2 sides, got {self.sides!r}")
        if self.rows and self.sides == 1:
            raise ValueError("directions with samples of their own share no f(x); use 2 sides")
        object.__setattr__(self, "mu", check_finite("mu", self.mu))
        object.__setattr__(self, "omega", check_finite("omega", self.omega))
        if self.omega and not self.mu:
            raise ValueError(f"noise of {self.omega} in queries at distance 0 has no bound; give mu above 0")

    @property
    def evaluations(self) -> int:
        """Loss evaluations of a node in a round."""
        return 2 * self.K if self.sides == 2 else self.K + 1

    @property
    def only_signs(self) -> "Directions":
        """The same signs with exact slopes."""
        return replace(self, sides=2, omega=0, rows=False)

    def check(self, q: int) -> None:
        """Refuse more orthogonal directions than there are."""
        if self.signs == "orthogonal" and order(q) < self.K:
            raise ValueError(f"K = {self.K} orthogonal directions on q = {q} coordinates: {order(q)} at most")


ONE = Directions()


def order(q: int) -> int:
    """Q: the least power of two that is q or more.

    >>> [order(q) for q in (1, 2, 3, 5, 8)]
    [1, 2, 4, 8, 8]
    """
    return 1 << (whole("q", q) - 1).bit_length()


def cross(q: int, directions: Directions) -> Fraction:
    """κ = E C_cl² for c ≠ l on the support: 1/K, or (Q − K)/(K (Q − 1)) for orthogonal signs

    >>> [str(cross(8, Directions(K=4, signs=signs))) for signs in SIGNS]
    ['1/4', '1/7']
    """
    directions.check(q)
    K, Q = directions.K, order(q)
    if directions.signs == "independent" or Q == 1:
        return Fraction(1, K)
    return Fraction(Q - K, K * (Q - 1))


def norm_factor(d: int, q: int, directions: Directions = ONE) -> Fraction:
    """φ = E‖ĝ‖² / ‖g‖² = (d/q)(1 + (q − 1) κ) on a linear loss   [lemma:sparse_direction_identities]

    One direction gives d. K independent ones give (d/q)(q + K − 1)/K, orthogonal ones
    (d/q)[q + (K − 1)(Q − q)/(Q − 1)]/K, which is d/K where q is a power of two.

    >>> [str(norm_factor(32, 16, Directions(K=8, signs=signs))) for signs in SIGNS]
    ['23/4', '4']
    """
    return (1 + (whole("q", q) - 1) * cross(q, directions)) / share(d, q)


def critical_alike(d: int, q: int, h: Number, directions: Directions = ONE) -> Number:
    """2/(φ h): the largest stable step where all nodes have curvature h and one direction, as under G

    >>> str(critical_alike(32, 16, 1, Directions(K=16, signs="orthogonal")))
    '1'
    """
    return 2 / (norm_factor(d, q, directions) * check_finite("h", h, above=True))


class Scatter(NamedTuple):
    """E‖ĝ‖² by its causes; the mean is g whatever they are."""

    signal: Number  # φ ‖g‖²
    sample: Number  # of the noise of a sample, E‖ξ‖² = σ²
    bend: Number  # of the curvature, on one side
    query: Number  # of the noise of evaluations

    @property
    def total(self) -> Number:
        return self.signal + self.sample + self.bend + self.query


def scatter(
    g: ArrayLike, H: ArrayLike | None = None, *, q: int, sigma2: Number = 0, directions: Directions = ONE
) -> Scatter:
    """E‖ĝ‖² of a quadratic with gradient g and Hessian H (d, d), exactly; E ĝ = g

        signal  φ ‖g‖²
        sample  φ σ², or d σ²/K where each direction has a sample of its own
        bend    (d/q)² (μ²/4) [q E b² + (K − 1) E(b b' ε·ε')] / K,  b = εᵀHε;  0 with two sides
        query   (d/q)² ω²/μ² · q/(2K) with two sides, ω²/μ² (q/K + 1 + (q − 1) κ) with one, orthogonal signs,
                and ω²/μ² · 2q/K with one, independent signs

    The second part of `bend` is 0 for independent signs and where q is a power of two.

    >>> scatter([3, 4], q=2, sigma2=1, directions=Directions(K=2, signs="orthogonal")).total
    Fraction(26, 1)
    """
    g = exact("the gradient", g, 1)
    (d, q), K = check_size(len(g), q), directions.K
    phi, s2 = norm_factor(d, q, directions), check_finite("sigma2", sigma2)
    sample = Fraction(d, K) * s2 if directions.rows else phi * s2
    up = Fraction(d, q) ** 2
    bend = up * _bend(H, d, q, directions) if directions.sides == 1 and H is not None else Fraction(0)
    spread = sum((query_noise(d, q, c, directions) for c in range(d)), Fraction(0))
    return Scatter(phi * square(g), sample, bend, up * spread)


def _bend(H: ArrayLike, d: int, q: int, directions: Directions) -> Any:
    """(μ²/4) E[b_k b_k' ε_k·ε_k'], averaged over k and k'; see `scatter`

    k = k': q E b², E b² = p Σ H_cc² + p₂ Σ_{c≠l} (H_cc H_ll + 2 H_cl²). k ≠ k': ε_k ⊙ ε_k' is a row ρ of the
    Hadamard matrix other than the first, and uniform among those, so with positions c, l and m of S

        E(b b' ε·ε') = E t_S² (Q − q)/(Q − 1) + 2 Σ_{c≠l} E H_cl² Σ_m E[ρ_{c⊕l} ρ_m],

    and the last sum is (Q − q)/(Q − 1) where c ⊕ l < q and −q/(Q − 1) where it is not.
    """
    A, K, Q = exact("the Hessian", H), directions.K, order(q)
    if A.shape != (d, d) or (A != A.T).any():
        raise ValueError(f"the Hessian of {d} coordinates is symmetric, {d} × {d}; got shape {A.shape}")
    p, two = share(d, q), pair_share(d, q)
    trace, own = np.trace(A), square(np.diagonal(A))
    diagonal = p * own + two * (trace * trace - own)
    off = square(A) - own
    total = q * (diagonal + 2 * two * off)
    if directions.signs == "orthogonal" and q < Q:
        near = sum(A[c, e] ** 2 * _near(d, q, c, e) for c, e in combinations(range(d), 2))
        rest = ((Q - q) * diagonal + 4 * Q * near - 2 * q * two * off) / (Q - 1)
        total = total + (K - 1) * rest
    return directions.mu**2 / 4 * total / K


def _near(d: int, q: int, c: int, e: int) -> Fraction:
    """P(c, e ∈ S and their positions have i ⊕ j < q), for coordinates c < e."""
    ways = sum(
        comb(c, i) * comb(e - c - 1, j - i - 1) * comb(d - 1 - e, q - 1 - j)
        for i in range(q)
        for j in range(i + 1, q)
        if i ^ j < q
    )
    return Fraction(ways, comb(d, q))


def pair_share(d: int, q: int) -> Fraction:
    """p₂ = P(c, l ∈ S) = q (q − 1) / (d (d − 1)); 0 if there is one coordinate"""
    d, q = check_size(d, q)
    return Fraction(q * (q - 1), d * (d - 1)) if d > 1 else Fraction(0)


def first_share(d: int, q: int, c: int, more: int = 0) -> Fraction:
    """P(c is the first of S, and `more` given later coordinates are in S too)

    >>> [str(first_share(4, 2, c)) for c in range(4)]
    ['1/2', '1/3', '1/6', '0']
    """
    d, q = check_size(d, q)
    if q <= more or d - 1 - c < more:
        return Fraction(0)
    return Fraction(comb(d - 1 - c - more, q - 1 - more), comb(d, q))


def query_noise(d: int, q: int, c: int, directions: Directions) -> Any:
    """E[1_c n_c²] of n = (1/K) Σ_k (noise of s_k) ε_k at coordinate c, without the factor (d/q)²

    Two sides: p ω²/(2μ²K). One side: ω²/μ² (p/K + E[1_c m_c²]), m_c = (1/K) Σ_k ε_kc; see `common`.
    """
    if not directions.omega:
        return Fraction(0)
    p, ratio = share(d, q), (directions.omega / directions.mu) ** 2
    if directions.sides == 2:
        return ratio * p / (2 * directions.K)
    return ratio * (p / directions.K + common(d, q, c, directions))


def common(d: int, q: int, c: int, directions: Directions) -> Fraction:
    """E[1_c m_c²], m_c = (1/K) Σ_k ε_kc: p/K, or κ p + (1 − κ) P(c is first) for orthogonal signs"""
    kappa, p = cross(q, directions), share(d, q)
    if directions.signs == "independent":
        return kappa * p
    return kappa * p + (1 - kappa) * first_share(d, q, c)
