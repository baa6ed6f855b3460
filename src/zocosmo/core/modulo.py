"""Wires of a few bits: values modulo a range, with public dither   [docs/messages.md]

    k = ⌊y/Δ + r⌋,   the low b bits of k cross,   ŷ = Δ (k − r + ½)

The receiver holds a value x near y, so it can tell which k ≡ the bits it got was meant: the one nearest to
x/Δ + r − ½. That is right wherever |y − x| ≤ (2^{b−1} − ½) Δ. Check bits over all of k show where it is not.
The error ŷ − y is uniform in ±Δ/2 whatever y is, since r is uniform and independent of y.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.fields import pack_flags, unpack_flags
from zocosmo.core.values import ValueType
from zocosmo.core.wire import Envelope, Letters, Wire

Values = NDArray[Any]
Index = NDArray[np.int64]
Words = NDArray[np.uint64]

WIDE = 32  # bits of each value in a wide message: b in the first part, the rest in a second
LEAST, MOST = -127, 127  # exponents e of Δ = 2^e
EXACT = 35  # |y| ≤ 2^35 Δ, so that k and r are exact in double precision
_UNREADABLE = 0  # in place of the exponent: the sender's values are not finite
_HEAD_BITS = 8 + 16 + 1 + 2  # exponent, check, whether the message is wide, exchanges with this peer mod 4
_CHECK_AT, _WIDE_AT, COUNT_AT = 8, 24, 25


class Integers(ValueType):
    """Unsigned integers of a few bits, packed without gaps."""

    as_is = False

    def pack(self, values: Values) -> bytes:
        octets = self._checked(values).astype(self.wire_dtype).view(np.uint8)
        octets = octets.reshape(-1, self.dtype.itemsize)
        return pack_flags(np.unpackbits(octets, axis=1, count=self.bits, bitorder="little").reshape(-1))

    def unpack(self, data: bytes | memoryview, count: int) -> Values:
        flags = unpack_flags(memoryview(data), count * self.bits)
        octets = np.packbits(flags.reshape(count, self.bits), axis=1, bitorder="little")
        whole = np.zeros((count, self.dtype.itemsize), np.uint8)
        whole[:, : octets.shape[1]] = octets
        return whole.view(self.wire_dtype).reshape(-1).astype(self.dtype, copy=False)


class Modulo(Wire):
    """Values modulo 2^b Δ, with public dither; see above.

    The sender picks Δ of each message (`Envelope.exponent`). A message that cannot be read is read as nan.
    """

    by_receiver: ClassVar[bool] = True
    dithered: ClassVar[bool] = True
    linked: ClassVar[bool] = True

    def __init__(self, bits: int, wire_id: int) -> None:
        self.bits, self.reach = bits, 2.0 ** (bits - 1) - 0.5  # of a message, in units of Δ
        self.charged = Integers(f"mod{bits}", wire_id, bits, np.dtype(np.uint8), _HEAD_BITS)
        self.rest = Integers(f"mod{bits} rest", wire_id + 16, WIDE - bits, np.dtype(np.uint32))

    def crosses_as(self, dtype: DTypeLike) -> ValueType:
        return self.charged

    def is_lossless(self, dtype: DTypeLike) -> bool:
        return False

    def encode(self, values: Values, envelope: Envelope) -> Letters:
        assert envelope.exponent is not None
        r, factors = envelope.drawn(values.shape[-1])
        fine, exponent = np.isfinite(values).all(axis=-1, keepdims=True), envelope.exponent[:, None]
        known = values if fine.all() else np.where(fine, values, 0)
        whole = np.floor(known * np.ldexp(1.0, -exponent) + r).astype(np.int64)
        head = np.where(fine, exponent + 128, _UNREADABLE).astype(np.uint32)
        head |= check_bits(whole, factors) << np.uint32(_CHECK_AT)
        low = (whole & (2**self.bits - 1)).astype(np.uint8)
        if envelope.wide is None or not envelope.wide.any():
            return Letters(low, head)
        head |= envelope.wide[:, None].astype(np.uint32) << np.uint32(_WIDE_AT)
        rest = (whole >> self.bits) & (2 ** (WIDE - self.bits) - 1)
        return Letters(low, head, rest.astype(np.uint32))

    def decode(self, letters: Letters, envelope: Envelope, *, dtype: DTypeLike, own: Values | None) -> Values:
        assert own is not None
        assert letters.scale is not None
        head, (r, factors) = letters.scale, envelope.drawn(letters.values.shape[-1])
        delta, low = step_of(head), letters.values.astype(np.float64)
        near, size = own / delta + (r - 0.5), np.asarray(2.0**self.bits)
        if letters.rest is not None:
            wide = is_wide(head)
            low += np.where(wide, letters.rest * size, 0)
            size = np.where(wide, 2.0**WIDE, size)
        k = low + size * np.floor((near + size / 2 - low) / size)
        right = (np.abs(k) < 2.0**62).all(axis=-1, keepdims=True) & (head & 255 != _UNREADABLE)
        whole = (k if right.all() else np.where(right, k, 0)).astype(np.int64)
        right &= check_bits(whole, factors) == (head >> np.uint32(_CHECK_AT)) & np.uint32(2**16 - 1)
        read = delta * (k + 0.5 - r)
        return (read if right.all() else np.where(right, read, np.nan)).astype(dtype, copy=False)

    def pack_scale(self, scale: Values) -> bytes:
        return int(scale[0]).to_bytes(4, "little")

    def unpack_scale(self, data: bytes) -> Values:
        return np.array([[int.from_bytes(data, "little")]], np.uint32)


def check_bits(k: Index, factors: Words) -> Values:
    """16 bits of Σ k · factor mod 2^64 for each row: (rows, 1).

    Another k with the same low bits differs by a multiple of 2^b. If the factors are uniform, so are the
    check bits of the difference, unless it is a multiple of 2^48: a wrong k passes once in 2^16 times.
    """
    total = (k.view(np.uint64) * factors).sum(axis=-1, keepdims=True, dtype=np.uint64)
    bits: Values = (total >> np.uint64(48)).astype(np.uint32)
    return bits


def step_of(head: Values) -> Values:
    """Δ of each message, (rows, 1)."""
    delta: Values = np.ldexp(1.0, (head & 255).astype(np.int64) - 128)
    return delta


def is_wide(head: Values) -> NDArray[np.bool_]:
    """Which messages have a second part, (rows, 1)."""
    return (head >> np.uint32(_WIDE_AT) & np.uint32(1)).astype(bool)


def least_exponent(reach: Values) -> Index:
    """The least e with 2^e ≥ reach, for positive numbers."""
    part, exponent = np.frexp(reach)
    least: Index = exponent.astype(np.int64) - (part == 0.5)
    return least


MODULO = {f"mod{bits}": Modulo(bits, 16 + bits) for bits in range(2, 9)}
