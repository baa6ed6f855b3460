"""Frames between processes: how messages of a channel become bytes and are accepted, and what is measured."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.channel import Channel, Index, Values
from zocosmo.core.fields import Message
from zocosmo.core.frame import FRAME_BITS, Header, PlainFrames
from zocosmo.core.message import CODECS, Codec
from zocosmo.core.support import MAX_D
from zocosmo.core.tape import Tape
from zocosmo.core.values import F64, ValueType
from zocosmo.dist.interface import Carrying
from zocosmo.dist.line import Line
from zocosmo.dist.pairs import Pair
from zocosmo.dist.place import Place
from zocosmo.dist.seal import SEAL_BITS, Seal
from zocosmo.errors import InputError, NonFiniteMessage, PeerLost, SupportMismatch
from zocosmo.traffic import MessageKind

ABSENT = "it did not come"  # why a message is missed

Link = tuple[int, int]

MOST_IN_A_ROUND = 2**24  # messages over one link, which their sequence numbers


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


class FramedChannel(Channel):
    """A channel for the nodes of one run in this process, with frames to and from nodes elsewhere.

    Frames use the run's codec and value type, so the bytes sent equal the bits on the ledger; `crossed`
    counts them. Links within this process are charged, but carry no bytes.
    """

    def __init__(
        self,
        place: Place,
        links: Carrying,
        *,
        d: int,
        wire: str,
        codec: str,
        dtype: DTypeLike,
        session: bytes,
        tape: Tape | None = None,
        key: bytes | None = None,
        repair: bool = False,
        ids: Index | None = None,
    ) -> None:
        self.place, self.links, self.session, self.codec = place, links, session, codec
        self.rank = links.rank
        nodes = place.parts[self.rank]
        about: dict[str, Any] = {"wire": wire, "codecs": [codec], "dtype": dtype, "tape": tape}
        super().__init__([place.graph], d=d, nodes=nodes, repair=repair, ids=ids, **about)
        self.value: ValueType = self.wire.crosses_as(self.dtype)
        self.crossed: defaultdict[Link, int] = defaultdict(int)  # bytes sent to other processes
        self.messages = 0  # sent to other processes
        self._host: list[int] = place.host.tolist()
        self._lengths: dict[tuple[int, int], int] = {}  # of frames, by number and type of values
        self._at = {int(node): row for row, node in enumerate(self.nodes)}
        self._lines: dict[int, Line] = {}
        self._plain: dict[tuple[int, int, int, str, int], PlainFrames | None] = {}
        self._within = d  # what the coordinates of messages are chosen from
        self._hop = place.hop(self.rank)
        if key is not None:
            self._bills.framing = FRAME_BITS.plus(SEAL_BITS)
        links.open(place.edges)
        for peer in links.peers():
            line = self._lines[peer] = Line(session)
            if key is not None:
                line.closing, line.opening = Seal.pair(key, session, self.rank, peer, *links.salts[peer])
        self._lean = links.lean if len(nodes) == 1 else None
        as_is = self.repairs is None and self.wire.sends_as_is(self.dtype)
        self._is_direct = as_is and self._lean is not None  # pairs mix what crosses, as it is
        self._pairs: dict[tuple[int, int], Pair | None] = {}  # by node and number of values
        self._other_pairs: dict[int, dict[tuple[int, int], Pair | None]] = {}  # the same, by type of values

    def begin(self, t: int) -> None:
        """Round t begins. Rounds ascend: a seal may use no number twice."""
        if t < self.t:
            raise InputError(f"round {t} comes after round {self.t}; rounds must ascend within a session")
        if t > self.t:
            for line in self._lines.values():
                line.sent = line.received = 0
        self.t = t

    # Messages between processes

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
            if peer not in got:
                self._missed(each.link, ABSENT)
                continue
            data = got[peer][read[peer] : read[peer] + size]
            read[peer] += size
            message = self._received(data, each, peer, value)
            if message is not None:
                out[(each.origin, each.origin) if by_origin else each.link] = message
        return out

    def _missed(self, link: Link, why: str) -> None:
        """A message is not there; links that leave none out never come here."""
        raise PeerLost(f"round {self.t} needs the message of node {link[0]}: {why}", t=self.t)

    def _received(
        self, data: bytes | memoryview, each: Awaited, peer: int, value: ValueType
    ) -> Message | None:
        """The awaited message; None where a channel can do without it."""
        return self._accept(data, each, peer, value)

    def _frame(self, link: Link, origin: int, message: Message, value: ValueType) -> tuple[bytes, bytes]:
        """A message as it crosses a link, with its bytes counted."""
        line, size = self._lines[self._host[link[1]]], message.values.size
        if (plain := self._plainly(origin, size, value, line.sent)) is not None and message.is_bare:
            head, body = plain.write(message.values, self.t, line.sent, line.closing)
            line.sent += 1
        else:
            head, body = line.frame(self._header(origin, size, line.sent, value), message, self._within)
        self.crossed[link] += len(head) + len(body)
        self.messages += 1
        return head, body

    def _accept(self, data: bytes | memoryview, each: Awaited, peer: int, value: ValueType) -> Message:
        """The awaited message, or an error that says what came instead."""
        line = self._lines[peer]
        if (plain := self._plainly(each.origin, each.size, value, line.received)) is not None:
            values = plain.read(memoryview(data), self.t, line.received, line.opening)
            if values is not None:
                line.received += 1
                self._check_finite(values, each.origin)
                return Message(values)
        expect = self._header(each.origin, each.size, line.received, value)
        message = line.unframe(data, expect, self._within)
        index, seed, why = message.index, message.seed, ""
        self._check_finite(message.values, each.origin)
        if message.scale and not self.wire.is_readable(message.scale):
            self._refuse_values(each.origin)
        if seed is not None and seed != each.origin:
            why = f"has the seed of node {seed}; compare manifests"
        elif index is not None and each.places is not None and not np.array_equal(index, each.places):
            why = "is on other coordinates than the tape says; compare manifests"
        if why:
            raise SupportMismatch(f"message from node {each.origin} in round {self.t} {why}")
        return message

    def _check_finite(self, values: Values, origin: int) -> None:
        if not np.logical_and.reduce(np.isfinite(values)):
            self._refuse_values(origin)

    def _refuse_values(self, origin: int) -> NoReturn:
        why = "has values that are not finite; the run diverges: lower eta"
        raise NonFiniteMessage(f"message from node {origin} in round {self.t} {why}")

    def _plainly(self, origin: int, size: int, value: ValueType, sequence: int) -> PlainFrames | None:
        """The frames of messages that are values and nothing else; None if these are not, or too many."""
        key = origin, size, value.wire_id, self.codec, self._within
        if key not in self._plain:
            layout = self._layout(size, value)
            fits = PlainFrames.suit(layout, value) and layout.field.count(self._within, size) == size
            made = PlainFrames(layout, value, origin, size, self.session) if fits and size else None
            self._plain[key] = made
        return self._plain[key] if sequence < MOST_IN_A_ROUND else None

    def _pair(self, j: int, size: int) -> Pair | None:
        """How the one node here swaps values with node j; None where that takes other steps."""
        try:
            pair = self._pairs[j, size]
        except KeyError:
            pair = self._pairs[j, size] = self._make_pair(j, size)
        return pair if pair is None or pair.line.sent < MOST_IN_A_ROUND else None

    def _make_pair(self, j: int, size: int) -> Pair | None:
        (i,), value = self._at, self.value
        ours, theirs = (self._plainly(node, size, value, 0) for node in (i, j))
        if i == j or self._lean is None or ours is None or theirs is None:
            return None
        peer, length = self._host[j], self._frame_bytes(size, value)
        swap, tally = self._lean.swap_with(peer, length), self.traffic.tally(MessageKind(size), (i, j))
        return Pair(swap, self._lines[peer], (ours, theirs), value, tally)

    def _trade(self, pair: Pair, values: Values) -> Values:
        """Values to a pair's other node, and those that come back, with their bytes counted."""
        self.crossed[pair.link] += pair.length
        self.messages += 1
        theirs = pair.trade(values, self.t)
        if theirs is None:  # which error it is
            i, j = pair.link
            awaited = Awaited((j, i), j, values.shape[-1])
            return self._accept(pair.came.whole, awaited, self._host[j], self.value).values
        return theirs

    def _header(self, origin: int, size: int, sequence: int, value: ValueType) -> Header:
        return Header(self._layout(size, value), value, self.t, origin, size, sequence)

    @contextmanager
    def _sending(self, value: ValueType) -> Iterator[None]:
        """Messages have values of this type, which need not be coordinates: there may be more than d."""
        kept = self.value, self.codec, self._within, self._lengths, self._pairs
        self.value, self.codec, self._within, self._lengths = value, "values", MAX_D, {}
        self._pairs = self._other_pairs.setdefault(value.wire_id, {})
        try:
            yield
        finally:
            self.value, self.codec, self._within, self._lengths, self._pairs = kept

    def _layout(self, size: int, value: ValueType) -> Codec:
        if value is not self.value:  # the second part of a wide message
            return CODECS["values"]
        return CODECS["dense" if size == self._within and self.codec != "seed_scalar" else self.codec]

    def _frame_bytes(self, size: int, value: ValueType) -> int:
        """The length of the frame of a message of `size` values."""
        if (length := self._lengths.get((size, value.wire_id))) is None:
            bits = self._layout(size, value).bits(self._within, size, value).plus(self.framing)
            length = self._lengths[size, value.wire_id] = bits.total // 8
        return length

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
