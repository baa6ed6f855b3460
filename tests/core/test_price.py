"""Prices: what each kind of message costs, held against formulas written out here."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core import CODECS, entropy_bound
from zocosmo.core.price import PRICES
from zocosmo.core.values import F16, F32, VALUE_TYPES

SIZES = st.integers(1, 400).flatmap(lambda d: st.tuples(st.just(d), st.integers(1, min(d, 60))))


def lengths(d, q, b):
    """Payload bits of q of d coordinates, or q of whatever it is, in values of b bits."""
    names = math.ceil(math.log2(d)) if d > 1 else 0
    return {
        "values": q * b,
        "indexed": q * (b + names),
        "plain": q * (b + 32),
        "entropy": q * b + (math.comb(d, q) - 1).bit_length(),
        "coordinates": q * names,
        "seeds": q * 64,
        "votes": q,
        "scaled_signs": q + b,
    }


@given(SIZES, st.sampled_from(sorted(VALUE_TYPES)))
def test_prices_are_their_formulas(size, value):
    for name, bits in lengths(*size, VALUE_TYPES[value].bits).items():
        assert PRICES[name](*size, VALUE_TYPES[value]).payload == bits


@given(SIZES)
def test_every_message_is_whole_bytes(size):
    assert {PRICES[name](*size, F16).total % 8 for name in PRICES} == {0}
    assert all(0 <= PRICES[name](*size, F16).framing < 8 for name in PRICES)


@given(SIZES)
def test_no_code_for_a_private_support_costs_less_than_entropy(size):
    """Its payload is the bound, rounded up to a bit."""
    bound = PRICES["entropy"](*size, F32).payload
    assert all(bound <= PRICES[name](*size, F32).payload for name in ("indexed", "plain", "delta"))
    assert math.ceil(entropy_bound(*size) - 1e-9) == bound


@pytest.mark.parametrize("name", CODECS)
def test_a_codecs_price_is_the_codecs_own(name):
    assert PRICES[name](300, 7, F32) == CODECS[name].bits(300, 7, F32)


def test_bits_are_entered_under_what_they_are_spent_on():
    kinds = {name: PRICES[name](64, 8, F32)[:3] for name in PRICES}
    assert kinds["entropy"] == (256, math.ceil(math.log2(math.comb(64, 8))), 0)
    assert (kinds["coordinates"], kinds["seeds"]) == ((0, 48, 0), (0, 0, 512))
    assert (kinds["votes"], kinds["scaled_signs"]) == ((8, 0, 0), (40, 0, 0))
