"""Mixing with repair: y_i + Σ_j w_ij (Q(y_j) − Q(y_i)) over the exchanges that both ends complete."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import Support
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Envelope, Letters, Wire
from zocosmo.exchanges import Exchanges, Meeting
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.slots import Slot
from zocosmo.traffic import Link, Traffic

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
    ids: Index | None
    traffic: Traffic
    senders: Index

    @property
    def sees_all(self) -> bool: ...
    def heard(self, met: Meeting, peers: Index) -> Mask: ...
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


class Repairs(ABC):
    """The moves of a channel whose exchanges may fail, with what the ends of links remember."""

    def __init__(self, channel: Carrier, memory: Exchanges) -> None:
        self.channel, self.memory = channel, memory
        memory.sure = channel.sees_all
        self.told = memory.count  # exchanges applied, as the messages of this move say
        self._lead: tuple[int, ...] = ()

    def mix(self, y: Values, held: Values | None, u: Support | None, partners: Partners | None) -> Values:
        """Mix y with all neighbours, or with partners where these are given; `held` is x before the step."""
        held = self._check_held(y, held)
        q, self._lead, out = y.shape[-1], y.shape[:-2], y.copy()
        rows_y, rows_x, rows_out = (each.reshape(-1, q) for each in (y, held, out))
        slots, met = self._neighbours if partners is None else self._paired(partners, y.dtype)
        self.told = self.memory.count.copy()
        letters = self._encode(rows_y, rows_x, met, partners)
        own, done = self.channel.decode(letters, self.channel.senders, y, slice(None)), []
        for slot, each, theirs in zip(slots, met, self._carry(letters, u, partners, met), strict=True):
            applied, read = self._hear(slot, each, theirs, held, rows_y)
            delta = self._add(slot, applied, read, own, rows_out, partners is not None)
            done.append(Exchanged(each, applied, delta))
        self._keep(done, np.broadcast_to(np.arange(q) if u is None else u.index, y.shape))
        return out

    def settle(self, x: Any, *others: tuple[Any, Any]) -> Any:
        """x less the exchanges that a peer did not complete, as `Carriage.settle` says."""
        for rows, places, delta in self.memory.due():
            x = self._less(x, rows, places, delta)
            for c, share in others:
                runs = rows // len(self.channel.nodes)
                each = share if np.ndim(share) == 0 else np.reshape(share, (-1, 1))[runs]
                self._less(c, rows, places, each * delta)
        return x

    def _less(self, x: Any, rows: Index, places: Index, delta: Values) -> Any:
        """x less deltas of some rows, on their places; in place."""
        if isinstance(x, np.ndarray) and x.flags.c_contiguous:
            x.reshape(-1, x.shape[-1])[rows[:, None], places] -= delta
            return x
        q, size = places.shape[-1], len(self.channel.senders)
        index, undone = np.tile(np.arange(q), (size, 1)), np.zeros((size, q), delta.dtype)
        index[rows], undone[rows] = places, delta
        shape = *self._lead, len(self.channel.nodes), q
        at = Support(index.reshape(shape), self.channel.d, _check=False)
        return at.put(x, at.restrict(x) - undone.reshape(shape), out=x)

    def tally(self) -> dict[str, Index]:
        """Failures and repairs so far, by (run, node here)."""
        runs = len(self.channel.graphs)
        counts = {"failures": self.memory.failed, "repairs": self.memory.repaired}
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
        out = self.memory.place(self.channel.senders[rows], slot.source)
        return Meeting(rows, out, self.memory.reverse(out))

    def _carry(
        self, letters: Letters, u: Support | None, partners: Partners | None, met: Sequence[Meeting]
    ) -> Iterator[Letters]:
        """The letters that listeners get, slot by slot."""
        if partners is None:
            return (theirs for _, theirs in self.channel.hear(letters, u, None, True))
        swapped = self.channel.swap(letters, self.channel.rows_of(partners), u)
        return iter([swapped.take(met[0].rows)])

    def _keep(self, done: Sequence[Exchanged], index: Index) -> None:
        """Keep what was applied here, unless the peer is known to have applied it too."""
        failed = np.full(len(self.memory.count), not self.channel.sees_all)
        if self.channel.sees_all:  # and both ends of every exchange are among these
            if all(each.applied.all() for each in done):
                return
            for each in done:
                failed[self.memory.reverse(each.met.out[np.flatnonzero(~each.applied)])] = True
        for met, here, delta in done:
            unsure = here & failed[met.out]  # the peer's end of this link
            if unsure.any():
                self.memory.keep(met, unsure, index.reshape(-1, index.shape[-1]), delta)

    # What wires do differently

    @abstractmethod
    def _check_held(self, y: Values, held: Values | None) -> Values:
        """What nodes had before their step, or whatever this wire takes in its place."""

    @abstractmethod
    def _encode(self, y: Values, x: Values, met: Sequence[Meeting], partners: Partners | None) -> Letters:
        """What the nodes here write."""

    @abstractmethod
    def _hear(
        self, slot: Slot, met: Meeting, theirs: Letters, held: Values, y: Values
    ) -> tuple[Mask, Values]:
        """Which exchanges listeners apply, and what they read."""

    def _add(self, slot: Slot, applied: Mask, read: Values, own: Values, out: Values, paired: bool) -> Values:
        """Add what was applied to `out`; returns it."""
        delta = read  # which is ours
        delta -= own if isinstance(slot.rows, slice) else own[slot.rows]
        delta *= slot.weight
        if (missed := np.flatnonzero(~applied)).size:  # few, so by number
            delta[missed] = 0
        out[slot.rows] += delta
        return delta


class Floats(Repairs):
    """Mixing over wires of floats, for networks in which messages may be late or lost.

    Where all messages arrive, the bits are those of `Channel.mix` and `Channel.mix_pairs`.
    """

    def __init__(self, channel: Carrier, wire: Wire, links: Sequence[Link] | Index) -> None:
        memory = Exchanges(links, channel.n, len(channel.graphs), len(channel.nodes))
        super().__init__(channel, memory)
        self.wire = wire

    def _check_held(self, y: Values, held: Values | None) -> Values:
        return y

    def _encode(self, y: Values, x: Values, met: Sequence[Meeting], partners: Partners | None) -> Letters:
        return self.wire.encode(y, self.channel.envelope(self.channel.senders))

    def _hear(
        self, slot: Slot, met: Meeting, theirs: Letters, held: Values, y: Values
    ) -> tuple[Mask, Values]:
        read = self.channel.decode(theirs, slot.source, held, slot.rows)
        counts = self.channel.counts_of(slot.source, met.back, theirs)
        arrived = self.channel.heard(met, slot.source)
        return self.memory.meet(met, counts, arrived, arrived)[0], read

    def _add(self, slot: Slot, applied: Mask, read: Values, own: Values, out: Values, paired: bool) -> Values:
        if not (paired and self.wire.is_lossless(out.dtype)):
            return super()._add(slot, applied, read, own, out, paired)
        mine = out[slot.rows]
        both = np.where(applied[:, None], (mine + read) * out.dtype.type(0.5), mine)
        out[slot.rows] = both
        delta: Values = both - mine
        return delta
