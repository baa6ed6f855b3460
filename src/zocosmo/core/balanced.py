"""Balanced public schedule: every coordinate exactly once in an epoch   [eq:balanced_schedule]

Up to d = 1024 an epoch's permutation of [d] is drawn in full: uniform except for ties of 64-bit words. Above
that it is never stored: it is a keyed Feistel network over a·b ≥ d points, a = ⌈√d⌉, b = ⌈d/a⌉, whose round
function is SipHash-2-4 under a key from the tape. Points at d or above are permuted again until they fall
below d (cycle walking; fewer than one in √d). A block costs O(q). docs/protocol.md gives the exact bits.
"""

import math

import numpy as np

from zocosmo.core.support import Support, check_size
from zocosmo.core.tape import BLOCK_WORDS, Coins, Ids, Tape, Words, id_words
from zocosmo.errors import InputError

MAX_DRAWN = 1024  # largest d whose permutation is drawn in full
FEISTEL_ROUNDS = 10


def epoch_length(d: int, q: int) -> int:
    """K = ⌈d/q⌉ rounds. Two visits to a coordinate are at most 2K − 1 rounds apart   [eq:max_balanced_gap]"""
    d, q = check_size(d, q)
    return -(-d // q)


def balanced_support(tape: Tape, t: Ids, *ids: Ids, d: int, q: int) -> Support:
    """Block t mod K of epoch ⌊t/K⌋: q coordinates, fewer in an epoch's last round when q does not divide d.

    Further ids (an edge, a node) each get their own epoch permutation.

    >>> [balanced_support(Tape(0), t, d=10, q=3).index.tolist() for t in range(4)]
    [[4, 8, 9], [0, 2, 7], [1, 3, 5], [6]]
    """
    d, q = check_size(d, q)
    length, rounds = np.uint64(epoch_length(d, q)), id_words(t)
    coins = tape.coins("balanced", rounds // length, *ids)
    start = np.broadcast_to(rounds % length * np.uint64(q), coins.shape)
    sizes = np.minimum(np.uint64(q), np.uint64(d) - start)
    size = int(sizes.min(initial=q))
    if size != sizes.max(initial=size):
        raise InputError(
            f"rounds of {size} and of {sizes.max()} coordinates do not fit one array; draw them separately"
        )
    points = start[..., None] + np.arange(size, dtype=np.uint64)
    return Support(np.sort(permuted(coins, points, d).view(np.int64), axis=-1), d)


def permuted(coins: Coins, points: Words, d: int) -> Words:
    """π(points) for the permutation π of [d] that each stream gives; points has shape (…, any)."""
    return _drawn(coins, points, d) if d <= MAX_DRAWN else permute(points, coins.words(2), d)


def _drawn(coins: Coins, points: Words, d: int) -> Words:
    """π(points) where π is drawn in full; all d entries are held for a block of streams at a time."""

    def draw(block: Coins, wanted: Words) -> Words:
        return np.take_along_axis(block.permutation(d), wanted.view(np.int64), axis=-1).view(np.uint64)

    return coins.by_block(BLOCK_WORDS // d, draw, points)


def permute(points: Words, keys: Words, d: int) -> Words:
    """π(points) for the keyed permutation π of [d]; keys has shape (…, 2), points (…, any)."""
    a = math.isqrt(d - 1) + 1
    sides = np.uint64(a), np.uint64(-(-d // a))
    k0, k1 = (np.broadcast_to(keys[..., None, half], points.shape) for half in (0, 1))
    out = _shuffle(points, k0, k1, *sides)
    while (outside := out >= np.uint64(d)).any():
        out[outside] = _shuffle(out[outside], k0[outside], k1[outside], *sides)
    return out


def _shuffle(points: Words, k0: Words, k1: Words, a: np.uint64, b: np.uint64) -> Words:
    """One pass of the network over an a × b grid, point = left + a · right, updating the halves in turn."""
    right = points // a
    left = points - right * a
    for i in range(FEISTEL_ROUNDS):
        tag = np.uint64(i << 32)
        if i % 2 == 0:
            left = (left + siphash(k0, k1, right | tag) % a) % a
        else:
            right = (right + siphash(k0, k1, left | tag) % b) % b
    shuffled: Words = left + right * a
    return shuffled


def siphash(k0: Words, k1: Words, word: Words) -> Words:
    """SipHash-2-4 of one 64-bit little-endian word, elementwise   [Aumasson and Bernstein, 2012]"""
    v0, v1 = k0 ^ np.uint64(0x736F6D6570736575), k1 ^ np.uint64(0x646F72616E646F6D)
    v2, v3 = k0 ^ np.uint64(0x6C7967656E657261), k1 ^ np.uint64(0x7465646279746573)
    spare = np.empty_like(v0)
    length = np.uint64(8 << 56)  # the second block of an 8-byte message holds only its length
    for block in (word, length):
        v3 ^= block
        _sip_rounds(2, v0, v1, v2, v3, spare)
        v0 ^= block
    v2 ^= np.uint64(0xFF)
    _sip_rounds(4, v0, v1, v2, v3, spare)
    v0 ^= v1
    v0 ^= v2
    v0 ^= v3
    return v0


def _sip_rounds(count: int, v0: Words, v1: Words, v2: Words, v3: Words, spare: Words) -> None:
    """In place: allocating arrays for the 26 operations would cost more than the operations."""
    for _ in range(count):
        v0 += v1
        _rotate(v1, 13, spare)
        v1 ^= v0
        _rotate(v0, 32, spare)
        v2 += v3
        _rotate(v3, 16, spare)
        v3 ^= v2
        v0 += v3
        _rotate(v3, 21, spare)
        v3 ^= v0
        v2 += v1
        _rotate(v1, 17, spare)
        v1 ^= v2
        _rotate(v2, 32, spare)


def _rotate(word: Words, by: int, spare: Words) -> None:
    np.left_shift(word, np.uint64(by), out=spare)
    word >>= np.uint64(64 - by)
    word |= spare
