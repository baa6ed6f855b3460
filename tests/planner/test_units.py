"""Units: exact numbers from what people write, and refusals that say what was found."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.errors import InputError
from zocosmo.planner import as_bits, as_rate, as_seconds, show_bits, show_seconds


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("100M", 10**8),
        ("1e6", 10**6),
        ("2.5 Gbit", 25 * 10**8),
        ("96", 96),
        ("26.214Mbits", 26_214_000),
        ("3k", 3000),
    ],
)
def test_bits_are_read_exactly(text, bits):
    assert as_bits("--budget", text) == bits


@pytest.mark.parametrize(
    ("text", "rate"), [("100M", 10**8), ("1.5Gbit/s", 15 * 10**8), ("0.5 kb/s", 500), (".5", Fraction(1, 2))]
)
def test_rates_are_read_exactly(text, rate):
    assert as_rate("--bandwidth", text) == rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20ms", "1/50"), ("0.5s", "1/2"), ("3us", "3/1000000"), ("2 h", "7200"), ("1d", "86400"), ("0", "0")],
)
def test_times_are_read_exactly(text, seconds):
    assert as_seconds("--latency", text) == Fraction(seconds)


@pytest.mark.parametrize(
    "text", ["", "M", "-5", "1e999", "nan", "inf", "5 5", "1_000", "0x10", "9" * 99, "1,000"]
)
@pytest.mark.parametrize("read", [as_bits, as_rate, as_seconds])
def test_what_is_no_number_is_refused(read, text):
    with pytest.raises(InputError, match="--it must be") as error:
        read("--it", text)
    assert len(str(error.value)) < 160


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (as_bits, "100MB", "multiply by 8"),
        (as_bits, "100m", "unit 'm'"),
        (as_bits, "0.5", "whole number of bits"),
        (as_bits, "0", "above 0"),
        (as_rate, "0M", "above 0"),
        (as_rate, "5 Mbyte/s", "multiply by 8"),
        (as_rate, "5ms", "unit 'ms'"),
        (as_seconds, "5M", "unit 'M'"),
    ],
)
def test_a_wrong_unit_is_refused_with_the_remedy(read, text, said):
    with pytest.raises(InputError, match=said):
        read("--it", text)


@given(st.integers(1, 10**15))
def test_bits_are_shown_to_four_digits(bits):
    assert as_bits("it", show_bits(bits).replace(",", "")) == pytest.approx(bits, rel=6e-4)


@given(st.fractions(Fraction(1, 10**8), 10**7))
def test_times_are_shown_to_four_digits(seconds):
    shown = as_seconds("it", show_seconds(seconds).replace(",", ""))
    assert float(shown) == pytest.approx(float(seconds), rel=6e-4)


def test_a_thousandth_of_a_second_is_a_millisecond():
    assert show_seconds(Fraction(1, 1000)) == "1 ms"
    assert (show_seconds(0), show_bits(0)) == ("0 s", "0 bit")


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (show_bits(999_999_000), "1 Gbit"),
        (show_bits(999_940), "999.9 kbit"),
        (show_seconds(0.99996), "1 s"),
        (show_seconds(0.0009999), "999.9 µs"),
    ],
)
def test_what_rounds_to_a_thousand_takes_the_next_unit(shown, words):
    assert shown == words
