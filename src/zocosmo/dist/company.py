"""Company: which peers are present, and the round in which a pair resumes after one end was restarted.

A pair {i, j} whose j is lost idles: both ends keep their states. A lost process does not rejoin: once a peer
declares it lost it ends, even if it was only slow, and restarts from its checkpoint with a new incarnation
number. Each end of a pair with a new incarnation proposes the first round that it has not begun. Both start
with the later of the two, over a new connection, and idle before it. A restarted process waits for the
proposals of all its peers; they answer from a background thread, without waiting for their round to end.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.rendezvous import Job
from zocosmo.errors import PeerLost
from zocosmo.files import say

if TYPE_CHECKING:
    from zocosmo.dist.links import Links

POLL = 0.1  # seconds between polls of the store
STILL = 3.0  # seconds without a heartbeat after which a peer without a connection is lost


class Company:
    """The peers of this process, one node each, in a job whose lost processes may be restarted."""

    def __init__(self, job: Job, channel: TorchChannel, incarnation: int, starts: Sequence[int] = ()) -> None:
        self.job, self.channel, self.incarnation = job, channel, incarnation
        self.links = cast("Links", channel.links)
        self.peers = self.links.peers()
        self._job = replace(job, store=job.store.clone())  # the main thread may be blocked in the other store
        self._seen = {peer: self._current(peer) for peer in self.peers}  # latest known incarnations
        self._connected = {peer: None if incarnation or self._seen[peer] else 0 for peer in self.peers}
        self._from = {  # first common round by peer; known already for peers that start at rounds `starts`
            peer: None if incarnation or self._seen[peer] else max(starts[job.rank], starts[peer])
            for peer in self.peers
        }
        self._mine: dict[tuple[int, int], int] = {}  # what we proposed, by peer and incarnation
        self._lost: set[tuple[int, int]] = set()
        self._pulse: dict[tuple[int, int], tuple[bytes, float]] = {}  # last heartbeats and their times
        self._given_up_by: str | None = None
        self.tell: Callable[[str, int, int], None] = lambda what, rank, t: None  # of losses and returns
        self._starting = True  # until all peers have answered; no round begins before
        self._round, self._lock, self._closed = -1, threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self, t: int) -> None:
        """Continue at round t. A restarted process announces itself and waits for its peers' proposals."""
        self._round = t - 1
        self._job.store.add(f"beat/{self.job.rank}/{self.incarnation}", 1)
        if self.incarnation:
            for peer in self.peers:
                self._settle(peer)
            self._job.store.set(f"back/{self.job.rank}", str(self.incarnation))
        self._thread.start()
        since = time.monotonic()
        while missing := [
            peer for peer in self.peers if self._from[peer] is None and not self._is_lost(peer)
        ]:
            for peer in missing:
                if self._is_still(peer, self._seen[peer]):  # no other process is left to report its loss
                    self.give_up(peer, self._seen[peer])
            if time.monotonic() - since > self.job.join_within:
                raise PeerLost(
                    f"rank {missing[0]} did not answer within {self.job.join_within:g} s and is not known to "
                    "be lost; stop it, and start this process again",
                    rank=missing[0],
                    waited=self.job.join_within,
                )
            time.sleep(POLL)
        self._starting = False

    def is_with(self, peer: int, t: int) -> bool:
        """Whether a peer takes part in round t, which begins now; connects to a restarted peer."""
        if self._given_up_by is not None:
            raise PeerLost(
                f"rank {self._given_up_by} declared this process lost before round {t}; start it again",
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
            self.tell("back", peer, t)
        return True

    def _meet(self, peer: int, seen: int) -> bool:
        """Connect after a restart of either end; False if the peer dies before it is ready."""
        store, pair = self.job.store, self._pair(peer, seen)
        store.set(f"meet/{pair}/{self.job.rank}", "")
        since = time.monotonic()
        while not store.check([f"meet/{pair}/{peer}"]):
            late = time.monotonic() - since > self.links.deadline.seconds
            if late or self._is_still(peer, seen):
                return False
            time.sleep(POLL / 10)
        try:
            self.links.connect(peer, pair)
        except PeerLost:
            return False
        return True

    def _is_still(self, peer: int, seen: int) -> bool:
        """Whether a peer's heartbeat has not changed for STILL seconds since we first looked."""
        beat, now = self.job.read(f"beat/{peer}/{seen}"), time.monotonic()
        last, moved = self._pulse.get((peer, seen), (None, now))
        self._pulse[peer, seen] = beat, moved if beat == last else now
        return now - self._pulse[peer, seen][1] > STILL

    def is_missed(self, peer: int) -> bool:
        """Whether a peer is lost or not back yet; False if its first common round is only still to come."""
        return self._from[peer] is None or self._is_lost(peer)

    def give_up(self, peer: int, seen: int | None = None) -> None:
        """Declare lost the incarnation of a peer that we are connected to; a newer one may exist already."""
        gone = self._connected[peer] if seen is None else seen
        assert gone is not None
        say(f"rank {self.job.rank}: rank {peer} is lost in round {self._round}; pairs with it idle")
        self.tell("lost", peer, max(self._round, 0))
        self._lost.add((peer, gone))
        self.links.drop(peer)
        self.job.store.set(f"lost/{peer}/{gone}", str(self.job.rank))

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(POLL):
            try:
                self._look()
            except (PeerLost, RuntimeError):  # the store is gone: the job has ended
                return

    def _look(self) -> None:
        """Answer restarted peers, and note which processes are lost, this one included."""
        self._job.store.add(f"beat/{self.job.rank}/{self.incarnation}", 1)
        mine = f"lost/{self.job.rank}/{self.incarnation}"
        if self._job.has(mine):
            self._given_up_by = self._job.read(mine).decode()
        for peer in self.peers:
            now = self._current(peer)
            if now > self._seen[peer]:
                with self._lock:
                    self._seen[peer], self._from[peer] = now, None
            if self._job.has(f"lost/{peer}/{now}"):
                self._lost.add((peer, now))
            elif self._from[peer] is None:
                self._settle(peer)

    def _settle(self, peer: int) -> None:
        """Propose the first round that we have not begun, and start with the later of theirs and ours.

        A restarted process proposes before it announces itself. A running process therefore finds that
        proposal in the store, and makes and applies its own under the lock: no round begins in between.
        """
        pair, key = (peer, self._seen[peer]), self._key(peer, peer)
        theirs = int(self._job.read(key)) if self._job.has(key) else None
        if theirs is None and not self._starting:
            return
        with self._lock:
            mine = self._mine.setdefault(pair, self._round + 1)
            if theirs is not None:
                self._from[peer] = max(mine, theirs)
        self._job.store.set(self._key(peer, self.job.rank), str(mine))

    def _key(self, peer: int, whose: int) -> str:
        return f"start/{self._pair(peer)}/{whose}"

    def _pair(self, peer: int, seen: int | None = None) -> str:
        theirs = self._seen[peer] if seen is None else seen
        (a, i), (b, j) = sorted([(self.job.rank, self.incarnation), (peer, theirs)])
        return f"{a}.{i}-{b}.{j}"

    def _current(self, peer: int) -> int:
        return int(self._job.read(f"back/{peer}", b"0"))

    def _is_lost(self, peer: int) -> bool:
        return (peer, self._seen[peer]) in self._lost
