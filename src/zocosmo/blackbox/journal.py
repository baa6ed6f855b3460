"""The journal: a file with every answer that was paid for, from which a run that was cut short goes on.

Each line is a CRC-32 and a JSON record: the question of the run first, then each answer, on disk (fsync)
before the run sees it. A run is a function of its question and its answers. So a resumed run starts again
from round 0 and takes from the file what it has; rigs are asked only what is not there. A last line that a
crash cut off is dropped. One process writes at a time. Floats read back exactly.
"""

import hashlib
import json
import os
import threading
import zlib
from collections import deque
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from zocosmo.blackbox.traces import RunTrace
from zocosmo.errors import InputError
from zocosmo.oracle import Values

FORMAT = "zocosmo journal 1"
ASIDE = ("at the average", "check")  # queries that belong to no round: a longer run may not need them again


class Key(NamedTuple):
    """What identifies an answer: equal keys are repetitions, answered in their order."""

    node: int  # −1: all nodes in one answer
    t: int
    where: str
    point: str  # a hash of the bytes of x


class Journal:
    """The answers of a run by what was asked; appends to a file."""

    def __init__(self, path: Path, question: dict[str, Any]) -> None:
        self.is_kept = not path.is_dir()  # a file with a name of ours is deleted when the run ends
        self.path = path if self.is_kept else path / f"zocosmo-minimize-{_digest(question)}.journal"
        self.replayed = self.paid = 0
        self._lock = threading.Lock()
        self.trace: RunTrace | None = None  # for those who watch
        self._kept: dict[Key, deque[Any]] = {}
        self._unused: dict[int, deque[Key]] = {}  # of rounds and probes, by node, in their order
        self.memory: dict[str, Any] = {}  # last state of each loss that remembers
        self._file = self._open()
        try:
            self._read(json.loads(json.dumps(question)))
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> IO[bytes]:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InputError(
                f"journal {self.path} cannot be written: {error.strerror}; choose another file"
            ) from None
        file = os.fdopen(handle, "r+b")
        import fcntl  # not on every system

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(
                f"journal {self.path} is being written by another process; let it end first"
            ) from None
        return file

    def _read(self, question: dict[str, Any]) -> None:
        records, whole = read_lines(self._file.read(), self.path)
        if not records:
            self._file.truncate(0)
            self._write({"format": FORMAT, "question": question})
            return
        self._check(records[0], question)
        self._file.truncate(whole)
        for record in records[1:]:
            key = Key(record["node"], record["t"], record["where"], record["point"])
            self._kept.setdefault(key, deque()).append(record["answer"])
            if not key.where.startswith(ASIDE):
                self._unused.setdefault(key.node, deque()).append(key)
            self.memory.update(record.get("memory", {}))
        self.paid = len(records) - 1

    def _check(self, head: dict[str, Any], question: dict[str, Any]) -> None:
        if head.get("format") != FORMAT:
            raise InputError(f"{self.path} is not a journal of this version; choose another file")
        old = head["question"]
        for name in question:
            if old.get(name) != question[name]:
                found = f"journal {self.path} is of a run with {name} = {_short(old.get(name))}"
                raise InputError(
                    f"{found}, not {_short(question[name])}; repeat that run, or choose another file"
                )

    def answer(self, key: Key) -> Any:
        """The answer that was paid for, or None."""
        with self._lock:
            kept = self._kept.get(key)
            if not kept:
                self._check_new(key)
                return None
            self.replayed += 1
            if (unused := self._unused.get(key.node)) and unused[0] == key:
                unused.popleft()
            elif unused and key in unused:
                unused.remove(key)
            return kept.popleft()

    def _check_new(self, key: Key) -> None:
        """A question that is not in the file although later ones are: the file is of another run."""
        if not key.where.startswith(ASIDE) and self._unused.get(key.node):
            raise InputError(
                f"journal {self.path} has other points than this run, from round {key.t} on; repeat the run "
                "that wrote it, with the same version, or choose another file"
            )

    def keep(self, key: Key, answer: Any, memory: dict[str, Any] | None = None) -> None:
        """Write an answer down; returns when it is on disk."""
        with self._lock:
            self._write({**key._asdict(), "answer": answer, **({"memory": memory} if memory else {})})
            self.paid += 1

    def _write(self, record: dict[str, Any]) -> None:
        text = json.dumps(record, ensure_ascii=False).encode()
        try:
            self._file.write(b"%08x %s\n" % (zlib.crc32(text), text))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InputError(
                f"journal {self.path} cannot be written: {error.strerror}; make room and resume"
            ) from None

    def close(self) -> None:
        """Nothing more is written; a file of ours without an answer is deleted."""
        self._file.close()
        if not self.is_kept and not self.paid:
            self.path.unlink(missing_ok=True)
        if self.trace is not None:
            self.trace.close(keep=self.path.exists())

    def end(self) -> None:
        """The run has ended by itself: nothing is left to go on with."""
        if self.trace is not None:
            self.trace.end("done")
        if not self.is_kept:
            self.path.unlink(missing_ok=True)
        self.close()


def read_lines(data: bytes, path: Path) -> tuple[list[dict[str, Any]], int]:
    """All whole records, and the length of the file up to the last of them. Only the end may be damaged."""
    records, whole = list[dict[str, Any]](), 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        head, _, text = line.rstrip(b"\n").partition(b" ")
        if not line.endswith(b"\n") or head != b"%08x" % zlib.crc32(text):
            if number < len(lines):
                raise InputError(f"{path}:{number}: not a line of a journal, or damaged; choose another file")
            break
        records.append(json.loads(text))
        whole += len(line)
    return records, whole


def point_of(x: Values) -> str:
    """A hash of a point."""
    return hashlib.blake2b(np.ascontiguousarray(x, np.float64).tobytes(), digest_size=12).hexdigest()


def _digest(question: dict[str, Any]) -> str:
    text = json.dumps(question, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=6).hexdigest()


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"
