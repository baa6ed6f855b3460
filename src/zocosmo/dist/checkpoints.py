"""Checkpoints of one process: tensors in safetensors, the rest in JSON, written atomically.

The JSON is written last and holds a hash of both files: a checkpoint without it, or with a wrong hash, is
ignored. A crash while writing leaves earlier checkpoints intact.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from zocosmo.files import replace_file

Arrays = dict[str, NDArray[Any]]
NAME = re.compile(r"trial-([0-9]{5})-round-([0-9]{9})\.json")


class Position(NamedTuple):
    """How far a study is: `round` rounds of trial `trial` are done. Positions sort by progress."""

    trial: int
    round: int

    @property
    def name(self) -> str:
        return f"trial-{self.trial:05d}-round-{self.round:09d}"


class Checkpoints:
    """The newest checkpoints of a process in a folder; the stamp rejects those of other plans and code."""

    def __init__(self, folder: Path, stamp: str, keep: int = 3) -> None:
        self.folder, self.stamp, self.keep = folder, stamp, keep
        folder.mkdir(parents=True, exist_ok=True)
        self._ours = {position for position in self._named() if self._is_ours(position)}

    def save(self, position: Position, arrays: Arrays, about: dict[str, Any]) -> None:
        data = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
        rest = json.dumps(about)
        text = json.dumps({"stamp": self.stamp, "hash": _hash(data + rest.encode()), "about": rest})
        replace_file(self._tensors(position), lambda path: path.write_bytes(data))
        replace_file(self._json(position), lambda path: path.write_text(text, encoding="utf-8"))
        self._ours.add(position)
        for old in sorted(self._ours)[: -self.keep]:  # never those of another study, whatever their rounds
            self._drop(old)
            self._ours.discard(old)

    def held(self) -> list[Position]:
        """Positions that can be loaded, ascending."""
        return [position for position in self._named() if self.load(position) is not None]

    def load(self, position: Position) -> tuple[Arrays, dict[str, Any]] | None:
        try:
            kept = json.loads(self._json(position).read_text(encoding="utf-8"))
            data = self._tensors(position).read_bytes()
            if kept["stamp"] != self.stamp or kept["hash"] != _hash(data + kept["about"].encode()):
                return None
            return {name: array.copy() for name, array in load(data).items()}, json.loads(kept["about"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError):
            return None

    def clear(self) -> None:
        for path in self.folder.iterdir():
            if path.suffix in (".json", ".safetensors"):
                path.unlink(missing_ok=True)
        self._ours.clear()

    def _is_ours(self, position: Position) -> bool:
        """Whether the JSON of a checkpoint has our stamp; it may be damaged otherwise."""
        try:
            kept = json.loads(self._json(position).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(kept, dict) and kept.get("stamp") == self.stamp

    def _named(self) -> list[Position]:
        found = (NAME.fullmatch(path.name) for path in self.folder.iterdir())
        return sorted(Position(int(match[1]), int(match[2])) for match in found if match)

    def _drop(self, position: Position) -> None:
        self._json(position).unlink(missing_ok=True)  # first: without its JSON a checkpoint is ignored
        self._tensors(position).unlink(missing_ok=True)

    def _tensors(self, position: Position) -> Path:
        return self.folder / f"{position.name}.safetensors"

    def _json(self, position: Position) -> Path:
        return self.folder / f"{position.name}.json"


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
