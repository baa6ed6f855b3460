"""The channel: values go to peers and come back mixed. The one seam between simulator and wire.

Moves carry every message: to all neighbours, to a partner, up a tree and down again, to everyone, to and from
a server. `charge` bills a message whose content is known at the other end. `Channel` has the arithmetic; a
subclass carries letters between nodes. Sums run over nodes in ascending order, so every engine gets the same
bits.
"""

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zocosmo.carriage import Carriage
from zocosmo.core.levels import LEVEL, NONE, PER_UNIT, STEPS, from_levels, level_codes
from zocosmo.core.residues import RESIDUES
from zocosmo.core.support import Support
from zocosmo.core.wire import Letters
from zocosmo.errors import GraphError
from zocosmo.exchanges import Meeting
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.slots import Slot
from zocosmo.traffic import MessageKind, Route, spanning_trees

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Channel(Carriage):
    """Mixing over one graph, or over the graphs of many runs side by side."""

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
        if self.repairs is not None:
            return self.repairs.mix(y, held, u, None)
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
        if self.repairs is not None:
            return self.repairs.mix(y, held, u, partners)
        letters, source = self._encode(y), self.rows_of(partners)
        theirs = self.decode(self.swap(letters, source, u), source, y).reshape(y.shape)
        mixed: Values
        if self.wire.is_lossless(y.dtype):
            mixed = y + theirs
            mixed *= 0.5
        else:
            mixed = y + y.dtype.type(0.5) * (theirs - self._decode_own(letters, y).reshape(y.shape))
        return mixed

    # One number of every node

    def mix_levels(self, v: NDArray[np.float64], partners: Partners | None = None) -> NDArray[np.float64]:
        """Positive numbers (…, n, 1), their logarithms mixed with all neighbours, or with partners, on the
        grid of `core.levels`: 16 bits a message. A number that is 0 stays, and nobody averages with it."""
        kind, codes = MessageKind(1, "level"), level_codes(v).reshape(-1, 1)
        own, has = codes / PER_UNIT, codes != NONE
        move = np.zeros_like(own)
        with self._sending(LEVEL):
            if partners is not None:
                self.traffic.paired(kind, partners)
                source = self.rows_of(partners)
                theirs = self.swap(Letters(codes), source, None).values
                move += np.where(has & (theirs != NONE), 0.5 * (theirs / PER_UNIT - own), 0.0)
                has = has & (partners != self.nodes).reshape(-1, 1)
                has &= self.arrived(source, self.senders, level=True)[:, None]
            else:
                self.traffic.routed(kind)
                for slot, heard in self.hear(Letters(codes), None, None, True):
                    step = slot.weight * (heard.values / PER_UNIT - own[slot.rows])
                    came = self.arrived(slot.source, self.senders[slot.rows], level=True)[:, None]
                    move[slot.rows] += np.where(came & has[slot.rows] & (heard.values != NONE), step, 0.0)
        mixed = from_levels(own + np.rint(move * STEPS) / STEPS)
        return np.where(has, mixed, v.reshape(-1, 1)).reshape(v.shape)

    # Integers of a few bits

    def hear_residues(self, k: Values, bits: int) -> Iterator[tuple[Slot, Values]]:
        """Integers (…, n, q) modulo 2^b to all neighbours: slot by slot what listeners hear, in double.

        Weights of these slots are in double, whatever the type of the states is.
        """
        value, q = RESIDUES[bits], k.shape[-1]
        self.traffic.routed(MessageKind(q, value.name))
        letters = Letters(np.mod(k, 2.0**bits).astype(value.dtype).reshape(-1, q))
        with self._sending(value):
            heard = [theirs.values.astype(np.float64) for _, theirs in self.hear(letters, None, None, True)]
        return zip(self.slots(True, np.float64), heard, strict=True)

    # Sums over a tree

    def sum_residues(self, k: Values, bits: int) -> Values:
        """Σ_i k_i modulo 2^b at every node, (…, 1, P), from integers (…, n, P); see `sum_values`."""
        self._check_common()
        self.traffic.routed(MessageKind(k.shape[-1]), "sum")
        return self._residues_of_all(np.mod(k, 2.0**bits), bits)

    def sum_values(self, values: Values, *, words: int = 0) -> Values:
        """Σ_i values_i as all nodes read it, (…, 1, P), of values (…, n, P).

        In the breadth-first tree of node 0 every node adds what it reads from its children, the last one
        first, and sends the sum to its parent; the root's sum comes down. Each value crosses as the wire
        writes it, or cut into words of `words` bits, so that the codec of such words fits.
        """
        self._check_common()
        if self.n == 1:
            return values
        pieces = -(-self.wire.charged.bits // words) if words else 1
        self.traffic.routed(MessageKind(values.shape[-1] * pieces), "sum")
        return self._sum_of_all(values, words)

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

    # What a subclass carries

    @abstractmethod
    def _residues_of_all(self, k: Values, bits: int) -> Values:
        """Sums of residues over the tree, modulo 2^b: (…, 1, P)."""

    @abstractmethod
    def _sum_of_all(self, values: Values, words: int) -> Values:
        """Sums of values over the tree: (…, 1, P)."""


class MemoryChannel(Channel):
    """All nodes of all runs in one memory: runs are rows of one big graph of separate pieces."""

    sees_all: ClassVar[bool] = True

    def heard(self, met: Meeting, peers: Index) -> Mask:
        """By link, where messages are lost in this round: most come."""
        lost = self.lost.get(self.t, ())
        if not len(lost) and self.silent is None:
            return np.ones(len(peers), bool)
        if self._came[0] != self.t or self._came[1] is not lost:
            self._came = self.t, lost, self._came_by_link(lost if isinstance(lost, np.ndarray) else [*lost])
        came: Mask = self._came[2][met.out]
        return came

    _came: tuple[int, Any, Any] = (
        -1,
        None,
        None,
    )  # of which round and losses: by link, whether its sender hears

    def _came_by_link(self, lost: Any) -> Mask:
        assert self.repairs is not None
        memory, links = self.repairs.memory, np.asarray(lost, np.int64).reshape(-1, 2)
        came = np.ones(len(memory.ends), bool)
        place = np.minimum(memory.place(links[:, 0], links[:, 1]), len(came) - 1)
        came[memory.reverse(place[(memory.ends[place] == links).all(axis=-1)])] = False
        if self.silent is not None:
            theirs = np.flatnonzero(self.silent[memory.ends[:, 0]])
            came[theirs] = came[memory.reverse(theirs)] = False
        return np.tile(came, len(self.graphs))

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

    def _residues_of_all(self, k: Values, bits: int) -> Values:
        total: Values = np.mod(k.sum(axis=-2, keepdims=True), 2.0**bits)
        return total

    def _sum_of_all(self, values: Values, words: int) -> Values:
        runs, sums = np.arange(len(self.graphs)), values.reshape(-1, *values.shape[-2:]).copy()
        order, parents = spanning_trees(self.graphs)
        for k in range(self.n - 1, 0, -1):
            child = order[:, k]
            sums[runs, parents[runs, child]] += self.as_read(sums[runs, child], runs * self.n + child)
        return self.as_read(sums[:, 0], runs * self.n).reshape(*values.shape[:-2], 1, values.shape[-1])


def _meet(mine: Index, theirs: Index, d: int) -> tuple[Index, NDArray[np.bool_]]:
    """For each of my coordinates: where it stands among theirs (flat), and whether it does.

    Rows are numbered into the coordinates, so that one search serves all of them.
    """
    shift = np.arange(len(mine))[:, None] * d
    keys, wanted = (theirs + shift).reshape(-1), mine + shift
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
