"""Wires of a few bits that need no memory: values on a grid that each message stretches   [docs/messages.md]

    k = ⌊y/Δ + r − ½⌋,   −2^{b−1} ≤ k < 2^{b−1},   ŷ = Δ (k + 1 − r)

Δ is the least step, of four in an octave, with |y| ≤ (2^{b−1} − ½) Δ for every value of the message, so no
value lies outside the grid. r is public dither: the error ŷ − y is uniform in ±Δ/2 whatever y is.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.modulo import Integers
from zocosmo.core.values import ValueType
from zocosmo.core.wire import Envelope, Letters, Wire

Values = NDArray[Any]

FIRST_OCTAVE = -44
LEAST = 2.0**FIRST_OCTAVE  # a step
ZEROS, UNREADABLE = 0, 255  # in place of a step: all values are 0; some are not finite, or too large


class Grid(Wire):
    """Values on a grid of 2^b points whose step is in the head, with public dither; see above.

    A message that cannot be read is read as nan.
    """

    dithered: ClassVar[bool] = True

    def __init__(self, bits: int, wire_id: int) -> None:
        self.bits, self.half = bits, 2 ** (bits - 1)
        self.charged = Integers(f"grid{bits}", wire_id, bits, np.dtype(np.uint8), scale_bits=8)

    def crosses_as(self, dtype: DTypeLike) -> ValueType:
        return self.charged

    def is_lossless(self, dtype: DTypeLike) -> bool:
        return False

    def encode(self, values: Values, envelope: Envelope) -> Letters:
        y, r = values.astype(np.float64, copy=False), envelope.dither(values.shape[-1])
        head = self._head(np.abs(y).max(axis=-1, keepdims=True))
        known = (head != ZEROS) & (head != UNREADABLE)
        k = np.floor(np.where(known, y, 0.0) / np.where(known, step_of(head), 1.0) + (r - 0.5))
        return Letters(np.where(known, k + self.half, 0.0).astype(np.uint8), head)

    def decode(self, letters: Letters, envelope: Envelope, *, dtype: DTypeLike, own: Values | None) -> Values:
        assert letters.scale is not None
        head, r = letters.scale, envelope.dither(letters.values.shape[-1])
        read = step_of(head) * (letters.values.astype(np.float64) - self.half + (1.0 - r))
        read = np.where(head == ZEROS, 0.0, np.where(head == UNREADABLE, np.nan, read))
        return read.astype(dtype, copy=False)

    def is_readable(self, scale: bytes) -> bool:
        return scale[0] != UNREADABLE

    def pack_scale(self, scale: Values) -> bytes:
        return bytes([int(scale[0])])

    def unpack_scale(self, data: bytes) -> Values:
        return np.array([[data[0]]], np.uint8)

    def _head(self, largest: Values) -> Values:
        """The code of Δ for messages whose largest value has this size, (rows, 1)."""
        reach, fine = self.half - 0.5, np.isfinite(largest)
        least = np.maximum(np.where(fine, largest, 0.0) / reach, LEAST)
        part, octave = np.frexp(least)  # least = part · 2^octave, part from 1/2 on
        code = 4 * (octave - 1 - FIRST_OCTAVE) + np.ceil(8 * part).astype(np.int64) - 4 + 1
        code = np.minimum(code, UNREADABLE)
        code += (code < UNREADABLE) & (step_of(code) * reach < largest)  # the quotient was rounded
        return np.where(fine, np.where(largest == 0, ZEROS, code), UNREADABLE).astype(np.uint8)


def step_of(code: Values) -> Values:
    """Δ of codes from 1 to 254: 1, 1¼, 1½ or 1¾ times a power of two.

    >>> step_of(np.array([177, 178, 179, 180, 181])).tolist()
    [1.0, 1.25, 1.5, 1.75, 2.0]
    """
    octave, quarter = np.divmod(code.astype(np.int64) - 1, 4)
    step: Values = np.ldexp(1.0 + quarter / 4, octave + FIRST_OCTAVE)
    return step


GRID = {f"grid{bits}": Grid(bits, 48 + bits) for bits in range(2, 9)}
