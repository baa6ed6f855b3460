"""How long to wait for a peer: a multiple of the rounds observed so far."""

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from datetime import timedelta

from zocosmo.errors import InputError

FIRST = 300.0  # seconds, before the first round is observed
LEAST = 30.0
FACTOR = 20.0


class Deadline:
    """A number of seconds, fixed or learned: 20 times the longest recent round, at least 30 s.

    >>> deadline = Deadline()
    >>> deadline.seconds
    300.0
    >>> deadline.observe(4.0)
    >>> deadline.seconds
    80.0
    """

    def __init__(self, fixed: float | None = None) -> None:
        if fixed is not None and not 0 < fixed < 1e9:
            raise InputError(f"a deadline must be a number of seconds above 0, got {fixed}")
        self.fixed = fixed
        self._rounds: deque[float] = deque(maxlen=100)
        self._measured, self._floor, self._longest = 0.0, 0.0, 0.0
        self.seconds = FIRST if fixed is None else fixed
        self.whole = timedelta(seconds=self.seconds)  # the same, as torch takes it

    def observe(self, seconds: float) -> None:
        """Record the duration of a round, waiting included."""
        gone = self._rounds[0] if len(self._rounds) == self._rounds.maxlen else 0.0
        self._rounds.append(seconds)
        self._longest = max(self._rounds) if gone == self._longest else max(self._longest, seconds)
        self._learn()

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """A longer deadline during a checkpoint, whose duration is unrelated to that of a round."""
        began, self._floor = time.monotonic(), max(FIRST, FACTOR * self._measured)
        self._learn()
        try:
            yield
        finally:
            self._floor, self._measured = 0.0, max(self._measured, time.monotonic() - began)
            self._learn()

    def _learn(self) -> None:
        if self.fixed is None:
            least = max(LEAST, FACTOR * self._longest) if self._rounds else FIRST
            seconds = max(least, self._floor)
            if seconds != self.seconds:
                self.seconds, self.whole = seconds, timedelta(seconds=seconds)
