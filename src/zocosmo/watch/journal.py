"""A run of `zocosmo minimize`: its journal, which has every answer, and the trace beside it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from zocosmo.blackbox.traces import SUFFIX, trace_of
from zocosmo.watch.answers import Answers
from zocosmo.watch.curve import Curve, Labels
from zocosmo.watch.source import FINISHED, RUNNING, Facts
from zocosmo.watch.tail import Line
from zocosmo.watch.traced import Followed, Traced


class Minimize(Traced):
    """Curves come from the trace; without one, from the answers: the mean of each round."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.journal = path if not path.name.endswith(SUFFIX) else journal_of(path)
        self.path, self.title, self.job = str(self.journal), self.journal.stem, "minimize"
        self.answers = Answers(self.journal)

    def traces(self) -> Iterable[Path]:
        path = trace_of(self.journal)
        return [path] if path.exists() else []

    def curve_of(self, trial: int) -> Curve | None:
        if str(trial) not in self.curves:
            method, n = str(self.about.get("method") or "minimize"), int(self.about.get("n") or 1)
            self.curves[str(trial)] = Curve(Labels("", method, "", n))
        return self.curves[str(trial)]

    def refresh(self) -> None:
        super().refresh()
        self.answers.refresh()
        if not self._followed and self.answers.rounds:
            self._from_answers()

    def _from_answers(self) -> None:
        """Rounds that are complete, as rows: a journal without a trace knows neither bits nor time."""
        self.about = {"n": self.answers.n, "method": self.answers.method, "edges": self.answers.edges}
        curve = self.curve_of(0)
        assert curve is not None
        for t, queries, loss in self.answers.complete():
            curve.append({"round": t + 1, "queries": queries, "query_loss": loss})

    def _take_rows(self, followed: Followed, line: Line) -> None:
        super()._take_rows(followed, line)
        self.pace.see(followed.seconds, self._done_now())

    def _done_now(self) -> float:
        """Rounds, or bits where a budget ends the run."""
        curve = self.curves.get("0")
        if curve is None:
            return 0.0
        name = "round" if self.about.get("rounds") else "bits"
        value = curve.last(name)
        return value if np.isfinite(value) else 0.0

    @property
    def status(self) -> Facts:
        total = self.about.get("rounds") or self.about.get("budget")
        state, text = self._state()
        if not self._followed:
            state = FINISHED if not self.journal.exists() else self.answers.state
            text = "no trace beside the journal: neither bits nor times are known"
        facts = self._facts(state, text, float(total) if total else None, self._done_now())
        if state == RUNNING and not any(map(len, self.curves.values())):
            facts["note"] = f"{self.answers.paid} answers so far, before the first round"
        return facts

    @property
    def nodes(self) -> list[Facts]:
        """What each node has answered, and who is waited for in this round."""
        if self.status["state"] != RUNNING:
            return [{**facts, "state": "done"} for facts in self.answers.nodes(waiting=False)]
        return self.answers.nodes(waiting=True)

    @property
    def graph(self) -> Facts | None:
        n, line = int(self.about.get("n") or 0), self._shown
        if n < 2:
            return None
        facts: dict[str, Any] = {"n": n, "edges": self.about.get("edges") or [], "round": line.get("round")}
        facts["of"] = str(self.about.get("method") or "")
        return {**facts, "talk": line.get("talk") or "neighbours", "pairs": line.get("pairs") or []}


def journal_of(trace: Path) -> Path:
    return trace.with_name(trace.name.removesuffix(SUFFIX) + ".journal")
