"""Which coordinates T rounds visit   [eq:coordinate_exposure_v24, appendix:balanced_schedule_proof]

Supports are uniform q-subsets of d coordinates, fresh in every round, unless a function is about balanced
ones. Probabilities are fractions, exactly; `…_float` is for sizes whose exact fractions would be too long.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction

from zocosmo.theory.numbers import whole
from zocosmo.theory.payload import Exact, sizes

LONGEST = 10**6  # bits of a fraction that is still worth computing
DIGITS = Context(prec=60)  # above that; a tie would need a share of as many digits


def exposure(d: int, q: int, T: int) -> Fraction:
    """τ = q T / d, the mean number of visits to a coordinate   [eq:coordinate_exposure_v24]

    >>> exposure(2_523_136, 8192, 1540)
    Fraction(5, 1)
    """
    d, q = sizes(d, q)
    return Fraction(q * whole("T", T, 0), d)


def missed(d: int, q: int, T: int) -> Fraction:
    """(1 − q/d)^T: the probability that a coordinate was never visited   [eq:coordinate_exposure_v24]

    >>> missed(4, 2, 3)
    Fraction(1, 8)
    """
    d, q = sizes(d, q)
    return Fraction(d - q, d) ** whole("T", T, 0)


def missed_float(d: int, q: int, T: int) -> float:
    """(1 − q/d)^T = exp(T log1p(−q/d)), for any size"""
    d, q = sizes(d, q)
    if q == d:
        return 0.0 if whole("T", T, 0) else 1.0
    return math.exp(whole("T", T, 0) * math.log1p(-q / d))


def expected_coverage(d: int, q: int, T: int) -> Fraction:
    """1 − (1 − q/d)^T: the expected share of coordinates that were visited"""
    return 1 - missed(d, q, T)


def expected_coverage_float(d: int, q: int, T: int) -> float:
    """1 − (1 − q/d)^T for any size; small shares keep their digits

    >>> round(expected_coverage_float(2_523_136, 8192, 1540), 6)
    0.993317
    """
    d, q = sizes(d, q)
    if q == d:
        return 1.0 if whole("T", T, 0) else 0.0
    return -math.expm1(whole("T", T, 0) * math.log1p(-q / d))


def coverage_variance(d: int, q: int, T: int) -> Fraction:
    """Variance of the share of coordinates that T rounds visited, from pairs of coordinates

        Var = (a − c)/d + c − a²,   a = (1 − q/d)^T,   c = ((d − q)(d − q − 1) / (d (d − 1)))^T

    One support misses two given coordinates a little more seldom than two supports would: c < a².

    >>> coverage_variance(10, 3, 1)
    Fraction(0, 1)
    """
    (d, q), T = sizes(d, q), whole("T", T, 0)
    a = missed(d, q, T)
    if d == 1:
        return Fraction(0)
    c = Fraction((d - q) * (d - q - 1), d * (d - 1)) ** T
    return (a - c) / d + c - a * a


def coverage_deviation(d: int, q: int, T: int) -> float:
    """√Var of the share visited, for any size

        c − a² = a² expm1(T log1p(−q / ((d − 1)(d − q))))

    >>> round(1e6 * coverage_deviation(2_523_136, 8192, 1540), 1)
    50.4
    """
    d, q = sizes(d, q)
    if q == d or whole("T", T, 0) < 2:
        return 0.0  # the same number of coordinates whatever is drawn
    if 2 * T * d.bit_length() <= LONGEST:
        return math.sqrt(coverage_variance(d, q, T))
    a = missed_float(d, q, T)
    below = a * a * math.expm1(T * math.log1p(-q / ((d - 1) * (d - q))))
    return math.sqrt(max(0.0, (a - a * a - below) / d + below))


def waiting_time(d: int, q: int) -> Fraction:
    """d/q: rounds between two visits to a coordinate, on average"""
    d, q = sizes(d, q)
    return Fraction(d, q)


def rounds_to_cover(d: int, q: int, share: Exact | float) -> int:
    """The smallest T with 1 − (1 − q/d)^T ≥ share

    >>> rounds_to_cover(2_523_136, 8192, 0.99)
    1417
    """
    d, q = sizes(d, q)
    if not 0 <= share < 1 and not (q == d and share == 1):
        raise ValueError(f"a share to be expected lies from 0 up to, not at, 1; got {share}")
    rest = 1 - Fraction(share)
    if q == d or rest == 1:
        return 0 if rest == 1 else 1
    guess = (math.log(rest.numerator) - math.log(rest.denominator)) / math.log1p(-q / d)
    T = max(0, math.floor(guess * (1 - 1e-12)) - 1)
    while not _missed_at_most(d, q, T, rest):
        T += 1
    return T


def _missed_at_most(d: int, q: int, T: int, rest: Fraction) -> bool:
    """(1 − q/d)^T ≤ rest, exactly; with 60 digits where the fraction would be too long."""
    if T * d.bit_length() <= LONGEST:
        return missed(d, q, T) <= rest
    power = DIGITS.power(DIGITS.divide(Decimal(d - q), Decimal(d)), T)
    return power <= DIGITS.divide(Decimal(rest.numerator), Decimal(rest.denominator))


def activation_law(d: int, q: int, T: int) -> list[Fraction]:
    """P(k visits) = C(T, k) (q/d)^k (1 − q/d)^(T−k) for k = 0 … T: binomial

    >>> [str(chance) for chance in activation_law(4, 1, 2)]
    ['9/16', '3/8', '1/16']
    """
    p, T = exposure(d, q, 1), whole("T", T, 0)
    return [math.comb(T, k) * p**k * (1 - p) ** (T - k) for k in range(T + 1)]


def activation_variance(d: int, q: int, T: int) -> Fraction:
    """T (q/d) (1 − q/d), of the visits to a coordinate; their mean is the exposure"""
    p = exposure(d, q, 1)
    return whole("T", T, 0) * p * (1 - p)


def epoch_length(d: int, q: int) -> int:
    """K = ⌈d/q⌉ rounds, in which a balanced schedule visits every coordinate   [eq:balanced_schedule]"""
    d, q = sizes(d, q)
    return -(-d // q)


def max_balanced_gap(d: int, q: int) -> int:
    """2K − 1: from the first round of an epoch to the last of the next   [eq:max_balanced_gap]

    >>> max_balanced_gap(10, 3)
    7
    """
    return 2 * epoch_length(d, q) - 1


def balanced_coverage(d: int, q: int, T: int) -> Fraction:
    """min(1, q T / d): no coordinate twice before all were visited once   [eq:permutation_partition]"""
    return min(Fraction(1), exposure(d, q, T))
