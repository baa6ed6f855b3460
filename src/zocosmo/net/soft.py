"""How long to wait for the message of a peer that is alive: then the exchange is skipped."""

from collections import deque

from zocosmo.errors import InputError

LEAST = 1.0  # seconds
FACTOR = 4.0
FIRST = 5.0  # seconds, in the first round of a term


class SoftDeadline:
    """A number of seconds, fixed or learned: 4 times the longest of the last rounds, waiting left out.

    >>> soft = SoftDeadline()
    >>> soft.observe(0.5)
    >>> soft.seconds
    2.0
    """

    def __init__(self, fixed: float | None = None) -> None:
        if fixed is not None and not 0 < fixed < 1e9:
            raise InputError(f"a soft deadline is a number of seconds above 0, got {fixed}")
        self.fixed, self.is_first = fixed, True
        self._rounds: deque[float] = deque(maxlen=50)

    def observe(self, seconds: float) -> None:
        """Record the duration of a round, without what it waited."""
        self._rounds.append(seconds)
        self.is_first = False

    @property
    def seconds(self) -> float:
        usual = self.fixed or max(LEAST, FACTOR * max(self._rounds, default=0.0))
        return max(FIRST, usual) if self.is_first else usual
