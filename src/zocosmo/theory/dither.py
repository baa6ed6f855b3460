"""A wire of b bits with public dither: when decoding cannot fail, and which scales do not feed themselves.

The sender has y, the scale Δ and public r in [0, 1). It sends k = ⌊y/Δ + r⌋ modulo 2^b. The receiver has x
and takes the integer ≡ k (mod 2^b) nearest to v = x/Δ + r − ½, the upper one of two that are equally near.
Both ends then use ŷ = Δ (k − r + ½).

Error. With f = y/Δ + r − k in [0, 1), ŷ − y = Δ (½ − f) lies in (−Δ/2, Δ/2]. If r is uniform on [0, 1), so
is f, whatever y is: mean 0, variance Δ²/12. The tape's grid r = (2m + 1)/2^17 gives the variance Δ²/12 (1 −
2^−32) and a mean of at most Δ/2^17, which is 0 where y is a multiple of Δ/2^16.

Lemma (decoding). k is decoded if and only if −2^(b−1) Δ < ŷ − x ≤ 2^(b−1) Δ. If |y − x| ≤ B, that holds for
every y, x and r if and only if B ≤ (2^(b−1) − ½) Δ.

Proof. k − v = (ŷ − x)/Δ. Integers ≡ k lie 2^b apart, so k is nearest to v, or the upper of two nearest, if
and only if −2^(b−1) < k − v ≤ 2^(b−1). For the second part, ŷ − x = (y − x) + (ŷ − y) is at most B + Δ/2,
which is attained with y − x = B and f = 0, and above −B − Δ/2, which is approached with y − x = −B as f →
1. The upper bound needs B + Δ/2 ≤ 2^(b−1) Δ; then the lower one holds too.  ∎

If the lower of two copies were taken, B = (2^(b−1) − ½) Δ itself would fail, at f = 0, and every smaller B
would still do.

After an exchange the ends differ by x_i⁺ − x_j⁺ = (y_i − y_j) + (ŷ_j − ŷ_i) = e_j − e_i, e = ŷ − y: by at
most (Δ_i + Δ_j)/2, with variance (Δ_i² + Δ_j²)/12, wherever they began.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from statistics import NormalDist
from typing import NamedTuple

from zocosmo.theory.numbers import Number, check_finite, rational, whole


def sent(y: Number, scale: Number, r: Number, b: int) -> int:
    """k mod 2^b, k = ⌊y/Δ + r⌋: the b bits that cross"""
    return int(math.floor(rational(y) / check_finite("scale", scale, above=True) + r) % 2 ** whole("b", b))


def decoded(bits: int, x: Number, scale: Number, r: Number, b: int) -> int:
    """The integer ≡ bits (mod 2^b) nearest to x/Δ + r − ½; the upper one of two

    >>> y, x, r = Fraction(37, 8), Fraction(5), Fraction(1, 4)
    >>> decoded(sent(y, 1, r, 2), x, 1, r, 2)
    4
    """
    turn = 2 ** whole("b", b)
    v = rational(x) / check_finite("scale", scale, above=True) + r - Fraction(1, 2)
    return int(bits + turn * math.floor((v - bits) / turn + Fraction(1, 2)))


def widest(b: int, scale: Number) -> Number:
    """(2^(b−1) − ½) Δ: the largest |y − x| at which decoding cannot fail

    >>> [str(widest(b, 1)) for b in (2, 3, 4)]
    ['3/2', '7/2', '15/2']
    """
    return (Fraction(2 ** whole("b", b), 2) - Fraction(1, 2)) * check_finite("scale", scale, above=True)


def decodes(b: int, scale: Number, B: Number) -> bool:
    """Whether every y with |y − x| ≤ B is decoded, whatever the dither."""
    return bool(check_finite("B", B) <= widest(b, scale))


def power_above(least: Number) -> Fraction:
    """The least power of two that is `least` or more

    >>> [str(power_above(Fraction(value))) for value in ("3/8", "1/2", "5")]
    ['1/2', '1/2', '8']
    """
    value = Fraction(check_finite("least", least, above=True))
    e = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** (e - 1)
    while power < value:
        power *= 2
    return power


def safe_scale(b: int, B: Number) -> Fraction:
    """The least power of two Δ with which |y − x| ≤ B cannot fail"""
    return power_above(Fraction(B) / (Fraction(2 ** whole("b", b), 2) - Fraction(1, 2)))


def half_width(b: int, sure: bool = False) -> Fraction:
    """Half of the range in Δ: 2^(b−1), or 2^(b−1) − ½, within which decoding cannot fail, if `sure`"""
    return Fraction(2 ** whole("b", b), 2) - (Fraction(1, 2) if sure else 0)


def rule_scale(b: int, reach: Number, *, sure: bool = False) -> Fraction:
    """The least power of two Δ with half_width(b) Δ ≥ reach: the scale rule, for reach = c s + own step"""
    return power_above(Fraction(reach) / half_width(b, sure))


def halvings(b: int) -> int:
    """b − 2: how often a pair without steps may halve Δ from one meeting to the next and never fail

    Its ends differ by Δ at most, and Δ ≤ (2^(b−1) − ½) Δ/2^j if and only if j ≤ b − 2.
    """
    return whole("b", b, 2) - 2


def drift(b: int, c: Number, *, sure: bool = False) -> int:
    """log₂(Δ⁺/Δ) from meeting to meeting of a pair without steps, Δ = rule_scale(b, c s)

    The ends differ by s² = Δ²/6 after an exchange with equal scales. With w the half width, Δ⁺ is the least
    power of two that is Δ c/(w √6) or more, so the exponent changes by ⌈log₂ (c/(w √6))⌉: it falls if and
    only if 2c² ≤ 3w², which is 8c²/(3 · 4^b) ≤ 1 for w = 2^(b−1), and it rises if and only if c² > 6w².

    >>> drift(3, 4), drift(3, 6), drift(3, 10)
    (-1, 0, 1)
    """
    ratio, e = Fraction(c) ** 2 / (6 * half_width(b, sure) ** 2), 0
    if ratio <= 0:
        raise ValueError(f"c = {c} must be above 0")
    while ratio <= Fraction(4) ** (e - 1):
        e -= 1
    while ratio > Fraction(4) ** e:
        e += 1
    return e


def largest_c(b: int, *, sure: bool = False) -> float:
    """√6 w / 2, w the half width: the largest c whose scale shrinks by itself; √6 · 2^b / 4 unless `sure`

    Up to twice this c the scale stays where it is, beyond that it doubles at every meeting. An s that is
    estimated from q values wobbles by a share of 1/√(2q): stay below by that. A smoothed s² shrinks too: it
    is moved towards Δ²/6 < (2c²/3w²) s² ≤ s², because Δ < 2cs/w.

    >>> [round(largest_c(b), 2) for b in range(2, 9)]
    [2.45, 4.9, 9.8, 19.6, 39.19, 78.38, 156.77]
    """
    return math.sqrt(6) / 2 * float(half_width(b, sure))


def failure(c: float, q: int, b: int, *, sure: bool = False) -> float:
    """Probability that a message of q values fails, y − x ~ N(0, s²) independent, where half_width(b) Δ = c s

    A value fails with |ŷ − x| beyond 2^(b−1) Δ. With δ = Δ/s = c/w, T = 2^(b−1) δ and Ψ(t) = t Φ(t) + φ(t)
    that is

        2 [Ψ(−T + δ/2) − Ψ(−T − δ/2)] / δ,

    at most 2Φ(−c) if `sure`, and close to 2Φ(−c) for large b. Rounding Δ up to a power of two only lowers it.

    >>> f"{failure(4, 16, 3):.2g}, {failure(4, 16, 3, sure=True):.2g}, {16 * math.erfc(4 / 2**0.5):.2g}"
    '0.0018, 0.0002, 0.001'
    """
    if not c > 0:
        raise ValueError(f"c = {c} must be above 0")
    step = c / float(half_width(b, sure))
    reach = step * 2.0 ** (b - 1)
    one = 2 * (_mean_above(-reach + step / 2) - _mean_above(-reach - step / 2)) / step
    return -math.expm1(whole("q", q) * math.log1p(-one)) if one < 1 else 1.0


def _mean_above(t: float) -> float:
    """Ψ(t) = t Φ(t) + φ(t), an antiderivative of Φ"""
    return t * math.erfc(-t / math.sqrt(2)) / 2 + NormalDist().pdf(t)


class WireRow(NamedTuple):
    """What b bits allow."""

    b: int
    widest: Fraction  # |y − x| that cannot fail, in Δ
    largest_c: float
    failure: float  # of a message at that c
    jump: float  # of a message whose differences are twice as large as its scale was set for


def wire_table(q: int, bits: Iterable[int] = range(2, 9), *, sure: bool = False) -> list[WireRow]:
    """A row for each number of bits: the largest safe c, and how often messages of q values fail at it"""
    rows = []
    for b in bits:
        c = largest_c(b, sure=sure)
        often = failure(c, q, b, sure=sure), failure(c / 2, q, b, sure=sure)
        rows.append(WireRow(b, half_width(b, sure=True), c, *often))
    return rows
