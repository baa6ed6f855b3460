"""Decoding by the receiver's own value: when it cannot fail; scales that shrink by themselves."""

import math
from fractions import Fraction as Fr

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.theory.dither import (
    decoded,
    decodes,
    drift,
    failure,
    half_width,
    halvings,
    largest_c,
    power_above,
    rule_scale,
    safe_scale,
    sent,
    widest,
    wire_table,
)

FINE = 2**20  # values are multiples of Δ/2^20, dither of Δ/2^17
CASES = 100_000
BITS = range(1, 9)


def drawn(b, seed):
    """Whole numbers in units of Δ/2^20: y, x near it at every distance up to twice the range, and r."""
    rng = np.random.default_rng(seed)
    y = rng.integers(-(2**40), 2**40, CASES)
    reach = 2**b * FINE
    x = y + rng.integers(-reach, reach + 1, CASES)
    r = (2 * rng.integers(0, 2**16, CASES) + 1) * 8
    edge = (2 ** (b - 1) * FINE - FINE // 2) * rng.choice([-1, 1], CASES // 4)  # B itself
    x[: CASES // 4] = y[: CASES // 4] + edge
    y[: CASES // 8] -= (y[: CASES // 8] + r[: CASES // 8]) % FINE  # f = 0, where ŷ − y is largest
    x[: CASES // 8] = y[: CASES // 8] + edge[: CASES // 8]
    return y, x, r


@pytest.mark.parametrize("b", BITS)
def test_decoding_is_exact_within_the_bound_and_as_the_lemma_says_beyond(b):
    """A hundred thousand dyadic cases in whole numbers, on both sides of the bound and on it."""
    y, x, r = drawn(b, seed=b)
    k = (y + r) // FINE
    turn = 2**b * FINE
    v = x + r - FINE // 2
    low = k % 2**b * FINE
    found = low + turn * ((v - low + turn // 2) // turn)  # nearest copy, upper of two
    apart = k * FINE - r + FINE // 2 - x  # ŷ − x
    right = found == k * FINE
    assert (right == ((-turn // 2 < apart) & (apart <= turn // 2))).all()
    sure = np.abs(y - x) <= turn // 2 - FINE // 2
    assert right[sure].all()
    assert 0.2 < sure.mean() < 0.8
    assert not right[np.abs(y - x) > turn // 2 + FINE // 2].any()
    assert (np.abs(y - x) == turn // 2 - FINE // 2).sum() >= CASES // 4


@given(
    st.integers(1, 8),
    st.fractions(-50, 50),
    st.fractions(-3, 3),
    st.integers(0, 2**16 - 1),
    st.integers(-4, 4),
)
def test_the_functions_say_what_the_lemma_says(b, x, off, m, e):
    scale, r = Fr(2) ** e, Fr(2 * m + 1, 2**17)
    y = x + off * scale * 2 ** (b - 1)
    k = math.floor(y / scale + r)
    right = decoded(sent(y, scale, r, b), x, scale, r, b) == k
    apart = scale * (k - r + Fr(1, 2)) - x
    assert right == (-(2 ** (b - 1)) * scale < apart <= 2 ** (b - 1) * scale)
    if decodes(b, scale, abs(y - x)):
        assert right


@pytest.mark.parametrize("b", BITS)
def test_no_larger_bound_would_do(b):
    """Just beyond it, at the dither at which ŷ − y is Δ/2, the copy below is nearer."""
    x, r = Fr(0), Fr(1, 2)
    at = widest(b, 1)
    y, beyond = (value - (value + r) % 1 for value in (at, at + 1))  # f = 0
    assert decoded(sent(y, 1, r, b), y - at, 1, r, b) == math.floor(y + r)
    assert decoded(sent(beyond, 1, r, b), beyond - at - Fr(1, 2**30), 1, r, b) != math.floor(beyond + r)
    assert x == 0


@given(st.integers(2, 8), st.fractions(Fr(1, 1000), 1000))
def test_the_least_safe_scale(b, B):
    scale = safe_scale(b, B)
    assert decodes(b, scale, B)
    assert not decodes(b, scale / 2, B)
    assert rule_scale(b, B, sure=True) == scale
    assert rule_scale(b, B) in (scale, scale / 2)


@given(st.fractions(Fr(1, 10**6), 10**6))
def test_a_power_of_two_above(value):
    power = power_above(value)
    assert power / 2 < value <= power
    assert power.numerator == 1 or power.denominator == 1
    assert math.log2(power) == round(math.log2(power))


def test_the_error_is_uniform_whatever_the_value_is():
    """All 2^16 dithers: mean 0 for multiples of Δ/2^16, else Δ/2^17 at most; variance Δ²/12 (1 − 2^−32)."""
    r = (2 * np.arange(2**16) + 1) * 8
    for y in (0, 16 * 12345, 16 * 777 + 5, -16 * 3 - 9):
        e = ((y + r) // FINE * FINE - r + FINE // 2 - y).astype(np.int64)
        total, squares = int(e.sum()), int((e * e).sum())
        assert abs(Fr(total, 2**16 * FINE)) <= Fr(1, 2**17)
        assert (total == 0) == (y % 16 == 0)
        variance = Fr(squares, 2**16) - Fr(total, 2**16) ** 2
        assert variance / FINE**2 == Fr(1, 12) * (1 - Fr(1, 2**32))
        assert e.min() > -FINE // 2
        assert e.max() <= FINE // 2


@pytest.mark.parametrize("sure", [False, True])
@pytest.mark.parametrize("b", range(2, 9))
def test_the_largest_safe_c_parts_shrinking_scales_from_others(b, sure):
    """By the recursion itself: s = Δ/√6 after a meeting, then the least power of two that the rule allows."""

    def meet(e, c):
        """The next exponent, by whole numbers: 2^e' w ≥ c 2^e/√6."""
        w = half_width(b, sure)
        return next(k for k in range(e - 40, e + 40) if 6 * (Fr(2) ** (k - e) * w) ** 2 >= Fr(c) ** 2)

    edge = largest_c(b, sure=sure)
    for c, way in ((0.999 * edge, -1), (1.001 * edge, 0), (1.999 * edge, 0), (2.001 * edge, 1)):
        assert drift(b, c, sure=sure) == meet(0, c) == way


@pytest.mark.parametrize("b", [2, 3, 4])
def test_a_smoothed_scale_shrinks_below_the_edge_and_stays_above_it(b):
    """s² ← 0.8 s² + 0.2 Δ²/6, not below a quarter of what was seen."""
    ends = []
    for by in (0.99, 1.5):
        s2 = 1.0
        for _ in range(400):
            seen = float(rule_scale(b, by * largest_c(b) * s2**0.5)) ** 2 / 6
            s2 = max(0.8 * s2 + 0.2 * seen, seen / 4)
        ends.append(s2)
    assert ends[0] < 1e-3
    assert 0.1 < ends[1] < 10


@pytest.mark.parametrize("b", range(3, 9))
def test_a_pair_that_halves_its_scale_never_fails(b):
    """The ends differ by Δ at most; b − 2 halvings are sure, one more is not."""
    assert decodes(b, Fr(1, 2 ** halvings(b)), 1)
    assert not decodes(b, Fr(1, 2 ** (halvings(b) + 1)), 1)


def test_ends_differ_by_their_errors_after_an_exchange():
    """x_i⁺ − x_j⁺ = e_j − e_i for any values and scales, and the sum stays; in rationals."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        y = [Fr(int(v), 2**12) for v in rng.integers(-(2**20), 2**20, 2)]
        scales = [Fr(2) ** int(e) for e in rng.integers(-6, 3, 2)]
        r = [Fr(2 * int(m) + 1, 2**17) for m in rng.integers(0, 2**16, 2)]
        hat = [
            s * (math.floor(v / s + each) - each + Fr(1, 2)) for v, s, each in zip(y, scales, r, strict=True)
        ]
        after = [y[0] + (hat[1] - hat[0]) / 2, y[1] + (hat[0] - hat[1]) / 2]
        assert after[0] - after[1] == (hat[1] - y[1]) - (hat[0] - y[0])
        assert abs(after[0] - after[1]) <= sum(scales) / 2
        assert sum(after) == sum(y)


@pytest.mark.parametrize(
    ("b", "c", "sure"), [(2, 1.5, False), (2, 1.8, True), (3, 2.0, False), (4, 2.2, True)]
)
def test_messages_fail_as_often_as_gaussian_differences_say(b, c, sure):
    """z of a count among a million values, |z| < 4."""
    rng, count = np.random.default_rng(b), 10**6
    scale = c / float(half_width(b, sure))  # s = 1
    off = rng.standard_normal(count) + scale * (rng.random(count) - 0.5)
    seen, told = float((np.abs(off) > 2 ** (b - 1) * scale).mean()), failure(c, 1, b, sure=sure)
    assert abs(seen - told) < 4 * math.sqrt(told * (1 - told) / count)
    assert failure(c, 7, b, sure=sure) == pytest.approx(1 - (1 - told) ** 7)


@given(st.floats(0.5, 8), st.integers(2, 8))
def test_a_sure_range_fails_no_more_than_the_tail_of_a_gaussian(c, b):
    tail = math.erfc(c / math.sqrt(2))
    assert failure(c, 1, b, sure=True) <= tail * (1 + 1e-9) + 1e-15


def test_the_table_of_bits():
    rows = wire_table(16)
    assert [row.b for row in rows] == list(range(2, 9))
    assert [round(row.largest_c, 2) for row in rows[:3]] == [2.45, 4.9, 9.8]
    assert rows[0].failure > 0.1 > 1e-3 > rows[1].failure > rows[2].failure
    assert rows[1].jump > 0.1 > 1e-3 > rows[2].jump


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: widest(0, 1), "b must be 1 or more"),
        (lambda: widest(3, 0), "scale = 0"),
        (lambda: drift(3, 0), "c = 0"),
        (lambda: failure(-1, 1, 3), "c = -1"),
        (lambda: power_above(0), "least = 0"),
    ],
)
def test_what_has_no_meaning_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
