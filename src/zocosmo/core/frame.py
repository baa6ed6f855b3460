"""Frames: a message with a 32-byte header that identifies it and a checksum over both.

    byte 0      version, 2            byte 16–20   number of values, 40 bits
    byte 1      codec                 byte 21–23   sequence, 24 bits
    byte 2      value type            byte 24–27   first 4 bytes of the session's fingerprint
    byte 3      1 if sealed, else 0   byte 28–31   CRC-32C of bytes 0–27 and of all bytes after 31
    byte 4–7    sender, u32           byte 32–     the message, laid out by its codec, sealed if byte 3 is 1
    byte 8–15   round, u64

All integers are little-endian. The sequence counts the messages of one sender over one link within a round.
Checks run in this order: too short, other version, checksum, other session, unknown codec or value type,
impossible count, not the frame expected, broken seal, wrong length, and last the codec's own checks.
"""

import struct
from typing import Any, NamedTuple, Protocol

import numpy as np
from google_crc32c import extend, value
from numpy.typing import NDArray

from zocosmo.core.fields import Message
from zocosmo.core.levels import LEVEL
from zocosmo.core.message import CODECS, Codec
from zocosmo.core.payload import Bits
from zocosmo.core.residues import RESIDUES
from zocosmo.core.support import check_size
from zocosmo.core.values import VALUE_TYPES, ValueType
from zocosmo.core.wires import FEW_BITS
from zocosmo.errors import (
    CorruptMessage,
    ForeignMessage,
    InputError,
    SealBroken,
    TruncatedMessage,
    check_whole,
)

Bytes = bytes | memoryview

FRAME_VERSION = 2
FRAME_BITS = Bits(framing=8 * 32)

_HEADER = struct.Struct("<4BIQQ4s")
_NUMBERS = struct.Struct("<QQ")  # of the header: the round, then the size with the sequence
_CHECKSUM = struct.Struct("<I")
_HEAD_BYTES = _HEADER.size + _CHECKSUM.size
_SIZE_BITS, _SEQUENCE_BITS = 40, 24
_CODEC_BY_ID = {codec.wire_id: codec for codec in CODECS.values()}
_VALUES = (*VALUE_TYPES.values(), LEVEL, *FEW_BITS.values(), *RESIDUES.values())
_VALUE_BY_ID = {value.wire_id: value for value in _VALUES}


class Header(NamedTuple):
    """The fields of a frame's header, except the session."""

    codec: Codec
    value: ValueType
    round: int
    sender: int
    size: int  # values in the message
    sequence: int = 0


class Sealing(Protocol):
    """Closes messages on one directed link and opens them at its other end; `head` is bound to the seal."""

    def close(self, body: Bytes, *, round: int, sequence: int, sender: int, head: bytes) -> bytes: ...  # noqa: A002
    def open(self, data: Bytes, *, round: int, sequence: int, sender: int, head: bytes) -> bytes: ...  # noqa: A002


def frame(header: Header, message: Message, *, d: int, session: bytes, seal: Sealing | None = None) -> bytes:
    """The message with its header; `session` is the fingerprint of the peers' manifest."""
    return b"".join(frame_parts(header, message, d=d, session=session, seal=seal))


def frame_parts(
    header: Header, message: Message, *, d: int, session: bytes, seal: Sealing | None = None
) -> tuple[bytes, bytes]:
    """A frame as header and body, for callers that copy them into their own buffer."""
    codec, value_type, round_, sender, size, sequence = header
    head = _pack(header, session, sealed=seal is not None)
    if size != message.values.size:
        raise InputError(f"the header announces {size} values, the message has {message.values.size}")
    body = codec.encode(message, d=d, value=value_type)
    if seal is not None:
        body = seal.close(body, round=round_, sequence=sequence, sender=sender, head=head)
    return _checksummed(head, body), body


def _checksummed(head: bytes, body: bytes) -> bytes:
    """The header with its checksum, which covers header and body."""
    return head + _CHECKSUM.pack(extend(value(head), body))


