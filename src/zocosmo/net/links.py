"""Links over ZeroMQ: what a channel sends goes to the post, and what it expects is awaited there.

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
        for peer, parts in make().items():
            number = self._sent[peer] = self._sent.get(peer, -1) + 1
            where = Where(self.term, t, number)
            body = b"".join((bytes([self.mark(peer)]), *parts))
            self.post.send(self._by_rank[peer], Envelope(DATA, where, self.notes(), body))
        since, got = time.monotonic(), {}
        for peer, size in sizes.items():
            number = self._received[peer] = self._received.get(peer, -1) + 1
            found = self._await(peer, Where(self.term, t, number), since)
            if found is not None and len(found) == size + 1:
                self.last_heard[peer], self.marks[peer] = t, found[0]
                got[peer] = memoryview(found)[1:]
            elif found is not None:
                who, length = self.id_of(peer), len(found) - 1
                self.say(f"refused a message of member {who} in round {t}: {length} bytes, not {size}")
        self.waited += time.monotonic() - since
        return got

    def _await(self, peer: int, where: Where, since: float) -> bytes | None:
        """The message of a peer; None once it is not to be waited for."""
        post, who = self.post, self._by_rank[peer].id
        until, noticed = since + self.soft.seconds, since
        with post.lock:
            while True:
                body = post.inbox.pop((who, where), None)
                if body is not None:
                    return body
                now = time.monotonic()
                at, seen = post.heard[who]
                past = where._replace(number=2**32)
                if seen > past:  # it sent this before, and ways may differ in speed; but not by much
                    until = now if post.trail[who].before(now - GRACE) > past else min(until, now + GRACE)
                why = self.is_over()
                if self.skips and (now >= until or now - at > SILENT or why):
                    return None
                if why:
                    raise PeerLost(
                        f"member {who} did not answer in round {where.round}: {why}", t=where.round
                    )
                if now - noticed > NOTICE:
                    noticed = now
                    self.say(f"waits for member {who} in round {where.round}, {now - since:.0f} s so far")
                left = min(until - now, at + SILENT - now) + 0.001 if self.skips else 0.5
                post.lock.wait(max(0.001, left))
