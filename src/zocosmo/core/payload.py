"""What messages cost: bits by kind, and bounds to compare with   [appendix:comm_accounting]"""

import math
from fractions import Fraction
from typing import NamedTuple

from zocosmo.core.support import check_size
from zocosmo.errors import check_whole


class Bits(NamedTuple):
    """Bits of one or many messages, by what they are spent on."""

    values: int = 0  # the q numbers
    indices: int = 0  # their coordinates
    control: int = 0  # seeds, counters, manifests
    framing: int = 0  # headers, checksums, and padding to whole bytes

    @property
    def total(self) -> int:
        return sum(self)

    @property
    def payload(self) -> int:
        """All except framing: what the paper counts."""
        return self.total - self.framing

    def plus(self, other: "Bits") -> "Bits":
        return Bits(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, count: int) -> "Bits":
        return Bits(*(count * a for a in self))

    def padded(self) -> "Bits":
        """With the framing that fills the last byte."""
        return self.plus(Bits(framing=-self.total % 8))


def index_bits(d: int) -> int:
    """ℓ_d = ⌈log₂ d⌉: bits that name one coordinate   [eq:index_bits_def]

    >>> index_bits(2_523_136), index_bits(6_525_621_760)
    (22, 33)
    """
    return (check_size(d, 1)[0] - 1).bit_length()


def log2_binomial(d: int, q: int) -> float:
    """log₂ C(d, q), the entropy of a uniform q-subset, accurate to about 15 digits at any size.

    Exact integers for q ≤ 64 or d − q ≤ 64; above, Stirling's series for the three factorials, combined to
    avoid cancellation. With p = q/d and s(n) = 1/12n − 1/360n³ + 1/1260n⁵,

        ln C = −q ln p − (d − q) ln(1 − p) − ½ ln(2π q (1 − p)) + s(d) − s(q) − s(d − q)

    >>> round(log2_binomial(6_525_621_760, 8192), 3)
    172402.336
    """
    d, q = check_size(d, q)
    q = min(q, d - q)
    if q <= 64:
        return math.log2(math.comb(d, q))
    p = q / d
    leading = -q * math.log(p) - (d - q) * math.log1p(-p) - math.log(2 * math.pi * q * (1 - p)) / 2
    return (leading + _stirling_tail(d) - _stirling_tail(q) - _stirling_tail(d - q)) / math.log(2)


def _stirling_tail(n: int) -> float:
    return 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)


def entropy_bound(d: int, q: int, value_bits: int = 32) -> float:
    """q B + log₂ C(d, q): no code for a private support costs less   [eq:conditional_total_sparse_cost]"""
    return q * value_bits + log2_binomial(d, q)


def index_share(d: int, value_bits: int) -> Fraction:
    """r = ℓ_d / (B + ℓ_d): the share of indices in an indexed message   [eq:index_fraction_def]"""
    return Fraction(index_bits(d), value_bits + index_bits(d))


def reuse_multiplier(d: int, value_bits: int, rounds: int) -> Fraction:
    """1 + ℓ_d / (K B): one list for K rounds, relative to values only   [eq:periodic_adaptive_multiplier]"""
    return 1 + Fraction(index_bits(d), check_whole("rounds", rounds, 1) * value_bits)


def refresh_multiplier(d: int, q: int, value_bits: int, period: int) -> Fraction:
    """Indexed rounds with a dense one every K, relative to values only   [eq:marina_round_multiplier]"""
    check_whole("the period of dense rounds", period, 1)
    return Fraction(period - 1, period) * reuse_multiplier(d, value_bits, 1) + Fraction(d, period * q)


def seed_overhead(rounds: int, *, seed_bits: int = 128, counter_bits: int = 32, every: int = 100) -> Fraction:
    """Bits per round for a seed sent once and a periodic round counter   [eq:seed_amortized_cost]"""
    check_whole("rounds", rounds, 1)
    return Fraction(seed_bits + counter_bits * (rounds // every), rounds)