def unframe(
    data: bytes | bytearray | memoryview,
    *,
    d: int,
    session: bytes,
    expect: Header | None = None,
    seal: Sealing | None = None,
) -> tuple[Header, Message]:
    """Header and message of a frame that is intact, of this session and, if given, the one expected."""
    _check_session(session)
    start, body = bytes(data[:_HEAD_BYTES]), bytes(data[_HEAD_BYTES:])  # copies: they cannot change any more
    wanted = expect and _pack(expect, session, sealed=seal is not None)
    if expect and len(start) == _HEAD_BYTES and start[: _HEADER.size] == wanted:
        header = expect
        _check_sum(start, body)
    else:
        header = _parsed(start, body, d, session)
        if expect is not None:
            check_header(header, expect)
        _check_sealed(start, header, seal)
    if seal is not None:
        numbers = {"round": header.round, "sequence": header.sequence, "sender": header.sender}
        body = seal.open(body, **numbers, head=start[: _HEADER.size])
    return header, header.codec.decode(body, d=d, q=header.size, value=header.value)


class FrameBuffer:
    """Memory of one frame whose message is values alone: header and body, and the values in it, unsealed."""

    __slots__ = ("body", "bytes", "head", "values", "whole")

    def __init__(self, memory: NDArray[np.uint8], value_type: ValueType, size: int) -> None:
        self.whole = memoryview(memory)  # type: ignore[arg-type]
        self.head, self.bytes = self.whole[:_HEAD_BYTES], self.whole[_HEAD_BYTES:]
        self.body = memory[_HEAD_BYTES:]
        values = self.body[: size * value_type.bits // 8]
        self.values: NDArray[Any] | None = values.view(value_type.wire_dtype) if value_type.as_is else None


class PlainFrames:
    """Frames of one sender, size and value type whose message is its values and nothing else.

    The bytes are those of `frame_parts`, with all that stays the same written once. `read` and `take` know
    the frame that is expected; whatever else comes is for `unframe`, which says what it is.
    """

    __slots__ = ("_dtype", "_head", "_tag", "_value", "length", "sender", "size")

    def __init__(self, codec: Codec, value_type: ValueType, sender: int, size: int, session: bytes) -> None:
        head = _pack(Header(codec, value_type, 0, sender, size), session, sealed=False)
        self._head = head[:3] + b"\0" + head[4:8], head[:3] + b"\1" + head[4:8]  # plain, and sealed
        self._tag, self._value, self._dtype = head[24:28], value_type, value_type.dtype
        self.sender, self.size, self.length = sender, size, size * value_type.bits // 8

    @staticmethod
    def suit(codec: Codec, value_type: ValueType) -> bool:
        """Whether messages of this codec and type are values in whole bytes."""
        bare = codec.field.bits(1, 1).total == 0 and not codec.field.carries
        return bare and value_type.is_whole and not value_type.scale_bits

    def write(
        self, values: NDArray[Any], round_: int, sequence: int, seal: Sealing | None
    ) -> tuple[bytes, bytes]:
        """Values as header and body; their number is the frames' own."""
        numbers = _NUMBERS.pack(round_, self.size | sequence << _SIZE_BITS)
        head, body = self._head[seal is not None] + numbers + self._tag, self._value.pack(values)
        if seal is not None:
            body = seal.close(body, round=round_, sequence=sequence, sender=self.sender, head=head)
        return head + _CHECKSUM.pack(extend(value(head), body)), body

    def read(self, data: memoryview, round_: int, sequence: int, seal: Sealing | None) -> NDArray[Any] | None:
        """The values of the frame expected; None if this is another, or damaged."""
        numbers = _NUMBERS.pack(round_, self.size | sequence << _SIZE_BITS)
        head, body = self._head[seal is not None] + numbers + self._tag, bytes(data[_HEAD_BYTES:])  # a copy
        if data[:_HEAD_BYTES] != head + _CHECKSUM.pack(extend(value(head), body)):
            return None
        return self._opened(body, head, round_, sequence, seal)

    def fill(
        self, into: FrameBuffer, values: NDArray[Any], round_: int, sequence: int, seal: Sealing | None
    ) -> None:
        """`write` in place: values go to the buffer without a copy in between, if they cross as they are."""
        numbers = _NUMBERS.pack(round_, self.size | sequence << _SIZE_BITS)
        head = self._head[seal is not None] + numbers + self._tag
        if into.values is not None and values.dtype == self._dtype:
            into.values[:] = values
        else:
            into.bytes[: self.length] = self._value.pack(values)
        if seal is not None:
            body = into.bytes[: self.length]
            into.bytes[:] = seal.close(body, round=round_, sequence=sequence, sender=self.sender, head=head)
        into.head[:] = head + _CHECKSUM.pack(extend(value(head), into.body))

    def take(
        self, held: FrameBuffer, round_: int, sequence: int, seal: Sealing | None
    ) -> NDArray[Any] | None:
        """`read` in place: values that cross as they are stay in the buffer, which must not change."""
        numbers = _NUMBERS.pack(round_, self.size | sequence << _SIZE_BITS)
        head = self._head[seal is not None] + numbers + self._tag
        if held.head != head + _CHECKSUM.pack(extend(value(head), held.body)):
            return None
        if seal is None and held.values is not None:
            return held.values
        return self._opened(held.bytes, head, round_, sequence, seal)

    def _opened(
        self, body: Bytes, head: bytes, round_: int, sequence: int, seal: Sealing | None
    ) -> NDArray[Any] | None:
        if seal is not None:
            body = seal.open(body, round=round_, sequence=sequence, sender=self.sender, head=head)
        return self._value.unpack(body, self.size) if len(body) == self.length else None


def _pack(header: Header, session: bytes, *, sealed: bool) -> bytes:
    """The bytes of a header without the checksum."""
    codec, value_type, round_, sender, size, sequence = header
    ids = FRAME_VERSION, codec.wire_id, value_type.wire_id, sealed
    try:
        if len(session) == 32 and not (size >> _SIZE_BITS or sequence >> _SEQUENCE_BITS):
            return _HEADER.pack(*ids, sender, round_, size | sequence << _SIZE_BITS, session[:4])
    except (struct.error, TypeError):
        pass
    check_whole("a round", round_, 0, 2**64 - 1)  # one of these names what cannot be packed
    check_whole("a sender", sender, 0, 2**32 - 1)
    check_whole("a sequence", sequence, 0, 2**_SEQUENCE_BITS - 1)
    check_whole("a number of values", size, 0, 2**_SIZE_BITS - 1)
    _check_session(session)
    raise AssertionError(f"{header} cannot be packed")


def _parsed(start: bytes, body: bytes, d: int, session: bytes) -> Header:
    """The header of a frame of this session; an error if it is not one."""
    if len(start) < _HEAD_BYTES:
        raise TruncatedMessage(f"a frame starts with a header of {_HEAD_BYTES} bytes, got {len(start)} bytes")
    version, codec_id, value_id, sealed, sender, round_, counts, tag = _HEADER.unpack_from(start)
    if version != FRAME_VERSION:
        raise ForeignMessage(f"frame of version {version}, expected {FRAME_VERSION}; run the same release")
    _check_sum(start, body)
    if tag != session[:4]:
        raise ForeignMessage(f"frame of session {tag.hex()}, expected {session[:4].hex()}; compare manifests")
    if codec_id not in _CODEC_BY_ID or value_id not in _VALUE_BY_ID or sealed > 1:
        raise CorruptMessage(f"unknown codec {codec_id}, value type {value_id} or seal flag {sealed}")
    size, sequence = counts & (1 << _SIZE_BITS) - 1, counts >> _SIZE_BITS
    header = Header(_CODEC_BY_ID[codec_id], _VALUE_BY_ID[value_id], round_, sender, size, sequence)
    d, _ = check_size(d, 1)
    if not 1 <= size <= d or size != header.codec.field.count(d, size):
        raise CorruptMessage(f"a {header.codec.name!r} frame in d = {d} cannot hold {size} values")
    return header


def _check_sum(start: bytes, body: bytes) -> None:
    if start != _checksummed(start[: _HEADER.size], body):
        raise CorruptMessage(
            f"checksum of a {len(start) + len(body)}-byte frame does not match; it was damaged in transit"
        )


def _check_sealed(start: bytes, header: Header, seal: Sealing | None) -> None:
    if start[3] != (seal is not None):
        raise SealBroken(
            f"frame from node {header.sender} of round {header.round} is {'' if start[3] else 'not '}sealed; "
            "give all nodes the same key file, or none"
        )


def check_header(got: Header, expect: Header) -> None:
    """Raise ForeignMessage, naming the first field that differs from the frame expected."""
    shown = [(header.codec.name, header.value.name, *header[2:]) for header in (got, expect)]
    for name, here, there, *texts in zip(Header._fields, got, expect, *shown, strict=True):
        if here != there:
            raise ForeignMessage(f"frame from node {got.sender} has {name} {texts[0]}, expected {texts[1]}")


def _check_session(session: bytes) -> None:
    if len(session) != 32:
        raise InputError(f"session must be a manifest's fingerprint of 32 bytes, got {len(session)} bytes")
