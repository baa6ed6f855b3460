"""Traces: what a job writes down while it runs, for `zocosmo watch`, and nothing that a result depends on.

A trace is an append-only file of JSON lines. Each line is one write, so a reader sees whole lines only, and
several processes of one machine may share a file. A writer holds a shared lock on it: a trace that nobody
holds is of a job that has ended. A trace that cannot be written is given up; the job goes on.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zocosmo.files import finite_or_null

FOLDER = ".trace"  # in the folder of a study
STUDY = "study.jsonl"
EVERY = 0.25  # seconds between lines of one kind, at first
SHARE = 1e-3  # later, this share of the time so far: a day makes some seven thousand lines
MOST_DRAWN = 256  # nodes of a graph whose edges and pairs are written


class TraceFile(NamedTuple):
    """Where a job writes, and when it began; can be handed to other processes."""

    path: Path
    began: float  # seconds since 1970

    @classmethod
    def begin(cls, path: Path) -> "TraceFile":
        return cls(path, time.time())


class Trace:
    """One writer of a trace."""

    def __init__(self, file: TraceFile) -> None:
        self._began, self._last = file.began, dict[str, float]()
        self._opened = time.monotonic()
        self._handle: int | None = None
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(file.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            _hold(self._handle)
            _end_last_line(self._handle)
        except OSError:
            self._give_up()

    def start(self, **about: Any) -> None:
        """The first line of a session."""
        self.write("start", at=self._began, pid=os.getpid(), host=socket.gethostname(), **about)

    def write(self, kind: str, **fields: Any) -> None:
        """Append a line; `s` is seconds since the job began."""
        if self._handle is None:
            return
        line = {"kind": kind, "s": round(time.time() - self._began, 3), **finite_or_null(fields)}
        try:
            os.write(self._handle, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        except OSError:
            self._give_up()

    def is_due(self, what: str) -> bool:
        """Whether it is time for another line of this kind; if so, the next one is a while away."""
        now = time.monotonic()
        last = self._last.get(what)
        if last is not None and now - last < max(EVERY, SHARE * (now - self._opened)):
            return False
        self._last[what] = now
        return True

    def close(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


@contextmanager
def traced(file: TraceFile | None, **about: Any) -> Iterator[Trace | None]:
    """A session of a job: its first line, and how it ended."""
    if file is None:
        yield None
        return
    trace = Trace(file)
    trace.start(**about)
    try:
        yield trace
        trace.write("end", how="done")
    except KeyboardInterrupt:
        trace.write("end", how="stopped", text="interrupted")
        raise
    except BaseException as error:
        trace.write("end", how="failed", text=f"{str(error) or type(error).__name__}"[:500])
        raise
    finally:
        trace.close()


def is_held(path: Path) -> bool:
    """Whether a writer has the trace open."""
    try:
        import fcntl

        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ModuleNotFoundError, OSError):
        return False
    return False


def _hold(handle: int) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        return
    fcntl.flock(handle, fcntl.LOCK_SH)


def _end_last_line(handle: int) -> None:
    """A line that a full disk cut off is ended, so that the next one is whole."""
    size = os.fstat(handle).st_size
    if size and os.pread(handle, 1, size - 1) != b"\n":
        os.write(handle, b"\n")
