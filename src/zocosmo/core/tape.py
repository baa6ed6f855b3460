"""The public tape: all randomness that peers share   [PROTOCOL.md, eq:seed_round_generation]"""

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError, check_whole

PREFIX = b"zo-cosmo tape v1"
BLOCK_WORDS = 2**21  # words of a tape held at once while reducing them to less: 16 MiB

Seed = int | str | bytes
Ids = int | NDArray[Any]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


def tape_key(seed: Seed) -> bytes:
    """The 32-byte key of a seed; 32 raw bytes are the key itself.

    >>> tape_key("alpha").hex()[:16]
    'fd3a8afa535d25be'
    """
    if isinstance(seed, bytes):
        if len(seed) != 32:
            raise InputError(f"a seed of raw bytes is the key itself and must have 32 bytes, got {len(seed)}")
        return seed
    if isinstance(seed, bool) or not isinstance(seed, int | str | np.integer):
        raise InputError(f"a seed must be an integer, a string or 32 bytes, got {type(seed).__name__}")
    try:
        text = str(seed).encode()
    except ValueError as error:  # a lone surrogate, or an integer of thousands of digits
        raise InputError(f"this seed has no text form: {error}") from None
    return hashlib.blake2b(text, digest_size=32, person=b"zo-cosmo seed v1").digest()


class Tape:
    """Public random tape R = H(seed ‖ label ‖ ids): same ids, same coins, on every machine.

    All coins are SHAKE-128 output, not a library generator whose stream may change between releases.
    A tape may hold the keys of many seeds (`Tape.stack`); its `shape` is then a leading axis of every
    draw, and `tape[:, None]` adds axes as for an array.

    >>> Tape(0).coins("support", 0).bytes(4).tobytes().hex()
    '7a406023'
    """

    def __init__(self, seed: Seed) -> None:
        self.keys: Bytes = np.frombuffer(tape_key(seed), np.uint8)

    @classmethod
    def stack(cls, seeds: Sequence[Seed]) -> "Tape":
        """One tape with a leading axis of seeds."""
        return cls.of_keys(np.frombuffer(b"".join(map(tape_key, seeds)), np.uint8).reshape(-1, 32))

    @classmethod
    def of_keys(cls, keys: Bytes) -> "Tape":
        """A tape of these keys, shape (…, 32)."""
        tape = cls.__new__(cls)
        tape.keys = keys
        return tape

    @property
    def shape(self) -> tuple[int, ...]:
        return self.keys.shape[:-1]

    def __getitem__(self, where: Any) -> "Tape":
        axes = where if isinstance(where, tuple) else (where,)
        rest = () if any(axis is Ellipsis for axis in axes) else (Ellipsis,)
        return self.of_keys(self.keys[(*axes, *rest, slice(None))])  # the last axis is the key: keep it whole

    def __repr__(self) -> str:
        return f"Tape(shape={self.shape}, commitment={self.commitment()[:8]}…)"

    def commitment(self, salt: bytes = b"") -> str:
        """A public name for the seed: peers compare it without revealing the seed.

        It hides a seed only if the seed cannot be guessed: use 32 random bytes, not a small number. With a
        `salt` of 32 random bytes that peers share it is stretched: a guess takes some 50 ms and 16 MiB, and
        cannot be made in advance.
        """
        if salt:
            return _stretched(self.keys.tobytes(), salt)
        return hashlib.blake2b(self.keys.tobytes(), digest_size=32, person=b"zo-cosmo comm v1").hexdigest()

    def coins(self, label: str, *ids: Ids) -> "Coins":
        """The stream of a label and ids. Arrays of ids broadcast with the tape and give many streams."""
        if not (isinstance(label, str) and label.isascii() and 0 < len(label) <= 16 and "\0" not in label):
            raise InputError(f"a label must be 1 to 16 ASCII characters, got {label!r}")
        words = [id_words(value) for value in ids]
        shape, name = self.common_shape(words), label.encode().ljust(16, b"\0")
        if math.prod(shape) == 1:  # one stream needs no arrays
            fields = [PREFIX, self.keys.tobytes(), name, *(word.tobytes() for word in words)]
            return Coins(b"".join(fields), shape)
        rows = np.empty((*shape, 8 + len(words)), "<u8")  # every field is a number of whole words
        rows[..., :2] = np.frombuffer(PREFIX, "<u8")
        rows[..., 2:6] = np.ascontiguousarray(self.keys).view("<u8")
        rows[..., 6:8] = np.frombuffer(name, "<u8")
        for place, word in enumerate(words, 8):
            rows[..., place] = word
        return Coins(rows.tobytes(), shape)

    def common_shape(self, words: Sequence[Words]) -> tuple[int, ...]:
        """The shape to which the tape and these ids broadcast."""
        shapes = [self.shape, *(word.shape for word in words)]
        if len(set(shapes)) == 1:
            return self.shape
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            raise InputError(f"tape and ids of shapes {shapes} do not broadcast; add axes to one") from None


