"""Meetings: what the two ends of a link remember, for wires that are read against the receiver's values.

*Scale.* A node picks Δ for what it expects: it has seen how far apart the ends were after their steps, and
knows its own step. A message that needs more reach than b bits give is wide: 32 bits of each value at the
same Δ.

*Repair.* An exchange counts if both ends applied it. Each message says how many exchanges with this peer its
sender has applied, mod 4. Ends that agree exchange; the end that is ahead undoes its last exchange, and that
meeting changes nothing else. So ends differ by at most one exchange, and the sum of states, less the debts
that are still open, never changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.modulo import EXACT, LEAST, MOST, WIDE, Modulo, is_wide, least_exponent, step_of
from zocosmo.traffic import Link

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]

REACH = {2: 1.8, 3: 3.0, 4: 5.0}
MOST_REACH = 6.0  # with 5 bits and more
KEPT = 0.8  # of the mean square, at each meeting
OUTLIER = 16.0  # times the mean square: what is above counts as this much,
FARTHEST = 2.0**-40  # or as this share of itself, so that a wide message reaches it next time
AFTER_FAILURE = 2.0**16  # times the mean square, when even a wide message was too narrow
WIDE_REACH = 2.0 ** (WIDE - 1) - 0.5  # of a wide message, in units of Δ
LEAST_REACH, MOST_REACHED = 2.0**-120, 2.0**126


class Debt(NamedTuple):
    """What one end applied in an exchange that the other may not have applied."""

    row: int  # of the node, in this process
    places: Index
    delta: Values


class Meeting(NamedTuple):
    """Nodes of this process and the peers they hear in one slot of a move."""

    rows: Index  # positions of the listeners in this process
    out: Index  # the link from each listener to its peer, flat over runs
    back: Index  # the link from the peer


class Meetings:
    """The memory of all links of all runs, and counts of what went wrong; arrays are flat over runs."""

    def __init__(self, wire: Modulo, links: Sequence[Link], n: int, runs: int, nodes: int) -> None:
        self.wire, self.n = wire, n
        self.reach = REACH.get(wire.bits, MOST_REACH)
        self._keys = np.array([i * n + j for i, j in links], np.int64)
        size = runs * len(links)
        self.square = np.zeros(size)  # mean square of what ends differ in after their steps; 0: never met
        self.wide = np.zeros(size, bool)  # the next message must be wide
        self.count = np.zeros(size, np.uint8)  # exchanges applied, mod 4
        self.step = np.zeros(runs * nodes)  # mean square of the largest entry of a node's steps
        self.failed, self.repaired, self.widened = (np.zeros(runs * nodes, np.int64) for _ in range(3))
        self.open: dict[int, Debt] = {}  # by link
        self.owed: list[Debt] = []  # to be undone in this round
        self._exponent = np.zeros(runs * nodes, np.int64)  # of the messages of this move

    def place(self, senders: Index, receivers: Index) -> Index:
        """The link between two rows, run · n + node."""
        run, key = senders // self.n, senders % self.n * self.n + receivers % self.n
        return run * len(self._keys) + np.searchsorted(self._keys, key)

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
        mine, can_read = self.count[out], heard & ~np.isnan(read[:, 0])
        agree, ahead = heard & (peers == mine), heard & (mine == (peers + 1) % 4)
        self._settle(met, agree, ahead)
        apply: Mask = agree & can_read
        self.count[out] = (mine + apply.astype(np.uint8) + 3 * ahead.astype(np.uint8)) % 4
        failed = ~heard | (agree & ~can_read)
        np.add.at(self.failed, rows, failed)
        np.add.at(self.repaired, rows, ahead)
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

    # Debts

    def _settle(self, met: Meeting, agree: Mask, ahead: Mask) -> None:
        """Drop the debts of links whose ends agree; those of ends that are ahead are due."""
        if not self.open:
            return
        for link in met.out[agree].tolist():
            self.open.pop(link, None)
        self.owed += [self.open.pop(link) for link in met.out[ahead].tolist()]

    def keep(self, met: Meeting, applied: Mask, index: Index, delta: Values) -> None:
        """Keep what listeners applied until their peers confirm it."""
        for k in np.flatnonzero(applied).tolist():
            self.open[int(met.out[k])] = Debt(int(met.rows[k]), index[k].copy(), delta[k].copy())

    def due(self, size: int) -> list[tuple[Index, Values]]:
        """What to subtract in this round, as (index, delta) with one row for each of `size` nodes."""
        waiting, self.owed, out = self.owed, [], []
        while waiting:
            q, taken = waiting[0].places.size, dict[int, Debt]()
            for debt in (each for each in waiting if each.places.size == q):
                taken.setdefault(debt.row, debt)
            index, delta = np.tile(np.arange(q), (size, 1)), np.zeros((size, q), waiting[0].delta.dtype)
            for debt in taken.values():
                index[debt.row], delta[debt.row] = debt.places, debt.delta
            out.append((index, delta))
            waiting = [each for each in waiting if taken.get(each.row) is not each]
        return out

    def debts(self, size: int, d: int) -> Values:
        """The debts that are open, lifted to (size, d): one row for each node."""
        lifted = np.zeros((size, d))
        for debt in self.open.values():
            lifted[debt.row, debt.places] += debt.delta
        return lifted

    # Snapshots

    def arrays(self) -> Arrays:
        """What an exact resume needs."""
        kept = {name: vars(self)[name] for name in _KEPT}
        for k, (link, debt) in enumerate(self.open.items()):
            kept[f"debt.{k}.index"], kept[f"debt.{k}.delta"] = debt.places, debt.delta
            kept[f"debt.{k}.at"] = np.array([link, debt.row])
        return {f"links.{name}": array for name, array in kept.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned."""
        for name in _KEPT:
            setattr(self, name, np.array(arrays[f"links.{name}"]))
        self.open, self.owed = {}, []
        while (at := arrays.get(f"links.debt.{len(self.open)}.at")) is not None:
            name = f"links.debt.{len(self.open)}"
            places, delta = np.array(arrays[f"{name}.index"]), np.array(arrays[f"{name}.delta"])
            self.open[int(at[0])] = Debt(int(at[1]), places, delta)


_KEPT = ("square", "wide", "count", "step", "failed", "repaired", "widened")


def _kept(old: Values, seen: Values) -> Values:
    """A mean square that follows what is seen, outliers cut."""
    kept: Values = KEPT * old + (1 - KEPT) * np.minimum(seen, OUTLIER * old)
    return kept


def _within(reach: Values) -> Values:
    """Positive and finite, as `least_exponent` needs it."""
    return np.nan_to_num(reach, nan=MOST_REACHED, posinf=MOST_REACHED).clip(LEAST_REACH, MOST_REACHED)
