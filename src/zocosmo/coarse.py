"""Mixing over wires of a few bits: y_i + Σ_j w_ij (ŷ_j − ŷ_i) over the exchanges that both ends complete."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.modulo import Modulo
from zocosmo.core.wire import Letters
from zocosmo.errors import InputError
from zocosmo.exchanges import Meeting
from zocosmo.graphs.matching import Partners
from zocosmo.graphs.slots import Slot
from zocosmo.meetings import Meetings
from zocosmo.repairs import Carrier, Repairs
from zocosmo.traffic import Link, MessageKind

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Coarse(Repairs):
    """The moves of a channel over a wire of a few bits, with what the ends of links remember."""

    def __init__(self, channel: Carrier, wire: Modulo, links: Sequence[Link] | Index) -> None:
        memory = Meetings(wire, links, channel.n, len(channel.graphs), len(channel.nodes))
        super().__init__(channel, memory)
        self.memory: Meetings = memory
        self.wire = wire

    def tally(self) -> dict[str, Index]:
        """Failures, repairs and wide messages so far, by (run, node here)."""
        return {**super().tally(), "wide": self.memory.widened.reshape(len(self.channel.graphs), -1)}

    def _check_held(self, y: Values, held: Values | None) -> Values:
        if held is None:
            raise InputError("this wire is read against the values before the step; call mix(…, held=x)")
        return held

    def _encode(self, y: Values, x: Values, met: Sequence[Meeting], partners: Partners | None) -> Letters:
        step, largest = np.abs(y - x).max(axis=-1), np.abs(y).max(axis=-1)
        exponent, wide = self.memory.choose(met, step, largest)
        if wide.any():
            self._charge_wide(y.shape[-1], wide, partners)
        envelope = self.channel.envelope(self.channel.senders)
        return self.wire.encode(y, envelope._replace(exponent=exponent, wide=wide))

    def _charge_wide(self, q: int, wide: Mask, partners: Partners | None) -> None:
        channel, kind = self.channel, MessageKind(q, rest=self.wire.rest)
        by_node = wide.reshape(len(channel.graphs), len(channel.nodes))
        if partners is None:
            channel.traffic.from_some(kind, by_node)
        else:
            whom = np.broadcast_to(partners, (*self._lead, len(channel.nodes))).reshape(by_node.shape)
            channel.traffic.paired(kind, np.where(by_node, whom, channel.nodes))

    def _hear(
        self, slot: Slot, met: Meeting, theirs: Letters, held: Values, y: Values
    ) -> tuple[Mask, Values]:
        """Which exchanges listeners apply, and what they read."""
        assert theirs.scale is not None
        read = self.channel.decode(theirs, slot.source, held, slot.rows)
        counts = self.channel.counts_of(slot.source, met.back, theirs)
        arrived = self.channel.heard(met, slot.source)
        return self.memory.hear(met, counts, arrived, read, y[slot.rows], theirs.scale), read
