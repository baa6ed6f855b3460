"""Which coordinates T rounds visit   [eq:coordinate_exposure_v24, appendix:balanced_schedule_proof]

Supports are uniform q-subsets of d coordinates, drawn afresh every round, except in the functions on balanced
supports. Probabilities are exact Fractions, unless a function says otherwise.
"""

import math
from fractions import Fraction

from zocosmo.theory.numbers import check_size, share, whole

LONGEST = 10**6  # bits of the longest Fraction that is computed


def exposure(d: int, q: int, T: int) -> Fraction:
    """τ = q T / d, the mean number of visits to a coordinate   [eq:coordinate_exposure_v24]

    >>> exposure(2_523_136, 8192, 1540)
    Fraction(5, 1)
    """
    return share(d, q) * whole("T", T, 0)


def missed(d: int, q: int, T: int) -> Fraction:
    """(1 − q/d)^T: the probability that a coordinate was never visited   [eq:coordinate_exposure_v24]

    >>> missed(4, 2, 3)
    Fraction(1, 8)
    """
    return (1 - share(d, q)) ** whole("T", T, 0)


def expected_coverage(d: int, q: int, T: int) -> Fraction:
    """1 − (1 − q/d)^T: the expected share of coordinates visited"""
    return 1 - missed(d, q, T)


def expected_coverage_float(d: int, q: int, T: int) -> float:
    """1 − (1 − q/d)^T as a float, for sizes whose Fraction would be too long; small shares keep their digits

    >>> round(expected_coverage_float(2_523_136, 8192, 1540), 6)
    0.993317
    """
    d, q = check_size(d, q)
    if q == d:
        return 1.0 if whole("T", T, 0) else 0.0
    return -math.expm1(whole("T", T, 0) * math.log1p(-q / d))


def coverage_variance(d: int, q: int, T: int) -> Fraction:
    """Variance of the share of coordinates that T rounds visited, from pairs of coordinates

        Var = (a − c)/d + c − a²,   a = (1 − q/d)^T,   c = ((d − q)(d − q − 1) / (d (d − 1)))^T

    One support misses two given coordinates slightly less often than two supports would: c < a².

    >>> coverage_variance(10, 3, 1)
    Fraction(0, 1)
    """
    (d, q), T = check_size(d, q), whole("T", T, 0)
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
    d, q = check_size(d, q)
    if q == d or whole("T", T, 0) < 2:
        return 0.0  # every draw visits the same number of coordinates
    if 2 * T * d.bit_length() <= LONGEST:
        return math.sqrt(coverage_variance(d, q, T))
    a = math.exp(T * math.log1p(-q / d))
    below = a * a * math.expm1(T * math.log1p(-q / ((d - 1) * (d - q))))
    return math.sqrt(max(0.0, (a - a * a - below) / d + below))


def waiting_time(d: int, q: int) -> Fraction:
    """d/q: rounds between two visits to a coordinate, on average"""
    return 1 / share(d, q)


def epoch_length(d: int, q: int) -> int:
    """K = ⌈d/q⌉ rounds, in which a balanced schedule visits every coordinate   [eq:balanced_schedule]"""
    d, q = check_size(d, q)
    return -(-d // q)


def max_balanced_gap(d: int, q: int) -> int:
    """2K − 1: from the first round of an epoch to the last of the next   [eq:max_balanced_gap]

    >>> max_balanced_gap(10, 3)
    7
    """
    return 2 * epoch_length(d, q) - 1


def balanced_coverage(d: int, q: int, T: int) -> Fraction:
    """min(1, q T / d): no coordinate is visited twice before all are once   [eq:permutation_partition]"""
    return min(Fraction(1), exposure(d, q, T))
