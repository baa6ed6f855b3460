"""Steps that the correlation-dependent rate certifies, and how far a given step is from them.

Deterministic losses, no momentum, independent draws from one law of perfect matchings   [thm:corr_core]
A certificate is sufficient, not necessary: steps well above it may run fine, and `exact.py` can tell.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from zocosmo.theory.moments import coupling_coefficients
from zocosmo.theory.numbers import Law, Number, check_law, check_size, rational, whole


class Constants(NamedTuple):
    """What the theorem is written in; exact where χ is."""

    alpha: Fraction
    tau: Fraction
    chi: Number  # share of gradient heterogeneity that pairing leaves
    gamma: Number  # contraction of disagreement in one round of pure mixing
    r: Fraction
    J: Number
    K: Number


def coupling_constants(coupling: str, *, d: int, q: int, pairs: int, chi: Number) -> Constants:
    """α, τ, χ, γ, r, J, K   [eq:corr_gaps, eq:corr_constants]

        γ = p (1 − χ)      r = d − 1 − α      J = χ (d − τ + 2/γ)      K = r + J

    >>> coupling_constants("G", d=32, q=4, pairs=4, chi=complete_chi(8)).J
    Fraction(180, 7)
    """
    if not 0 <= chi < 1:
        raise ValueError(f"chi = {chi} must be at least 0 and below 1; at 1 some nodes never meet")
    alpha, tau = coupling_coefficients(coupling, d=d, q=q, pairs=pairs)
    chi = rational(chi)
    d, q = check_size(d, q)
    gamma = Fraction(q, d) * (1 - chi)
    r, J = d - 1 - alpha, chi * (d - tau + 2 / gamma)
    return Constants(alpha, tau, chi, gamma, r, J, r + J)


def complete_chi(n: int) -> Fraction:
    """χ = (N − 2) / 2(N − 1): uniform perfect matchings of a complete graph   [eq:corr_gaps]

    >>> complete_chi(8)
    Fraction(3, 7)
    """
    n = _even(n, 2)
    return Fraction(n - 2, 2 * (n - 1))


def ring_chi(n: int) -> Number:
    """χ = (1 + cos(2π/N)) / 2: an even ring whose phase is a fresh fair coin   [eq:corr_gaps]

    A Fraction at N = 4 and 6, the only even rings of four or more nodes whose cosine is one.

    >>> ring_chi(4), round(ring_chi(8), 6)
    (Fraction(1, 2), 0.853553)
    """
    n = _even(n, 4)
    known = {4: Fraction(1, 2), 6: Fraction(3, 4)}
    return known[n] if n in known else math.cos(math.pi / n) ** 2


def law_chi(law: Law, n: int) -> float:
    """χ = 1 − λ₂(L̄)/2 of any law of perfect matchings   [eq:corr_gaps]

    >>> round(law_chi([([(0, 1), (2, 3)], Fraction(1, 2)), ([(1, 2), (3, 0)], Fraction(1, 2))], 4), 12)
    0.5
    """
    import numpy as np

    check_law(law, n)
    mean = np.zeros((n, n))
    for pairs, weight in law:
        for i, j in pairs:
            mean[[i, j], [i, j]] += float(weight)
            mean[[i, j], [j, i]] -= float(weight)
    return float(1 - np.linalg.eigvalsh(mean)[1] / 2)


class Limits(NamedTuple):
    """The two conditions on η; a step must meet both."""

    descent: float  # 1 / 8L(1 + α + τχ)
    mixing: float  # √γ / 16L√K; infinite where K = 0


def step_limits(constants: Constants, L: float) -> Limits:
    """η ≤ min{ 1 / 8L(1 + α + τχ),  √γ / 16L√K }   [eq:corr_step_condition]

    >>> limits = step_limits(coupling_constants("G", d=32, q=4, pairs=4, chi=complete_chi(8)), L=4)
    >>> f"{limits.descent:.4g} {limits.mixing:.4g}"
    '0.0009766 0.0008235'
    """
    if not (L > 0 and math.isfinite(L)):
        raise ValueError(f"L = {L} is no smoothness constant; it must be a finite number above 0")
    descent = 1 / (8 * float(L) * float(1 + constants.alpha + constants.tau * constants.chi))
    if constants.K == 0:
        return Limits(descent, math.inf)
    return Limits(descent, math.sqrt(constants.gamma) / (16 * float(L) * math.sqrt(constants.K)))


def certified_step(coupling: str, *, d: int, q: int, pairs: int, chi: Number, L: float) -> float:
    """The largest η that the theorem covers   [eq:corr_step_condition]

    >>> [f"{certified_step(s, d=32, q=4, pairs=4, chi=ring_chi(8), L=4):.4g}" for s in "GSI"]
    ['0.0001925', '0.000183', '0.0001805']
    """
    return min(step_limits(coupling_constants(coupling, d=d, q=q, pairs=pairs, chi=chi), L))


class Certificate(NamedTuple):
    """Whether a step is covered, and by what margin; print it for a sentence."""

    certified: bool
    eta: float
    limits: Limits
    binds: str  # "descent" or "mixing": the stricter condition
    ratio: float  # η over the stricter limit; at most 1 where certified

    def __str__(self) -> str:
        rule = f"the {self.binds} condition allows {min(self.limits):.4g}"
        if self.certified:
            return f"eta = {self.eta:g} is certified: {rule}, this is {self.ratio:.3g} ×"
        kept = [name for name, bound in self.limits._asdict().items() if self.eta <= bound]
        rest = f"; the {kept[0]} condition holds" if kept else "; neither condition holds"
        return f"eta = {self.eta:g} is not certified: {rule}, this is {self.ratio:.3g} ×{rest}"


def is_certified(
    eta: float, coupling: str, *, d: int, q: int, pairs: int, chi: Number, L: float
) -> Certificate:
    """Hold a step against the two conditions   [eq:corr_step_condition]

    >>> print(is_certified(1e-4, "I", d=32, q=4, pairs=4, chi=ring_chi(8), L=4))
    eta = 0.0001 is certified: the mixing condition allows 0.0001805, this is 0.554 ×
    """
    if not (eta > 0 and math.isfinite(eta)):
        raise ValueError(f"eta = {eta} is no step; it must be a finite number above 0")
    limits = step_limits(coupling_constants(coupling, d=d, q=q, pairs=pairs, chi=chi), L)
    binds = "descent" if limits.descent <= limits.mixing else "mixing"
    return Certificate(eta <= min(limits), eta, limits, binds, eta / min(limits))


def _even(n: int, least: int) -> int:
    if n < least or n % 2:
        raise ValueError(f"{n} nodes have no such perfect matchings; use an even number, at least {least}")
    return whole("n", n)
