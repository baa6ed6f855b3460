"""Sources: what a reader wants to know about a job, whatever files it writes."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any

from zocosmo.watch.curve import COUNTS, Curve

RUNNING, FINISHED, STOPPED, FAILED = "running", "finished", "stopped", "failed"
MOST_EVENTS = 2000  # that are kept

Facts = dict[str, Any]  # as they are sent to a page


class Source(ABC):
    """One job. `refresh` reads what is new; everything else is as of then."""

    title: str = ""
    job: str = ""
    path: str = ""
    budgets: tuple[float, ...] = ()

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}
        self.events: list[Facts] = []  # only ever appended to, until the epoch changes
        self.epoch = 0  # changes when the job was started over

    @abstractmethod
    def refresh(self) -> None:
        """Read what is new in the files."""

    @property
    @abstractmethod
    def status(self) -> Facts:
        """state, text, done (a share), elapsed and left (seconds), updated (seconds since 1970), note."""

    @property
    def work(self) -> list[Facts]:
        """What is under way: batches of a study."""
        return []

    @property
    def nodes(self) -> list[Facts]:
        """The state of each node, where they differ: state, for, round, waited, …."""
        return []

    @property
    def graph(self) -> Facts | None:
        """n, edges, pairs of the round, how they talk, and whose it is."""
        return None

    def add_event(self, **facts: Any) -> None:
        if len(self.events) < MOST_EVENTS:
            self.events.append(facts)

    def counts(self) -> Facts:
        """Trials that are there, diverged, and what went wrong on links, over all of them."""
        curves = [curve for curve in self.curves.values() if len(curve)]
        found: Facts = {"trials": len(self.curves), "begun": len(curves)}
        found["diverged"] = sum(curve.is_diverged for curve in curves)
        for name in COUNTS:
            total = sum(value for curve in curves if (value := curve.last(name)) == value)
            if any(name in curve.columns for curve in curves):
                found[name] = int(total)
        return found


class Pace:
    """How fast work is done, from the last minute or so."""

    def __init__(self, over: float = 60.0) -> None:
        self._over, self._seen = over, deque[tuple[float, float]]()

    def see(self, s: float, done: float) -> None:
        """`done` after `s` seconds; a new session starts over."""
        if self._seen and (s < self._seen[-1][0] or done < self._seen[-1][1]):
            self._seen.clear()
        if not self._seen or s > self._seen[-1][0]:
            self._seen.append((s, done))
        while len(self._seen) > 2 and s - self._seen[1][0] > self._over:
            self._seen.popleft()

    def left(self, rest: float) -> float | None:
        """Seconds for the rest; None if the pace is not known."""
        if len(self._seen) < 2:
            return None
        (s0, done0), (s1, done1) = self._seen[0], self._seen[-1]
        return rest * (s1 - s0) / (done1 - done0) if done1 > done0 else None


def age(status: Mapping[str, Any]) -> float:
    """Seconds since the last sign of life."""
    updated = status.get("updated")
    return 0.0 if updated is None else max(0.0, time.time() - float(updated))
