"""Integers of a few bits as bytes, and values cut into them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, frame, unframe
from zocosmo.core.message import CODECS
from zocosmo.core.price import PRICES
from zocosmo.core.residues import RESIDUES, Cut
from zocosmo.core.support import MAX_D
from zocosmo.core.values import F32, VALUE_TYPES
from zocosmo.errors import CorruptMessage

SESSION = bytes(range(32))


def integers(bits, count, seed=0):
    return np.random.default_rng(seed).integers(0, 2**bits, count).astype(RESIDUES[bits].dtype)


@given(st.sampled_from(sorted(RESIDUES)), st.integers(1, 40), st.integers(0, 99))
def test_a_frame_gives_the_integers_back_and_is_as_long_as_its_price(bits, count, seed):
    value, k = RESIDUES[bits], integers(bits, count, seed)
    header = Header(CODECS["values"], value, 3, 1, count)
    data = frame(header, Message(k), d=MAX_D, session=SESSION)
    assert 8 * len(data) == PRICES[value.name](count, count, F32).plus(FRAME_BITS).total
    got, message = unframe(data, d=MAX_D, session=SESSION, expect=header)
    assert got == header
    assert_array_equal(message.values, k)


@pytest.mark.parametrize("bits", [1, 5, 16])
def test_integers_follow_each_other_without_a_gap(bits):
    k = integers(bits, 7)
    whole = sum(int(each) << bits * place for place, each in enumerate(k.tolist()))
    assert RESIDUES[bits].pack(k) == whole.to_bytes(-(-7 * bits // 8), "little")


@given(
    st.sampled_from(sorted(VALUE_TYPES)),
    st.sampled_from([0, *sorted(RESIDUES)]),
    st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=5),
)
def test_values_come_back_from_words_to_the_bit(name, bits, numbers):
    cut, values = Cut(VALUE_TYPES[name], bits), VALUE_TYPES[name].round(np.array(numbers))
    words = cut.write(values)
    assert len(words) == len(values) * cut.pieces
    assert cut.pieces == (-(-VALUE_TYPES[name].bits // bits) if bits else 1)
    assert_array_equal(cut.read(words), values)
    if bits:
        whole = sum(int(each) << bits * place for place, each in enumerate(words[: cut.pieces].tolist()))
        assert whole.to_bytes(8, "little")[: cut.of.bits // 8] == cut.of.pack(values[:1])


def test_a_word_with_something_in_its_filling_is_refused():
    words = Cut(F32, 5).write(np.array([1.5], np.float32))
    words[-1] |= 4  # bits 30 and 31 of the value are before it
    with pytest.raises(CorruptMessage, match="the filling of a word is not zero"):
        Cut(F32, 5).read(words)
