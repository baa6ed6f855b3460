"""Exchanges: what the two ends of a link know of those that only one of them applied, and how that is undone.

An exchange counts if both ends applied it. Each message says how many exchanges with this peer its sender has
applied, mod 4. Ends that agree exchange; the end that is ahead undoes its last exchange, and that meeting
changes nothing else. So ends differ by at most one exchange, and the sum of states, less the debts that are
still open, never changes.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.traffic import Link

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]


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


class Exchanges:
    """The debts of all links of all runs, and counts of what went wrong; arrays are flat over runs."""

    kept: ClassVar[tuple[str, ...]] = ("count", "failed", "repaired")  # arrays of a snapshot
    by_link: ClassVar[tuple[str, ...]] = ("count",)  # those with an entry for each link
    by_node: ClassVar[tuple[str, ...]] = ("failed", "repaired")

    def __init__(self, links: Sequence[Link] | Index, n: int, runs: int, nodes: int) -> None:
        self.n = n
        self.ends = np.array(links, np.int64).reshape(-1, 2)
        self._keys = self.ends[:, 0] * n + self.ends[:, 1]
        self.count = np.zeros(runs * len(links), np.uint8)  # exchanges applied, mod 4
        self.failed, self.repaired = (np.zeros(runs * nodes, np.int64) for _ in range(2))
        self.open: dict[int, Debt] = {}  # by link
        self.owed: list[Debt] = []  # to be undone in this round
        self.sure = False  # only exchanges that the peer did not apply are kept
        self.undone: list[int] | None = None  # where somebody looks: links whose last exchange was undone

    def place(self, senders: Index, receivers: Index) -> Index:
        """The link between two rows, run · n + node."""
        run, key = senders // self.n, senders % self.n * self.n + receivers % self.n
        return run * len(self._keys) + np.searchsorted(self._keys, key)

    def reverse(self, links: Index) -> Index:
        """The links from the receivers of these to their senders."""
        run, link = np.divmod(links, len(self._keys))
        return run * len(self._keys) + self._back[link]

    @cached_property
    def _back(self) -> Index:
        keys = self.ends[:, 1] * self.n + self.ends[:, 0]
        order, back = np.argsort(keys), np.empty(len(keys), np.int64)
        back[order] = np.arange(len(keys))  # links ascend, and each has its reverse
        return back

    def meet(self, met: Meeting, peers: Values, heard: Mask, can_read: Mask) -> tuple[Mask, Mask, Mask]:
        """Which exchanges the listeners apply, which they undo, and which fail.

        `peers` are the counts of their peers, `heard` says whose message came, `can_read` which of these made
        sense.
        """
        rows, out, _ = met
        mine = self.count[out]
        agree, ahead = heard & (peers == mine), heard & (mine == (peers + 1) % 4)
        self._settle(met, agree, ahead)
        apply: Mask = agree & can_read
        self.count[out] = mine + apply + 3 * ahead.astype(np.uint8) & 3
        failed = ~heard | (agree & ~can_read)
        self.failed[rows[np.flatnonzero(failed)]] += 1  # a listener is in a slot once
        if ahead.any():
            self.repaired[rows[np.flatnonzero(ahead)]] += 1
            if self.undone is not None:
                self.undone += out[ahead].tolist()
        return apply, ahead, failed

    # Debts

    def _settle(self, met: Meeting, agree: Mask, ahead: Mask) -> None:
        """Drop the debts of links whose ends agree; those of ends that are ahead are due."""
        if not self.open:
            return
        if not self.sure:
            for link in met.out[agree].tolist():
                self.open.pop(link, None)
        self.owed += [self.open.pop(link) for link in met.out[ahead].tolist()]

    def keep(self, met: Meeting, applied: Mask, index: Index, delta: Values) -> None:
        """Keep what listeners applied until their peers confirm it; `index` has a row for each node here."""
        some = np.flatnonzero(applied)
        rows, links = met.rows[some], met.out[some].tolist()
        places, deltas = index[rows], delta[some]
        self.open.update(zip(links, map(Debt, rows.tolist(), places, deltas), strict=True))

    def due(self) -> list[tuple[Index, Index, Values]]:
        """What to subtract in this round, one part after the other: rows, and places and deltas for each."""
        waiting, self.owed, out = self.owed, [], []
        while waiting:
            q, taken = waiting[0].places.size, dict[int, Debt]()
            for debt in (each for each in waiting if each.places.size == q):
                taken.setdefault(debt.row, debt)
            debts = list(taken.values())
            rows = np.array([debt.row for debt in debts])
            out.append((rows, np.stack([d.places for d in debts]), np.stack([d.delta for d in debts])))
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
        kept = {name: vars(self)[name] for name in self.kept}
        for k, (link, debt) in enumerate(self.open.items()):
            kept[f"debt.{k}.index"], kept[f"debt.{k}.delta"] = debt.places, debt.delta
            kept[f"debt.{k}.at"] = np.array([link, debt.row])
        return {f"links.{name}": array for name, array in kept.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned."""
        for name in self.kept:
            setattr(self, name, np.array(arrays[f"links.{name}"]))
        self.open, self.owed = {}, []
        while (at := arrays.get(f"links.debt.{len(self.open)}.at")) is not None:
            name = f"links.debt.{len(self.open)}"
            places, delta = np.array(arrays[f"{name}.index"]), np.array(arrays[f"{name}.delta"])
            self.open[int(at[0])] = Debt(int(at[1]), places, delta)
