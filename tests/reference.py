"""The public tape, version 1, written a second time from its specification, with hashlib alone.

An oracle for the tests: plain and slow on purpose, and sharing no code with the package it checks.
"""

import hashlib
import math
from collections.abc import Iterable

Seed = int | str | bytes
Ids = tuple[int, ...]
Pair = tuple[int, int]

MASK = 2**64 - 1


def key(seed: Seed) -> bytes:
    """The 32-byte key of a seed; 32 raw bytes are the key itself."""
    if isinstance(seed, bytes):
        if len(seed) != 32:
            raise ValueError("a raw key has 32 bytes")
        return seed
    data = str(seed).encode("utf-8")
    return hashlib.blake2b(data, digest_size=32, person=b"zo-cosmo seed v1").digest()


class Stream:
    """The SHAKE-128 output for (key, label, ids), read from the front."""

    def __init__(self, key: bytes, label: str, ids: Ids) -> None:
        name = label.encode("ascii")
        if len(key) != 32 or len(name) > 16:
            raise ValueError("a key has 32 bytes and a label at most 16")
        message = b"zo-cosmo tape v1" + key + name.ljust(16, b"\0")
        message += b"".join(i.to_bytes(8, "little") for i in ids)
        self.shake = hashlib.shake_128(message)
        self.buffer = self.shake.digest(256)
        self.position = 0

    def take(self, n: int) -> bytes:
        """The next n bytes."""
        end = self.position + n
        while end > len(self.buffer):
            self.buffer = self.shake.digest(2 * len(self.buffer))
        piece = self.buffer[self.position : end]
        self.position = end
        return piece

    def word(self) -> int:
        """The next unsigned 64-bit little-endian word."""
        return int.from_bytes(self.take(8), "little")

    def below(self, n: int) -> int:
        """An exactly uniform integer in [0, n), by rejection."""
        limit = 2**64 - 2**64 % n
        while True:
            w = self.word()
            if w < limit:
                return w % n


def support(seed: Seed, d: int, q: int, ids: Ids) -> list[int]:
    """q distinct coordinates out of d, ascending."""
    stream = Stream(key(seed), "support", ids)
    direct = 2 * q <= d
    count = q if direct else d - q
    drawn: set[int] = set()
    while len(drawn) < count:
        drawn.add(stream.below(d))
    return sorted(drawn) if direct else [x for x in range(d) if x not in drawn]


