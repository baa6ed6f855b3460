"""Pairs: two nodes that swap values and nothing else, with all that stays the same made once."""

from typing import Any

import numpy as np
from numpy import isfinite
from numpy.typing import NDArray

from zocosmo.core.frame import FrameBuffer, PlainFrames
from zocosmo.core.values import ValueType
from zocosmo.dist.interface import Swap
from zocosmo.dist.line import Line
from zocosmo.traffic import Tally

Values = NDArray[Any]


class Pair:
    """Frames from a node here to one elsewhere and back, of one size and type, one each way at a time."""

    __slots__ = (
        *("_finite", "_frames", "_is_finite", "_ours", "_out", "_swap", "_theirs"),
        *("came", "length", "line", "link", "tally"),
    )

    def __init__(
        self, swap: Swap, line: Line, frames: tuple[PlainFrames, PlainFrames], value: ValueType, tally: Tally
    ) -> None:
        self._swap, self.line, self.tally = swap, line, tally
        self._ours, self._theirs = ours, theirs = frames
        self.link, self.length = (ours.sender, theirs.sender), len(swap.out)
        self._out = FrameBuffer(swap.out, value, ours.size)
        self._frames = tuple(FrameBuffer(each, value, ours.size) for each in swap.ins)
        self._finite = bytearray(ours.size)  # a byte for each value: 1 if it is finite
        self._is_finite: NDArray[np.bool_] = np.frombuffer(self._finite, np.bool_)
        self.came = self._frames[0]  # what came last

    def trade(self, values: Values, t: int) -> Values | None:
        """Send values and return the other node's, which change with the exchange after next.

        None if `came` is not the frame expected, or has values that are not finite.
        """
        line = self.line
        self._ours.fill(self._out, values, t, line.sent, line.closing)
        line.sent += 1
        came = self.came = self._frames[self._swap.go(t)]
        theirs = self._theirs.take(came, t, line.received, line.opening)
        if theirs is None:
            return None
        isfinite(theirs, self._is_finite)
        if 0 in self._finite:
            return None
        line.received += 1
        return theirs
