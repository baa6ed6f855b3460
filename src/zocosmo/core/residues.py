"""Integers modulo 2^b as values of a message, b bits each, and values cut into such words   [PROTOCOL.md]"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.fields import join_bits, pack_flags, split_bits, unpack_flags
from zocosmo.core.modulo import Integers
from zocosmo.core.price import MOST_RESIDUE_BITS
from zocosmo.core.values import ValueType
from zocosmo.errors import CorruptMessage

Values = NDArray[Any]

_FIRST_ID = 64  # of a type with no bits

RESIDUES = {
    bits: Integers(f"residues{bits}", _FIRST_ID + bits, bits, np.dtype(np.uint8 if bits <= 8 else np.uint16))
    for bits in range(1, MOST_RESIDUE_BITS + 1)
}


class Cut(NamedTuple):
    """How values of a type cross in words of b bits: each in ⌈B/b⌉ of them, the lowest bits first, the last
    word filled up with zeros. With b = 0 they cross as they are.

    >>> from zocosmo.core.values import F16
    >>> Cut(F16, 5).write(np.array([1.5], np.float16)).tolist()
    [0, 16, 15, 0]
    """

    of: ValueType
    bits: int

    @property
    def value(self) -> ValueType:
        """The type of what crosses."""
        return RESIDUES[self.bits] if self.bits else self.of

    @property
    def pieces(self) -> int:
        """Words for each value."""
        return -(-self.of.bits // self.bits) if self.bits else 1

    def write(self, values: Values) -> Values:
        if not self.bits:
            return values
        flags = unpack_flags(memoryview(self.of.pack(values)), values.size * self.of.bits)
        padded = np.zeros((values.size, self.pieces * self.bits), np.uint8)
        padded[:, : self.of.bits] = flags.reshape(values.size, self.of.bits)
        return join_bits(padded.reshape(-1), self.bits, padded.size // self.bits).astype(self.value.dtype)

    def read(self, words: Values) -> Values:
        """Back from `write`, or a CorruptMessage."""
        if not self.bits:
            return words
        flags = split_bits(words.astype(np.int64), self.bits).reshape(-1, self.pieces * self.bits)
        if flags[:, self.of.bits :].any():
            raise CorruptMessage("the filling of a word is not zero")
        data = pack_flags(np.ascontiguousarray(flags[:, : self.of.bits]).reshape(-1))
        return self.of.unpack(data, len(flags))
