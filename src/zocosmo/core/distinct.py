"""The first k distinct values of a stream of coins, for many streams at once, in O(k) each.

This draws a support   [PROTOCOL.md]. Slightly more than k words of a stream are read, the first k values are
sorted, and the few repeats are replaced by the next new values of the same stream.
"""

import math

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import BLOCK_WORDS, Coins, Words

RADIX_LENGTH = 2048  # row length from which a radix sort is faster
WORD_BITS = 64  # values below this fit as bits of one word

REJECTED = np.uint64(2**64 - 1)  # marks a rejected word: never a value below d

Index = NDArray[np.int64]
Flags = NDArray[np.bool_]


def first_distinct(coins: Coins, d: int, k: int) -> Index:
    """The first k distinct values of below(d) in each stream, ascending: shape (…, k)."""
    if k == 0:
        return np.empty((*coins.shape, 0), np.int64)
    count = _first_guess(d, k)
    return coins.by_block(BLOCK_WORDS // count, lambda block: _first_distinct(block, d, k, count))


def _first_distinct(coins: Coins, d: int, k: int, count: int) -> Index:
    head = _distinct_bits if d <= WORD_BITS and k * k > d else _distinct_head  # most rows have repeats
    found, complete = head(_below(coins.words(count), d), d, k)
    while not complete.all():
        count *= 2
        todo = np.flatnonzero(~complete)
        found[todo], complete[todo] = head(_below(coins.rows(todo).words(count), d), d, k)
    return found.view(np.int64)


def _first_guess(d: int, k: int) -> int:
    """Words that almost always contain k distinct values: the mean plus six standard deviations."""
    mean = -math.log1p(-k / d) * d / (1 - (2**64 % d) / 2**64)
    return int(mean + 6 * math.sqrt(max(0.0, mean - k))) + 2


def _below(words: Words, d: int) -> Words:
    """below(d) applied along each row: accepted values first, then REJECTED for each rejected word."""
    multiple = words // np.uint64(d)  # w − ⌊w/d⌋·d: in NumPy faster than a remainder by a scalar
    multiple *= np.uint64(d)
    values: Words = np.subtract(words, multiple, out=multiple)
    limit = 2**64 - 2**64 % d
    if words.max(initial=0) >= limit:
        rejected = words >= np.uint64(limit)
        values[rejected] = REJECTED
        values = np.take_along_axis(values, np.argsort(rejected, axis=1, kind="stable"), axis=1)
    return values


def _distinct_head(values: Words, d: int, k: int) -> tuple[Words, Flags]:
    """The first k distinct values of each row, ascending, and whether the row has that many.

    The first k values are sorted; the next new values of the row replace those that repeat.
    """
    head = _sorted(values[:, :k], d)
    complete: Flags = head[:, -1] < np.uint64(d)
    repeats = np.flatnonzero(head[:, 1:] == head[:, :-1])
    if not repeats.size:
        return head, complete
    row, slot = np.divmod(repeats, k - 1)
    missing = np.bincount(row, minlength=len(head))
    short = np.flatnonzero(missing) if len(head) > 1 else slice(None)
    fresh = _is_fresh(values[short, k:], head[short], d)
    fresh &= np.cumsum(fresh, axis=1) <= missing[short, None]
    complete[short] &= fresh.sum(axis=1) == missing[short]
    done = complete[row]
    head[row[done], slot[done]] = values[short, k:][fresh & complete[short, None]]
    merged = head[short]  # a view of the only row, or a copy of some
    merged.sort(axis=1, kind="stable")  # nearly sorted: cheap for a merge sort
    if len(head) > 1:
        head[short] = merged
    return head, complete


def _distinct_bits(values: Words, d: int, k: int) -> tuple[Words, Flags]:
    """As `_distinct_head` for d ≤ 64: each word holds the set of values seen so far, one bit each."""
    seen = np.bitwise_or.accumulate(np.uint64(1) << values, axis=1)  # REJECTED shifts the bit out
    at = (np.bitwise_count(seen) < k).sum(axis=1)  # where the k-th value comes first
    complete: Flags = at < values.shape[1]
    sets = seen[complete, at[complete]].astype("<u8", copy=False)[:, None].view(np.uint8)
    found = np.zeros((len(values), k), np.uint64)
    found[complete] = np.nonzero(np.unpackbits(sets, axis=1, count=d, bitorder="little"))[1].reshape(-1, k)
    return found, complete


def _is_fresh(tail: Words, head: Words, d: int) -> Flags:
    """Which values of the tail are neither in the head of their row nor earlier in its tail."""
    fresh = tail < np.uint64(d)
    rows_at_once = max(1, (2**64 - 1) // d)  # row · d + value must fit in a word
    for at in range(0, len(tail), rows_at_once):
        part = slice(at, at + rows_at_once)
        known, keys = _row_keys(head[part], d), _row_keys(tail[part], d)
        place = np.minimum(np.searchsorted(known, keys), known.size - 1)
        order = np.argsort(keys, kind="stable")
        first = np.ones(keys.size, bool)
        first[order[1:]] = keys[order[1:]] != keys[order[:-1]]
        fresh[part] &= (first & (known[place] != keys)).reshape(tail[part].shape)
    return fresh


def _row_keys(values: Words, d: int) -> Words:
    """row · d + value: distinct across rows, and ascending if each row is."""
    if len(values) == 1:
        return values.ravel()
    base = np.arange(len(values), dtype=np.uint64) * np.uint64(d)
    keys: Words = values + base[:, None]
    return keys.ravel()


def _sorted(values: Words, d: int) -> Words:
    """Each row ascending. Values are uniform below d, so a radix sort by the top 16 bits nearly orders a long
    row and a merge sort finishes it, in a quarter of the time of a general sort."""
    if values.shape[1] < RADIX_LENGTH:
        return np.sort(values, axis=1)
    shift, out = np.uint64(max(0, (d - 1).bit_length() - 16)), np.empty_like(values)
    for row, into in zip(values, out, strict=True):
        order = np.argsort(np.right_shift(row, shift, out=into).astype(np.uint16), kind="stable")
        np.take(row, order, out=into, mode="clip")  # the default mode copies once more
        into.sort(kind="stable")
    return out
