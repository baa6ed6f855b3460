"""A comparison: the studies under one folder, as one job."""

from pathlib import Path

from zocosmo.watch.curve import Labels
from zocosmo.watch.source import FAILED, FINISHED, RUNNING, STOPPED, Facts, Source
from zocosmo.watch.study import Study, is_study

DEPTH = 3  # levels of folders below


class Several(Source):
    """Studies in subfolders; those that appear later are found too."""

    job = "compare"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder, self.path, self.title = folder, str(folder), folder.name
        self._studies: dict[str, Study] = {}
        self._seen: dict[str, tuple[int, int]] = {}  # epochs and events that were taken

    def refresh(self) -> None:
        for folder in studies_under(self.folder):
            name = str(folder.relative_to(self.folder))
            self._studies.setdefault(name, Study(folder))
        for name, study in self._studies.items():
            study.refresh()
            self._take(name, study)

    def _take(self, name: str, study: Study) -> None:
        """Curves and events of one study, under its name."""
        self.job = study.job or self.job
        epoch, events = self._seen.get(name, (study.epoch, 0))
        if epoch != study.epoch:
            self.curves, self.events, self._seen = {}, [], {}
            self.epoch += 1
            return
        groups = {curve.labels.group for curve in study.curves.values()}
        for key, curve in study.curves.items():
            if f"{name}:{key}" not in self.curves:
                group = name if len(groups) <= 1 else f"{name}, {curve.labels.group}"
                curve.labels = Labels(group, *curve.labels[1:])
                self.curves[f"{name}:{key}"] = curve
        for event in study.events[events:]:
            self.add_event(**{**event, "text": f"{name}: {event['text']}"})
        self._seen[name] = study.epoch, len(study.events)

    @property
    def _current(self) -> Study | None:
        """The study that is running, or the last one that was."""
        found = [each for each in self._studies.values() if each.status["state"] == RUNNING]
        by_time = sorted(self._studies.values(), key=lambda each: each.status["updated"] or 0.0)
        return next(iter(found), by_time[-1] if by_time else None)

    @property
    def status(self) -> Facts:
        listed = {name: each.status for name, each in self._studies.items()}
        states = {facts["state"] for facts in listed.values()}
        state = next((each for each in (RUNNING, FAILED, STOPPED) if each in states), FINISHED)
        now = next((name for name, facts in listed.items() if facts["state"] == state), "")
        over = sum(facts["state"] == FINISHED for facts in listed.values())
        shares = [facts["done"] or 0.0 for facts in listed.values()]
        current = listed.get(now, {})
        text = str(current.get("text") or "") if state != FINISHED else ""
        return {
            "state": state,
            "text": text,
            "done": sum(shares) / len(shares) if shares else None,
            "elapsed": round(sum(facts["elapsed"] for facts in listed.values()), 2),
            "left": current.get("left"),
            "updated": max((facts["updated"] or 0.0 for facts in listed.values()), default=None),
            "note": f"{now}; {over} of {len(listed)} studies so far are finished" if state == RUNNING else "",
            **self.counts(),
        }

    @property
    def work(self) -> list[Facts]:
        return [] if self._current is None else self._current.work

    @property
    def nodes(self) -> list[Facts]:
        return [] if self._current is None else self._current.nodes

    @property
    def graph(self) -> Facts | None:
        return None if self._current is None else self._current.graph


def studies_under(folder: Path, depth: int = DEPTH) -> list[Path]:
    """Folders of studies below a folder, in the order in which they were made."""
    found: list[Path] = []
    for inner in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."):
        if is_study(inner):
            found.append(inner)
        elif depth > 1:
            found += studies_under(inner, depth - 1)
    return found
