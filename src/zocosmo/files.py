"""Atomic writes: a file appears complete or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

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


def _flush_folder(folder: Path) -> None:
    """Makes the rename survive a power failure; not every system can open folders."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
