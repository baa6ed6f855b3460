"""The channel: values go to peers and come back mixed. The one seam between simulator and wire.

Arithmetic and charges stand in `Channel` and are the same everywhere; a subclass only moves values between
nodes. Sums run over nodes in ascending order, so every engine gets the same bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.ledger import Ledger
from zocosmo.core.payload import Bits
from zocosmo.core.price import PRICES
from zocosmo.core.support import Support
from zocosmo.core.values import BF16, F16, F32, F64, ValueType
from zocosmo.errors import GraphError, InputError, check_known
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.weights import metropolis
from zocosmo.traffic import Sort, Traffic

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Wire(NamedTuple):
    """What crosses a link for each value, and what is charged for it."""

    value: ValueType | None  # None: values cross in the type of the states
    charged: ValueType

    def is_lossless(self, dtype: DTypeLike) -> bool:
        """Whether states of this type cross unchanged."""
        return self.value is None or (self.value.dtype == dtype and self.value is not BF16)

    def round(self, values: Values) -> Values:
        """Q(values), in the type they came in."""
        if self.value is None or self.is_lossless(values.dtype):
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            return self.value.round(values).astype(values.dtype)


WIRES = {
    **{value.name: Wire(value, value) for value in (F64, F32, F16, BF16)},
    "nominal_f32": Wire(None, F32),  # computed in full precision, charged at 32 bits: the paper's own bill
}


def check_wire(wire: str, dtype: DTypeLike) -> None:
    """Refuse a wire that nobody knows, and one that spends bits for nothing."""
    check_known("wire", wire, WIRES)
    if WIRES[wire].value is F64 and np.dtype(dtype) == np.float32:
        raise InputError("wire f64 spends 64 bits on states of float32; use wire f32 or dtype float64")


class Slot(NamedTuple):
    """The k-th whom each of `rows` hears, in ascending order of nodes, and with what weight."""

    rows: Any  # positions of the listeners, or slice(None) where all have a k-th
    source: Index
    weight: Values  # (rows, 1)


class Channel(ABC):
    """Mixing over one graph, or over the graphs of many runs side by side, and its bill.

    Values have shape (…, n, q). Every codec in `codecs` is charged on a ledger of its own: messages under
    several codecs are the same values, so one run gives several bills. Every message pays for its frame.
    Methods of other systems may have a `server`: node n, with a link to it and one from it for every node.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        *,
        d: int,
        wire: str,
        codecs: Sequence[str],
        dtype: DTypeLike,
        nodes: Index | None = None,
        server: bool = False,
    ) -> None:
        check_wire(wire, dtype)
        self.graphs, self.n, self.d, self.wire = tuple(graphs), graphs[0].n, d, WIRES[wire]
        self.dtype, self.framing = np.dtype(dtype), FRAME_BITS
        self.nodes = np.arange(self.n) if nodes is None else nodes  # whose values these are, row by row
        links = sorted({link for graph in set(self.graphs) for link in graph.links})
        self.has_server = server
        self.at_most = False  # whether messages of private sizes are charged at the longest they may be
        if server:
            links = sorted(
                [*links, *((i, self.n) for i in range(self.n)), *((self.n, i) for i in range(self.n))]
            )
        self._bills = {name: Ledger(links, (len(self.graphs),)) for name in codecs}
        self._traffic = Traffic(self.graphs, links, nodes)

    def mix(self, y: Values, u: Support | None = None, *, price: str = "") -> Values:
        """All neighbours: Σ_j w_ij y_j, as y_i + Σ_j w_ij (Q(y_j) − Q(y_i)) with Q the wire.

        In this form values that agree stay as they are to the bit, and, W being symmetric, the average is
        kept for any Q. `u` is the support that the values are on; a codec that names coordinates needs it.
        """
        self._traffic.everywhere(Sort(y.shape[-1], price))
        sent, out = self.wire.round(y), y.copy()
        rows_out, rows_sent = out.reshape(-1, y.shape[-1]), sent.reshape(-1, y.shape[-1])
        for slot, theirs in self._hear(sent, u, peers_only=True):
            theirs -= rows_sent if isinstance(slot.rows, slice) else rows_sent[slot.rows]
            theirs *= slot.weight
            rows_out[slot.rows] += theirs
        return out

    def mix_pairs(self, y: Values, partners: Partners, u: Support | None = None) -> Values:
        """(y_i + y_j) / 2 at both ends of each pair; over a lossy wire y_i + ½ (Q(y_j) − Q(y_i)).

        A node that is its own partner gets its own values back, and nothing is charged.
        """
        self._traffic.paired(Sort(y.shape[-1]), partners)
        sent = self.wire.round(y)
        theirs = self._swap(sent, partners, u)
        half = y.dtype.type(0.5)
        mixed: Values
        if self.wire.is_lossless(y.dtype):
            mixed = y + theirs
            mixed *= half
        else:
            mixed = y + half * (theirs - sent)
        return mixed

    def mix_lifted(self, values: Values, index: Index, everyone: Index | None = None) -> Values:
        """Σ_j w_ij Lift(values_j), all d coordinates: messages name coordinates of their own.

        `everyone` are the coordinates of all nodes where the tape gives them: then they need not be named.
        """
        self._traffic.everywhere(Sort(values.shape[-1]))
        out = np.zeros((*values.shape[:-1], self.d), values.dtype)
        rows_out = out.reshape(-1, self.d)
        for slot, theirs, their_index in self._hear_at(values, index, everyone):
            lifted = np.zeros((len(theirs), self.d), values.dtype)
            np.put_along_axis(lifted, their_index, slot.weight * theirs, axis=-1)
            rows_out[slot.rows] += lifted
        return out

    def mix_overlaps(self, y: Values, u: Support, everyone: Support) -> Values:
        """y_i + P_i Σ_j w_ij P_j (y_j − y_i): only coordinates that both ends drew are mixed."""
        q = y.shape[-1]
        self._traffic.everywhere(Sort(q))
        sent, out = self.wire.round(y), y.copy()
        index = np.broadcast_to(u.index, y.shape)
        public = np.broadcast_to(everyone.index, (*y.shape[:-2], self.n, q)).reshape(-1, q)
        rows_out, rows_sent, rows_index = (a.reshape(-1, q) for a in (out, sent, index))
        for slot, theirs in self._hear(sent, u, everyone, peers_only=True):
            at, both = _meet(rows_index[slot.rows], public.take(slot.source, axis=0), self.d)
            step = slot.weight * (theirs.reshape(-1)[at] - rows_sent[slot.rows])
            rows_out[slot.rows] += np.where(both, step, 0)
        return out

    def to_all(self, values: Values, u: Support | None = None, everyone: Support | None = None) -> Values:
        """Q(values) of every node at every other, over direct links: the graph must be complete."""
        if self._sparse is not None:
            raise GraphError(f"sending to all in one stage needs a complete graph, got {self._sparse!r}")
        self._traffic.everywhere(Sort(values.shape[-1]))
        return self._gather(self.wire.round(values), u, everyone)

    def flood(self, values: Values) -> Values:
        """Q(values) of every node at every other, relayed over a spanning tree, one message at a time."""
        self._traffic.over_trees(Sort(values.shape[-1]))
        return self._relay(self.wire.round(values))

    def pass_on(self, values: Values) -> Values:
        """Q(values) of every node at every other: whoever hears one for the first time passes it on to all
        neighbours who did not bring it. What is heard twice is paid twice."""
        self._traffic.flooded(Sort(values.shape[-1]))
        return self._flood(self.wire.round(values))

    def up(self, values: Values, active: Mask | None = None, *, price: str = "", of: int = 0) -> Values:
        """Q(values) of every active node at the server, (…, n, q); `price` and `of` as in `Sort`.

        Under the codec seed_scalar every value is a message of its own, with its seed.
        """
        self._serve(Sort(values.shape[-1], price, of), self._counts(active), up=True)
        return self.wire.round(values)

    def down(
        self,
        values: Values,
        active: Mask | None = None,
        *,
        times: Index | None = None,
        price: str = "",
        of: int = 0,
        only: str = "",
    ) -> Values:
        """Q(values) of the server at every active node: (…, 1, q) alike for all, or (…, n, q).

        `times` counts the messages of this size to each node, (…, n), where they differ. With `only` they
        are sent under that codec and under no other.
        """
        messages = self._counts(active) if times is None else times
        self._serve(Sort(values.shape[-1], price, of, only), messages, up=False)
        return self.wire.round(values)

    def up_some(self, values: Values, sizes: Index) -> Values:
        """Q(values) of every node at the server, of which node i sends sizes_i, (…, n), and the rest is 0.

        Nothing is sent where that is none, and all d where they cost less than so many under a codec.
        """
        self._serve_some(sizes, up=True)
        return self.wire.round(values)

    def down_some(self, values: Values, sizes: Index, *, most: int = 0) -> Values:
        """Q(values) of the server at every node, (…, 1, d), of which it sends `sizes`, (…, 1): see above.

        With `most` the sizes are private, and never above it.
        """
        self._serve_some(np.full_like(sizes, most) if most and self.at_most else sizes, up=False)
        return self.wire.round(values)

    def ledger(self, codec: str) -> Ledger:
        """The bill under one codec, all messages so far included."""
        for sort, messages in self._traffic.settle():
            for name, ledger in self._bills.items():
                if sort.only in ("", name):
                    ledger.charge(messages, self._price(sort, name))
        return self._bills[codec]

    def _price(self, sort: Sort, codec: str) -> Bits:
        size, price, of = sort[:3]
        named = price or codec
        if size == self.d and not (price or of) and codec != "seed_scalar":
            named = "dense"  # all d: no index
        each = PRICES[named](of or self.d, size, self.wire.charged)
        if sort.or_all:
            each = min(each, PRICES["dense"](self.d, self.d, self.wire.charged), key=lambda bits: bits.total)
        each = each.plus(self.framing)
        return each.times(size) if named == "seed_scalar" else each

    def _counts(self, active: Mask | None) -> Index:
        shape = len(self.graphs), self.n
        return np.ones(shape, np.int64) if active is None else np.broadcast_to(active, shape).astype(np.int64)

    def _serve(self, sort: Sort, messages: Index, *, up: bool) -> None:
        if not self.has_server:
            raise GraphError("there is no server here; make the channel with server=True")
        self._traffic.with_server(sort, messages, up=up)

    def _serve_some(self, sizes: Index, *, up: bool) -> None:
        by_node = np.broadcast_to(sizes, (len(self.graphs), self.n))
        for size in np.unique(sizes[sizes > 0]).tolist():
            self._serve(Sort(size, or_all=True), (by_node == size).astype(np.int64), up=up)

    @cached_property
    def _sparse(self) -> Graph | None:
        """A graph of ours that is not complete."""
        return next((g for g in self.graphs if len(g.edges) != g.n * (g.n - 1) // 2), None)

    @abstractmethod
    def _hear(
        self,
        values: Values,
        u: Support | None,
        everyone: Support | None = None,
        *,
        peers_only: bool = False,
    ) -> Iterator[tuple[Slot, Values]]:
        """Slot by slot, what the listeners hear: arrays (rows, q) that the caller may overwrite.

        A node hears itself too, in its place, unless `peers_only`. Values are on the coordinates of `u`, and
        those of peers on theirs among `everyone`, where it is given.
        """

    @abstractmethod
    def _hear_at(
        self, values: Values, index: Index, everyone: Index | None
    ) -> Iterator[tuple[Slot, Values, Index]]:
        """As `_hear`, with the coordinates that come with the values, or are public."""

    @abstractmethod
    def _swap(self, values: Values, partners: Partners, u: Support | None) -> Values:
        """For each node the values of its partner."""

    @abstractmethod
    def _gather(self, values: Values, u: Support | None, everyone: Support | None) -> Values:
        """The values of all nodes, shape (…, n, q), over direct links."""

    @abstractmethod
    def _flood(self, values: Values) -> Values:
        """The values of all nodes, passed on by everyone to all neighbours."""

    @abstractmethod
    def _relay(self, values: Values) -> Values:
        """The values of all nodes, relayed over node 0's breadth-first tree."""


class MemoryChannel(Channel):
    """All nodes of all runs in one memory: runs are rows of one big graph that falls into pieces."""

    def __init__(
        self,
        graphs: Sequence[Graph],
        *,
        d: int,
        wire: str,
        codecs: Sequence[str],
        dtype: DTypeLike,
        server: bool = False,
    ) -> None:
        super().__init__(graphs, d=d, wire=wire, codecs=codecs, dtype=dtype, server=server)
        self._slots: dict[bool, tuple[Slot, ...]] = {}  # built when first mixed: matchings never need them
        self._base = np.arange(len(self.graphs))[:, None] * self.n

    def _hear(
        self,
        values: Values,
        u: Support | None,
        everyone: Support | None = None,
        *,
        peers_only: bool = False,
    ) -> Iterator[tuple[Slot, Values]]:
        if peers_only not in self._slots:
            self._slots[peers_only] = tuple(slots(self.graphs, self.dtype, peers_only))
        rows = values.reshape(-1, values.shape[-1])
        for slot in self._slots[peers_only]:
            yield slot, rows.take(slot.source, axis=0)

    def _hear_at(
        self, values: Values, index: Index, everyone: Index | None
    ) -> Iterator[tuple[Slot, Values, Index]]:
        rows_index = index.reshape(-1, index.shape[-1])
        for slot, theirs in self._hear(values, None):
            yield slot, theirs, rows_index.take(slot.source, axis=0)

    def _swap(self, values: Values, partners: Partners, u: Support | None) -> Values:
        source = (partners.reshape(-1, self.n) + self._base).reshape(-1)
        return values.reshape(-1, values.shape[-1]).take(source, axis=0).reshape(values.shape)

    def _gather(self, values: Values, u: Support | None, everyone: Support | None) -> Values:
        return values

    def _flood(self, values: Values) -> Values:
        return values

    def _relay(self, values: Values) -> Values:
        return values


def slots(graphs: Sequence[Graph], dtype: np.dtype[Any], peers_only: bool) -> Iterator[Slot]:
    """Neighbourhoods of all graphs, cut by position."""
    heard = {graph: _heard(graph, peers_only) for graph in set(graphs)}
    n, depth = graphs[0].n, max(len(columns) for columns in heard.values())
    for k in range(depth):
        parts = [
            (run * n + columns[k][0], run * n + columns[k][1], columns[k][2])
            for run, graph in enumerate(graphs)
            if k < len(columns := heard[graph])
        ]
        rows, source, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        whole = len(rows) == n * len(graphs)
        yield Slot(slice(None) if whole else rows, source, weight.astype(dtype)[:, None])


def _heard(graph: Graph, peers_only: bool) -> list[tuple[Index, Index, Values]]:
    """By position k: the nodes that hear a k-th, that k-th, and its weight."""
    weights = metropolis(graph)
    by_edge = dict(zip(graph.edges, weights.edge.tolist(), strict=True))
    columns: list[tuple[list[int], list[int], list[float]]] = []
    for i, peers in enumerate(graph.neighbours):
        for k, j in enumerate(peers if peers_only else sorted((i, *peers))):
            if k == len(columns):
                columns.append(([], [], []))
            weight = float(weights.own[i]) if i == j else by_edge[min(i, j), max(i, j)]
            rows, source, weight_column = columns[k]
            rows.append(i)
            source.append(j)
            weight_column.append(weight)
    return [(np.array(rows), np.array(source), np.array(weight)) for rows, source, weight in columns]


def _meet(mine: Index, theirs: Index, d: int) -> tuple[Index, NDArray[np.bool_]]:
    """For each of my coordinates: where it stands among theirs (flat), and whether it does.

    Rows are numbered into the coordinates, so that one search serves all of them.
    """
    shift = np.arange(len(mine))[:, None] * d
    keys, wanted = (theirs + shift).reshape(-1), mine + shift
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
