"""Steps that the correlation-dependent rate certifies, and how far a given step is from them.

Deterministic losses, no momentum, independent draws from one law of perfect matchings   [thm:corr_core]
A certificate is sufficient, not necessary: larger steps may run well. On quadratics, `stability.py` decides.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from zocosmo.theory.law import check_ring
from zocosmo.theory.moments import coupling_coefficients
from zocosmo.theory.numbers import Number, check_finite, check_size, rational


class Constants(NamedTuple):
    """The constants of the theorem; exact if χ is."""

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

    >>> coupling_constants("G", d=32, q=4, pairs=4, chi=Fraction(3, 7)).J
    Fraction(180, 7)
    """
    if not 0 <= chi < 1:
        raise ValueError(f"chi = {chi} must be at least 0 and below 1; at 1 nodes never agree")
    alpha, tau = coupling_coefficients(coupling, d=d, q=q, pairs=pairs)
    (d, q), chi = check_size(d, q), rational(chi)
    gamma = Fraction(q, d) * (1 - chi)
    r, J = d - 1 - alpha, chi * (d - tau + 2 / gamma)
    return Constants(alpha, tau, chi, gamma, r, J, r + J)


def ring_chi(n: int) -> Number:
    """χ = (1 + cos(2π/N)) / 2: an even ring whose phase is a fresh fair coin   [eq:corr_gaps]

    In closed form; a Fraction at N = 4 and 6, where the cosine is rational. Other laws have `Law.chi`.

    >>> ring_chi(4), round(ring_chi(8), 6)
    (Fraction(1, 2), 0.853553)
    """
    check_ring(n)
    known = {4: Fraction(1, 2), 6: Fraction(3, 4)}
    return known[n] if n in known else math.cos(math.pi / n) ** 2


class Limits(NamedTuple):
    """The largest η under each of two conditions; a step must meet both."""

    descent: float  # 1 / 8L(1 + α + τχ)
    mixing: float  # √γ / 16L√K; infinite where K = 0


def step_limits(constants: Constants, L: float) -> Limits:
    """η ≤ min{ 1 / 8L(1 + α + τχ),  √γ / 16L√K }   [eq:corr_step_condition]

    >>> limits = step_limits(coupling_constants("G", d=32, q=4, pairs=4, chi=Fraction(3, 7)), L=4)
    >>> f"{limits.descent:.4g} {limits.mixing:.4g}"
    '0.0009766 0.0008235'
    """
    check_finite("L", L, above=True)
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
    """Whether a step is covered, and by what margin; `str` says it in a sentence."""

    certified: bool
    eta: float
    limits: Limits
    binds: str  # "descent" or "mixing": the stricter condition
    ratio: float  # η over the stricter limit; at most 1 if certified

    def __str__(self) -> str:
        rule = f"the {self.binds} condition allows {min(self.limits):.4g}"
        if self.certified:
            return f"eta = {self.eta:g} is certified: {rule}, this is {self.ratio:.3g} ×"
        kept = [name for name, bound in self.limits._asdict().items() if self.eta <= bound]
        rest = f"; the {kept[0]} condition holds" if kept else "; neither condition holds"
        return f"eta = {self.eta:g} is not certified: {rule}, this is {self.ratio:.3g} ×{rest}"


def is_certified(
    coupling: str, *, d: int, q: int, pairs: int, chi: Number, L: float, eta: float
) -> Certificate:
    """Compare a step with both conditions   [eq:corr_step_condition]

    >>> print(is_certified("I", d=32, q=4, pairs=4, chi=ring_chi(8), L=4, eta=1e-4))
    eta = 0.0001 is certified: the mixing condition allows 0.0001805, this is 0.554 ×
    """
    check_finite("eta", eta, above=True)
    limits = step_limits(coupling_constants(coupling, d=d, q=q, pairs=pairs, chi=chi), L)
    binds = "descent" if limits.descent <= limits.mixing else "mixing"
    return Certificate(eta <= min(limits), eta, limits, binds, eta / min(limits))
