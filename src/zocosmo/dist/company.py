"""Company: which peers are there, and from which round on a pair goes on after one of its ends came back.

A pair {i, j} whose j is lost idles: both ends keep their states. Lost is for good: a process that a peer has
given up ends, even if it was only slow, and comes back under a new incarnation number from its checkpoint.
For a pair with a new incarnation each end proposes the first round that it has not begun, and both start with
the later of the two, over a new connection; rounds before it they idle in. Whoever comes back waits for the
proposals of all its peers before it goes on; they make theirs from a thread of their own, so at once.
"""

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.rendezvous import Job
from zocosmo.errors import PeerLost

POLL = 0.1  # seconds between looks at the store
STILL = 3.0  # seconds without a sign of life after which a peer that has no connection yet is lost


class Company:
    """The peers of this process, one node each, when those that are lost may come back."""

    def __init__(self, job: Job, channel: TorchChannel, incarnation: int, starts: Sequence[int] = ()) -> None:
        self.job, self.channel, self.incarnation = job, channel, incarnation
        self.peers = channel.links.peers()
        self._store: Any = job.store.clone()  # the main thread may be waiting in the other
        self._seen = {peer: self._current(peer) for peer in self.peers}  # incarnations that we go by
        self._connected = {peer: None if incarnation or self._seen[peer] else 0 for peer in self.peers}
        self._from = {  # the first round of a pair; of those who start together, at rounds `starts`
            peer: None if incarnation or self._seen[peer] else max(starts[job.rank], starts[peer])
            for peer in self.peers
        }
        self._mine: dict[tuple[int, int], int] = {}  # what we proposed, by peer and incarnation
        self._lost: set[tuple[int, int]] = set()
        self._pulse: dict[tuple[int, int], tuple[bytes, float]] = {}  # last beats, and when they came
        self._given_up_by: str | None = None
        self._starting = True  # no round is begun before all peers have answered
        self._round, self._lock, self._closed = -1, threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self, t: int) -> None:
        """Go on at round t. One that comes back says so, and learns from each peer when it is ready."""
        self._round = t - 1
        self._store.add(f"beat/{self.job.rank}/{self.incarnation}", 1)
        if self.incarnation:
            for peer in self.peers:
                self._settle(peer)
            self._store.set(f"back/{self.job.rank}", str(self.incarnation))
        self._thread.start()
        since = time.monotonic()
        while missing := [
            peer for peer in self.peers if self._from[peer] is None and not self._is_lost(peer)
        ]:
            for peer in missing:
                if self._is_still(peer, self._seen[peer]):  # it died with all who would have missed it
                    self.give_up(peer, self._seen[peer])
            if time.monotonic() - since > self.job.join_within:
                raise PeerLost(
                    f"rank {missing[0]} neither answered within {self.job.join_within:g} s nor is known to "
                    "be lost; end it, and start this process again",
                    rank=missing[0],
                    waited=self.job.join_within,
                )
            time.sleep(POLL)
        self._starting = False

    def is_with(self, peer: int, t: int) -> bool:
        """Whether round t, which begins now, is done together with a peer; connects to one that came back."""
        if self._given_up_by is not None:
            raise PeerLost(
                f"rank {self._given_up_by} gave this process up before round {t}; "
                "start it again to come back",
                rank=int(self._given_up_by),
                t=t,
            )
        with self._lock:
            self._round = t
            start, seen = self._from.get(peer), self._seen.get(peer, 0)
        if start is None or t < start or (peer, seen) in self._lost:
            return False
        if self._connected[peer] != seen:
            if not self._meet(peer, seen):
                self.give_up(peer, seen)
                return False
            self.channel.renew(peer)
            self._connected[peer] = seen
        return True

    def _meet(self, peer: int, seen: int) -> bool:
        """Connect to a peer that came back, or that we came back to; not if it dies before it gets there."""
        store, pair = self.job.store, self._pair(peer, seen)
        store.set(f"meet/{pair}/{self.job.rank}", "")
        since = time.monotonic()
        while not store.check([f"meet/{pair}/{peer}"]):
            late = time.monotonic() - since > self.channel.links.deadline.seconds
            if late or self._is_still(peer, seen):
                return False
            time.sleep(POLL / 10)
        try:
            self.channel.links.connect(peer, pair)
        except PeerLost:
            return False
        return True

    def _is_still(self, peer: int, seen: int) -> bool:
        """Whether a peer has given no sign of life for a while, since we first looked."""
        store, key, now = self.job.store, f"beat/{peer}/{seen}", time.monotonic()
        beat = store.get(key) if store.check([key]) else b""
        last, moved = self._pulse.get((peer, seen), (None, now))
        self._pulse[peer, seen] = beat, moved if beat == last else now
        return now - self._pulse[peer, seen][1] > STILL

    def is_missed(self, peer: int) -> bool:
        """Whether a peer is gone and not back yet; as opposed to a round before we came back to it."""
        return self._from[peer] is None or self._is_lost(peer)

    def give_up(self, peer: int, seen: int | None = None) -> None:
        """A peer is lost, as it was when we connected to it; it may be back already, and that one is not."""
        gone = self._connected[peer] if seen is None else seen
        assert gone is not None
        print(
            f"zocosmo: rank {self.job.rank}: rank {peer} is lost in round {self._round}; pairs with it idle",
            file=sys.stderr,
            flush=True,
        )
        self._lost.add((peer, gone))
        self.channel.links.drop(peer)
        self.job.store.set(f"lost/{peer}/{gone}", str(self.job.rank))

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(POLL):
            try:
                self._look()
            except RuntimeError:  # the store is gone, and so is the job
                return

    def _look(self) -> None:
        """See who came back, answer, and note who gave us up."""
        self._store.add(f"beat/{self.job.rank}/{self.incarnation}", 1)
        mine = f"lost/{self.job.rank}/{self.incarnation}"
        if self._has(mine):
            self._given_up_by = self._store.get(mine).decode()
        for peer in self.peers:
            now = self._current(peer)
            if now > self._seen[peer]:
                with self._lock:
                    self._seen[peer], self._from[peer] = now, None
            if self._has(f"lost/{peer}/{now}"):
                self._lost.add((peer, now))
            elif self._from[peer] is None:
                self._settle(peer)

    def _settle(self, peer: int) -> None:
        """Propose the first round that we have not begun, and go by the later of theirs and ours.

        Whoever comes back proposes before it announces itself. So a process in the middle of its rounds has
        their proposal at hand, and makes its own and goes by it in one: no round begins in between.
        """
        pair, key = (peer, self._seen[peer]), self._key(peer, peer)
        theirs = int(self._store.get(key)) if self._has(key) else None
        if theirs is None and not self._starting:
            return
        with self._lock:
            mine = self._mine.setdefault(pair, self._round + 1)
            if theirs is not None:
                self._from[peer] = max(mine, theirs)
        self._store.set(self._key(peer, self.job.rank), str(mine))

    def _key(self, peer: int, whose: int) -> str:
        return f"start/{self._pair(peer)}/{whose}"

    def _pair(self, peer: int, seen: int | None = None) -> str:
        theirs = self._seen[peer] if seen is None else seen
        (a, i), (b, j) = sorted([(self.job.rank, self.incarnation), (peer, theirs)])
        return f"{a}.{i}-{b}.{j}"

    def _current(self, peer: int) -> int:
        return int(self._store.get(f"back/{peer}")) if self._has(f"back/{peer}") else 0

    def _is_lost(self, peer: int) -> bool:
        return (peer, self._seen[peer]) in self._lost

    def _has(self, key: str) -> bool:
        return bool(self._store.check([key]))
