"""A public subspace x = x0 + P z: one entry a row, P_{c,h(c)} = σ_c √(m/d), h balanced and σ fair signs.

h(c) = π(c) mod m for a uniform permutation π, so each of m dimensions has ⌊d/m⌋ or ⌈d/m⌉ coordinates, and
PᵀP = (m/d) diag(their numbers).
"""

from fractions import Fraction
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from zocosmo.theory.numbers import check_finite, check_size, exact, square


class Stretch(NamedTuple):
    """‖Pz‖²/‖z‖² lies between these, and attains both."""

    least: Fraction
    most: Fraction


def stretch(d: int, m: int) -> Stretch:
    """(m/d)⌊d/m⌋ and (m/d)⌈d/m⌉: both are 1, and P an isometry, if and only if m divides d

    >>> stretch(8, 4), stretch(10, 4)
    (Stretch(least=Fraction(1, 1), most=Fraction(1, 1)), Stretch(least=Fraction(4, 5), most=Fraction(6, 5)))
    """
    d, m = check_size(d, m)
    return Stretch(Fraction(m * (d // m), d), Fraction(m * -(-d // m), d))


def together(d: int, m: int) -> Fraction:
    """P(h(c) = h(c')) for two coordinates: (d/m − 1)/(d − 1) if m divides d

    >>> str(together(8, 4))
    '1/7'
    """
    d, m = check_size(d, m)
    if d == 1:
        return Fraction(0)
    low, more = divmod(d, m)
    pairs = (m - more) * low * (low - 1) + more * (low + 1) * low
    return Fraction(pairs, d * (d - 1))


class Kept(NamedTuple):
    """What a random subspace keeps of a gradient and of a Hessian."""

    gradient: Any  # E‖Pᵀg‖² = (m/d) ‖g‖²
    deviation2: Any  # Var ‖Pᵀg‖²
    trace: Any  # E tr(PᵀHP) = (m/d) tr H


def kept(g: ArrayLike, m: int, trace: Any = 0) -> Kept:
    """E‖Pᵀg‖², its variance, and E tr(PᵀHP), over signs and permutations

        Var ‖Pᵀg‖² = 2 (m/d)² P(h(c) = h(c')) (‖g‖⁴ − Σ_c g_c⁴) ≤ (2/m)(m/d)² ‖g‖⁴   where m divides d

    Both means shrink by m/d, so ‖g‖²/tr H, which decides what a dense direction gains, stays as it is.

    >>> kept([1, 1, 1, 1], 2, trace=4)
    Kept(gradient=Fraction(2, 1), deviation2=Fraction(2, 1), trace=Fraction(2, 1))
    """
    g = exact("the gradient", g, 1)
    d, m = check_size(len(g), m)
    part, g2 = Fraction(m, d), square(g)
    return Kept(
        part * g2,
        2 * part**2 * together(d, m) * (g2 * g2 - square(g * g)),
        part * check_finite("trace", trace),
    )
