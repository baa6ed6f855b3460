"""Turns: the sockets of a member belong to one of its threads at a time.

The main thread has them for an exchange, so that a message passes through no other thread. The thread of the
post has them while the main thread is busy with something else.
"""

import threading
import time
from collections.abc import Callable

AWAY = 0.02  # seconds without an exchange after which the thread of the post takes over


class Turns:
    """In the main thread: `with turns:`. In the other: `take` and `give_back`."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._hands, self._wake = threading.Lock(), wake
        self._is_wanted = False
        self._taken = self._seen = 0  # turns of the main thread, and those that the other has seen

    def __enter__(self) -> None:
        if not self._hands.acquire(blocking=False):
            self._is_wanted = True
            self._wake()
            self._hands.acquire()
            self._is_wanted = False
        self._taken += 1

    def __exit__(self, *error: object) -> None:
        self._hands.release()

    def take(self) -> None:
        """Wait until the main thread is away."""
        while self._is_wanted or self._taken != self._seen or not self._hands.acquire(blocking=False):
            self._seen = self._taken
            time.sleep(AWAY)

    def give_back(self) -> None:
        self._hands.release()
