"""The channel of one member: frames and arithmetic of `dist.channel`, where a message may be missed."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from zocosmo.channel import Index, Values
from zocosmo.core.fields import Message
from zocosmo.core.levels import LEVEL
from zocosmo.core.values import ValueType
from zocosmo.core.wire import Letters
from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.framed import ABSENT, Awaited, Link
from zocosmo.errors import MessageError, SupportMismatch
from zocosmo.net.links import ZmqLinks

Missed = Callable[[int, Link, str, str], None]  # round, link, stage and why


class NetChannel(TorchChannel):
    """Letters of one node. Links whose message did not come, or was refused, are in `lost` of this round."""

    links: ZmqLinks
    clip: float | None = None  # the most by which an entry may differ from ours; None: by anything
    skips: bool = False  # whether an exchange can be repaired, and so be missed
    _stage: str = "values"

    def begin(self, t: int) -> None:
        super().begin(t)
        self._gone: dict[str, set[Link]] = {"values": set(), "level": set()}
        if self.skips:
            self.lost, self.lost_levels = ({t: gone} for gone in self._gone.values())

    def listen_for(self, missed: Missed) -> None:
        """Call this when a message is missed."""
        self._tell, self.links.mark = missed, self._mark
        self._link_to: dict[int, int] = {}  # by peer: the place of our link to it

    def _missed(self, link: Link, why: str) -> None:
        if not self.skips:
            super()._missed(link, why)
        if why == ABSENT:
            self._lines[self._host[link[0]]].received += 1  # its number passes too
        gone = self._gone[self._stage]
        if link not in gone:
            gone.add(link)
            self._tell(self.t, link, self._stage, why)

    @contextmanager
    def _sending(self, value: ValueType) -> Iterator[None]:
        self._stage = "level" if value is LEVEL else "values"
        try:
            with super()._sending(value):
                yield
        finally:
            self._stage = "values"

    def _received(
        self, data: bytes | memoryview, each: Awaited, peer: int, value: ValueType
    ) -> Message | None:
        if not self.skips:
            return super()._received(data, each, peer, value)
        try:
            return self._accept(data, each, peer, value)
        except (MessageError, SupportMismatch) as error:
            self._missed(each.link, str(error))
            return None

    def counts_of(self, peers: Index, back: Index, letters: Letters) -> Values:
        """From the heads of letters, or, where these have none, from what came along with them."""
        if self.coarse is not None:
            return super().counts_of(peers, back, letters)
        told = self.links.marks
        return np.array([told.get(self._host[peer], 0) for peer in peers.tolist()], np.uint8)

    def _mark(self, peer: int) -> int:
        """How many exchanges with a peer we have applied, mod 4."""
        if self.repairs is None:
            return 0
        if peer not in self._link_to:
            ends = self.nodes[:1], np.array([peer])
            self._link_to[peer] = int(self.repairs.memory.place(*ends)[0])
        return int(self.repairs.told[self._link_to[peer]])

    def _pick(self, letters: Letters, got: dict[Link, Message], links: Iterable[Link]) -> Letters:
        """As received; zeros stand for what was missed."""
        found = []
        for i, j in links:
            if i in self._at:
                found.append(letters.take([self._at[i]]))
            else:
                found.append(self._letter(got[i, j]) if (i, j) in got else letters.blank())
        return Letters.stack(found)

    def decode(self, letters: Letters, senders: Index, values: Values, rows: Any = slice(None)) -> Values:
        """As the channel does it; with `clip` a message that would move an entry too far is missed."""
        read = super().decode(letters, senders, values, rows)
        if self.clip is not None and self.skips:
            here, own = int(self.nodes[0]), values.reshape(-1, values.shape[-1])[rows]
            far = ~(np.abs(read - own) <= self.clip).all(axis=-1)  # what is no number is far, too
            for sender in senders[far].tolist():
                if sender != here and (sender, here) not in self._gone[self._stage]:
                    self._missed((sender, here), f"it would move an entry by more than {self.clip:g}")
        return read
