"""Envelopes: what crosses between members, directly or sealed through the host.

    kind    one byte: D data of a round, B heartbeat, A question for pieces of a state, S one of them
    where   term u32, round u64, number u32: the number-th message of this round to this peer, or the piece
    length  u32, of the notes
    notes   JSON: missed messages that the host has not confirmed; empty if there are none
    body    a frame of the channel, or a piece

Relayed, all of it is sealed with the key that both ends share (X25519 of their keys), under a label of both
keys, the salts of both processes and a number that ascends: the host cannot read, change or repeat it.
"""

import struct
from typing import NamedTuple

from zocosmo.dist.seal import open_blob, seal_blob, shared_key
from zocosmo.errors import CorruptMessage, SealBroken

DATA, BEAT, ASK, STATE = KINDS = b"D", b"B", b"A", b"S"
_HEAD = struct.Struct("<cIQII")
_NUMBER = struct.Struct("<Q")
HEAD_BYTES = _HEAD.size


class Where(NamedTuple):
    """The place of a message in a run."""

    term: int
    round: int
    number: int = 0


class Envelope(NamedTuple):
    """A message between members."""

    kind: bytes
    where: Where
    notes: bytes = b""
    body: bytes | memoryview = b""

    def to_bytes(self) -> bytes:
        return self.pack(self.kind, self.where, self.notes, self.body)

    @staticmethod
    def pack(kind: bytes, where: Where, notes: bytes, *body: bytes | memoryview) -> bytes:
        """The bytes of an envelope whose body is in several parts, each copied once."""
        return b"".join((_HEAD.pack(kind, *where, len(notes)), notes, *body))

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "Envelope":
        """The envelope; its body is a view of the data."""
        if len(data) < _HEAD.size:
            raise CorruptMessage(f"an envelope has {_HEAD.size} bytes or more, got {len(data)}")
        kind, term, t, number, length = _HEAD.unpack_from(data)
        body = _HEAD.size + length
        if kind not in KINDS or body > len(data):
            raise CorruptMessage(f"no envelope: kind {kind!r}, {length} bytes of notes, {len(data)} in all")
        view = memoryview(data)
        return cls(kind, Where(term, t, number), bytes(view[_HEAD.size : body]), view[body:])


class Relayed:
    """Both directions of the relayed link between this process and one peer."""

    def __init__(self, secret: bytes, mine: bytes, theirs: bytes, my_salt: bytes, their_salt: bytes) -> None:
        self.their_salt = their_salt
        self._key = shared_key(secret, theirs)
        self._out = b"relay" + mine + theirs + my_salt + their_salt
        self._in = b"relay" + theirs + mine + their_salt + my_salt
        self._sent, self._seen = 0, 0

    def close(self, envelope: Envelope) -> bytes:
        self._sent += 1
        number = _NUMBER.pack(self._sent)
        return number + seal_blob(self._key, self._out + number, envelope.to_bytes())

    def open(self, data: bytes) -> Envelope:
        """The envelope, if the peer closed it for this process and it is new."""
        if len(data) < _NUMBER.size:
            raise CorruptMessage(f"a relayed message of {len(data)} bytes is too short")
        number = data[: _NUMBER.size]
        text = open_blob(self._key, self._in + number, data[_NUMBER.size :])
        (count,) = _NUMBER.unpack(number)
        if count <= self._seen:
            raise SealBroken(f"relayed message {count} came after {self._seen}: a replay")
        self._seen = count
        return Envelope.from_bytes(text)
