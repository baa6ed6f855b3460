"""Envelopes: what crosses between members, directly or sealed through the host.

    kind    D data of a round, B heartbeat, A question for pieces of a state, S one of them
    where   term u32, round u64, number u32: the number-th message of this round to this peer, or the piece
    notes   JSON: missed messages that the host has not confirmed; empty if there are none
    body    a frame of the channel, or a piece

Relayed, the four parts are one blob, sealed with the key that both ends share (X25519 of their keys), under a
label of both keys, the salts of both processes and a number that ascends: the host cannot read, change or
repeat it.
"""

import struct
from typing import NamedTuple

from zocosmo.dist.seal import open_blob, seal_blob, shared_key
from zocosmo.errors import CorruptMessage, SealBroken

DATA, BEAT, ASK, STATE = b"D", b"B", b"A", b"S"
_WHERE = struct.Struct("<IQI")
_LENGTHS = struct.Struct("<II")
_NUMBER = struct.Struct("<Q")


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
    body: bytes = b""

    def parts(self) -> list[bytes]:
        return [self.kind, _WHERE.pack(*self.where), self.notes, self.body]

    @classmethod
    def of(cls, parts: list[bytes]) -> "Envelope":
        if len(parts) != 4 or parts[0] not in (DATA, BEAT, ASK, STATE) or len(parts[1]) != _WHERE.size:
            raise CorruptMessage(f"an envelope has four parts, got {len(parts)}, or another form")
        return cls(parts[0], Where(*_WHERE.unpack(parts[1])), parts[2], parts[3])


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
        kind, where, notes, body = envelope.parts()
        number = _NUMBER.pack(self._sent)
        text = kind + where + _LENGTHS.pack(len(notes), len(body)) + notes + body
        return number + seal_blob(self._key, self._out + number, text)

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
        at = 1 + _WHERE.size + _LENGTHS.size
        notes, _ = _LENGTHS.unpack(text[1 + _WHERE.size : at])
        return Envelope.of([text[:1], text[1 : 1 + _WHERE.size], text[at : at + notes], text[at + notes :]])
