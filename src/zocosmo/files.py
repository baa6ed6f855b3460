"""Atomic writes: a file, or a line on stderr, appears complete or not at all."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zocosmo.errors import InputError


def replace_file(to: Path, write: Callable[[Path], object]) -> None:
    """Have `write` fill a temporary file next to the target, flush it to disk, and rename it into place."""
    if not to.parent.is_dir():
        raise InputError(f"folder {to.parent} does not exist; make it first")
    draft = to.with_name(f".{os.getpid()}{to.suffix}")
    try:
        write(draft)
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(to)
        _flush_folder(to.parent)
    except OSError as error:
        raise InputError(f"{to} cannot be written: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def reading(path: Path, what: str, remedy: str = "") -> Iterator[None]:
    """Whatever a library raises over damaged bytes is an InputError: the path, `what`, and why."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # readers raise errors of every kind, and new ones with each release
        why = (str(error).splitlines() or [""])[0][:160] or type(error).__name__
        raise InputError(f"{path} {what}: {why}{remedy}") from None


@contextmanager
def private_files() -> Iterator[None]:
    """Files and folders made meanwhile are closed to other users; those that are there stay as they are."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def say(text: str) -> None:
    """A line on stderr, in one write: lines of several processes cannot merge."""
    sys.stderr.write(f"zocosmo: {text}\n")
    sys.stderr.flush()


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be a folder: {error.strerror}; choose another") from None


def write_text(to: Path, text: str) -> None:
    """Write a file of UTF-8 text."""
    replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))


def finite_or_null(thing: Any) -> Any:
    """The same mappings and lists with None for floats that are not finite, which JSON cannot hold."""
    if isinstance(thing, dict):
        return {name: finite_or_null(part) for name, part in thing.items()}
    if isinstance(thing, list | tuple):
        return [finite_or_null(part) for part in thing]
    return None if isinstance(thing, float) and not math.isfinite(thing) else thing


def _flush_folder(folder: Path) -> None:
    """Make the rename survive a power failure; not every system can open folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
