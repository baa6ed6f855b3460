"""The desk of a member: what it reports to the host, and what the host last said.

Reports and words repeat all that is not settled, so either may be lost, and either side may start again.
A change of members takes three steps. The host prepares: each member promises not to begin the round of its
`limit`. The host names the round `stop`, the highest limit. Members play up to it and report themselves
closed; when all who live are, the host says how the new term starts. If a member falls silent before there is
a `stop`, the host cancels this attempt and rounds go on. Attempts have ascending numbers, so that a word that
comes late changes nothing.
"""

import json
import math
import time
from collections import deque
from typing import Any

from zocosmo.net.post import Post

MARGIN = 1.0  # seconds of rounds that a member may play before it knows where to stop
NOTES = 1000  # missed messages that go along with one of ours, or with a report

Miss = tuple[int, int, int, str]  # round, sender, receiver, stage


class Desk:
    """What the main thread and the thread of the post both touch; under the lock of the post."""

    def __init__(self, post: Post, about: dict[str, Any]) -> None:
        self.post, self.about = post, about
        self.manifest: str | None = None  # shown to the host until it has admitted us
        self.own: list[str] = []  # settings of the problem that are ours
        self.word: dict[str, Any] = {}  # the last that told something new
        self.id: int | None = None
        self.start: dict[str, Any] | None = None  # of the newest term
        self.limit: int | None = None
        self.attempt = 0  # in which it was promised
        self.stop: int | None = None
        self.closed: dict[str, Any] | None = None
        self.pace = 0  # the round of the slowest member that is alive
        self.is_playing = self.is_leaving = self.is_done = False
        self.refused = self.ended = ""
        self.invitation: dict[str, Any] | None = None
        self.last_word = time.monotonic()
        self._misses: dict[Miss, None] = {}
        self._open: list[Miss] = []  # not yet noted by the host
        self._notes: bytes | None = None  # these, as they go along with a message
        self._heard_notes: dict[int, bytes] = {}  # by peer: the last
        self._rounds: deque[tuple[float, int]] = deque(maxlen=20)

    # In the thread of the post

    def report(self) -> dict[str, Any]:
        term, t, _ = self.post.position
        said: dict[str, Any] = {**self.about, "id": self.id, "leaving": self.is_leaving}
        said |= {"term": term if self.is_playing else -1, "round": t}
        if self.id is None:
            said |= {"manifest": self.manifest, "own": self.own}
        said |= {"limit": self.limit, "attempt": self.attempt, "misses": self._open[:NOTES]}
        tells_all = len(self._open) <= NOTES  # else the rest comes first
        return said | {"closed": self.closed if tells_all else None, "done": self.is_done and tells_all}

    def take_word(self, word: dict[str, Any]) -> None:
        self.last_word = time.monotonic()
        self.refused = self.refused or word.get("refused", "")
        self.ended = self.ended or word.get("ended", "")
        self.invitation = self.invitation or word.get("invitation")
        if "id" in word:
            self.id = word["id"]
        self.pace = word.get("pace", self.pace)
        self._note(word.get("noted", ()))
        start = word.get("start")
        if start is not None and (self.start is None or start["term"] > self.start["term"]):
            self.start = start
        if self.is_playing and word.get("term") == self.post.position.term:
            if word.get("stop") is not None:
                self.stop = word["stop"]
            if word.get("cancel", -1) >= self.attempt:
                self.limit = None
            if word.get("prepare", 0) > self.attempt:
                self.attempt, self.limit = word["prepare"], self._promise()
                self.post.report_soon()

    def take_notes(self, peer: int, notes: bytes) -> None:
        """Missed messages that a peer knows of, who may not live to tell the host."""
        if self._heard_notes.get(peer) == notes:
            return
        for t, sender, receiver, stage in json.loads(notes):
            self.add_miss((int(t), int(sender), int(receiver), str(stage)))
        self._heard_notes[peer] = notes

    def _note(self, noted: list[list[Any]]) -> None:
        done = {(each[0], each[1], each[2], each[3]) for each in noted}
        if done:
            self._open = [miss for miss in self._open if miss not in done]
            self._notes = None

    def _promise(self) -> int:
        """The first round that we do not begin before we know where to stop."""
        rate = 0.0
        if len(self._rounds) > 1:
            (since, first), (until, last) = self._rounds[0], self._rounds[-1]
            rate = (last - first) / max(until - since, 1e-3)
        return self.post.position.round + 2 + math.ceil(MARGIN * rate)

    # For the main thread, with the lock held

    def add_miss(self, miss: Miss) -> None:
        if miss not in self._misses:
            self._misses[miss] = None
            self._open.append(miss)
            self._notes = None

    def notes(self) -> bytes:
        """What goes along with a message."""
        if self._notes is None:
            self._notes = json.dumps(self._open).encode() if self._open else b""
        return self._notes

    @property
    def is_full(self) -> bool:
        """Whether the host has to note what was missed before we go on, or it might be lost with us."""
        return len(self._open) > NOTES

    def begin(self, t: int) -> None:
        """Round t of this term begins."""
        self.post.position = self.post.position._replace(round=t)
        self._rounds.append((time.monotonic(), t))

    def enter(self, term: int, t: int) -> None:
        """A term begins."""
        self.post.position = self.post.position._replace(term=term, round=t)
        self.limit = self.stop = self.closed = None
        self.is_playing = True
        self._rounds.clear()
