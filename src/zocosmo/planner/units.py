"""Numbers with units, such as 100M, 20 ms, 1.5 Gbit/s: parsed exactly, printed in a few digits."""

import re
from fractions import Fraction

from zocosmo.errors import InputError

PREFIXES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12}
TIMES = {
    **{"ns": Fraction(1, 10**9), "us": Fraction(1, 10**6), "µs": Fraction(1, 10**6), "ms": Fraction(1, 1000)},
    **{"": Fraction(1), "s": Fraction(1), "min": Fraction(60), "h": Fraction(3600), "d": Fraction(86400)},
}
BITS = ("", "b", "bit", "bits")
RATES = ("", "b/s", "bit/s", "bits/s", "bps")
ROUNDS_UP = 0.99995  # of a unit: from here on four digits round to 1 of it
MOST_DIGITS = 40  # accepted in a number
NUMBER = re.compile(
    r"\s*(?P<number>[0-9]+(\.[0-9]*)?|\.[0-9]+)(?P<exponent>[eE][+-]?[0-9]{1,2})?\s*(?P<unit>[A-Za-zµ/]*)\s*"
)


def as_bits(what: str, text: str) -> int:
    """A whole number of bits, above 0: 100M is 100,000,000.

    >>> as_bits("--budget", "26.214M")
    26214000
    """
    bits = _scaled(what, text, BITS, "bits: 100M, 2.5 Gbit or a plain number")
    if bits.denominator != 1:
        raise InputError(f"{what} must be a whole number of bits, got {text!r}")
    return int(bits)


def as_rate(what: str, text: str) -> Fraction:
    """Bits per second, above 0.

    >>> as_rate("--bandwidth", "1.5 Gbit/s")
    Fraction(1500000000, 1)
    """
    return _scaled(what, text, RATES, "bits per second: 100M, 1Gbit/s or a plain number")


def as_seconds(what: str, text: str) -> Fraction:
    """Seconds, 0 or more: 20ms, 0.5s, 3 min.

    >>> as_seconds("--latency", "20ms")
    Fraction(1, 50)
    """
    number, unit = _split(what, text, "a time: 20ms, 0.5s, 3min, 2h, 1d or plain seconds")
    if unit not in TIMES:
        raise InputError(f"{what} has the unit {unit!r}; use {', '.join(filter(None, TIMES))}; got {text!r}")
    return number * TIMES[unit]


def uplink_bits(rate: Fraction, seconds: Fraction) -> int:
    """What an uplink sends in a time, 1 bit at least."""
    return max(1, int(rate * seconds))


def _scaled(what: str, text: str, suffixes: tuple[str, ...], wanted: str) -> Fraction:
    number, unit = _split(what, text, wanted)
    for prefix, power in PREFIXES.items():
        if unit.startswith(prefix) and unit[len(prefix) :] in suffixes:
            if not number:
                raise InputError(f"{what} must be above 0, got {text!r}")
            return number * Fraction(10**power)
    if "B" in unit or "yte" in unit:
        raise InputError(f"{what} is in bits, not bytes, got {text!r}; multiply by 8")
    raise InputError(f"{what} has an unknown unit {unit!r}; give {wanted}; got {text!r}")


def _split(what: str, text: str, wanted: str) -> tuple[Fraction, str]:
    """A number, 0 or more, and its unit."""
    parts = NUMBER.fullmatch(text) if len(text) <= MOST_DIGITS else None
    if parts is None:
        raise InputError(f"{what} must be {wanted}; got {text[:MOST_DIGITS]!r}")
    return Fraction(parts["number"] + (parts["exponent"] or "")), parts["unit"]


def show_bits(bits: Fraction | float) -> str:
    """At most four digits, with a prefix.

    >>> show_bits(262144), show_bits(96), show_bits(2.09e11), show_bits(999_999_000)
    ('262.1 kbit', '96 bit', '209 Gbit', '1 Gbit')
    """
    for prefix, power in (("T", 12), ("G", 9), ("M", 6), ("k", 3)):
        if bits >= 10**power * ROUNDS_UP:
            return f"{_digits(float(bits / 10**power))} {prefix}bit"
    return f"{_digits(float(bits))} bit"


def show_seconds(seconds: Fraction | float) -> str:
    """In the unit that gives a number between 1 and a few hundred.

    >>> show_seconds(1.02), show_seconds(0.00012), show_seconds(7200 * 24)
    ('1.02 s', '120 µs', '2 d')
    """
    if seconds == 0:
        return "0 s"
    units = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    for unit, size in units:
        if float(seconds) >= size * (2 if size >= 60 else ROUNDS_UP):
            return f"{_digits(float(seconds) / size)} {unit}"
    return f"{_digits(float(seconds) / 1e-9)} ns"


def _digits(number: float) -> str:
    """Four significant digits; thousands are grouped."""
    if number >= 1000:
        return f"{number:,.0f}"
    places = 1 if number >= 100 else 2 if number >= 10 else 3
    return f"{number:.{places}f}".rstrip("0").rstrip(".")
