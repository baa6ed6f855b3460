"""Studies: folders of `zocosmo run`, `finetune` and `launch`, and the parts of a comparison."""

import time
from collections.abc import Iterable
from pathlib import Path

from zocosmo.errors import InputError
from zocosmo.experiments.states import load_arrays
from zocosmo.experiments.unfinished import by_trial
from zocosmo.log import logs_in
from zocosmo.trace import FOLDER
from zocosmo.watch.curve import Curve, Labels
from zocosmo.watch.source import FINISHED, RUNNING, Facts
from zocosmo.watch.stored import log_curves
from zocosmo.watch.traced import Traced

SILENT = 5.0  # seconds without a line, and a share of the time so far, after which a process is silent
SHARE = 0.01


class Study(Traced):
    """The folder of a study: its log once it is finished, before that its parts and traces."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.path = folder, str(folder)
        self.title = folder.name
        self._log: tuple[float, int] | None = None

    def _reset(self) -> None:
        super()._reset()
        self._parts: set[str] = set()
        self._log = None

    def traces(self) -> Iterable[Path]:
        return sorted((self.folder / FOLDER).glob("*.jsonl"))

    def curve_of(self, trial: int) -> Curve | None:
        """The curve of a trial that the first line of the trace lists."""
        key, listed = str(trial), self.about.get("trials") or []
        if key not in self.curves and trial < len(listed):
            problem, graph, method, seed, n = listed[trial]
            self.curves[key] = Curve(Labels(self._group(problem, graph), method, seed, n))
        return self.curves.get(key)

    def _group(self, problem: str, graph: str) -> str:
        several = len({each[0] for each in self.about.get("trials") or []}) > 1
        return f"{problem}, {graph}" if several else graph

    def refresh(self) -> None:
        super().refresh()
        logs = logs_in(self.folder)
        if self._log is not None and not logs:
            self._start_over()
            super().refresh()
        if not logs:
            self._read_parts()
            if self._ranks and not self._done:
                self.pace.see(self._seconds(), self._done_by_ranks())
            return
        found = logs[0].stat()
        now = found.st_mtime, found.st_size
        if now != self._log:
            self._read_log(logs[0])
            self._log = now

    def _read_log(self, path: Path) -> None:
        for trial, labels, columns in log_curves(path):
            curve = self.curves.setdefault(str(trial), Curve(labels))
            curve.replace(columns, self._times.get(trial, ()))

    def _read_parts(self) -> None:
        """Batches that were finished since the last time."""
        for path in sorted((self.folder / "parts").glob("*.done.npz")):
            if path.name in self._parts:
                continue
            try:
                columns = load_arrays(path)
            except InputError:
                continue
            self._parts.add(path.name)
            nodes = 0
            for trial, rows in by_trial(columns).items():
                curve = self.curve_of(trial)
                if curve is not None:
                    curve.replace(rows, self._times.get(trial, ()))
                    nodes += curve.labels.n
            self._finish_batch(int(path.name.split(".")[0]), nodes)

    def _finish_batch(self, number: int, nodes: int) -> None:
        self._batches.pop(number, None)
        self._done[number] = float(nodes * int(self.about.get("rounds") or 0))
        self.pace.see(self._seconds(), sum(self._done.values()))

    @property
    def status(self) -> Facts:
        total = float(self.about.get("node_rounds") or 0)
        done = sum(self._done.values()) or self._done_by_ranks()
        if self._log is not None:
            state, text = FINISHED, ""
        else:
            state, text = self._state()
        if self._log is None and not self._followed:
            text = "no trace: started by an earlier version, or from Python"
        facts = self._facts(state, text, total or None, done)
        if self.job == "host" and self._ranks and not self.curves and state == RUNNING:
            facts["note"] = "a host sees no values; F is measured at the end"
        return {**facts, "trials": max(facts["trials"], len(self.about.get("trials") or []))}

    def _done_by_ranks(self) -> float:
        return float(sum(int(each["round"]) * len(each["nodes"]) for each in self._ranks.values()))

    @property
    def work(self) -> list[Facts]:
        if self._ranks or self._log is not None:
            return []
        listed = self.about.get("trials") or []
        found = []
        for _, batch in sorted(self._batches.items()):
            labels = listed[batch["trial"]] if (batch["trial"] or 0) < len(listed) else ["", "", "", "", 0]
            found.append({**batch, "rounds": self.about.get("rounds"), "of": f"{labels[2]}, {labels[1]}"})
        return found

    @property
    def nodes(self) -> list[Facts]:
        """One entry for each process of `launch`, with the nodes that it hosts."""
        held = {each.about.get("rank"): each for each in self._followed.values()}
        found = []
        for rank, line in sorted(self._ranks.items()):
            followed = held.get(rank)
            state = str(line["state"])
            if followed is not None and followed.end is not None:
                state = {"done": "done"}.get(str(followed.end.get("how")), "failed")
            elif followed is not None and not followed.is_held:
                state = "gone"
            elif followed is not None and time.time() - line["at"] > SILENT + SHARE * followed.last:
                state = "silent"
            names = ("rank", "nodes", "round", "waited", "messages", "bytes", "waited_for")
            facts = {name: line.get(name) for name in names}
            if state == "waits":
                facts["for"] = line.get("for")
            seconds = 0.0 if followed is None else followed.last
            found.append({**facts, "state": state, "seconds": round(seconds, 2)})
        return found

    @property
    def graph(self) -> Facts | None:
        listed, line = self.about.get("trials") or [], self._shown
        trial = int(line.get("trial") or 0)
        if trial >= len(listed):
            return None
        _, graph, method, seed, n = listed[trial]
        drawn = (self.about.get("graphs") or {}).get(graph) or {"n": n, "edges": []}
        facts = {"n": drawn["n"], "edges": drawn["edges"], "of": f"{method} on {graph}, seed {seed}"}
        facts["talk"] = (self.about.get("talk") or {}).get(method, "neighbours")
        if self._drawn:  # of a network that changes
            facts |= {name: part for name, part in self._drawn.items() if name not in ("kind", "s")}
        running = self._log is None
        return {**facts, "round": line.get("round"), "pairs": (line.get("pairs") or []) if running else []}


def is_study(folder: Path) -> bool:
    """Whether a folder holds a study, of whatever age."""
    return (folder / "plan.json").exists() or (folder / FOLDER).is_dir() or bool(logs_in(folder))
