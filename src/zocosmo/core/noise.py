"""Public dither and check factors of messages, for wires of a few bits   [docs/protocol.md]"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Ids, Tape

Values = NDArray[Any]
Index = NDArray[np.int64]
Words = NDArray[np.uint64]


class Noise:
    """The public dither and check factors of messages, each drawn once for all runs that share a tape."""

    def __init__(self, tape: Tape, n: int, ids: Index | None = None) -> None:
        keys = tape.keys.reshape(-1, tape.keys.shape[-1])
        distinct, which = np.unique(keys, axis=0, return_inverse=True)
        self.n, self._tape = n, Tape.of_keys(distinct)
        self._which = which.reshape(-1)  # the tape of each run
        self._ids = np.arange(n) if ids is None else ids  # of nodes, in draws
        self._round = -1
        self._dither = np.empty((0, 0))
        self._drawn = np.zeros(0, bool)
        self._factors = np.empty((0, 0), np.uint64)

    def dither(self, t: int, rows: Index, q: int) -> Values:
        """r of each message, (rows, q): odd multiples of 2^−17 between 0 and 1   [label `dither`, t, sender]

        Rows are run · n + sender.
        """
        if self._round != t or self._dither.shape[-1] != q:
            self._round, size = t, len(self._tape.keys) * self.n
            self._dither, self._drawn = np.empty((size, q)), np.zeros(size, bool)
        at = self._which[rows // self.n] * self.n + rows % self.n
        new = np.unique(at[~self._drawn[at]])
        if new.size:
            tapes, senders = self._tape[new // self.n], self._ids[new % self.n]
            self._dither[new] = dither(tapes, "dither", t, senders, size=q)
            self._drawn[new] = True
        r: Values = self._dither[at]
        return r

    def factors(self, rows: Index, q: int) -> Words:
        """Uniform 64-bit factors of the check, (rows, q), the same in all rounds   [`check`]"""
        if self._factors.shape[-1] < q:
            self._factors = self._tape.coins("check").words(q)
        return self._factors[self._which[rows // self.n], :q]


def dither(tape: Tape, label: str, *ids: Ids, size: int) -> NDArray[np.float64]:
    """`size` public numbers of each stream, (…, size): odd multiples of 2⁻¹⁷ between 0 and 1, mean 1/2.

    Sums of fewer than 2³⁶ of them are exact in any order.
    """
    words = tape.coins(label, *ids).bytes(2 * size).view("<u2")
    return (2.0 * words + 1.0) * 2.0**-17
