"""Levels: a logarithm in 16 bits that every machine computes alike."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core.levels import LEVEL, MOST, NONE, PER_UNIT, from_levels, level_codes


@given(st.integers(-MOST, MOST))
def test_a_code_comes_back_from_the_number_it_stands_for(code):
    v = from_levels(np.array([code / PER_UNIT]))
    assert level_codes(v).tolist() == [code]


@given(st.floats(2.0**-100, 2.0**100))
def test_a_level_is_the_chord_of_the_logarithm(v):
    """In fractions, then to the nearest 1/256, ties to even; a chord is at most 0.0861 below log2."""
    m, e = math.frexp(v)
    exact = (e + 2 * Fraction(m) - 1) * PER_UNIT
    (code,) = level_codes(np.array([v])).tolist()
    assert abs(code - exact) <= Fraction(1, 2)
    assert -0.0861 - 1 / 512 <= code / PER_UNIT - 1 - math.log2(v) <= 1 / 512


def test_the_mean_of_two_levels_is_inverted_exactly():
    codes = np.arange(-600, 600)
    halves = (codes[:, None] + codes) / (2 * PER_UNIT)
    v = from_levels(halves)
    m, e = np.frexp(v)
    assert (e + (2 * m - 1) == halves).all()


@pytest.mark.parametrize(("v", "code"), [(0.0, NONE), (math.inf, MOST), (math.nan, MOST), (1e-300, -MOST)])
def test_numbers_without_a_level_have_a_code(v, code):
    assert level_codes(np.array([v])).tolist() == [code]


def test_codes_cross_in_two_bytes():
    codes = np.array([NONE, -1, 0, MOST], np.int16)
    data = LEVEL.pack(codes)
    assert data == b"\x00\x80\xff\xff\x00\x00\xff\x7f"
    assert LEVEL.unpack(data, 4).tolist() == codes.tolist()
