"""New lines of a trace as they are appended."""

import json
import os
from pathlib import Path
from typing import IO, Any

from zocosmo.trace import is_held

Line = dict[str, Any]


class Tail:
    """A file that grows; it may also be deleted, or replaced by a new one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self._rest = b""
        self.lines = 0

    def read(self) -> tuple[bool, list[Line]]:
        """Whether the file is a new one, and its whole lines since the last call; bad ones are left out."""
        anew = self._is_replaced()
        if anew:
            self.close()
        if self._file is None:
            try:
                self._file = self.path.open("rb")
            except OSError:
                return anew, []
        data = self._rest + self._file.read()
        whole, _, self._rest = data.rpartition(b"\n")
        found = [line for text in whole.splitlines() if (line := _parsed(text)) is not None]
        self.lines += len(found)
        return anew, found

    def is_held(self) -> bool:
        """Whether a writer has it open."""
        return is_held(self.path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._rest, self.lines = None, b"", 0

    def _is_replaced(self) -> bool:
        """A deleted file is read to its end; only another one in its place counts."""
        if self._file is None:
            return False
        try:
            now = self.path.stat()
        except OSError:
            return False
        then = os.fstat(self._file.fileno())
        return (now.st_dev, now.st_ino) != (then.st_dev, then.st_ino) or now.st_size < self._file.tell()


def _parsed(text: bytes) -> Line | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("kind"), str) else None
