"""The folder of a study: plan.json identifies it, parts hold finished batches, the log replaces them.

Every file appears whole or not at all. A part carries the stamp of the plan, code and libraries that made it;
if it is damaged or has another stamp, its batch is run again.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zocosmo.errors import FolderError, InputError
from zocosmo.experiments.states import Columns, load_arrays, save_arrays
from zocosmo.files import make_folder, write_text
from zocosmo.log import Log, fingerprint, logs_in, read_log, write_log
from zocosmo.trace import FOLDER, STUDY


class FolderPart(NamedTuple):
    """What is stored of one batch: its rows once it is done, a snapshot before that."""

    path: Path
    stamp: str

    def load(self, kind: str) -> Columns | None:
        try:
            arrays = load_arrays(self._file(kind))
        except InputError:
            return None
        return arrays if str(arrays.pop("stamp", "")) == self.stamp else None

    def save(self, kind: str, arrays: Columns) -> None:
        save_arrays(self._file(kind), {"stamp": np.array(self.stamp), **arrays})

    def drop(self, kind: str) -> None:
        self._file(kind).unlink(missing_ok=True)

    def _file(self, kind: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{kind}.npz")


class Folder:
    """A study on disk. Only one process at a time can open it."""

    def __init__(self, path: Path, header: dict[str, Any], suffix: str = ".parquet") -> None:
        self.path, self.header, self.suffix = path, header, suffix
        self._about, self._parts = path / "plan.json", path / "parts"
        self.trace = path / FOLDER / STUDY

    def part(self, number: int) -> FolderPart:
        return FolderPart(self._parts / f"{number:04d}", fingerprint(self.header))

    @contextmanager
    def opened(self, *, resume: bool, replace_old: bool) -> Iterator[Log | None]:
        """Lock and prepare the folder; yields the log if this plan was already run here by this code."""
        make_folder(self.path)
        with _lock(self.path):
            if replace_old:
                self._clear()
            done = self._finished()
            if done is None:
                self._check(resume)
                self._parts.mkdir(exist_ok=True)
                write_text(self._about, json.dumps(self.header, indent=1))
            yield done

    def finish(self, log: Log) -> None:
        """Write the log and delete the parts."""
        write_log(self.path / f"log{self.suffix}", log)
        shutil.rmtree(self._parts, ignore_errors=True)

    def clear(self) -> None:
        """Delete the study in this folder."""
        if self.path.is_dir():
            with _lock(self.path):
                self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._parts, ignore_errors=True)
        shutil.rmtree(self.trace.parent, ignore_errors=True)
        for path in (self._about, *logs_in(self.path)):
            path.unlink(missing_ok=True)

    def _finished(self) -> Log | None:
        """The log, in either format, and written in the one asked for."""
        found, asked = logs_in(self.path), self.path / f"log{self.suffix}"
        if not found:
            return None
        log = read_log(asked if asked in found else found[0])
        _check_same(self.path, log.header, self.header)
        if asked not in found:
            write_log(asked, log)
        shutil.rmtree(self._parts, ignore_errors=True)
        return log

    def _check(self, resume: bool) -> None:
        """Refuse the folder of another study, and a stopped one unless it is to be resumed."""
        if not self._about.exists():
            return
        try:
            found = dict(json.loads(self._about.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            raise FolderError(f"{self._about} is damaged", "start over with --replace") from None
        _check_same(self.path, found, self.header)
        if not resume:
            raise FolderError(
                f"{self.path} holds a study that was stopped",
                "continue it with --resume, or start over with --replace",
            )


def _check_same(folder: Path, found: dict[str, Any], ours: dict[str, Any]) -> None:
    what = {
        "fingerprint": "another plan",
        "source": "another version of the code",
        "versions": "other libraries",
    }
    for key, whose in what.items():
        if found.get(key) != ours[key]:
            remedy = "choose another --out, or start over with --replace"
            raise FolderError(f"{folder} holds a study of {whose}", remedy)


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes; the system releases it when this process ends."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        yield
        return
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"another process has {folder} open; wait, or choose another --out") from None
        yield  # the file stays: another process may have it open already