def signs(seed: Seed, q: int, ids: Ids) -> list[int]:
    """q signs, one bit each, least significant bit of a byte first; a set bit is +1."""
    data = Stream(key(seed), "sign", ids).take((q + 7) // 8)
    return [1 if data[k // 8] >> (k % 8) & 1 else -1 for k in range(q)]


def permutation(seed: Seed, n: int, label: str, ids: Ids) -> list[int]:
    """Positions 0..n-1 sorted by (word, position)."""
    stream = Stream(key(seed), label, ids)
    return [position for _, position in sorted((stream.word(), position) for position in range(n))]


def ascending(pairs: Iterable[Pair]) -> list[Pair]:
    """Each pair ascending, and the pairs in lexicographic order."""
    return sorted((min(i, j), max(i, j)) for i, j in pairs)


def matching_complete(seed: Seed, n: int, t: int) -> list[Pair]:
    """Neighbours in a random order of the nodes; with odd n the last one idles."""
    p = permutation(seed, n, "matching", (t,))
    return ascending((p[k], p[k + 1]) for k in range(0, n - 1, 2))


def ring_phase(n: int, phase: int) -> list[Pair]:
    """Phase 0 joins (0,1),(2,3),...; phase 1 joins (1,2),...,(n-1,0)."""
    if n < 2 or n % 2:
        raise ValueError("the ring must be even")
    return ascending((k, (k + 1) % n) for k in range(phase, n, 2))


def matching_ring_iid(seed: Seed, n: int, t: int) -> list[Pair]:
    """An even ring whose phase is an independent coin for each round."""
    return ring_phase(n, Stream(key(seed), "matching", (t,)).take(1)[0] & 1)


def matching_ring_alternating(n: int, t: int) -> list[Pair]:
    """An even ring whose phase is t mod 2."""
    return ring_phase(n, t % 2)


def matching_greedy(seed: Seed, edges: Iterable[Pair], t: int) -> list[Pair]:
    """Edges visited in random order, each taken if both its ends are still free."""
    ordered = ascending(edges)
    busy: set[int] = set()
    taken = []
    for k in permutation(seed, len(ordered), "matching", (t,)):
        i, j = ordered[k]
        if i not in busy and j not in busy:
            busy |= {i, j}
            taken.append((i, j))
    return sorted(taken)


def perfect_classes(n: int, edges: Iterable[Pair]) -> dict[Pair, int]:
    """A regular graph's edges in as many colours as meet at a node; colours are looked up edge by edge."""
    ordered = ascending(edges)
    palette, attempt = set(range(2 * len(ordered) // n)), 0
    while True:
        colour: dict[Pair, int] = {}
        order = permutation(0, len(ordered), "factors", (attempt,))
        if all(take_colour(ordered[k], colour, palette) for k in order):
            return colour
        attempt += 1


def take_colour(edge: Pair, colour: dict[Pair, int], palette: set[int]) -> bool:
    """Colour one more edge, after the swap of two colours on a path from its smaller end if need be."""
    free = [palette - {c for other, c in colour.items() if end in other} for end in edge]
    if free[0] & free[1]:
        colour[edge] = min(free[0] & free[1])
        return True
    for a in sorted(free[0]):
        for b in sorted(free[1]):
            path, node, turn = [], edge[0], b
            while step := [e for e, c in colour.items() if node in e and c == turn]:
                path.append(step[0])
                node, turn = sum(step[0]) - node, a + b - turn
            if node != edge[1]:
                colour.update({e: a + b - colour[e] for e in path})
                colour[edge] = b
                return True
    return False


def matching_perfect(seed: Seed, n: int, edges: Iterable[Pair], t: int) -> list[Pair]:
    """One of those classes, each as likely as the others."""
    colour = perfect_classes(n, edges)
    degree = max(colour.values()) + 1
    drawn = Stream(key(seed), "matching", (t,)).below(degree) if degree > 1 else 0
    return sorted(edge for edge, c in colour.items() if c == drawn)


def sipround(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    """One SipRound on four 64-bit words."""
    v0 = (v0 + v1) & MASK
    v2 = (v2 + v3) & MASK
    v1 = ((v1 << 13) & MASK | v1 >> 51) ^ v0
    v3 = ((v3 << 16) & MASK | v3 >> 48) ^ v2
    v0 = (v0 << 32) & MASK | v0 >> 32
    v2 = (v2 + v1) & MASK
    v0 = (v0 + v3) & MASK
    v1 = ((v1 << 17) & MASK | v1 >> 47) ^ v2
    v3 = ((v3 << 21) & MASK | v3 >> 43) ^ v0
    v2 = (v2 << 32) & MASK | v2 >> 32
    return v0, v1, v2, v3


def siphash24(key16: bytes, message: bytes) -> int:
    """SipHash-2-4 with a 64-bit result, for a message of any length."""
    if len(key16) != 16:
        raise ValueError("a SipHash key has 16 bytes")
    k0 = int.from_bytes(key16[:8], "little")
    k1 = int.from_bytes(key16[8:], "little")
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    # Zero padding to one byte short of a multiple of 8, then the length modulo 256 as the last byte.
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        m = int.from_bytes(padded[start : start + 8], "little")
        v0, v1, v2, v3 = sipround(*sipround(v0, v1, v2, v3 ^ m))
        v0 ^= m
    v2 ^= 0xFF
    for _ in range(4):
        v0, v1, v2, v3 = sipround(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def balanced_pi(key16: bytes, d: int, x: int) -> int:
    """The keyed permutation of [0, d): ten Feistel rounds on an a-by-b grid, and cycle walking."""
    a = math.isqrt(d - 1) + 1
    b = -(-d // a)
    while True:
        left, right = x % a, x // a
        for i in range(10):
            f = siphash24(key16, (i * 2**32 + (right if i % 2 == 0 else left)).to_bytes(8, "little"))
            if i % 2 == 0:
                left = (left + f) % a
            else:
                right = (right + f) % b
        x = left + a * right
        if x < d:
            return x


def balanced(seed: Seed, d: int, q: int, t: int, extra_ids: Ids = ()) -> list[int]:
    """Block t mod K of a permutation of the d coordinates that is fresh every K = ceil(d/q) rounds."""
    blocks = -(-d // q)
    epoch, r = divmod(t, blocks)
    if d <= 1024:
        return sorted(permutation(seed, d, "balanced", (epoch, *extra_ids))[r * q : (r + 1) * q])
    key16 = Stream(key(seed), "balanced", (epoch, *extra_ids)).take(16)
    return sorted(balanced_pi(key16, d, x) for x in range(r * q, min((r + 1) * q, d)))
