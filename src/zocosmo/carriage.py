"""Letters: who is in this process, how letters are written, read and billed, and what a subclass carries."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.bills import Bills
from zocosmo.coarse import Coarse
from zocosmo.core.ledger import Ledger
from zocosmo.core.modulo import Modulo
from zocosmo.core.noise import Noise
from zocosmo.core.payload import Bits
from zocosmo.core.support import Support
from zocosmo.core.tape import Tape
from zocosmo.core.values import ValueType
from zocosmo.core.wire import Envelope, Letters
from zocosmo.core.wires import WIRES, check_wire
from zocosmo.errors import InputError
from zocosmo.exchanges import Meeting
from zocosmo.graphs.graph import Graph, complete
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.slots import Slot, slots
from zocosmo.repairs import Floats, Repairs
from zocosmo.traffic import Link, Route, Traffic

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]


class Carriage(ABC):
    """What the moves of a channel rest on: the nodes here, their letters, and the bill.

    Values have shape (…, n, q). Every codec in `codecs` is charged on a ledger of its own: messages under
    several codecs carry the same values, so one run gives several bills. Every message pays for its frame.
    Methods with a `server` have node n, with a link to it and one from it for every node. `overheard` charges
    a node that is alone as if one peer listened. With `repair` messages over wires of floats may be lost, as
    those of few bits may: what only one end of a link applied is undone. `ids` name the nodes in draws of the
    tape, where these are not their numbers.
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
        repair: bool = False,
        ids: Index | None = None,
    ) -> None:
        check_wire(wire, dtype)
        self.graphs, self.n, self.d, self.wire = tuple(graphs), graphs[0].n, d, WIRES[wire]
        self.dtype, self.t = np.dtype(dtype), 0
        self.nodes = np.arange(self.n) if nodes is None else nodes  # whose values these are, row by row
        self.tape, self.has_server, self.codecs = tape, server, tuple(codecs)
        self.at_most = False  # charge messages of private sizes at the longest they may be
        self.ids = ids
        self.noise = self._draw_noise() if self.wire.dithered else None
        self.silent: Mask | None = None  # (n,) nodes that neither send nor hear in this round
        self.lost: Mapping[int, Collection[Link]] = {}  # by round: links whose messages do not arrive
        self.lost_levels: Mapping[int, Collection[Link]] = {}  # the same of the messages of `mix_levels`
        charged = (complete(2),) if overheard else self.graphs
        links = _links_of(charged, self.n, server)
        self.traffic = Traffic(charged, links, nodes)
        self._bills = Bills(self.traffic, self.codecs, d, self.wire.charged)
        self.coarse = Coarse(self, self.wire, links) if isinstance(self.wire, Modulo) else None
        self.repairs: Repairs | None = self.coarse
        if repair and self.coarse is None:
            self._check_common()
            self.repairs = Floats(self, self.wire, links)
        self._made: dict[tuple[bool, np.dtype[Any]], tuple[Slot, ...]] = {}
        self._first = np.arange(len(self.graphs))[:, None] * self.n  # the row of node 0 in each run
        self.senders = (self._first + self.nodes).reshape(-1)

    @property
    def framing(self) -> Bits:
        """What every message pays for its frame."""
        return self._bills.framing

    def begin(self, t: int) -> None:
        """Round t begins."""
        self.t = t

    def ledger(self, codec: str) -> Ledger:
        """The bill under one codec, all messages so far included."""
        return self._bills.ledger(codec)

    # Over wires of a few bits, and wherever messages may be lost

    def arrived(self, senders: Index, receivers: Index, *, level: bool = False) -> Mask:
        """Whose message came, of senders to receivers, rows run · n + node."""
        lost = (self.lost_levels if level else self.lost).get(self.t, ())
        came = np.ones(len(senders), bool)
        if len(lost):
            gone = np.array(list(lost), np.int64).reshape(-1, 2) @ (self.n, 1)
            came &= ~np.isin(senders % self.n * self.n + receivers % self.n, gone)
        if self.silent is not None:
            came &= ~(self.silent[senders % self.n] | self.silent[receivers % self.n])
        return came

    def heard(self, met: Meeting, peers: Index) -> Mask:
        """Whose values came, of the peers that nodes meet; rows as in `arrived`, which says it."""
        return self.arrived(peers, self.senders[met.rows])

    def silence(self, nodes: Mask | None) -> None:
        """These nodes, (n,), neither send nor hear from now on, and are not charged; None: all do."""
        self.silent = self.traffic.silent = nodes

    def settle(self, x: Any, *others: tuple[Any, Any]) -> Any:
        """x less the exchanges that a peer did not complete, and every other (vector, share) less its share
        of them; in place where they are arrays. Returns x."""
        return x if self.repairs is None else self.repairs.settle(x, *others)

    def tally(self) -> dict[str, Index]:
        """What went wrong on links so far, by name and (run, node here); empty where nothing can."""
        return {} if self.repairs is None else self.repairs.tally()

    def arrays(self) -> Arrays:
        """What the ends of links remember, for an exact resume."""
        return {} if self.repairs is None else self.repairs.memory.arrays()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned."""
        if self.repairs is not None:
            self.repairs.memory.restore(arrays)

    # Writing and reading letters

    def envelope(self, rows: Index) -> Envelope:
        return Envelope(self.t, rows, self.n, self.tape, self.noise, ids=self.ids)

    def _draw_noise(self) -> Noise:
        if self.tape is None:
            raise InputError("this wire draws public coins; make the channel with the tape of its runs")
        return Noise(self.tape, self.n, self.ids)

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

    def slots(self, peers_only: bool, dtype: DTypeLike | None = None) -> tuple[Slot, ...]:
        """Who hears whom, with weights in the type of the states, or in `dtype`.

        Built when first mixed: matchings never need them.
        """
        key = peers_only, self.dtype if dtype is None else np.dtype(dtype)
        if key not in self._made:
            self._made[key] = tuple(self._build_slots(*key))
        return self._made[key]

    def _build_slots(self, peers_only: bool, dtype: np.dtype[Any]) -> Iterator[Slot]:
        return slots(self.graphs, dtype, peers_only)

    def counts_of(self, peers: Index, back: Index, letters: Letters) -> Values:
        """How many exchanges peers have applied, mod 4: from memory, where all ends are in it.

        `back` are the links from these peers, `letters` what they sent.
        """
        assert self.repairs is not None
        return self.repairs.told[back]

    def as_read(self, values: Values, senders: Index | None = None) -> Values:
        """Q(values): what anyone who hears these values reads. Nothing is sent or charged.

        `senders`, run · n + node, wrote them; by default the nodes here, or the server, which draws the coins
        of node 0.
        """
        self._check_common()
        rows = values.reshape(-1, values.shape[-1])
        each = len(rows) // len(self.graphs)
        if senders is None:
            senders = self.senders if each == len(self.nodes) else self._first.repeat(each)
        envelope = self.envelope(senders)
        letters = self.wire.encode(rows, envelope)
        return self.wire.decode(letters, envelope, dtype=values.dtype, own=None).reshape(values.shape)

    def _check_common(self) -> None:
        """Refuse a wire whose messages each receiver reads differently."""
        if self.wire.by_receiver:
            raise InputError("this wire is read against the receiver's values; choose a wire of floats")

    def _sending(self, value: ValueType) -> AbstractContextManager[None]:
        """Letters are of this type, whatever the wire and the codec are."""
        return nullcontext()

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


def _links_of(graphs: Sequence[Graph], n: int, server: bool) -> Index:
    """The links of all graphs with a sender among n nodes, and those of a server, (links, 2), in order."""
    found = [graph.link_ends for graph in set(graphs)]
    if server:
        nodes, at = np.arange(n), np.full(n, n)
        found += [np.stack([nodes, at], axis=-1), np.stack([at, nodes], axis=-1)]
    ends = np.concatenate(found)
    if not server:
        ends = ends[ends[:, 0] < n]
    keys = ends @ (n + 2, 1)
    if (keys[1:] > keys[:-1]).all():  # of one graph, which may be large
        return ends
    return np.stack(np.divmod(np.unique(keys), n + 2), axis=-1)
