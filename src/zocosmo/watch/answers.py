"""The answers in a journal of `minimize` as they are appended: by round and by node."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zocosmo.watch.source import RUNNING, STOPPED, Facts

RECENT = 10.0  # seconds since the last answer of a run that is taken to be running


class Answers:
    """What a journal has: who answered what, and the mean of every round."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at, self._inode = 0, -1
        self._clear()

    def _clear(self) -> None:
        self.paid = 0
        self.question: dict[str, Any] = {}
        self.rounds: dict[int, list[float]] = {}  # answers of rounds that were not handed on yet
        self._asked = 0  # queries so far, rounds and others
        self._by_node: Counter[int] = Counter()
        self._last: dict[int, tuple[int, float]] = {}  # round and loss
        self._now: tuple[int, Counter[int]] = (-1, Counter())  # the newest round, its answers by node

    @property
    def n(self) -> int:
        return int(self.question.get("nodes") or 1)

    @property
    def edges(self) -> list[list[int]]:
        return list(self.question.get("edges") or [])

    @property
    def method(self) -> str:
        found = self.question.get("method")
        return str(found.get("kind")) if isinstance(found, dict) else str(found)

    @property
    def state(self) -> str:
        """For a journal without a trace: running if the last answer is recent."""
        try:
            return RUNNING if time.time() - self.path.stat().st_mtime < RECENT else STOPPED
        except OSError:
            return STOPPED

    def refresh(self) -> None:
        """Read the whole lines that were appended."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._inode or about.st_size < self._at:
                    self._clear()
                    self._at, self._inode = 0, about.st_ino
                file.seek(self._at)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            try:
                self._take(json.loads(line.partition(b" ")[2]))
            except (ValueError, KeyError, TypeError):
                continue

    def _take(self, record: dict[str, Any]) -> None:
        if "question" in record:
            self.question = record["question"]
            return
        answer, node, t = record["answer"], int(record["node"]), int(record["t"])
        found = _flat(answer)
        self.paid += 1
        self._asked += len(found)
        nodes = [node] if node >= 0 else [k % self.n for k in range(len(found))]
        for each, loss in zip(nodes, found, strict=False):
            self._by_node[each] += 1
            self._last[each] = t, loss
        if str(record["where"]).startswith("query"):
            self.rounds.setdefault(t, []).extend(found)
            if t != self._now[0]:
                self._now = t, Counter()
            self._now[1].update(nodes)

    def complete(self) -> Iterator[tuple[int, int, float]]:
        """Rounds that are over and were not handed on before: round, queries so far, mean answer."""
        newest = max(self.rounds, default=-1)
        for t in sorted(self.rounds):
            if t < newest:
                found = self.rounds.pop(t)
                yield t, self._asked, sum(found) / len(found)

    def nodes(self, *, waiting: bool) -> list[Facts]:
        """Each node: its answers, the last loss, and whether it is asked or waits for others."""
        t, given = self._now
        most = max(given.values(), default=0)
        behind = [node for node in sorted(given) if given[node] < most]
        out = []
        for node in range(self.n):
            round_, loss = self._last.get(node, (0, None))
            facts: Facts = {"rank": node, "nodes": [node], "round": round_, "answers": self._by_node[node]}
            facts |= {"loss": loss, "state": "asked"}
            if waiting and behind and node not in behind and t >= 0:
                facts |= {"state": "waits", "for": behind[0]}
            out.append(facts)
        return out


def _flat(answer: Any) -> list[float]:
    """The numbers of an answer, one or nested lists of them."""
    if isinstance(answer, list):
        return [number for part in answer for number in _flat(part)]
    return [float(answer)] if isinstance(answer, int | float) else []