@lru_cache(maxsize=4096)
def _stretched(keys: bytes, salt: bytes) -> str:
    """scrypt of a key; kept, since many trials have one seed."""
    return hashlib.scrypt(keys, salt=salt, n=2**14, r=8, p=1, maxmem=2**26, dklen=32).hex()


def id_words(value: Ids) -> Words:
    """One id, or an array of them, as little-endian 64-bit words."""
    array = np.asarray(value)
    if array.dtype.kind not in "iu":
        raise InputError(f"an id must be an integer from 0 to 2^64 − 1, got {value!r}")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise InputError(f"an id must be an integer from 0 to 2^64 − 1, got {array.min()}")
    return array.astype("<u8")


class Coins:
    """Keyed streams, one for each position of `shape`, always read from the start.

    Reading twice gives the same coins: a stream has no cursor, so peers cannot get out of step.
    """

    def __init__(self, messages: "bytes", shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._messages = messages  # the hash inputs of all streams, concatenated
        self._size = len(messages) // math.prod(shape) if messages else 1

    def rows(self, where: Any) -> "Coins":
        """The streams that `where` picks from the flattened axis of streams."""
        picked = np.frombuffer(self._messages, np.uint8).reshape(math.prod(self.shape), -1)[where]
        return Coins(picked.tobytes(), picked.shape[:1])

    def by_block(self, size: int, draw: Callable[..., NDArray[Any]], *beside: NDArray[Any]) -> NDArray[Any]:
        """`draw` applied to all streams in blocks of at most `size`, to bound memory.

        `draw` gets streams on one flat axis and the matching rows of the (…, m) arrays `beside`.
        """
        total, size = math.prod(self.shape), max(1, size)
        rows = [array.reshape(total, array.shape[-1]) for array in beside]
        parts = [slice(at, at + size) for at in range(0, max(total, 1), size)]
        drawn = [
            draw(self.rows(part) if total > size else self.flat(), *(row[part] for row in rows))
            for part in parts
        ]
        whole = drawn[0] if len(drawn) == 1 else np.concatenate(drawn)
        return whole.reshape(*self.shape, *whole.shape[1:])

    def flat(self) -> "Coins":
        """All streams on one axis."""
        return Coins(self._messages, (math.prod(self.shape),))

    def bytes(self, count: int) -> Bytes:
        """The first `count` bytes of each stream, shape (…, count)."""
        check_whole("a number of coins", count)
        shake, messages = hashlib.shake_128, np.frombuffer(self._messages, f"V{self._size}").tolist()
        digests = [shake(message).digest(count) for message in messages]
        return np.frombuffer(b"".join(digests), np.uint8).reshape(*self.shape, count)

    def words(self, count: int) -> Words:
        """The first `count` little-endian 64-bit words of each stream, shape (…, count)."""
        return self.bytes(8 * count).view("<u8").astype(np.uint64, copy=False)

    def signs(self, q: int) -> NDArray[np.int8]:
        """q independent Rademacher signs, one bit each, least significant first.

        >>> Tape(0).coins("sign", 3, 1, 2).signs(5).tolist()
        [1, -1, -1, 1, 1]
        """
        bits = np.unpackbits(self.bytes((q + 7) // 8), axis=-1, count=q, bitorder="little")
        return bits.astype(np.int8) * np.int8(2) - np.int8(1)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Positions 0…n−1 sorted by (word, position), shape (…, n)."""
        return np.argsort(self.words(n), axis=-1, kind="stable")
