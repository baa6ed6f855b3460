"""The channel over torch.distributed: the same arithmetic as in memory, with frames between processes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.channel import Channel, Index, Values
from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header
from zocosmo.core.levels import LEVEL
from zocosmo.core.message import CODECS, Codec
from zocosmo.core.modulo import COUNT_AT, is_wide
from zocosmo.core.support import MAX_D, Support
from zocosmo.core.tape import Tape
from zocosmo.core.values import F64, ValueType
from zocosmo.core.wire import Letters
from zocosmo.dist.line import Line
from zocosmo.dist.links import Links
from zocosmo.dist.place import Place
from zocosmo.dist.seal import SEAL_BITS, Seal
from zocosmo.dist.tree import Tree
from zocosmo.errors import InputError, NonFiniteMessage, SupportMismatch
from zocosmo.graphs.slots import Slot
from zocosmo.traffic import Route, flood_hops

Link = tuple[int, int]
Places = Sequence[Any]  # coordinates of each of some nodes; None where they are not known


class Sent(NamedTuple):
    """A message over a link between processes; `origin` wrote it: the sender, unless it is relayed."""

    link: Link
    origin: int
    message: Message


class Awaited(NamedTuple):
    """A message that a peer will send: its size, and its coordinates if they are public."""

    link: Link
    origin: int
    size: int
    places: Index | None = None


class TorchChannel(Channel):
    """A channel for the nodes of one run in this process, with frames to and from nodes elsewhere.

    Frames use the run's codec and value type, so the bytes sent equal the bits on the ledger; `crossed`
    counts them. Links within this process are charged, but carry no bytes.
    """

    def __init__(
        self,
        place: Place,
        links: Links,
        *,
        d: int,
        wire: str,
        codec: str,
        dtype: DTypeLike,
        session: bytes,
        tape: Tape | None = None,
        key: bytes | None = None,
        connect: bool = True,
    ) -> None:
        self.place, self.links, self.session, self.codec, self.rank = (
            place,
            links,
            session,
            codec,
            links.job.rank,
        )
        nodes = place.parts[self.rank]
        super().__init__([place.graph], d=d, wire=wire, codecs=[codec], dtype=dtype, nodes=nodes, tape=tape)
        self.value: ValueType = self.wire.crosses_as(self.dtype)
        self.crossed: dict[Link, int] = {}  # bytes sent to other processes
        self.messages = 0  # sent to other processes
        self._key = key
        self._host: list[int] = place.host.tolist()
        self._lengths: dict[tuple[int, int], int] = {}  # of frames, by number and type of values
        self._at = {int(node): row for row, node in enumerate(self.nodes)}
        self._lines: dict[int, Line] = {}
        self._hop = place.hop(self.rank)
        if key is not None:
            self._bills.framing = FRAME_BITS.plus(SEAL_BITS)
        links.open(place.edges, connect=connect)
        for peer in links.peers() if connect else ():
            self.renew(peer)

    def renew(self, peer: int) -> None:
        """Count anew on a new connection to a peer, with new seals."""
        line = self._lines[peer] = Line(self.session)
        if self._key is not None:
            salts = self.links.salts[peer]
            line.closing, line.opening = Seal.pair(self._key, self.session, self.rank, peer, *salts)

    def begin(self, t: int) -> None:
        """Round t begins. Rounds ascend: a seal may use no number twice."""
        if t < self.t:
            raise InputError(f"round {t} comes after round {self.t}; rounds must ascend within a session")
        if t > self.t:
            for line in self._lines.values():
                line.sent = line.received = 0
        self.t = t

    # Letters of neighbours, of partners, of everyone

    def hear(
        self, letters: Letters, u: Support | None, everyone: Support | None, peers_only: bool
    ) -> Iterator[tuple[Slot, Letters]]:
        got = self._from_neighbours(letters, u, everyone)
        for slot in self.slots(peers_only):
            yield slot, self._pick(letters, got, self._links_of(slot))

    def _hear_at(
        self, letters: Letters, index: Index, everyone: Index | None
    ) -> Iterator[tuple[Slot, Letters, Index]]:
        rows = list(index.reshape(len(self.nodes), -1))
        public = [None] * self.n if everyone is None else list(everyone.reshape(self.n, -1))
        got = self._carry(letters, self._crossing, rows, public)
        for slot in self.slots(False):
            links = self._links_of(slot)
            places = [
                rows[self._at[i]] if i in self._at else self._index(got[i, j], public[i]) for i, j in links
            ]
            yield slot, self._pick(letters, got, links), np.stack(places)

    def swap(self, letters: Letters, partners: Index, u: Support | None) -> Letters:
        if len(self._at) == 1 and self.coarse is None:  # nearly always
            return self._swap_one(letters, int(partners[0]), u)
        links = list(zip(partners.tolist(), self.nodes.tolist(), strict=True))
        crossing = sorted(link for j, i in links if j not in self._at for link in ((i, j), (j, i)))
        return self._pick(letters, self._carry(letters, crossing, self._rows(u)), links)

    def _swap_one(self, letters: Letters, j: int, u: Support | None) -> Letters:
        (i,) = self._at
        if i == j:
            return letters
        size, peer = letters.values.shape[-1], self._host[j]
        index = None if u is None else u.index.reshape(-1)

        def frames() -> dict[int, tuple[bytes, bytes]]:
            return {peer: self._frame((i, j), i, self._message(letters, 0, index), self.value)}

        got = self.links.exchange(frames, {peer: self._frame_bytes(size, self.value)}, self.t)
        return self._letter(self._accept(got[peer], Awaited((j, i), j, size, index), peer, self.value))

    def _spread(self, letters: Letters, u: Support | None, everyone: Support | None, over: Route) -> Letters:
        if over == "links":
            got, here = self._from_neighbours(letters, u, everyone), int(self.nodes[0])
            return self._pick(letters, got, ((i, here) for i in range(self.n)))
        graph = self.place.graph
        return self._pass_along(letters, Tree(graph).hops() if over == "tree" else flood_hops(graph))

    def _pass_along(self, letters: Letters, stages: Iterator[list[tuple[Link, int]]]) -> Letters:
        """The letters of all nodes, passed on over the links of each stage."""
        known = {i: self._message(letters, row, None, seed=i) for i, row in self._at.items()}
        for stage in stages:
            hops = [hop for hop in stage if (hop[0][0] in self._at) != (hop[0][1] in self._at)]
            sent = [Sent(link, origin, known[origin]) for link, origin in hops if link[0] in self._at]
            expected = [Awaited(link, origin, 1) for link, origin in hops if link[1] in self._at]
            for got in self._exchange(sent, expected, by_origin=True).values():
                assert got.seed is not None
                known[got.seed] = got
        return Letters.stack([self._letter(known[i]) for i in range(self.n)])

    # Measurements, which are not part of the method and not charged

    def collect(self, rows: Values) -> Values | None:
        """Rows of all nodes in order, at rank 0; None elsewhere. Processes pass them up a tree."""
        hop, width = self._hop, rows.shape[-1]
        whole = np.zeros((self.n, width), rows.dtype)
        whole[self.nodes] = rows
        mine = [self.nodes]
        got = self._blobs({}, {child: len(nodes) * width for child, nodes in hop.below.items()})
        for child, nodes in hop.below.items():
            whole[nodes] = got[child].view(rows.dtype).reshape(-1, width)
            mine.append(nodes)
        if hop.parent is None:
            return whole
        self._blobs({hop.parent: whole[np.sort(np.concatenate(mine))]}, {})
        return None

    def spread(self, row: Values) -> Values:
        """The row of rank 0, at every process; elsewhere `row` only gives its shape and type."""
        if self._hop.parent is not None:
            got = self._blobs({}, {self._hop.parent: row.size})
            row = got[self._hop.parent].view(row.dtype).reshape(row.shape)
        self._blobs(dict.fromkeys(self._hop.children, row), {})
        return row

    def _blobs(self, out: dict[int, Values], sizes: dict[int, int]) -> dict[int, Values]:
        """Exchange eight-byte numbers with other processes, in frames that are not charged."""

        def header(sender: int, size: int, sequence: int) -> Header:
            return Header(CODECS["values"], F64, self.t, sender, size, sequence)

        def frames() -> dict[int, tuple[bytes, bytes]]:
            made = {}
            for peer, rows in out.items():
                line, values = self._lines[peer], np.ascontiguousarray(rows).reshape(-1).view(np.float64)
                head = header(int(self.nodes[0]), values.size, line.sent)
                made[peer] = line.frame(head, Message(values), MAX_D)
            return made

        lengths = {peer: 8 * size + self.framing.total // 8 for peer, size in sizes.items()}
        got, values = self.links.exchange(frames, lengths, self.t), {}
        for peer, size in sizes.items():
            line = self._lines[peer]
            expect = header(int(self.place.parts[peer][0]), size, line.received)
            values[peer] = line.unframe(got[peer], expect, MAX_D).values
        return values

    # Messages between processes

    def _from_neighbours(
        self, letters: Letters, u: Support | None, everyone: Support | None
    ) -> dict[Link, Message]:
        public = None
        if everyone is not None:
            public = list(np.broadcast_to(everyone.index, (1, self.n, letters.values.shape[-1]))[0])
        return self._carry(letters, self._crossing, self._rows(u), public)

    def _carry(
        self, letters: Letters, links: Iterable[Link], index: Places, public: Places | None = None
    ) -> dict[Link, Message]:
        """Send letters over the links that leave this process, and receive those of links that enter it.

        `index` has the coordinates of each node here, `public` those of every node; without it messages must
        be on the coordinates of their receiver.
        """
        size, sent, expected = letters.values.shape[-1], [], []
        for i, j in links:
            if i in self._at:
                row = self._at[i]
                sent.append(Sent((i, j), i, self._message(letters, row, index[row], to=(i, j))))
            else:
                places = index[self._at[j]] if public is None else public[i]
                expected.append(Awaited((i, j), i, size, places))
        got = self._exchange(sent, expected)
        if self.coarse is not None and letters.scale is not None:
            self._carry_rest(letters, self.coarse.wire.rest, sent, expected, got)
        return got

    def _carry_rest(
        self,
        letters: Letters,
        value: ValueType,
        sent: Sequence[Sent],
        expected: Sequence[Awaited],
        got: dict[Link, Message],
    ) -> None:
        """Exchange the second parts of wide messages."""
        more = [
            Sent(link, i, Message(letters.rest[self._at[i]]))
            for link, i, message in sent
            if letters.rest is not None and is_wide(self.wire.unpack_scale(message.scale))
        ]
        due = [each for each in expected if is_wide(self.wire.unpack_scale(got[each.link].scale))]
        if more or due:
            for link, rest in self._exchange(more, due, value=value).items():
                got[link].rest = rest.values

    def counts_of(self, peers: Index, back: Index, letters: Letters) -> Values:
        """From the heads of letters, for peers in other processes."""
        assert letters.scale is not None
        told = (letters.scale[:, 0] >> np.uint32(COUNT_AT) & 3).astype(np.uint8)
        return np.where(np.isin(peers, self.nodes), super().counts_of(peers, back, letters), told)

    def _pick(self, letters: Letters, got: dict[Link, Message], links: Iterable[Link]) -> Letters:
        """The letters that cross these links: of nodes here, or as received."""
        return Letters.stack(
            [letters.take([self._at[i]]) if i in self._at else self._letter(got[i, j]) for i, j in links]
        )

    @cached_property
    def _crossing(self) -> list[Link]:
        """Links between this process and others, ascending."""
        return [link for link in self.place.graph.links if (link[0] in self._at) != (link[1] in self._at)]

    def _exchange(
        self,
        sent: Sequence[Sent],
        expected: Sequence[Awaited],
        *,
        by_origin: bool = False,
        value: ValueType | None = None,
    ) -> dict[Link, Message]:
        """Exchange all messages of a stage: by link, or by (origin, origin) if a link carries several."""
        value = value or self.value
        sizes = [self._frame_bytes(each.size, value) for each in expected]
        lengths: dict[int, int] = {}
        for each, size in zip(expected, sizes, strict=True):
            peer = self._host[each.link[0]]
            lengths[peer] = lengths.get(peer, 0) + size

        def frames() -> dict[int, list[bytes]]:
            made: dict[int, list[bytes]] = {}
            for link, origin, message in sent:
                made.setdefault(self._host[link[1]], []).extend(self._frame(link, origin, message, value))
            return made

        got = self.links.exchange(frames, lengths, self.t)
        read, out = dict.fromkeys(got, 0), {}
        for each, size in zip(expected, sizes, strict=True):
            peer = self._host[each.link[0]]
            data = got[peer][read[peer] : read[peer] + size]
            read[peer] += size
            out[(each.origin, each.origin) if by_origin else each.link] = self._accept(
                data, each, peer, value
            )
        return out

    def _frame(self, link: Link, origin: int, message: Message, value: ValueType) -> tuple[bytes, bytes]:
        """A message as it crosses a link, with its bytes counted."""
        line = self._lines[self._host[link[1]]]
        head, body = line.frame(self._header(origin, message.values.size, line.sent, value), message, self.d)
        self.crossed[link] = self.crossed.get(link, 0) + len(head) + len(body)
        self.messages += 1
        return head, body

    def _accept(self, data: bytes | memoryview, each: Awaited, peer: int, value: ValueType) -> Message:
        """The awaited message, or an error that says what came instead."""
        line = self._lines[peer]
        message = line.unframe(data, self._header(each.origin, each.size, line.received, value), self.d)
        index, seed, why = message.index, message.seed, ""
        if not np.isfinite(message.values).all():
            why = "has values that are not finite; the run diverges: lower eta"
            raise NonFiniteMessage(f"message from node {each.origin} in round {self.t} {why}")
        if seed is not None and seed != each.origin:
            why = f"has the seed of node {seed}; compare manifests"
        elif index is not None and each.places is not None and not np.array_equal(index, each.places):
            why = "is on other coordinates than the tape says; compare manifests"
        if why:
            raise SupportMismatch(f"message from node {each.origin} in round {self.t} {why}")
        return message

    def _header(self, origin: int, size: int, sequence: int, value: ValueType) -> Header:
        return Header(self._layout(size, value), value, self.t, origin, size, sequence)

    def _message(
        self, letters: Letters, row: int, index: Any, *, seed: int | None = None, to: Link | None = None
    ) -> Message:
        """The letter of one node here, with its coordinates if the codec sends them.

        Over a wire of a few bits its head also says how many exchanges were applied on the link `to`.
        """
        values = letters.values[row]
        carries = self._layout(values.size, self.value).field.carries
        if carries == "index" and index is None:
            raise SupportMismatch(f"codec {self.codec!r} sends coordinates; call mix(values, support)")
        scale = letters.scale
        if scale is not None and self.coarse is not None and to is not None:
            count = self.coarse.told[self.coarse.memory.place(*map(np.asarray, to))]
            scale = scale | np.uint32(count) << np.uint32(COUNT_AT)
        head = b"" if scale is None else self.wire.pack_scale(scale[row])
        return Message(values, index if carries == "index" else None, seed, head)

    def _letter(self, message: Message) -> Letters:
        """A message as one row."""
        scale = self.wire.unpack_scale(message.scale) if message.scale else None
        return Letters(message.values[None], scale, None if message.rest is None else message.rest[None])

    @contextmanager
    def _sending_levels(self) -> Iterator[None]:
        kept = self.value, self.codec, self._lengths
        self.value, self.codec, self._lengths = LEVEL, "values", {}
        try:
            yield
        finally:
            self.value, self.codec, self._lengths = kept

    def _layout(self, size: int, value: ValueType) -> Codec:
        if value is not self.value:  # the second part of a wide message
            return CODECS["values"]
        return CODECS["dense" if size == self.d and self.codec != "seed_scalar" else self.codec]

    def _frame_bytes(self, size: int, value: ValueType) -> int:
        """The length of the frame of a message of `size` values."""
        if (length := self._lengths.get((size, value.wire_id))) is None:
            bits = self._layout(size, value).bits(self.d, size, value).plus(self.framing)
            length = self._lengths[size, value.wire_id] = bits.total // 8
        return length

    def _rows(self, u: Support | None) -> Places:
        """Coordinates of each node here."""
        if u is None:
            return [None] * len(self.nodes)
        index = u.index.reshape(-1, u.q)
        return [index[0]] * len(self.nodes) if len(index) == 1 else list(index)

    def _build_slots(self, peers_only: bool) -> Iterator[Slot]:
        """Slots of the graph, for the nodes here."""
        for slot in super()._build_slots(peers_only):
            listeners = np.arange(self.n) if isinstance(slot.rows, slice) else slot.rows
            ours = np.flatnonzero(np.isin(listeners, self.nodes))
            if ours.size:
                rows = np.array([self._at[int(i)] for i in listeners[ours]])
                yield Slot(rows, slot.source[ours], slot.weight[ours])

    def _links_of(self, slot: Slot) -> list[Link]:
        """The link over which each row of a slot hears its source."""
        return list(zip(slot.source.tolist(), self.nodes[slot.rows].tolist(), strict=True))

    def _index(self, message: Message, public: Index | None) -> Index:
        """The coordinates of a message: its own, public ones, or all d."""
        if message.index is not None:
            return message.index
        return np.arange(self.d) if public is None else public
