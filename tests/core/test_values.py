import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from zocosmo.core import VALUE_TYPES
from zocosmo.errors import InputError

BF16 = VALUE_TYPES["bf16"]


def every_pattern_of_16_bits(name):
    return VALUE_TYPES[name].unpack(np.arange(2**16, dtype="<u2").tobytes(), 2**16)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_every_half_precision_pattern_survives(name):
    """All 65,536 of them, infinities and NaN payloads included, bit for bit."""
    values = every_pattern_of_16_bits(name)
    assert VALUE_TYPES[name].pack(values) == np.arange(2**16, dtype="<u2").tobytes()


@pytest.mark.parametrize("name", VALUE_TYPES)
@given(words=arrays(np.uint64, st.integers(1, 20)))
def test_unpack_undoes_pack_bit_for_bit(name, words):
    value = VALUE_TYPES[name]
    data, count = words.tobytes(), words.size * 64 // value.bits
    values = value.unpack(data, count)
    assert value.pack(values) == data
    assert values.size == count


@pytest.mark.parametrize("name", VALUE_TYPES)
def test_rounding_is_idempotent(name):
    value = VALUE_TYPES[name]
    once = value.round(np.array([0.1, -1e-8, 1 / 3, 65504.0, 1e39, -np.inf, 0.0]))
    assert once.dtype == value.dtype
    assert (value.round(once) == once).all()


def test_bfloat16_rounds_to_the_nearest_and_ties_to_even():
    """Against the definition, between all finite neighbours: at a quarter, a half and three quarters."""
    patterns = every_pattern_of_16_bits("bf16")
    finite = np.unique(patterns[np.isfinite(patterns)].astype(np.float64))
    low, high = finite[:-1], finite[1:]
    even_low = (BF16.round(low).view(np.uint32) >> np.uint32(16)) % 2 == 0
    for part, expected in ((0.25, low), (0.75, high), (0.5, np.where(even_low, low, high))):
        between = low + part * (high - low)
        exact = between.astype(np.float32) == between  # the smallest subnormals have no quarters in float32
        assert (BF16.round(between)[exact] == expected[exact]).all()


def test_bfloat16_keeps_a_nan_whose_payload_is_cut_off():
    """0x7f800001 is a NaN by its last bit alone, which bfloat16 has no room for."""
    signalling = np.array([0x7F800001, 0xFFBFFFFF], np.uint32).view(np.float32)
    assert np.isnan(BF16.round(signalling)).all()


def test_bfloat16_keeps_nans_and_overflows_to_infinity():
    rounded = BF16.round(np.array([math.nan, 3.4e38, -3.4e38, 1e300]))
    assert np.isnan(rounded[0])
    assert rounded[1:].tolist() == [math.inf, -math.inf, math.inf]


@pytest.mark.parametrize("name", ["f32", "f16", "bf16"])
def test_pack_never_rounds(name):
    with pytest.raises(InputError, match="round them first"):
        VALUE_TYPES[name].pack(np.array([0.1]))


def test_pack_refuses_float32_values_that_are_no_bfloat16():
    with pytest.raises(InputError, match="not bfloat16"):
        BF16.pack(np.array([0.1], np.float32))
