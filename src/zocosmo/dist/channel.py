"""The channel over torch.distributed: the same arithmetic as in memory, with frames between processes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from zocosmo.channel import Index, Values
from zocosmo.core.fields import Message
from zocosmo.core.modulo import COUNT_AT, is_wide
from zocosmo.core.residues import RESIDUES, Cut
from zocosmo.core.support import Support
from zocosmo.core.values import ValueType
from zocosmo.core.wire import Letters
from zocosmo.dist.framed import ABSENT, Awaited, FramedChannel, Link, Sent
from zocosmo.dist.sums import sums_up, total_down
from zocosmo.dist.tree import Tree
from zocosmo.errors import SupportMismatch
from zocosmo.graphs.slots import Slot
from zocosmo.traffic import Route, flood_hops

Places = Sequence[Any]  # coordinates of each of some nodes; None where they are not known


class TorchChannel(FramedChannel):
    """Letters of the nodes here, carried in frames to those of other processes and back."""

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

    def mix_pairs(
        self, y: Values, partners: Index, u: Support | None = None, *, held: Values | None = None
    ) -> Values:
        """As every channel does it; a node alone here whose values cross as they are takes fewer steps."""
        if not self._is_direct or y.dtype != self.dtype:
            return super().mix_pairs(y, partners, u, held=held)
        pair = self._pair(partners.item(), y.shape[-1])
        if pair is None:
            return super().mix_pairs(y, partners, u, held=held)
        pair.tally.messages += 1
        mixed: Values = y + self._trade(pair, y)
        mixed *= 0.5
        return mixed

    def swap(self, letters: Letters, partners: Index, u: Support | None) -> Letters:
        if self._lean is not None and letters.scale is None:
            pair = self._pair(partners.item(), letters.values.shape[-1])
            if pair is not None:
                return Letters(self._trade(pair, letters.values)[None].copy())
        if len(self._at) == 1 and self.coarse is None:
            return self._swap_one(letters, int(partners[0]), u)
        return self._swap_all(letters, partners, u)

    def _swap_all(self, letters: Letters, partners: Index, u: Support | None) -> Letters:
        links = list(zip(partners.tolist(), self.nodes.tolist(), strict=True))
        crossing = sorted(link for j, i in links if j not in self._at for link in ((i, j), (j, i)))
        return self._pick(letters, self._carry(letters, crossing, self._rows(u)), links)

    def _swap_one(self, letters: Letters, j: int, u: Support | None) -> Letters:
        (i,) = self._at
        if i == j:
            return letters
        size, peer, value, link = letters.values.shape[-1], self._host[j], self.value, (i, j)
        bare = letters.scale is None and not self._layout(size, value).field.carries
        index = None if u is None or bare else u.index.reshape(-1)

        def frames() -> dict[int, tuple[bytes, bytes]]:
            message = Message(letters.values[0]) if bare else self._message(letters, 0, index)
            return {peer: self._frame(link, i, message, value)}

        data = self.links.exchange(frames, {peer: self._frame_bytes(size, value)}, self.t).get(peer)
        if data is None:
            self._missed((j, i), ABSENT)
            return letters.blank()
        message = self._received(data, Awaited((j, i), j, size, index), peer, value)
        if message is None:
            return letters.blank()
        return Letters(message.values[None]) if bare else self._letter(message)

    def _spread(self, letters: Letters, u: Support | None, everyone: Support | None, over: Route) -> Letters:
        if over == "links":
            got, here = self._from_neighbours(letters, u, everyone), int(self.nodes[0])
            return self._pick(letters, got, ((i, here) for i in range(self.n)))
        graph = self.place.graph
        return self._pass_along(letters, self._tree.hops() if over == "tree" else flood_hops(graph))

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

    # Sums over the tree

    def _residues_of_all(self, k: Values, bits: int) -> Values:
        value, tree = RESIDUES[bits], self._tree
        rows = dict(zip(self._at, k[0].astype(value.dtype), strict=True))
        most = value.dtype.type(2**bits - 1)  # an overflow is a multiple of 2^b

        def add(mine: Values, theirs: Letters, _: int) -> Values:
            total: Values = (mine + theirs.values[0]) & most
            return total

        with self._sending(value):
            carry = partial(self._over, size=k.shape[-1])
            sums = sums_up(tree, rows, carry, write=lambda row, _: Letters(row[None]), add=add)
            root = Letters(sums[0][None]) if 0 in sums else None
            return total_down(tree, root, carry).values.astype(np.float64)[None]

    def _sum_of_all(self, values: Values, words: int) -> Values:
        cut, tree = Cut(self.value, words), self._tree

        def write(row: Values, i: int) -> Letters:
            letter = self.wire.encode(row[None], self.envelope(np.array([i])))
            return letter._replace(values=cut.write(letter.values[0])[None])

        def read(letter: Letters, i: int) -> Values:
            whole = letter._replace(values=cut.read(letter.values[0])[None])
            about = self.envelope(np.array([i]))
            row: Values = self.wire.decode(whole, about, dtype=values.dtype, own=None)[0]
            if i not in self._at:
                self._check_finite(row, i)
            return row

        def add(mine: Values, theirs: Letters, i: int) -> Values:
            return mine + read(theirs, i)

        with self._sending(cut.value):
            carry = partial(self._over, size=values.shape[-1] * cut.pieces)
            sums = sums_up(tree, dict(zip(self._at, values[0], strict=True)), carry, write=write, add=add)
            return read(total_down(tree, write(sums[0], 0) if 0 in sums else None, carry), 0)[None, None]

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self.place.graph)

    def _over(self, stage: list[Link], letters: Mapping[int, Letters], *, size: int) -> dict[Link, Letters]:
        """The letters that nodes here hear over the links of a stage, of which those here send `letters`."""
        ours = [link for link in stage if self._crosses(link, 0)]
        sent = [Sent(link, link[0], self._message(letters[link[0]], 0, None)) for link in ours]
        expected = [Awaited(link, link[0], size) for link in stage if self._crosses(link, 1)]
        heard = {link: letters[link[0]] for link in stage if link[0] in self._at and link[1] in self._at}
        got = self._exchange(sent, expected)
        return heard | {link: self._letter(message) for link, message in got.items()}

    def _crosses(self, link: Link, end: int) -> bool:
        """Whether this end of a link is here and the other is not."""
        return link[end] in self._at and link[1 - end] not in self._at

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
        came = [each for each in expected if each.link in got]
        due = [each for each in came if is_wide(self.wire.unpack_scale(got[each.link].scale))]
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

    def _rows(self, u: Support | None) -> Places:
        """Coordinates of each node here."""
        if u is None:
            return [None] * len(self.nodes)
        index = u.index.reshape(-1, u.q)
        return [index[0]] * len(self.nodes) if len(index) == 1 else list(index)

    def _build_slots(self, peers_only: bool, dtype: np.dtype[Any]) -> Iterator[Slot]:
        """Slots of the graph, for the nodes here."""
        for slot in super()._build_slots(peers_only, dtype):
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
