"""How long to wait for a peer: long against the rounds seen so far, and never for ever."""

import contextlib
import time
from collections import deque
from collections.abc import Iterator

from zocosmo.errors import InputError

FIRST = 300.0  # seconds, before any round was seen
LEAST = 30.0
FACTOR = 20.0


class Deadline:
    """A number of seconds, given or learnt: 20 times the longest of the last rounds, and 30 s at least.

    >>> deadline = Deadline()
    >>> deadline.seconds
    300.0
    >>> deadline.observe(4.0)
    >>> deadline.seconds
    80.0
    """

    def __init__(self, fixed: float | None = None) -> None:
        if fixed is not None and not 0 < fixed < 1e9:
            raise InputError(f"a deadline is a number of seconds above 0, got {fixed}")
        self.fixed = fixed
        self._rounds: deque[float] = deque(maxlen=100)
        self._measured, self._floor = 0.0, 0.0

    def observe(self, seconds: float) -> None:
        """A round took so long, waiting included."""
        self._rounds.append(seconds)

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """A checkpoint: its length has nothing to do with that of a round."""
        began, self._floor = time.monotonic(), max(FIRST, FACTOR * self._measured)
        try:
            yield
        finally:
            self._floor, self._measured = 0.0, max(self._measured, time.monotonic() - began)

    @property
    def typical(self) -> float:
        """The median round; 0 before any was seen."""
        return sorted(self._rounds)[len(self._rounds) // 2] if self._rounds else 0.0

    @property
    def seconds(self) -> float:
        if self.fixed is not None:
            return self.fixed
        return (
            max(LEAST, FACTOR * max(self._rounds), self._floor) if self._rounds else max(FIRST, self._floor)
        )
