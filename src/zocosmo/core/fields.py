"""Head fields: the part of a message before the values, which says where they belong.

The length of a field depends only on (d, q), so a message's cost is a formula and its length is checked
before it is parsed. Bits are packed least significant first and padded with zeros to a whole byte.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.payload import Bits, index_bits
from zocosmo.core.support import ascends_below
from zocosmo.errors import CorruptMessage, InputError, check_whole

Index = NDArray[np.int64]
Flags = NDArray[np.uint8]  # one bit in each entry


@dataclass(eq=False, slots=True)
class Message:
    """What crosses a link: values in the order of their support, and what the codec sends with them."""

    values: NDArray[Any]
    index: Index | None = None  # if the codec sends coordinates
    seed: int | None = None  # if the codec sends a seed
    scale: bytes = b""  # if the wire sends a scale
    rest: NDArray[Any] | None = None  # from a second message, where the first is wide

    def __post_init__(self) -> None:
        self.values = np.asarray(self.values)
        if self.index is not None:
            self.index = np.asarray(self.index)

    @property
    def is_bare(self) -> bool:
        """Whether this is one row of values and nothing else."""
        return self.index is None and self.seed is None and not self.scale and self.values.ndim == 1


class Field:
    """No field: the receiver rebuilds the support from the tape. The other kinds override what differs.

    `bits` is the length without padding; `unpack` reads what `pack` wrote, or raises a MessageError.
    """

    carries = ""  # the part of a Message sent besides the values: "index", "seed" or ""

    def count(self, d: int, q: int) -> int:
        return q

    def bits(self, d: int, q: int) -> Bits:
        return Bits()

    def pack(self, message: Message, d: int) -> bytes:
        return b""

    def unpack(self, head: memoryview, values: NDArray[Any], d: int) -> Message:
        return Message(values)


class Everything(Field):
    """All d values: no coordinates needed."""

    def count(self, d: int, q: int) -> int:
        return d


class Seed(Field):
    """A 64-bit seed that stands for a whole direction, and the one value that scales it."""

    carries = "seed"

    def count(self, d: int, q: int) -> int:
        return 1

    def bits(self, d: int, q: int) -> Bits:
        return Bits(control=64)

    def pack(self, message: Message, d: int) -> bytes:
        return check_whole("a seed on the wire", message.seed or 0, 0, 2**64 - 1).to_bytes(8, "little")

    def unpack(self, head: memoryview, values: NDArray[Any], d: int) -> Message:
        return Message(values, seed=int.from_bytes(head, "little"))


class Integers(Field):
    """Coordinates as 32-bit integers, or 64-bit above d = 2^32: how sparse tensors are sent."""

    carries = "index"

    def bits(self, d: int, q: int) -> Bits:
        return Bits(indices=8 * q * self._dtype(d).itemsize)

    def pack(self, message: Message, d: int) -> bytes:
        return checked_index(message, d).astype(self._dtype(d)).tobytes()

    def unpack(self, head: memoryview, values: NDArray[Any], d: int) -> Message:
        return Message(values, accepted_index(np.frombuffer(head, self._dtype(d)), d).astype(np.int64))

    @staticmethod
    def _dtype(d: int) -> np.dtype[Any]:
        return np.dtype("<u4" if d <= 2**32 else "<i8")  # signed: 2^63 and above read as negative


class BitList(Field):
    """Coordinates of ℓ = ⌈log₂ d⌉ bits each   [eq:coordinate_list_cost]"""

    carries = "index"

    def bits(self, d: int, q: int) -> Bits:
        return Bits(indices=q * index_bits(d))

    def pack(self, message: Message, d: int) -> bytes:
        return pack_flags(split_bits(checked_index(message, d), index_bits(d)))

    def unpack(self, head: memoryview, values: NDArray[Any], d: int) -> Message:
        flags = unpack_flags(head, values.size * index_bits(d))
        return Message(values, accepted_index(join_bits(flags, index_bits(d), values.size), d))


class EliasFano(Field):
    """Coordinates by their gaps g_k = s_k − k, which never decrease and lie between 0 and d − q.

    The `low` lowest bits of each g_k are sent as they are. The high parts ⌊g_k / 2^low⌋ grow slowly and are
    sent as unary differences: q marks in a row of q + ⌊(d − q) / 2^low⌋ bits.
    """

    carries = "index"

    def bits(self, d: int, q: int) -> Bits:
        low = self._low(d, q)
        return Bits(indices=q * low + q + ((d - q) >> low))

    def pack(self, message: Message, d: int) -> bytes:
        index = checked_index(message, d)
        q, low = index.size, self._low(d, index.size)
        gaps = index - np.arange(q)
        marks = np.zeros(q + ((d - q) >> low), np.uint8)
        marks[(gaps >> low) + np.arange(q)] = 1
        return pack_flags(np.concatenate([split_bits(gaps, low), marks]))

    def unpack(self, head: memoryview, values: NDArray[Any], d: int) -> Message:
        q, low = values.size, self._low(d, values.size)
        flags = unpack_flags(head, self.bits(d, q).indices)
        marks = np.flatnonzero(flags[q * low :])
        if marks.size != q:
            raise CorruptMessage(f"{marks.size} coordinates are marked, {q} were announced")
        gaps = ((marks - np.arange(q)) << low) + join_bits(flags[: q * low], low, q)
        return Message(values, accepted_index(gaps + np.arange(q), d))

    @staticmethod
    def _low(d: int, q: int) -> int:
        """⌊log₂ of the mean gap⌋: the row of marks then has q to 3q bits."""
        return max(0, ((d - q + 1) // q).bit_length() - 1)


def checked_index(message: Message, d: int) -> Index:
    """The coordinates to send: one per value, ascending, below d."""
    index = message.index
    if index is None or index.shape != message.values.shape or index.dtype.kind not in "iu":
        raise InputError(f"{message.values.size} values need one integer coordinate each, got {index}")
    if not ascends_below(index, d):
        raise InputError(f"coordinates must ascend from 0 to below d = {d}, got {index[:4].tolist()}…")
    return index.astype(np.int64, copy=False)


def accepted_index(index: NDArray[Any], d: int) -> NDArray[Any]:
    """The coordinates received, if they are valid."""
    if not ascends_below(index, d):
        raise CorruptMessage(f"the coordinates do not ascend from 0 to below d = {d}")
    return index


def split_bits(integers: Index, width: int) -> Flags:
    """The `width` low bits of each integer, one after the other."""
    octets = np.ascontiguousarray(integers, "<i8").view(np.uint8).reshape(-1, 8)
    return np.unpackbits(octets, axis=1, count=width, bitorder="little").reshape(-1)


def join_bits(flags: Flags, width: int, count: int) -> Index:
    """Back from `split_bits`."""
    octets = np.packbits(flags.reshape(count, width), axis=1, bitorder="little")
    words = np.zeros((count, 8), np.uint8)
    words[:, : octets.shape[1]] = octets
    return words.view("<i8").reshape(-1).astype(np.int64, copy=False)


def pack_flags(flags: Flags) -> bytes:
    return np.packbits(flags, bitorder="little").tobytes()


def unpack_flags(data: memoryview, count: int) -> Flags:
    flags = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if flags[count:].any():
        raise CorruptMessage("the padding is not zero")
    return flags[:count]
