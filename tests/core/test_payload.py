"""The paper's constants, recomputed   [tab:appendix_payload_examples, tab:appendix_index_share, …]"""

from fractions import Fraction
from math import comb, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core import (
    CODECS,
    Bits,
    entropy_bound,
    index_bits,
    index_share,
    log2_binomial,
    refresh_multiplier,
    reuse_multiplier,
    seed_overhead,
)
from zocosmo.errors import InputError

LORA, FULL, Q = 2_523_136, 6_525_621_760, 8192


@pytest.mark.parametrize(
    ("d", "q"), [(LORA, Q), (FULL, Q), (1000, 65), (200, 100), (131, 66), (20_000, 10_000), (10**18, 999)]
)
def test_the_entropy_agrees_with_exact_integers(d, q):
    """math.log2 of an exact integer is right to a unit in the last place; so are we, to three."""
    assert log2_binomial(d, q) == pytest.approx(log2(comb(d, q)), rel=3 * 2**-52)


@given(st.integers(1, 400), st.data())
def test_the_entropy_is_symmetric_and_bounded(d, data):
    """q log₂(d/q) ≤ log₂ C(d, q) ≤ q log₂(e d/q)   [eq:support_binomial_bounds]"""
    q = data.draw(st.integers(1, d))
    bits = log2_binomial(d, q)
    slack = 1e-9
    assert q * log2(d / q) - slack <= bits <= q * log2(2.718281828459045 * d / q) + slack
    if q < d:
        assert bits == log2_binomial(d, d - q)


def test_payloads_of_the_table():
    """Printed: 262.1K; ≥ 341.6K and 442.4K; ≥ 434.6K and 532.5K; 2.09e11 dense. Two are misprints: below."""
    assert CODECS["values"].bits(LORA, Q).total == 262_144
    assert CODECS["indexed"].bits(LORA, Q).total == 442_368
    assert CODECS["indexed"].bits(FULL, Q).total == 532_480
    assert round(CODECS["dense"].bits(FULL, Q).total, -9) == 209 * 10**9


def test_the_misprinted_payloads_from_the_exact_dimension():
    """Printed as 80.6M, 341.6K and 434.6K from rounded dimensions; exact: 80.740M, 341.657K, 434.546K."""
    assert CODECS["dense"].bits(LORA, Q).total == 80_740_352
    assert round(entropy_bound(LORA, Q)) == 341_657
    assert round(entropy_bound(FULL, Q)) == 434_546


@pytest.mark.parametrize(
    ("d", "bits", "shares"), [(LORA, 22, "40.7 57.9 73.3 95.7"), (FULL, 33, "50.8 67.3 80.5 97.1")]
)
def test_index_shares_of_the_table(d, bits, shares):
    assert index_bits(d) == bits
    assert [f"{100 * float(index_share(d, width)):.1f}" for width in (32, 16, 8, 1)] == shares.split()


def test_round_multipliers_of_the_table():
    assert f"{float(reuse_multiplier(LORA, 32, 1)):.2f}" == "1.69"
    assert f"{float(refresh_multiplier(LORA, Q, 32, 25)):.2f}" == "13.94"
    assert f"{float(refresh_multiplier(FULL, Q, 32, 25)):.3g}" == "3.19e+04"


def test_a_list_kept_for_several_rounds():
    """2.03, 1.10 and 1.02 for K = 1, 10, 50 at full-model size   [eq:periodic_adaptive_multiplier]"""
    assert [f"{float(reuse_multiplier(FULL, 32, k)):.2f}" for k in (1, 10, 50)] == ["2.03", "1.10", "1.02"]


def test_multipliers_are_ratios_of_what_codecs_charge():
    values, indexed = (CODECS[name].bits(FULL, Q).total for name in ("values", "indexed"))
    assert Fraction(indexed, values) == reuse_multiplier(FULL, 32, 1)
    assert Fraction(indexed - values, indexed) == index_share(FULL, 32)


def test_seed_and_counter_are_a_third_of_a_bit_a_round():
    """At most 128/T + 0.32   [eq:seed_numeric_example]"""
    for rounds in (100, 1000, 12_345):
        assert seed_overhead(rounds) <= Fraction(128, rounds) + Fraction(32, 100)
    assert seed_overhead(1000) == Fraction(448, 1000)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 2**40, 2**40 + 1])
def test_index_bits_name_every_coordinate_and_no_bit_fewer_would(d):
    assert 2 ** index_bits(d) >= d
    assert d == 1 or 2 ** (index_bits(d) - 1) < d


@pytest.mark.parametrize("d", [np.int64(FULL), np.uint64(FULL)])
def test_numpy_sizes_are_numbers(d):
    assert entropy_bound(d, np.int32(Q)) == entropy_bound(FULL, Q)
    assert index_bits(d) == 33


@pytest.mark.parametrize(
    "call",
    [
        lambda: reuse_multiplier(10, 32, 0),
        lambda: refresh_multiplier(10, 1, 32, 0),
        lambda: seed_overhead(0),
        lambda: index_bits(-5),
    ],
)
def test_questions_without_an_answer_are_refused(call):
    with pytest.raises(InputError):
        call()


def test_bits_add_up():
    message = Bits(values=32, indices=5, framing=3)
    assert (message.total, message.payload) == (40, 37)
    assert message.times(3).plus(Bits(control=1)) == Bits(96, 15, 1, 9)


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
@pytest.mark.parametrize(("d", "q"), [(5, 6), (5, 0), (0, 0)])
def test_impossible_sizes_have_no_price(codec, d, q):
    with pytest.raises(InputError):
        codec.bits(d, q)
