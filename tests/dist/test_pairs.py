"""Two nodes that swap values in place: the bytes, the bits and the errors of every other way."""

import numpy as np
import pytest

from dist.tins import KEY, VALUES, LeanTin, Tin, channel, forged, honest
from zocosmo.core.support import Support
from zocosmo.core.values import VALUE_TYPES
from zocosmo.core.wire import Letters
from zocosmo.errors import CorruptMessage, ForeignMessage, NonFiniteMessage

PARTNER = np.array([1])
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])


@KEYS
@pytest.mark.parametrize(("wire", "dtype"), [("f32", "float32"), ("f64", "float64"), ("bf16", "float32")])
def test_a_pair_sends_and_mixes_what_the_long_way_does(key, wire, dtype):
    """Over a tin without swaps and over one with them, three rounds of two messages each."""
    seen = []
    for lean in (False, True):
        ours, mixed = channel(0, tin=LeanTin if lean else Tin, key=key, wire=wire, dtype=dtype), []
        for t in range(3):
            ours.begin(t)
            for sequence in range(2):
                theirs = VALUE_TYPES[wire].round(np.array([0.5 + t, 4.0 + sequence], dtype)).astype(dtype)
                ours.links.next = honest(t, sequence=sequence, values=theirs, key=key, wire=wire, dtype=dtype)
                mixed.append(ours.mix_pairs(VALUES[None].astype(dtype), PARTNER).tobytes())
        counts = ours.crossed, ours.messages, tuple(ours.ledger("values").link(0, 1))
        seen.append((ours.links.sent, mixed, counts))
    assert seen[0] == seen[1]
    assert len(seen[0][0]) == 6


def test_letters_of_a_swap_are_the_callers_own():
    ours = channel(0, tin=LeanTin)
    ours.links.next = honest(0)
    got = ours.swap(Letters(VALUES[None]), PARTNER, None).values
    ours.begin(1)
    ours.links.next = honest(1, values=2 * VALUES)
    ours.swap(Letters(VALUES[None]), PARTNER, None)
    assert got.tolist() == [VALUES.tolist()]


@KEYS
def test_a_changed_bit_is_named(key):
    ours, data = channel(0, tin=LeanTin, key=key), honest(3, key=key)
    ours.begin(3)
    ours.links.next = data[:35] + bytes([data[35] ^ 1]) + data[36:]
    with pytest.raises(CorruptMessage, match="checksum"):
        ours.mix_pairs(VALUES[None], PARTNER)


@KEYS
def test_a_frame_of_an_earlier_round_is_named(key):
    ours = channel(0, tin=LeanTin, key=key)
    ours.begin(3)
    ours.links.next = honest(2, key=key)
    with pytest.raises(ForeignMessage, match="has round 2, expected 3"):
        ours.mix_pairs(VALUES[None], PARTNER)


@KEYS
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_named(key, value):
    ours = channel(0, tin=LeanTin, key=key)
    ours.begin(3)
    ours.links.next = forged(3, np.array([1.0, value], np.float32), key=key)
    with pytest.raises(NonFiniteMessage, match="from node 1 in round 3"):
        ours.mix_pairs(VALUES[None], PARTNER)


def test_a_codec_with_coordinates_goes_the_long_way():
    ours, support = channel(0, tin=LeanTin, codec="indexed"), Support(np.array([1, 4]), 8)
    ours.links.next = honest(0, support=support.index, codec="indexed")
    assert ours.mix_pairs(VALUES[None], PARTNER, support).tolist() == [VALUES.tolist()]
    assert ours.links.swaps == 0


def test_a_node_that_is_its_own_partner_sends_nothing():
    ours = channel(0, tin=LeanTin)
    assert ours.mix_pairs(VALUES[None], np.array([0])).tolist() == [VALUES.tolist()]
    assert ours.links.sent == []
    assert ours.messages == 0
