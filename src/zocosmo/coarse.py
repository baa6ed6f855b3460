"""Mixing over wires of a few bits: y_i + Σ_j w_ij (ŷ_j − ŷ_i) over the exchanges that both ends complete."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.modulo import Modulo
from zocosmo.core.noise import Noise
from zocosmo.core.support import Support
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Envelope, Letters
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.slots import Slot
from zocosmo.meetings import Meeting, Meetings
from zocosmo.traffic import Link, MessageKind, Traffic

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Carrier(Protocol):
    """What this needs of a channel: who is here, and letters carried between nodes."""

    graphs: tuple[Graph, ...]
    nodes: Index
    n: int
    d: int
    t: int
    tape: Tape | None
    lost: Mapping[int, Collection[Link]]
    traffic: Traffic
    senders: Index

    @property
    def sees_all(self) -> bool: ...
    def counts_of(self, peers: Index, back: Index, letters: Letters) -> Values: ...
    def envelope(self, rows: Index) -> Envelope: ...
    def rows_of(self, partners: Partners) -> Index: ...
    def slots(self, peers_only: bool) -> tuple[Slot, ...]: ...
    def decode(self, letters: Letters, senders: Index, values: Values, rows: Any) -> Values: ...
    def hear(
        self, letters: Letters, u: Support | None, everyone: Support | None, peers_only: bool
    ) -> Iterator[tuple[Slot, Letters]]: ...
    def swap(self, letters: Letters, partners: Index, u: Support | None) -> Letters: ...


class Exchanged(NamedTuple):
    """The exchanges of one slot: who met, which of them were applied here, and what that added."""

    met: Meeting
    applied: Mask
    delta: Values


class Coarse:
    """The moves of a channel over a wire of a few bits, with what the ends of links remember."""

    def __init__(self, channel: Carrier, wire: Modulo, links: Sequence[Link]) -> None:
        if channel.tape is None:
            raise InputError("this wire draws public coins; make the channel with the tape of its runs")
        self.channel, self.wire, self.noise = channel, wire, Noise(channel.tape, channel.n)
        self.memory = Meetings(wire, links, channel.n, len(channel.graphs), len(channel.nodes))
        self.told = self.memory.count  # exchanges applied, as the messages of this move say
        self._lead: tuple[int, ...] = ()

    def mix(self, y: Values, held: Values | None, u: Support | None, partners: Partners | None) -> Values:
        """Mix y with all neighbours, or with partners where these are given; `held` is x before the step."""
        if held is None:
            raise InputError("this wire is read against the values before the step; call mix(…, held=x)")
        q, self._lead, out = y.shape[-1], y.shape[:-2], y.copy()
        rows_y, rows_x, rows_out = (each.reshape(-1, q) for each in (y, held, out))
        slots, met = self._neighbours if partners is None else self._paired(partners, y.dtype)
        self.told = self.memory.count.copy()
        letters = self._encode(rows_y, rows_x, met, partners)
        own, done = self.channel.decode(letters, self.channel.senders, y, slice(None)), []
        for slot, each, theirs in zip(slots, met, self._carry(letters, u, partners, met), strict=True):
            applied, read = self._hear(slot, each, theirs, held, rows_y)
            delta = np.where(applied[:, None], slot.weight * (read - own[slot.rows]), 0)
            rows_out[slot.rows] += delta
            done.append(Exchanged(each, applied, delta))
        self._keep(done, np.broadcast_to(np.arange(q) if u is None else u.index, y.shape).reshape(-1, q))
        return out

    def settle(self, x: Any, *others: tuple[Any, Any]) -> Any:
        """x less the exchanges that a peer did not complete, as `Carriage.settle` says."""
        nodes = len(self.channel.nodes)
        for index, delta in self.memory.due(len(self.channel.graphs) * nodes):
            shape = *self._lead, nodes, index.shape[-1]
            at = Support(index.reshape(shape), self.channel.d, _check=False)
            undone = delta.reshape(shape)
            x = at.put(x, at.restrict(x) - undone, out=x)
            for c, share in others:
                at.put(c, at.restrict(c) - share * undone, out=c)
        return x

    def tally(self) -> dict[str, Index]:
        """Failures, repairs and wide messages so far, by (run, node here)."""
        memory, runs = self.memory, len(self.channel.graphs)
        counts = {"failures": memory.failed, "repairs": memory.repaired, "wide": memory.widened}
        return {name: count.reshape(runs, -1) for name, count in counts.items()}

    # Sending

    @cached_property
    def _neighbours(self) -> tuple[tuple[Slot, ...], list[Meeting]]:
        """Everyone hears all neighbours."""
        slots = self.channel.slots(True)
        return slots, [self._meeting(slot) for slot in slots]

    def _paired(self, partners: Partners, dtype: np.dtype[Any]) -> tuple[tuple[Slot, ...], list[Meeting]]:
        """Everyone who has a partner hears it."""
        source = self.channel.rows_of(partners)
        rows = np.flatnonzero(source != self.channel.senders)
        slot = Slot(rows, source[rows], np.full((len(rows), 1), 0.5, dtype))
        return (slot,), [self._meeting(slot)]

    def _meeting(self, slot: Slot) -> Meeting:
        rows = np.arange(len(self.channel.senders))[slot.rows]
        ends = self.channel.senders[rows], slot.source
        return Meeting(rows, self.memory.place(*ends), self.memory.place(*ends[::-1]))

    def _encode(self, y: Values, x: Values, met: Sequence[Meeting], partners: Partners | None) -> Letters:
        step, largest = np.abs(y - x).max(axis=-1), np.abs(y).max(axis=-1)
        exponent, wide = self.memory.choose(met, step, largest)
        if wide.any():
            self._charge_wide(y.shape[-1], wide, partners)
        envelope = self.channel.envelope(self.channel.senders)
        return self.wire.encode(y, envelope._replace(exponent=exponent, wide=wide))

    def _charge_wide(self, q: int, wide: Mask, partners: Partners | None) -> None:
        channel, kind = self.channel, MessageKind(q, rest=self.wire.rest)
        by_node = wide.reshape(len(channel.graphs), len(channel.nodes))
        if partners is None:
            channel.traffic.from_some(kind, by_node)
        else:
            whom = np.broadcast_to(partners, (*self._lead, len(channel.nodes))).reshape(by_node.shape)
            channel.traffic.paired(kind, np.where(by_node, whom, channel.nodes))

    def _carry(
        self, letters: Letters, u: Support | None, partners: Partners | None, met: Sequence[Meeting]
    ) -> Iterator[Letters]:
        """The letters that listeners get, slot by slot."""
        if partners is None:
            return (theirs for _, theirs in self.channel.hear(letters, u, None, True))
        swapped = self.channel.swap(letters, self.channel.rows_of(partners), u)
        return iter([swapped.take(met[0].rows)])

    # Hearing

    def _hear(
        self, slot: Slot, met: Meeting, theirs: Letters, held: Values, y: Values
    ) -> tuple[Mask, Values]:
        """Which exchanges listeners apply, and what they read."""
        assert theirs.scale is not None
        read = self.channel.decode(theirs, slot.source, held, slot.rows)
        counts = self.channel.counts_of(slot.source, met.back, theirs)
        arrived = self._arrived(slot.source, met)
        return self.memory.hear(met, counts, arrived, read, y[slot.rows], theirs.scale), read

    def _arrived(self, source: Index, met: Meeting) -> Mask:
        """Whose message was not lost."""
        lost, n = self.channel.lost.get(self.channel.t, ()), self.channel.n
        ends = zip((source % n).tolist(), (self.channel.senders[met.rows] % n).tolist(), strict=True)
        return np.array([link not in lost for link in ends], bool) if lost else np.ones(len(source), bool)

    def _keep(self, done: Sequence[Exchanged], index: Index) -> None:
        """Keep what was applied here, unless the peer is known to have applied it too."""
        applied = np.zeros(len(self.memory.count), bool)
        if self.channel.sees_all:
            for each in done:
                applied[each.met.out] = each.applied
        for met, here, delta in done:
            unsure = here & ~applied[met.back]
            if unsure.any():
                self.memory.keep(met, unsure, index[met.rows], delta)
