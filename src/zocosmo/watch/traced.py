"""Sources that read traces: sessions, rows, nodes and events, from any number of files."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zocosmo.watch.curve import Curve
from zocosmo.watch.source import FAILED, FINISHED, RUNNING, STOPPED, Facts, Pace, Source
from zocosmo.watch.tail import Line, Tail


class Followed:
    """One trace of a job: its tail, and where its sessions are in time."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.offset = 0.0  # seconds of earlier sessions
        self.last = 0.0  # seconds of this session so far
        self.began = 0.0  # seconds since 1970
        self.sessions = 0
        self.end: Line | None = None
        self.about: Line = {}
        self.is_held = False

    def begin(self, line: Line) -> None:
        self.offset, self.last = self.offset + self.last, 0.0
        self.began, self.end, self.sessions = float(line.get("at", 0.0)), None, self.sessions + 1
        self.about = {**self.about, **line}

    @property
    def seconds(self) -> float:
        return self.offset + self.last


class Traced(Source):
    """A job with traces."""

    def __init__(self) -> None:
        super().__init__()
        self._followed: dict[Path, Followed] = {}
        self._reset()

    def _reset(self) -> None:
        self.curves, self.events = {}, []
        self.about: Line = {}
        self._done: dict[int, float] = {}  # node-rounds by batch
        self._batches: dict[int, Facts] = {}
        self._ranks: dict[int, Facts] = {}
        self._shown: Line = {}  # the line whose pairs are shown
        self._drawn: Line = {}  # the graph of a network that changes
        self._times: dict[int, list[tuple[float, float]]] = {}  # rounds and seconds by trial, from nodes
        self._first: float | None = None  # when the job began, in seconds since 1970
        self._note = ""
        self.pace = Pace()

    def traces(self) -> Iterable[Path]:
        """The files to follow, as of now."""
        raise NotImplementedError

    def curve_of(self, trial: int) -> Curve | None:
        raise NotImplementedError

    def refresh(self) -> None:
        for path in self.traces():
            self._followed.setdefault(path, Followed(path))
        for followed in list(self._followed.values()):
            anew, lines = followed.tail.read()
            if anew:
                self._start_over()
                return self.refresh()
            for line in lines:
                self._take(followed, line)
            followed.is_held = followed.tail.is_held()
        return None

    def _start_over(self) -> None:
        for followed in self._followed.values():
            followed.tail.close()
        self._followed = {}
        self._reset()
        self.epoch += 1

    # Lines

    def _take(self, followed: Followed, line: Line) -> None:
        kind, s = line["kind"], float(line.get("s") or 0.0)
        if kind == "start":
            followed.begin(line)
            self._take_start(followed, line)
        followed.last = max(followed.last, s)
        if kind in ("rows", "beat"):
            self._take_rows(followed, line)
        elif kind == "node":
            self._take_node(followed, line)
        elif kind == "graph":
            self._drawn = line
        elif kind == "event":
            self._say(followed, line["what"], _event_text(line), rank=line.get("rank"))
        elif kind == "end":
            followed.end = line
            if line.get("how") != "done":
                text = str(line.get("text") or "")
                self._say(followed, str(line.get("how")), text, rank=followed.about.get("rank"))

    def _take_start(self, followed: Followed, line: Line) -> None:
        if "name" in line or not self.about:
            self.about = {**self.about, **line}
            self.job = str(self.about.get("job", ""))
            self.budgets = tuple(self.about.get("budgets") or ())
        rank, again = line.get("rank"), followed.sessions > 1
        if not rank or again:
            who = "" if rank is None else f"rank {rank} " if again else f"{line.get('world')} processes "
            self._say(followed, "restarted" if again else "started", f"{who}on {line.get('host')}", rank=rank)

    def _take_rows(self, followed: Followed, line: Line) -> None:
        batch = int(line.get("batch") or 0)
        if "done" in line:
            self._done[batch] = float(line["done"])
            self._batches[batch] = {"batch": batch, "round": line.get("round"), "trial": line.get("trial")}
            self.pace.see(self._seconds(), sum(self._done.values()))
        self._note = str(line.get("note") or self._note)
        self._show(line)
        columns: dict[str, list[Any]] = line.get("columns") or {}
        for k, trial in enumerate(columns.get("trial", [])):
            curve = self.curve_of(int(trial))
            if curve is not None:
                row = {name: column[k] for name, column in columns.items()}
                curve.append({**row, "s": followed.offset + float(line["s"])})
                if row.get("diverged"):
                    self._say(followed, "diverged", f"{_name(curve)} in round {row['round']}")

    def _take_node(self, followed: Followed, line: Line) -> None:
        rank = int(line["rank"])
        self._ranks[rank] = {**line, "at": followed.began + followed.last}
        if rank == min(self._ranks):
            seen = (float(line["round"]), followed.seconds)
            self._times.setdefault(int(line.get("trial") or 0), []).append(seen)
        self._show(line)

    def _show(self, line: Line) -> None:
        """Show the pairs of the newest line that may have some."""
        if "pairs" in line or line["kind"] != "node":
            self._shown = line

    def _say(self, followed: Followed, what: str, text: str, *, rank: Any = None) -> None:
        more = {} if rank is None else {"rank": rank}
        self._first = followed.began if self._first is None else self._first
        self.add_event(s=round(followed.began + followed.last - self._first, 2), what=what, text=text, **more)

    # Facts

    def _seconds(self) -> float:
        return max((followed.seconds for followed in self._followed.values()), default=0.0)

    def _updated(self) -> float | None:
        """The last sign of life, in seconds since 1970."""
        return max((each.began + each.last for each in self._followed.values()), default=None)

    def _state(self) -> tuple[str, str]:
        """The state of a job that has not finished, and a few words."""
        if any(each.is_held for each in self._followed.values()):
            return RUNNING, ""
        ends = [each.end for each in self._followed.values()]
        bad = next((end for end in ends if end is not None and end.get("how") == "failed"), None)
        if bad is not None:
            return FAILED, str(bad.get("text") or "")
        if ends and all(end is not None and end.get("how") == "done" for end in ends):
            return FINISHED, ""
        if any(end is not None and end.get("how") == "stopped" for end in ends):
            return STOPPED, "stopped"
        return STOPPED, "the process ended without a word, as after kill -9"

    def _facts(self, state: str, text: str, total: float | None, done: float) -> Facts:
        """Status as all traced jobs have it."""
        running = state == RUNNING
        share = None if not total else min(1.0, done / total)
        left = self.pace.left(total - done) if total and running else None
        return {
            "state": state,
            "text": text,
            "done": 1.0 if state == FINISHED else share,
            "elapsed": round(self._seconds(), 2),
            "left": None if left is None else round(left, 1),
            "updated": self._updated(),
            "note": self._note if running else "",
            **self.counts(),
        }


def _name(curve: Curve) -> str:
    group, method, seed, _ = curve.labels
    return f"{method}, {group}, seed {seed}"


def _event_text(line: Line) -> str:
    words = {"lost": "is lost", "back": "is back"}
    who, by = line.get("rank"), line.get("by")
    told = "" if by is None else f" (rank {by} says)"
    text = str(line.get("text") or words.get(line["what"], line["what"]))
    return f"rank {who} {text}, round {line.get('round')}{told}" if who is not None else text
