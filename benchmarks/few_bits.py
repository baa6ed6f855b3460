"""Messages of four bits, at the size of the paper's LoRA model.   make bench

encode and decode 8,192 values, dither and check factors drawn, against drawing their support: at most 2 times
as long; with the packing into bytes and out of them besides
"""

import numpy as np
from timing import race, report

from zocosmo.core.fields import Message
from zocosmo.core.message import CODECS
from zocosmo.core.modulo import MODULO
from zocosmo.core.noise import Noise
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Envelope, Letters

D, Q = 2_523_136, 8192


def main() -> None:
    tape, wire, rng = Tape(0), MODULO["mod4"], np.random.default_rng(0)
    x = rng.standard_normal((1, Q))
    y, rounds = x + 1e-3 * rng.standard_normal((1, Q)), iter(range(10**9))
    noise, exponent = Noise(tape, 2), np.array([-9])

    def exchange() -> None:
        """What one end does: write its own message, and read the other's, whose dither is another."""
        t = next(rounds)
        own, theirs = (Envelope(t, np.array([i]), 2, tape, noise, exponent) for i in (0, 1))
        letters = wire.encode(y, own)
        wire.decode(letters, theirs, dtype=np.float64, own=x)

    def packed() -> None:
        """The same, through bytes."""
        t = next(rounds)
        own, theirs = (Envelope(t, np.array([i]), 2, tape, noise, exponent) for i in (0, 1))
        letters = wire.encode(y, own)
        sent = Message(letters.values[0], scale=wire.pack_scale(letters.scale[0]))  # type: ignore[index]
        data = CODECS["values"].encode(sent, d=D, value=wire.charged)
        got = CODECS["values"].decode(data, d=D, q=Q, value=wire.charged)
        wire.decode(Letters(got.values[None], wire.unpack_scale(got.scale)), theirs, dtype=np.float64, own=x)

    def support() -> None:
        draw_support(tape, next(rounds), d=D, q=Q)

    took = race({"exchange": exchange, "packed": packed, "support": support}, trials=101)
    title = "write and read 8,192 values of 4 bits, against drawing their support"
    report(title, took["exchange"], took["support"], "≥ 0.5")
    report("the same, through packed bytes", took["packed"], took["support"], "≥ 0.5")


if __name__ == "__main__":
    main()
