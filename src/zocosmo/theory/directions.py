"""Moments of one sparse direction u = Pε and of the random map D = (d/q) u uᵀ."""

from fractions import Fraction
from typing import NamedTuple

from numpy.typing import ArrayLike

from zocosmo.theory.numbers import Number, both_drawn, check_size, exact, square


class MapMoments(NamedTuple):
    """Factors of the identity; p = q/d. If E AᵀA = f I then E‖Aa‖² = f ‖a‖² for every a."""

    D: Fraction  # E D = D · I
    DD: Fraction  # D² = DD · D on every draw, so E‖Da‖² = DD ‖a‖²
    D_spread: Fraction  # E‖(D − I) a‖²
    P: Fraction  # E P = p I
    P_spread: Fraction  # E‖(P − pI) a‖²
    cross: Fraction  # E[(P − pI)(D − I)]: momentum and query share the support
    support_part: Fraction  # E‖(P/p − I) a‖²: spread of D due to the support
    sign_part: Fraction  # E‖(D − P/p) a‖²: spread due to the signs, given the support


def map_moments(d: int, q: int) -> MapMoments:
    """The moments that all others are built from   [eq:corr_D_moments, prop:momentum_moments_v23]

        E D = I      D² = d D      E‖(D − I)a‖² = (d − 1) ‖a‖² = [(1/p − 1) + (d − 1/p)] ‖a‖²

    >>> map_moments(32, 4)[:3]
    (Fraction(1, 1), Fraction(32, 1), Fraction(31, 1))
    """
    d, q = check_size(d, q)
    p = Fraction(q, d)
    return MapMoments(
        D=Fraction(1),
        DD=Fraction(d),
        D_spread=Fraction(d - 1),
        P=p,
        P_spread=p * (1 - p),
        cross=1 - p,
        support_part=1 / p - 1,
        sign_part=d - 1 / p,
    )


class DirectionMoments(NamedTuple):
    """Of (u·v) and of ‖Dv‖; the bounds are those that the proofs use."""

    second: Number  # E(u·v)²
    fourth: Number  # E(u·v)⁴
    fourth_bound: Number
    estimate_second: Number  # E‖Dv‖²
    estimate_fourth: Number  # E‖Dv‖⁴
    estimate_fourth_bound: Number


def direction_moments(v: ArrayLike, q: int) -> DirectionMoments:
    """Exact moments along v   [eq:sparse_direction_identities, eq:sparse_fourth_direction]

        E(u·v)² = p ‖v‖²           E(u·v)⁴ = p Σ v⁴ + 3 p₂ (‖v‖⁴ − Σ v⁴) ≤ 3 p ‖v‖⁴
        E‖Dv‖² = d ‖v‖²            E‖Dv‖⁴ = (d⁴/q²) E(u·v)⁴ ≤ 3 (d³/q) ‖v‖⁴

    p₂ = q(q − 1) / d(d − 1) is the probability that two given coordinates are both drawn.

    >>> direction_moments([1, 1, 0], q=2).fourth
    Fraction(10, 3)
    """
    x = exact("v", v, ndim=1)
    d, q = check_size(len(x), q)
    p = Fraction(q, d)
    norm2, fourths = square(x), square(x * x)
    fourth = 3 * support_energy_square(x, q) - 2 * p * fourths
    bound, scale = 3 * p * norm2**2, Fraction(d**4, q**2)
    return DirectionMoments(p * norm2, fourth, bound, d * norm2, scale * fourth, scale * bound)


def support_energy_square(v: ArrayLike, q: int) -> Number:
    """E(Σ_{j ∈ S} v_j²)² = p Σ v⁴ + p₂ (‖v‖⁴ − Σ v⁴) ≤ p ‖v‖⁴   [eq:fourth_support_exact]

    >>> support_energy_square([1, 2], q=1)
    Fraction(17, 2)
    """
    x = exact("v", v, ndim=1)
    d, q = check_size(len(x), q)
    norm2, fourths = square(x), square(x * x)
    energy: Number = Fraction(q, d) * fourths + both_drawn(d, q) * (norm2**2 - fourths)
    return energy
