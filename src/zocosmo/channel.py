"""The channel: values go to peers and come back mixed. The one seam between simulator and wire.

Four moves carry every message: to all neighbours, to a partner, to everyone, to and from a server. `charge`
bills a message whose content is known at the other end. `Channel` has the arithmetic, the encoding and the
bill; a subclass carries letters between nodes. Sums run over nodes in ascending order, so every engine gets
the same bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.bills import Bills
from zocosmo.coarse import Coarse
from zocosmo.core.ledger import Ledger
from zocosmo.core.levels import NONE, PER_UNIT, STEPS, from_levels, level_codes
from zocosmo.core.modulo import Modulo
from zocosmo.core.payload import Bits
from zocosmo.core.support import Support
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Envelope, Letters
from zocosmo.core.wires import WIRES, check_wire
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs.graph import Graph, complete
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.slots import Slot, slots
from zocosmo.traffic import Link, MessageKind, Route, Traffic

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]


class Channel(ABC):
    """Mixing over one graph, or over the graphs of many runs side by side, and its bill.

    Values have shape (…, n, q). Every codec in `codecs` is charged on a ledger of its own: messages under
    several codecs carry the same values, so one run gives several bills. Every message pays for its frame.
    Methods with a `server` have node n, with a link to it and one from it for every node. `overheard` charges
    a node that is alone as if one peer listened.
    """

    sees_all: ClassVar[bool] = False  # all nodes are in this memory

    def __init__(
        self,
        graphs: Sequence[Graph],
        *,
        d: int,
        wire: str,
        codecs: Sequence[str],
        dtype: DTypeLike,
        nodes: Index | None = None,
        tape: Tape | None = None,
        server: bool = False,
        overheard: bool = False,
    ) -> None:
        check_wire(wire, dtype)
        self.graphs, self.n, self.d, self.wire = tuple(graphs), graphs[0].n, d, WIRES[wire]
        self.dtype, self.t = np.dtype(dtype), 0
        self.nodes = np.arange(self.n) if nodes is None else nodes  # whose values these are, row by row
        self.tape, self.has_server, self.codecs = tape, server, tuple(codecs)
        self.at_most = False  # charge messages of private sizes at the longest they may be
        self.lost: Mapping[int, Collection[Link]] = {}  # by round: links whose messages do not arrive
        charged = (complete(2),) if overheard else self.graphs
        links = sorted({link for graph in set(charged) for link in graph.links if link[0] < self.n})
        if server:
            links = sorted(
                [*links, *((i, self.n) for i in range(self.n)), *((self.n, i) for i in range(self.n))]
            )
        self.traffic = Traffic(charged, links, nodes)
        self._bills = Bills(self.traffic, self.codecs, d, self.wire.charged)
        self.coarse = Coarse(self, self.wire, links) if isinstance(self.wire, Modulo) else None
        self._made: dict[bool, tuple[Slot, ...]] = {}
        self._first = np.arange(len(self.graphs))[:, None] * self.n  # the row of node 0 in each run
        self.senders = (self._first + self.nodes).reshape(-1)

    @property
    def framing(self) -> Bits:
        """What every message pays for its frame."""
        return self._bills.framing

    def begin(self, t: int) -> None:
        """Round t begins."""
        self.t = t

    # To all neighbours

    def mix(
        self, y: Values, u: Support | None = None, *, price: str = "", held: Values | None = None
    ) -> Values:
        """Σ_j w_ij y_j, as y_i + Σ_j w_ij (Q(y_j) − Q(y_i)) with Q the wire.

        In this form values that agree stay as they are to the bit, and, W being symmetric, the average is
        kept for any Q. `u` is the support that the values are on; a codec that names coordinates needs it.
        `held` is what nodes had there before their step: a wire of a few bits is read against it, and the
        caller must `settle` afterwards.
        """
        self.traffic.routed(MessageKind(y.shape[-1], price))
        if self.coarse is not None:
            return self.coarse.mix(y, held, u, None)
        letters, out = self._encode(y), y.copy()
        rows_out, rows_sent = out.reshape(-1, y.shape[-1]), self._decode_own(letters, y)
        for slot, theirs in self._neighbours(letters, y, u):
            theirs -= rows_sent if isinstance(slot.rows, slice) else rows_sent[slot.rows]
            theirs *= slot.weight
            rows_out[slot.rows] += theirs
        return out

    def mix_lifted(
        self, values: Values, index: Index, everyone: Index | None = None
    ) -> tuple[Values, Values]:
        """Q(values), and Σ_j w_ij Lift(Q(values_j)) over all d coordinates.

        Each message names its own coordinates, `index`, unless the tape gives those of all nodes: `everyone`.
        """
        self._check_common()
        self.traffic.routed(MessageKind(values.shape[-1]))
        letters, out = self._encode(values), np.zeros((*values.shape[:-1], self.d), values.dtype)
        rows_out = out.reshape(-1, self.d)
        for slot, theirs, their_index in self._hear_at(letters, index, everyone):
            read = self.decode(theirs, slot.source, values, slot.rows)
            lifted = np.zeros((len(read), self.d), values.dtype)
            np.put_along_axis(lifted, their_index, slot.weight * read, axis=-1)
            rows_out[slot.rows] += lifted
        return self._decode_own(letters, values).reshape(values.shape), out

    def mix_overlaps(self, y: Values, u: Support, everyone: Support) -> Values:
        """y_i + P_i Σ_j w_ij P_j (y_j − y_i): only coordinates that both ends drew are mixed."""
        self._check_common()
        q = y.shape[-1]
        self.traffic.routed(MessageKind(q))
        letters, out = self._encode(y), y.copy()
        rows_sent, rows_out = self._decode_own(letters, y), out.reshape(-1, q)
        rows_index = np.broadcast_to(u.index, y.shape).reshape(-1, q)
        public = np.broadcast_to(everyone.index, (*y.shape[:-2], self.n, q)).reshape(-1, q)
        for slot, theirs in self._neighbours(letters, y, u, everyone):
            at, both = _meet(rows_index[slot.rows], public.take(slot.source, axis=0), self.d)
            step = slot.weight * (theirs.reshape(-1)[at] - rows_sent[slot.rows])
            rows_out[slot.rows] += np.where(both, step, 0)
        return out

    # To a partner

    def mix_pairs(
        self, y: Values, partners: Partners, u: Support | None = None, *, held: Values | None = None
    ) -> Values:
        """(y_i + y_j) / 2 at both ends of each pair; over a lossy wire y_i + ½ (Q(y_j) − Q(y_i)).

        A node that is its own partner gets its own values back, and nothing is charged. `held` as in `mix`.
        """
        self.traffic.paired(MessageKind(y.shape[-1]), partners)
        if self.coarse is not None:
            return self.coarse.mix(y, held, u, partners)
        letters, source = self._encode(y), self.rows_of(partners)
        theirs = self.decode(self.swap(letters, source, u), source, y).reshape(y.shape)
        mixed: Values
        if self.wire.is_lossless(y.dtype):
            mixed = y + theirs
            mixed *= 0.5
        else:
            mixed = y + y.dtype.type(0.5) * (theirs - self._decode_own(letters, y).reshape(y.shape))
        return mixed

    # Over wires of a few bits

    def settle(self, x: Any, *others: tuple[Any, Any]) -> Any:
        """x less the exchanges that a peer did not complete, and every other (vector, share) less its share
        of them; in place where they are arrays. Returns x."""
        return x if self.coarse is None else self.coarse.settle(x, *others)

    def tally(self) -> dict[str, Index]:
        """What went wrong on links so far, by name and (run, node here); empty for wires of floats."""
        return {} if self.coarse is None else self.coarse.tally()

    def arrays(self) -> Arrays:
        """What the ends of links remember, for an exact resume."""
        return {} if self.coarse is None else self.coarse.memory.arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned."""
        if self.coarse is not None:
            self.coarse.memory.restore(arrays)

    # One number of every node

    def mix_levels(self, v: NDArray[np.float64], partners: Partners | None = None) -> NDArray[np.float64]:
        """Positive numbers (…, n, 1), their logarithms mixed with all neighbours, or with partners, on the
        grid of `core.levels`: 16 bits a message. A number that is 0 stays, and nobody averages with it."""
        kind, codes = MessageKind(1, "level"), level_codes(v).reshape(-1, 1)
        own, has = codes / PER_UNIT, codes != NONE
        move = np.zeros_like(own)
        with self._sending_levels():
            if partners is not None:
                self.traffic.paired(kind, partners)
                theirs = self.swap(Letters(codes), self.rows_of(partners), None).values
                move += np.where(has & (theirs != NONE), 0.5 * (theirs / PER_UNIT - own), 0.0)
                has = has & (partners != self.nodes).reshape(-1, 1)
            else:
                self.traffic.routed(kind)
                for slot, heard in self.hear(Letters(codes), None, None, True):
                    step = slot.weight * (heard.values / PER_UNIT - own[slot.rows])
                    move[slot.rows] += np.where(has[slot.rows] & (heard.values != NONE), step, 0.0)
        mixed = from_levels(own + np.rint(move * STEPS) / STEPS)
        return np.where(has, mixed, v.reshape(-1, 1)).reshape(v.shape)

    def _sending_levels(self) -> AbstractContextManager[None]:
        """Letters are levels, whatever the wire and the codec are."""
        return nullcontext()

    # To everyone

    def everyone(
        self, values: Values, u: Support | None = None, everyone: Support | None = None, *, over: Route
    ) -> Values:
        """Q(values) of every node at every other, (…, n, q).

        Over "links" each node sends to all directly, on a complete graph. Over the "tree" messages are
        relayed along a spanning tree, one at a time. In a "flood" each node passes on what it hears for the
        first time to all neighbours who did not send it; what is heard twice is paid twice.
        """
        self._check_common()
        if over == "links" and self._sparse is not None:
            raise GraphError(f"sending to all in one stage needs a complete graph, got {self._sparse!r}")
        self.traffic.routed(MessageKind(values.shape[-1]), over)
        heard = self._spread(self._encode(values), u, everyone, over)
        whole = (*values.shape[:-2], self.n, values.shape[-1])
        return self.decode(heard, np.arange(len(heard.values)), values).reshape(whole)

    # To a server and from it

    def up(
        self,
        values: Values,
        active: Mask | None = None,
        *,
        sizes: Index | None = None,
        price: str = "",
        of: int = 0,
    ) -> Values:
        """Q(values) of every active node at the server, (…, n, q); `price` and `of` as in `MessageKind`.

        With `sizes` node i sends sizes_i of its values, (…, n), and the rest is 0: nothing where that is 0,
        and all d where they cost less. Under the codec seed_scalar each value is a message with its own seed.
        """
        if sizes is None:
            self.charge(values.shape[-1], active, up=True, price=price, of=of)
        else:
            self._charge_sizes(sizes, up=True)
        return self.as_read(values)

    def down(
        self,
        values: Values,
        active: Mask | None = None,
        *,
        sizes: Index | None = None,
        most: int = 0,
        price: str = "",
        of: int = 0,
    ) -> Values:
        """Q(values) of the server at every active node: (…, 1, q) the same for all, or (…, n, q).

        `sizes`, (…, 1), as in `up`; with `most` they are private, and never above it.
        """
        if sizes is None:
            self.charge(values.shape[-1], active, up=False, price=price, of=of)
        else:
            self._charge_sizes(np.full_like(sizes, most) if most and self.at_most else sizes, up=False)
        return self.as_read(values)

    def charge(
        self,
        size: int,
        active: Mask | None = None,
        *,
        up: bool,
        times: Index | None = None,
        price: str = "",
        of: int = 0,
        only: str = "",
    ) -> None:
        """Bill messages of `size` values between the server and every active node.

        `times` counts the messages of each node, (…, n), where they differ. With `only` they are sent under
        that codec and no other.
        """
        if times is None:
            times = np.broadcast_to(True if active is None else active, (len(self.graphs), self.n))
        self._serve(MessageKind(size, price, of, only), times, up=up)

    def as_read(self, values: Values) -> Values:
        """Q(values): what anyone who hears these values reads. Nothing is sent or charged."""
        self._check_common()
        rows = values.reshape(-1, values.shape[-1])
        each = len(rows) // len(self.graphs)
        by_node = each == len(self.nodes)  # else the server's, which draws the coins of node 0
        envelope = self.envelope(self.senders if by_node else self._first.repeat(each))
        letters = self.wire.encode(rows, envelope)
        return self.wire.decode(letters, envelope, dtype=values.dtype, own=None).reshape(values.shape)

    def _check_common(self) -> None:
        """Refuse a wire whose messages each receiver reads differently."""
        if self.wire.by_receiver:
            raise InputError("this wire is read against the receiver's values; choose a wire of floats")

    # The bill

    def ledger(self, codec: str) -> Ledger:
        """The bill under one codec, all messages so far included."""
        return self._bills.ledger(codec)

    def _charge_sizes(self, sizes: Index, *, up: bool) -> None:
        by_node = np.broadcast_to(sizes, (len(self.graphs), self.n))
        for size in np.unique(sizes[sizes > 0]).tolist():
            self._serve(MessageKind(size, or_all=True), by_node == size, up=up)

    def _serve(self, kind: MessageKind, messages: NDArray[Any], *, up: bool) -> None:
        if not self.has_server:
            raise GraphError("there is no server here; make the channel with server=True")
        self.traffic.with_server(kind, messages.astype(np.int64), up=up)

    @cached_property
    def _sparse(self) -> Graph | None:
        """A graph of ours that is not complete."""
        return next((g for g in self.graphs if len(g.edges) != g.n * (g.n - 1) // 2), None)

    # Writing and reading letters

    def envelope(self, rows: Index) -> Envelope:
        return Envelope(self.t, rows, self.n, self.tape, None if self.coarse is None else self.coarse.noise)

    def _encode(self, values: Values) -> Letters:
        """What the nodes here write, one row a node."""
        return self.wire.encode(values.reshape(-1, values.shape[-1]), self.envelope(self.senders))

    def _decode_own(self, letters: Letters, values: Values) -> Values:
        """What the nodes here would read of their own letters."""
        return self.decode(letters, self.senders, values)

    def decode(self, letters: Letters, senders: Index, values: Values, rows: Any = slice(None)) -> Values:
        """Letters of some senders as the nodes in `rows`, who hold `values`, read them."""
        own = values.reshape(-1, values.shape[-1])[rows] if self.wire.by_receiver else None
        return self.wire.decode(letters, self.envelope(senders), dtype=values.dtype, own=own)

    def _neighbours(
        self, letters: Letters, values: Values, u: Support | None, everyone: Support | None = None
    ) -> Iterator[tuple[Slot, Values]]:
        """Slot by slot, what listeners read of their neighbours' letters."""
        for slot, theirs in self.hear(letters, u, everyone, True):
            yield slot, self.decode(theirs, slot.source, values, slot.rows)

    def rows_of(self, partners: Partners) -> Index:
        """Partners as rows, run · n + node."""
        if len(self.graphs) == 1:
            return partners.reshape(-1)
        return (partners.reshape(-1, len(self.nodes)) + self._first).reshape(-1)

    def slots(self, peers_only: bool) -> tuple[Slot, ...]:
        """Built when first mixed: matchings never need them."""
        if peers_only not in self._made:
            self._made[peers_only] = tuple(self._build_slots(peers_only))
        return self._made[peers_only]

    def _build_slots(self, peers_only: bool) -> Iterator[Slot]:
        return slots(self.graphs, self.dtype, peers_only)

    def counts_of(self, peers: Index, back: Index, letters: Letters) -> Values:
        """How many exchanges peers have applied, mod 4: from memory, where all ends are in it.

        `back` are the links from these peers, `letters` what they sent.
        """
        assert self.coarse is not None
        return self.coarse.told[back]

    # What a subclass carries

    @abstractmethod
    def hear(
        self, letters: Letters, u: Support | None, everyone: Support | None, peers_only: bool
    ) -> Iterator[tuple[Slot, Letters]]:
        """Slot by slot, the letters that listeners get: new arrays that the caller may overwrite.

        A node hears itself too, in its place, unless `peers_only`. Values are on the coordinates of `u`, and
        those of peers on theirs among `everyone`, where it is given.
        """

    @abstractmethod
    def _hear_at(
        self, letters: Letters, index: Index, everyone: Index | None
    ) -> Iterator[tuple[Slot, Letters, Index]]:
        """As `hear`, with the coordinates that come with the values, or are public."""

    @abstractmethod
    def swap(self, letters: Letters, partners: Index, u: Support | None) -> Letters:
        """For each node the letter of its partner; `partners` are rows, run · n + node."""

    @abstractmethod
    def _spread(self, letters: Letters, u: Support | None, everyone: Support | None, over: Route) -> Letters:
        """The letters of all nodes, brought to all."""


class MemoryChannel(Channel):
    """All nodes of all runs in one memory: runs are rows of one big graph of separate pieces."""

    sees_all: ClassVar[bool] = True

    def hear(
        self, letters: Letters, u: Support | None, everyone: Support | None, peers_only: bool
    ) -> Iterator[tuple[Slot, Letters]]:
        for slot in self.slots(peers_only):
            yield slot, letters.take(slot.source)

    def _hear_at(
        self, letters: Letters, index: Index, everyone: Index | None
    ) -> Iterator[tuple[Slot, Letters, Index]]:
        rows_index = index.reshape(-1, index.shape[-1])
        for slot, theirs in self.hear(letters, None, None, False):
            yield slot, theirs, rows_index.take(slot.source, axis=0)

    def swap(self, letters: Letters, partners: Index, u: Support | None) -> Letters:
        return letters.take(partners)

    def _spread(self, letters: Letters, u: Support | None, everyone: Support | None, over: Route) -> Letters:
        return letters


def _meet(mine: Index, theirs: Index, d: int) -> tuple[Index, NDArray[np.bool_]]:
    """For each of my coordinates: where it stands among theirs (flat), and whether it does.

    Rows are numbered into the coordinates, so that one search serves all of them.
    """
    shift = np.arange(len(mine))[:, None] * d
    keys, wanted = (theirs + shift).reshape(-1), mine + shift
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
