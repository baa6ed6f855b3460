"""Codecs: messages as bytes, and what they cost   [eq:appendix_sparse_costs]

A codec encodes a message losslessly, and its `bits` are 8 × the length of the encoding. Codecs differ only in
the field before the values, which says which coordinates they belong to.
"""

import dataclasses
from functools import lru_cache

import numpy as np

from zocosmo.core.fields import (
    BitList,
    EliasFano,
    Everything,
    Field,
    Integers,
    Message,
    Seed,
    pack_flags,
    unpack_flags,
)
from zocosmo.core.payload import Bits
from zocosmo.core.support import check_size
from zocosmo.core.values import F32, ValueType
from zocosmo.errors import InputError, TruncatedMessage


@dataclasses.dataclass(frozen=True)
class Codec:
    """A layout of a message: a head field, then the values.

    >>> CODECS["values"].bits(2_523_136, 8192).total, CODECS["indexed"].bits(2_523_136, 8192).total
    (262144, 442368)
    """

    name: str
    wire_id: int
    field: Field = dataclasses.field(compare=False)
    about: str = dataclasses.field(compare=False)

    def bits(self, d: int, q: int, value: ValueType = F32) -> Bits:
        """The cost of one message: `total` is 8 × the bytes of `encode`, `payload` is without the padding."""
        d, q = check_size(d, q)
        values = Bits(values=self.field.count(d, q) * value.bits, control=value.scale_bits)
        return self.field.bits(d, q).plus(values).padded()

    def encode(self, message: Message, *, d: int, value: ValueType) -> bytes:
        """The message as bytes. Its values must already be of the value type: nothing is rounded here."""
        values, carries = message.values, self.field.carries
        if values.ndim != 1 or values.size != self.field.count(d, values.size) or not values.size:
            raise InputError(f"codec {self.name!r} cannot send values of shape {values.shape} in d = {d}")
        has_index, has_seed = message.index is not None, message.seed is not None
        if (has_index, has_seed) != (carries == "index", carries == "seed"):
            raise InputError(f"codec {self.name!r} sends values and {carries or 'nothing else'}")
        if len(message.scale) != -(-value.scale_bits // 8):
            raise InputError(f"{value.name} sends a scale of {value.scale_bits} bits, got {message.scale!r}")
        d, _ = check_size(d, values.size)
        head, body = self.field.pack(message, d), value.pack(values)
        if value.is_whole:
            return message.scale + head + body
        sizes = value.scale_bits, self.field.bits(d, values.size).total, values.size * value.bits
        parts = zip((message.scale, head, body), sizes, strict=True)  # no padding between them
        return pack_flags(np.concatenate([unpack_flags(memoryview(data), size) for data, size in parts]))

    def decode(self, data: bytes | memoryview, *, d: int, q: int, value: ValueType) -> Message:
        """The message that `encode` was given, or a MessageError."""
        head, size = _lengths(self, d, q, value)
        if len(data) != size:
            raise TruncatedMessage(f"a {self.name!r} message of q = {q} takes {size} bytes, got {len(data)}")
        count, start = self.field.count(d, q), value.scale_bits
        if value.is_whole:
            start, head, view = start // 8, (start + head + 7) // 8, memoryview(data)
            scale, field, body = view[:start], view[start:head], view[head:]
        else:
            flags = unpack_flags(memoryview(data), start + head + count * value.bits)
            parts = np.split(flags, [start, start + head])
            scale, field, body = (memoryview(pack_flags(part)) for part in parts)
        message = self.field.unpack(field, value.unpack(body, count), d)
        return dataclasses.replace(message, scale=bytes(scale)) if scale else message


@lru_cache(maxsize=256)
def _lengths(codec: Codec, d: int, q: int, value: ValueType) -> tuple[int, int]:
    """Bits of the head field, and bytes in all."""
    d, q = check_size(d, q)
    return codec.field.bits(d, q).total, codec.bits(d, q, value).total // 8


_TABLE = (
    Codec("values", 1, Field(), "values; the tape gives the support"),
    Codec("indexed", 2, BitList(), "coordinates of ⌈log₂ d⌉ bits"),
    Codec("plain", 3, Integers(), "coordinates of 32 or 64 bits"),
    Codec("delta", 4, EliasFano(), "coordinate gaps, Elias–Fano"),
    Codec("dense", 5, Everything(), "all d values"),
    Codec("seed_scalar", 6, Seed(), "a 64-bit seed and one value"),
)
CODECS = {codec.name: codec for codec in _TABLE}
