"""New lines of a trace as they are appended."""

import json
import os
from pathlib import Path
from typing import Any

from zocosmo.trace import is_held

Line = dict[str, Any]
CHUNK = 1 << 20  # bytes


class Tail:
    """A file that grows; it may also be deleted, or replaced by a new one.

    It stays open, so that a deleted file can be read to its end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        self._at, self._rest = 0, b""

    def read(self) -> tuple[bool, list[Line]]:
        """Whether the file is a new one, and its whole lines since the last call; bad ones are left out."""
        anew = self._is_replaced()
        if anew:
            self.close()
        if self._handle is None:
            try:
                self._handle = os.open(self.path, os.O_RDONLY)
            except OSError:
                return anew, []
        whole, _, self._rest = (self._rest + self._new()).rpartition(b"\n")
        return anew, [line for text in whole.splitlines() if (line := _parsed(text)) is not None]

    def is_held(self) -> bool:
        """Whether a writer has it open."""
        return is_held(self.path)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._at, self._rest = None, 0, b""

    def __del__(self) -> None:
        self.close()

    def _new(self) -> bytes:
        assert self._handle is not None
        parts = []
        while part := os.read(self._handle, CHUNK):
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def _is_replaced(self) -> bool:
        """A deleted file does not count; another one in its place does, and one that became shorter."""
        if self._handle is None:
            return False
        try:
            now = self.path.stat()
        except OSError:
            return False
        then = os.fstat(self._handle)
        return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) or now.st_size < self._at


def _parsed(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("kind"), str) else None
