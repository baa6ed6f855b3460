"""The channel over torch.distributed: the same arithmetic as in memory, with frames between processes."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.channel import Channel, Index, Values
from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, frame_parts, unframe
from zocosmo.core.message import CODECS, Codec
from zocosmo.core.support import MAX_D, Support
from zocosmo.core.tape import Tape
from zocosmo.core.values import F64, ValueType
from zocosmo.core.wire import Letters
from zocosmo.dist.links import Links
from zocosmo.dist.place import Place
from zocosmo.dist.seal import SEAL_BITS, Seal
from zocosmo.dist.tree import Tree
from zocosmo.errors import InputError, NonFiniteMessage, SupportMismatch
from zocosmo.graphs.slots import Slot
from zocosmo.traffic import Route, flood_hops

Link = tuple[int, int]


class Sent(NamedTuple):
    """One message over one link between processes; `origin` is who wrote it, the sender unless relayed."""

    link: Link
    origin: int
    message: Message


class Awaited(NamedTuple):
    """A message that a peer will send: its size, and its coordinates where the tape has them."""

    link: Link
    origin: int
    size: int
    places: Index | None = None


class Line:
    """What one peer process and we count and hide together."""

    def __init__(self) -> None:
        self.sent, self.received = 0, 0  # messages in this round
        self.closing: Seal | None = None
        self.opening: Seal | None = None


class TorchChannel(Channel):
    """The nodes of one run that live in this process, and frames to and from those that do not.

    Frames carry the run's own codec and value type, so the bytes that cross are the bits on the ledger:
    `crossed` counts them message by message. Links within this process are charged and carry no bytes.
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
        rank = links.job.rank
        about = {"d": d, "wire": wire, "dtype": dtype, "tape": tape}
        super().__init__([place.graph], codecs=[codec], nodes=place.parts[rank], **about)  # type: ignore[arg-type]
        self.place, self.links, self.session, self.codec, self.rank = place, links, session, codec, rank
        self.value: ValueType = self.wire.crosses_as(self.dtype)
        self.crossed: dict[Link, int] = {}  # bytes sent to other processes
        self.messages = 0  # in which they went
        self._key = key
        self._host: list[int] = place.host.tolist()
        self._lengths: dict[int, int] = {}
        self._at = {int(node): row for row, node in enumerate(self.nodes)}
        self._lines: dict[int, Line] = {}
        self._hop = place.hop(rank)
        if key is not None:
            self.framing = FRAME_BITS.plus(SEAL_BITS)
        links.open(place.edges, connect=connect)
        for peer in links.peers() if connect else ():
            self.renew(peer)

    def renew(self, peer: int) -> None:
        """A new connection to a peer: new seals."""
        line = self._lines[peer] = Line()
        if self._key is not None:
            salts = self.links.salts[peer]
            line.closing, line.opening = Seal.pair(self._key, self.session, self.rank, peer, *salts)

    def begin(self, t: int) -> None:
        """Round t begins. Rounds ascend: under a seal no number may be used twice."""
        if t < self.t:
            raise InputError(f"round {t} comes after round {self.t}; rounds ascend within a session")
        if t > self.t:
            for line in self._lines.values():
                line.sent = line.received = 0
        self.t = t

    # What the arithmetic of `Channel` hears

    def _hear(
        self, letters: Letters, u: Support | None, everyone: Support | None, peers_only: bool
    ) -> Iterator[tuple[Slot, Letters]]:
        got = self._from_neighbours(letters, u, everyone)
        for slot in self._slots(peers_only):
            yield slot, _together([each for each, _ in self._sources(slot, letters, got)])

    def _hear_at(
        self, letters: Letters, index: Index, everyone: Index | None
    ) -> Iterator[tuple[Slot, Letters, Index]]:
        at_rows = index.reshape(len(self.nodes), -1)
        known = np.broadcast_to(np.arange(self.d), (self.n, self.d)) if everyone is None else everyone
        public = known.reshape(self.n, -1)
        sent, expected = self._to_neighbours(letters, list(at_rows))
        if everyone is not None:
            expected = [each._replace(places=public[each.origin]) for each in expected]
        got = self._exchange(sent, expected)
        for slot in self._slots(False):
            heard = list(self._sources(slot, letters, got))
            places = [
                at_rows[where] if isinstance(where, int) else _index(got[where], public[where[0]])
                for _, where in heard
            ]
            yield slot, _together([each for each, _ in heard]), np.stack(places)

    def _swap(self, letters: Letters, partners: Index, u: Support | None) -> Letters:
        if len(self._at) == 1:  # nearly always
            return self._swap_one(letters, int(partners[0]), u)
        whom, index, size = partners.tolist(), self._rows(u), letters.values.shape[-1]
        pairs = [(i, j) for i, j in zip(self.nodes.tolist(), whom, strict=True) if j not in self._at]
        sent = [Sent((i, j), i, self._message(letters, k := self._at[i], index[k])) for i, j in pairs]
        expected = [Awaited((j, i), j, size, index[self._at[i]]) for i, j in pairs]
        expected.sort(key=lambda each: each.link)  # as the senders go through their nodes
        got = self._exchange(sent, expected)
        return _together(
            [
                _row(letters, self._at[j]) if j in self._at else self._letter(got[j, i])
                for i, j in zip(self.nodes.tolist(), whom, strict=True)
            ]
        )

    def _swap_one(self, letters: Letters, j: int, u: Support | None) -> Letters:
        (i,) = self._at
        if i == j:
            return letters
        size, index, peer = (
            letters.values.shape[-1],
            None if u is None else u.index.reshape(-1),
            self._host[j],
        )

        def frames() -> dict[int, tuple[bytes, bytes]]:
            return {peer: self._frame((i, j), i, self._message(letters, 0, index))}

        got = self.links.exchange(frames, {peer: self._frame_bytes(size)}, self.t)
        return self._letter(self._accept(got[peer], Awaited((j, i), j, size, index), peer))

    def _spread(self, letters: Letters, u: Support | None, everyone: Support | None, over: Route) -> Letters:
        if over == "links":
            return self._gather(letters, u, everyone)
        graph = self.place.graph
        return self._pass_along(letters, Tree(graph).hops() if over == "tree" else flood_hops(graph))

    def _gather(self, letters: Letters, u: Support | None, everyone: Support | None) -> Letters:
        got, here = self._from_neighbours(letters, u, everyone), int(self.nodes[0])
        return _together(
            [
                _row(letters, self._at[j]) if j in self._at else self._letter(got[j, here])
                for j in range(self.n)
            ]
        )

    def _pass_along(self, letters: Letters, stages: Iterator[list[tuple[Link, int]]]) -> Letters:
        """The letters of all nodes, each with its origin, over the links that every stage names."""
        known = {i: self._message(letters, row, None, seed=i) for i, row in self._at.items()}
        for stage in stages:
            hops = [hop for hop in stage if (hop[0][0] in self._at) != (hop[0][1] in self._at)]
            sent = [Sent(link, origin, known[origin]) for link, origin in hops if link[0] in self._at]
            expected = [Awaited(link, origin, 1) for link, origin in hops if link[1] in self._at]
            for got in self._exchange(sent, expected, by_origin=True).values():
                assert got.seed is not None
                known[got.seed] = got
        return _together([self._letter(known[i]) for i in range(self.n)])

    # Measurements: not part of the method, so on no ledger

    def collect(self, rows: Values) -> Values | None:
        """Rows of all nodes at rank 0, in order; None elsewhere. They travel along a tree of processes."""
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
        upward = whole[np.sort(np.concatenate(mine))]
        self._blobs({hop.parent: upward}, {})
        return None

    def spread(self, row: Values) -> Values:
        """A row that rank 0 has, at every process; elsewhere `row` says only its shape and type."""
        if self._hop.parent is not None:
            got = self._blobs({}, {self._hop.parent: row.size})
            row = got[self._hop.parent].view(row.dtype).reshape(row.shape)
        self._blobs(dict.fromkeys(self._hop.children, row), {})
        return row

    def _blobs(self, out: dict[int, Values], sizes: dict[int, int]) -> dict[int, Values]:
        """Eight-byte numbers to and from processes, in frames of their own."""
        codec, extra, values = CODECS["values"], self.framing.total // 8, {}

        def frames() -> dict[int, tuple[bytes, bytes]]:
            made = {}
            for peer, rows in out.items():
                message, line = (
                    Message(np.ascontiguousarray(rows).reshape(-1).view(np.float64)),
                    self._lines[peer],
                )
                header = Header(codec, F64, self.t, int(self.nodes[0]), message.values.size, line.sent)
                line.sent += 1
                made[peer] = frame_parts(header, message, d=MAX_D, session=self.session, seal=line.closing)
            return made

        got = self.links.exchange(frames, {peer: 8 * size + extra for peer, size in sizes.items()}, self.t)
        for peer, size in sizes.items():
            origin, line = int(self.place.parts[peer][0]), self._lines[peer]
            expect = Header(codec, F64, self.t, origin, size, line.received)
            line.received += 1
            _, message = unframe(got[peer], d=MAX_D, session=self.session, expect=expect, seal=line.opening)
            values[peer] = message.values
        return values

    # Messages between processes

    def _from_neighbours(
        self, letters: Letters, u: Support | None, everyone: Support | None
    ) -> dict[Link, Message]:
        index, size = self._rows(u), letters.values.shape[-1]
        public = None if everyone is None else np.broadcast_to(everyone.index, (1, self.n, size))[0]
        sent, expected = self._to_neighbours(letters, index)
        aware = [
            each._replace(places=index[self._at[each.link[1]]] if public is None else public[each.origin])
            for each in expected
        ]
        return self._exchange(sent, aware)

    def _to_neighbours(self, letters: Letters, index: Sequence[Any]) -> tuple[list[Sent], list[Awaited]]:
        """What goes to neighbours in other processes, and what comes from them, in order of links."""
        size, sent, expected = letters.values.shape[-1], [], []
        for i, j in self._crossing:
            if i in self._at:
                row = self._at[i]
                sent.append(Sent((i, j), i, self._message(letters, row, index[row])))
            else:
                expected.append(Awaited((i, j), i, size))
        return sent, expected

    @cached_property
    def _crossing(self) -> list[Link]:
        """Links between this process and others, in order."""
        return [link for link in self.place.graph.links if (link[0] in self._at) != (link[1] in self._at)]

    def _exchange(
        self, sent: Sequence[Sent], expected: Sequence[Awaited], *, by_origin: bool = False
    ) -> dict[Link, Message]:
        """All of a stage at once; messages by link, or by (origin, origin) where one link carries several."""
        sizes = [self._frame_bytes(each.size) for each in expected]
        lengths: dict[int, int] = {}
        for each, size in zip(expected, sizes, strict=True):
            peer = self._host[each.link[0]]
            lengths[peer] = lengths.get(peer, 0) + size

        def frames() -> dict[int, list[bytes]]:
            made: dict[int, list[bytes]] = {}
            for link, origin, message in sent:
                made.setdefault(self._host[link[1]], []).extend(self._frame(link, origin, message))
            return made

        got = self.links.exchange(frames, lengths, self.t)
        read, out = dict.fromkeys(got, 0), {}
        for each, size in zip(expected, sizes, strict=True):
            peer = self._host[each.link[0]]
            data = got[peer][read[peer] : read[peer] + size]
            read[peer] += size
            out[(each.origin, each.origin) if by_origin else each.link] = self._accept(data, each, peer)
        return out

    def _frame(self, link: Link, origin: int, message: Message) -> tuple[bytes, bytes]:
        """A message as it crosses a link; its bytes are counted here."""
        line = self._lines[self._host[link[1]]]
        header = self._header(origin, message.values.size, line.sent)
        line.sent += 1
        head, body = frame_parts(header, message, d=self.d, session=self.session, seal=line.closing)
        self.crossed[link] = self.crossed.get(link, 0) + len(head) + len(body)
        self.messages += 1
        return head, body

    def _accept(self, data: bytes | memoryview, each: Awaited, peer: int) -> Message:
        """The message awaited, or an error that says what came instead."""
        line = self._lines[peer]
        expect = self._header(each.origin, each.size, line.received)
        line.received += 1
        _, message = unframe(data, d=self.d, session=self.session, expect=expect, seal=line.opening)
        self._check_finite(message.values, each.origin)
        if message.seed is not None and message.seed != each.origin:
            raise SupportMismatch(f"message from node {each.origin} bears the seed of node {message.seed}")
        named = message.index is not None and each.places is not None
        if named and not np.array_equal(message.index, each.places):  # type: ignore[arg-type]
            raise SupportMismatch(
                f"message from node {each.origin} in round {self.t} is on other coordinates than the tape "
                "says; compare manifests"
            )
        return message

    def _header(self, origin: int, size: int, sequence: int) -> Header:
        return Header(self._layout(size), self.value, self.t, origin, size, sequence)

    def _check_finite(self, values: Values, origin: int) -> None:
        if not np.isfinite(values).all():
            raise NonFiniteMessage(
                f"message from node {origin} in round {self.t} has values that are not finite; the run "
                "diverges: lower eta"
            )

    def _message(self, letters: Letters, row: int, index: Any, *, seed: int | None = None) -> Message:
        """The letter of one node here, with its coordinates where the codec names them."""
        values = letters.values[row]
        carries = self._layout(values.size).field.carries
        if carries == "index" and index is None:
            raise SupportMismatch(f"codec {self.codec!r} names coordinates; mix(values, support) needs them")
        scale = b"" if letters.scale is None else self.wire.pack_scale(letters.scale[row])
        return Message(values, index if carries == "index" else None, seed, scale)

    def _letter(self, message: Message) -> Letters:
        """What a message says, as one row."""
        scale = self.wire.unpack_scale(message.scale) if message.scale else None
        return Letters(message.values[None], scale)

    def _layout(self, size: int) -> Codec:
        return CODECS["dense" if size == self.d and self.codec != "seed_scalar" else self.codec]

    def _frame_bytes(self, size: int) -> int:
        """How long the frame of a message of `size` values is."""
        if size not in self._lengths:
            bits = self._layout(size).bits(self.d, size, self.value).plus(self.framing)
            self._lengths[size] = bits.total // 8
        return self._lengths[size]

    def _rows(self, u: Support | None) -> Sequence[Any]:
        """Coordinates of each node here."""
        if u is None:
            return [None] * len(self.nodes)
        index = u.index.reshape(-1, u.q)
        return [index[0]] * len(self.nodes) if len(index) == 1 else list(index)

    def _build_slots(self, peers_only: bool) -> Iterator[Slot]:
        """Slots of the graph, with the rows that are here."""
        for slot in super()._build_slots(peers_only):
            listeners = np.arange(self.n) if isinstance(slot.rows, slice) else slot.rows
            ours = np.flatnonzero(np.isin(listeners, self.nodes))
            if ours.size:
                rows = np.array([self._at[int(i)] for i in listeners[ours]])
                yield Slot(rows, slot.source[ours], slot.weight[ours])

    def _sources(
        self, slot: Slot, letters: Letters, got: dict[Link, Message]
    ) -> Iterator[tuple[Letters, int | Link]]:
        """For each row of a slot: the letter it hears, and its row here or the link it came over."""
        for row, source in zip(slot.rows.tolist(), slot.source.tolist(), strict=True):
            at, link = self._at.get(source), (source, int(self.nodes[row]))
            yield (self._letter(got[link]), link) if at is None else (_row(letters, at), at)


def _row(letters: Letters, row: int) -> Letters:
    """The letter of one node."""
    return Letters(*(None if part is None else part[row : row + 1] for part in letters))  # type: ignore[arg-type]


def _together(rows: Sequence[Letters]) -> Letters:
    """Letters one under the other, as new arrays."""
    scales = [each.scale for each in rows if each.scale is not None]
    return Letters(np.concatenate([each.values for each in rows]), np.concatenate(scales) if scales else None)


def _index(message: Message, public: Index) -> Index:
    return public if message.index is None else message.index
