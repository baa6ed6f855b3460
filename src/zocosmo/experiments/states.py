"""Arrays in .npz files, and among them the last states of a study: an array (n, d) for each trial."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.files import replace_file

STATES = "states.npz"  # arrays are named trial-0, trial-1, …
DAMAGED = OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile

Columns = dict[str, NDArray[Any]]


def save_arrays(to: Path, arrays: Columns) -> None:
    """Write arrays by name; the file appears whole or not at all."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    replace_file(to, write)


def load_arrays(path: Path) -> Columns:
    """What `save_arrays` wrote; one of the errors DAMAGED if it cannot be read."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return dict(archive)


def write_states(to: Path, states: Columns) -> None:
    """Write them in float64, which holds float32 exactly: simulator and runtime write the same bytes."""
    save_arrays(to, {name: x.astype(np.float64) for name, x in states.items()})


def read_states(path: Path) -> Columns | None:
    """What `write_states` wrote, by trial; None if there is no such file."""
    if not path.exists():
        return None
    try:
        found = load_arrays(path)
    except DAMAGED as error:
        raise InputError(f"{path} holds no states ({error}); run the study again with --replace") from None
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))
