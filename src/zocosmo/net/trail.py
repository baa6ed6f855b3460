"""Where a peer was, and when: one whose messages are late is told from one whose messages are lost."""

from collections import deque

from zocosmo.net.envelope import Where

KEPT = 5.0  # seconds for which it is known where a peer was


class Trail:
    """Where a peer was, as its messages tell, now and some time ago."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, Where]] = deque()  # ascending; the first for any earlier time

    def add(self, now: float, where: Where) -> None:
        if not self._seen or where > self._seen[-1][1]:
            self._seen.append((now, where))
            self.before(now - KEPT)

    def before(self, then: float) -> Where:
        """Where it was by a time that is not earlier than one asked for before; the start, if unknown."""
        while len(self._seen) > 1 and self._seen[1][0] <= then:
            self._seen.popleft()
        return self._seen[0][1] if self._seen and self._seen[0][0] <= then else Where(0, 0)
