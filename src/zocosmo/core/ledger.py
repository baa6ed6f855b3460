"""The ledger: bits by directed link and by kind. All bits are added up here."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.payload import Bits
from zocosmo.errors import InputError

Link = tuple[int, int]
Counts = NDArray[np.int64]


class Ledger:
    """Bits sent over each directed link (sender, receiver), split as in `Bits`.

    `shape` gives leading axes: one ledger for each of many runs, charged together.

    >>> ledger = Ledger([(0, 1), (1, 0)])
    >>> ledger.charge(1, Bits(values=262144, framing=256))
    >>> ledger.link(0, 1)
    Bits(values=262144, indices=0, control=0, framing=256)
    >>> ledger.network().total
    524800
    """

    def __init__(self, links: Sequence[Link] | Counts, shape: tuple[int, ...] = ()) -> None:
        self.ends: Counts = np.array(links, np.int64).reshape(-1, 2)
        keys = self.ends @ (2**32, 1)
        if not (keys[1:] > keys[:-1]).all() and len(np.unique(keys)) != len(keys):
            raise InputError(f"a ledger lists each directed link once, got {len(self.ends)} with repeats")
        self.counts: Counts = np.zeros((*shape, len(self.ends), len(Bits._fields)), np.int64)

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Sender and receiver of each link."""
        return tuple((i, j) for i, j in self.ends.tolist())

    @cached_property
    def _place(self) -> dict[Link, int]:
        return {link: k for k, link in enumerate(self.links)}

    def __repr__(self) -> str:
        total = self.network().total
        return f"Ledger(links={len(self.ends)}, shape={self.counts.shape[:-2]}, bits={total})"

    def charge(self, messages: int | NDArray[Any], bits: Bits) -> None:
        """Add `bits` for each message; `messages` counts them by link and broadcasts to (…, links)."""
        counted = np.asarray(messages)
        if counted.dtype.kind not in "iub" or (counted < 0).any():
            raise InputError(f"numbers of messages must be integers ≥ 0, got {messages!r}")
        for kind, amount in enumerate(bits):
            if amount:
                self.counts[..., kind] += counted.astype(np.int64) * amount

    def send(self, sender: int, receiver: int, bits: Bits) -> None:
        """Charge one message on one link."""
        self.counts[..., self._at(sender, receiver), :] += np.array(bits)

    def link(self, sender: int, receiver: int) -> Bits:
        """What this link carried, all runs together."""
        return _as_bits(self.counts[..., self._at(sender, receiver), :])

    def sent_by(self, node: int) -> Bits:
        """What a node sent, over all its links, all runs together."""
        return _as_bits(self.counts[..., self.ends[:, 0] == node, :])

    def network(self) -> Bits:
        """What crossed the network, all runs together."""
        return _as_bits(self.counts)

    def through(self, node: int) -> Counts:
        """Payload that a node received, and that it sent, shape (…, 2)."""
        payload = self.counts.sum(axis=-1) - self.counts[..., Bits._fields.index("framing")]
        received, sent = self.ends[:, 1] == node, self.ends[:, 0] == node
        return np.stack([payload[..., which].sum(axis=-1) for which in (received, sent)], axis=-1)

    def by_node(self, n: int) -> Counts:
        """Bits sent by each node and kind, shape (…, n, kinds)."""
        by_link = np.moveaxis(self.counts, -2, 0)
        out = np.zeros((n, *by_link.shape[1:]), np.int64)
        np.add.at(out, self.ends[:, 0], by_link)
        return np.moveaxis(out, 0, -2)

    def _at(self, sender: int, receiver: int) -> int:
        if (sender, receiver) not in self._place:
            raise InputError(
                f"there is no link from node {sender} to node {receiver}; charge only links of the graph"
            )
        return self._place[sender, receiver]


def _as_bits(counts: Counts) -> Bits:
    """Sums over all but the last axis. 32-bit halves are summed separately: the total may exceed 64 bits."""
    rows = counts.reshape(-1, len(Bits._fields))
    high, low = (rows >> 32).sum(axis=0).tolist(), (rows & (2**32 - 1)).sum(axis=0).tolist()
    return Bits(*((a << 32) + b for a, b in zip(high, low, strict=True)))
