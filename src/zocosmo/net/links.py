"""Links over ZeroMQ: the post carries what a channel sends, and brings what it expects.

A peer whose message is not there by the soft deadline is left out, and so is one that is silent, or past this
round without having sent: the exchange is skipped. Where nobody can repair that, `skips` is False and a
message is awaited as long as it takes.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from zocosmo.errors import PeerLost
from zocosmo.net.envelope import DATA, Envelope, Where
from zocosmo.net.post import Peer, Post
from zocosmo.net.soft import SoftDeadline

SILENT = 3.0  # seconds without a heartbeat after which nobody waits for a peer
GRACE = 1.0  # seconds for a message of a peer that is past its round
NOTICE = 10.0  # seconds between lines that say for whom we wait

Pair = tuple[int, int]


class ZmqLinks:
    """The links of one member in one term. Ranks are positions in the term."""

    lean = None

    def __init__(
        self, post: Post, term: int, rank: int, peers: Mapping[int, Peer], soft: SoftDeadline, *, skips: bool
    ) -> None:
        self.post, self.term, self.soft, self.skips = post, term, soft, skips
        self._rank, self._by_rank = rank, peers
        self.salts: dict[int, tuple[bytes, bytes]] = {}
        self.waited = 0.0  # seconds spent waiting for peers
        self.notes: Callable[[], bytes] = bytes  # what goes along with every message
        self.is_over: Callable[[], str] = str  # why to stop waiting, if there is a reason
        self.say: Callable[[str], None] = print
        self.mark: Callable[[int], int] = lambda peer: 0  # a small number that goes along to a peer,
        self.marks: dict[int, int] = {}  # and the last that came from each
        self.last_heard: dict[int, int] = {}  # by rank: the last round of which a message came
        self._t = -1
        self._sent: dict[int, int] = {}
        self._received: dict[int, int] = {}
        self._peers: list[int] = []

    @property
    def rank(self) -> int:
        return self._rank

    def open(self, edges: Iterable[Pair], *, connect: bool = True) -> None:
        self._peers = sorted({a + b - self._rank for a, b in edges if self._rank in (a, b)})
        self.salts = {peer: (self.post.salt, self._by_rank[peer].salt) for peer in self._peers}

    def peers(self) -> list[int]:
        return self._peers

    def id_of(self, peer: int) -> int:
        return self._by_rank[peer].id

    def exchange(
        self, make: Callable[[], Mapping[int, Sequence[bytes]]], sizes: Mapping[int, int], t: int
    ) -> dict[int, memoryview]:
        """As `Carrying.exchange`; peers whose message did not come, or had another size, are left out."""
        if t != self._t:
            self._t, self._sent, self._received = t, {}, {}
        made, got = make(), {}
        with self.post.turns:
            self.post.catch_up()
            for peer, parts in made.items():
                number = self._sent[peer] = self._sent.get(peer, -1) + 1
                where, mark = Where(self.term, t, number), bytes([self.mark(peer)])
                data = Envelope.pack(DATA, where, self.notes(), mark, *parts)
                self.post.send_now(self._by_rank[peer], data)
            since = time.monotonic()
            for peer, size in sizes.items():
                number = self._received[peer] = self._received.get(peer, -1) + 1
                found = self._await(peer, Where(self.term, t, number), since)
                if found is not None and len(found) == size + 1:
                    self.last_heard[peer], self.marks[peer] = t, found[0]
                    got[peer] = found[1:]
                elif found is not None:
                    who, length = self.id_of(peer), len(found) - 1
                    self.say(f"refused a message of member {who} in round {t}: {length} bytes, not {size}")
        self.waited += time.monotonic() - since
        return got

    def _await(self, peer: int, where: Where, since: float) -> memoryview | None:
        """The message of a peer; None once it is not to be waited for."""
        post, who, noticed = self.post, self._by_rank[peer].id, since
        while (body := post.inbox.pop((who, where), None)) is None:
            with post.lock:
                left = self._patience(who, where, since)
            if left <= 0:
                return None
            if time.monotonic() - noticed > NOTICE:
                noticed = time.monotonic()
                self.say(f"waits for member {who} in round {where.round}, {noticed - since:.0f} s so far")
            post.wait_for(self._by_rank[peer], left)
        return body

    def _patience(self, who: int, where: Where, since: float) -> float:
        """For how many seconds more to wait for a message; the lock is held."""
        post, now, until = self.post, time.monotonic(), since + self.soft.seconds
        at, seen = post.heard[who]
        past = where._replace(number=2**32)
        if seen > past:  # it sent this before, and ways may differ in speed; but not by much
            until = now if post.trail[who].before(now - GRACE) > past else min(until, now + GRACE)
        why = self.is_over()
        if why and not self.skips:
            raise PeerLost(f"member {who} did not answer in round {where.round}: {why}", t=where.round)
        if not self.skips:
            return 0.5
        return 0.0 if why else min(until, at + SILENT) - now
