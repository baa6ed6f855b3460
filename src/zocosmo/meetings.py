"""Meetings: what the two ends of a link remember, for wires that are read against the receiver's values.

*Scale.* A node picks Δ for what it expects: it has seen how far apart the ends were after their steps, and
knows its own step. A message that needs more reach than b bits give is wide: 32 bits of each value at the
same Δ.

*Repair.* See `zocosmo.exchanges`.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.modulo import EXACT, LEAST, MOST, WIDE, Modulo, is_wide, least_exponent, step_of
from zocosmo.exchanges import Exchanges, Meeting
from zocosmo.traffic import Link

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

REACH = {2: 1.8, 3: 3.0, 4: 5.0}
MOST_REACH = 6.0  # with 5 bits and more
KEPT = 0.8  # of the mean square, at each meeting
OUTLIER = 16.0  # times the mean square: what is above counts as this much,
FARTHEST = 2.0**-40  # or as this share of itself, so that a wide message reaches it next time
AFTER_FAILURE = 2.0**16  # times the mean square, when even a wide message was too narrow
WIDE_REACH = 2.0 ** (WIDE - 1) - 0.5  # of a wide message, in units of Δ
LEAST_REACH, MOST_REACHED = 2.0**-120, 2.0**126


class Meetings(Exchanges):
    """The memory of all links of all runs, with what decides the scale; arrays are flat over runs."""

    kept: ClassVar[tuple[str, ...]] = ("square", "wide", "count", "step", "failed", "repaired", "widened")
    by_link: ClassVar[tuple[str, ...]] = ("square", "wide", "count")
    by_node: ClassVar[tuple[str, ...]] = ("step", "failed", "repaired", "widened")

    def __init__(self, wire: Modulo, links: Sequence[Link] | Index, n: int, runs: int, nodes: int) -> None:
        super().__init__(links, n, runs, nodes)
        self.wire, size = wire, runs * len(links)
        self.reach = REACH.get(wire.bits, MOST_REACH)
        self.square = np.zeros(size)  # mean square of what ends differ in after their steps; 0: never met
        self.wide = np.zeros(size, bool)  # the next message must be wide
        self.step = np.zeros(runs * nodes)  # mean square of the largest entry of a node's steps
        self.widened = np.zeros(runs * nodes, np.int64)
        self._exponent = np.zeros(runs * nodes, np.int64)  # of the messages of this move

    # What a sender chooses

    def choose(self, meetings: Sequence[Meeting], step: Values, largest: Values) -> tuple[Index, Mask]:
        """e of Δ = 2^e, and whether the message is wide, for each node here.

        `step` is the largest entry of a node's step, `largest` that of its values. A node that sends one
        message to several peers picks for the farthest. All start at the same point, so a peer that it has
        never met may be one step away, or two.
        """
        apart, wide, met = np.zeros(len(step)), np.zeros(len(step), bool), np.zeros(len(step), bool)
        for rows, out, _ in meetings:
            seen = np.sqrt(self.square[out])
            apart[rows] = np.maximum(apart[rows], np.where(seen > 0, seen, step[rows] / self.reach))
            wide[rows] |= self.wide[out]
            met[rows] = True
        usual = np.minimum(step, 4 * np.sqrt(np.where(self.step > 0, self.step, step**2)))
        needed = self.reach * apart + step
        least = np.maximum((self.reach * apart + usual) / self.wire.reach, needed / WIDE_REACH)
        exponent = least_exponent(_within(np.maximum(least, largest * 2.0**-EXACT))).clip(LEAST, MOST)
        wide |= needed > self.wire.reach * np.ldexp(1.0, exponent)
        square = np.where(self.step > 0, _kept(self.step, step**2), step**2)
        self.step = np.where(met & np.isfinite(square), square, self.step)
        self.widened += wide & met
        self._exponent = exponent
        return exponent, wide & met

    # What a receiver concludes

    def hear(self, met: Meeting, peers: Values, heard: Mask, read: Values, own: Values, head: Values) -> Mask:
        """Which exchanges the listeners apply.

        `peers` are the counts of their peers, `heard` says whose message came, `read` is what they read, nan
        where they cannot, `own` what they have after their step, `head` the head of each message.
        """
        rows, out, _ = met
        can_read = heard & ~np.isnan(read[:, 0])
        apply, ahead, failed = self.meet(met, peers, heard, can_read)
        missed = failed | ahead
        self._grow(rows, out, failed & heard & is_wide(head)[:, 0])
        apart = read.astype(np.float64) - own
        seen = (apart * apart).mean(axis=-1) - step_of(head)[:, 0] ** 2 / 12
        self._remember(out[can_read], seen[can_read])
        self.wide[out[missed]] = True
        return apply

    def _grow(self, rows: Index, out: Index, lost: Mask) -> None:
        """Even a wide message was too narrow: expect far more, and not less than the Δ we wrote with."""
        least = np.ldexp(1.0, 2 * self._exponent[rows])
        self.square[out] = np.where(
            lost, AFTER_FAILURE * np.maximum(self.square[out], least), self.square[out]
        )

    def _remember(self, out: Index, seen: Values) -> None:
        """Follow the mean square of differences: not below a quarter of what was just seen."""
        old = self.square[out]
        most = np.where(old > 0, np.maximum(OUTLIER * old, FARTHEST * seen), np.inf)
        self.wide[out] = seen > most
        seen = np.clip(seen, 0, most)
        self.square[out] = np.where(old > 0, np.maximum(_kept(old, seen), seen / 4), seen)


def _kept(old: Values, seen: Values) -> Values:
    """A mean square that follows what is seen, outliers cut."""
    kept: Values = KEPT * old + (1 - KEPT) * np.minimum(seen, OUTLIER * old)
    return kept


def _within(reach: Values) -> Values:
    """Positive and finite, as `least_exponent` needs it."""
    return np.nan_to_num(reach, nan=MOST_REACHED, posinf=MOST_REACHED).clip(LEAST_REACH, MOST_REACHED)
