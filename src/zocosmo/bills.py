"""Bills: what the messages of a channel cost, under each of several codecs."""

from collections.abc import Sequence

from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.ledger import Ledger
from zocosmo.core.message import CODECS
from zocosmo.core.payload import Bits
from zocosmo.core.price import PRICES
from zocosmo.core.values import ValueType
from zocosmo.traffic import MessageKind, Traffic


class Bills:
    """A ledger for each codec, charged from the traffic when it is read. Every message pays for its frame."""

    def __init__(self, traffic: Traffic, codecs: Sequence[str], d: int, value: ValueType) -> None:
        self.d, self.value, self.framing = d, value, FRAME_BITS
        self._traffic = traffic
        self._ledgers = {name: Ledger(traffic.links, (len(traffic.graphs),)) for name in codecs}

    def ledger(self, codec: str) -> Ledger:
        """The bill under one codec, all messages so far included."""
        for kind, messages in self._traffic.settle():
            for name, ledger in self._ledgers.items():
                if kind.only in ("", name):
                    ledger.charge(messages, self._price(kind, name))
        return self._ledgers[codec]

    def _price(self, kind: MessageKind, codec: str) -> Bits:
        size, price, of = kind[:3]
        if kind.rest is not None:
            return CODECS["values"].bits(self.d, size, kind.rest).plus(self.framing)
        named = price or codec
        if size == self.d and not (price or of) and codec != "seed_scalar":
            named = "dense"  # all d: no index
        each = PRICES[named](of or self.d, size, self.value)
        if kind.or_all:
            each = min(each, PRICES["dense"](self.d, self.d, self.value), key=lambda bits: bits.total)
        each = each.plus(self.framing)
        return each.times(size) if named == "seed_scalar" else each
