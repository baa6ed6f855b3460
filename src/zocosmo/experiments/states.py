"""Arrays in .npz files, and among them the last states of a study: an array (n, d) for each trial."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.files import reading, replace_file

STATES = "states.npz"  # arrays are named trial-0, trial-1, …

Columns = dict[str, NDArray[Any]]


def save_arrays(to: Path, arrays: Columns) -> None:
    """Write arrays by name; the file appears whole or not at all."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    replace_file(to, write)


def load_arrays(path: Path, what: str = "holds no arrays", remedy: str = "") -> Columns:
    """What `save_arrays` wrote; an InputError if it cannot be read."""
    with (
        reading(path, what, remedy),
        path.open("rb") as file,
        np.load(file, allow_pickle=False) as archive,
    ):
        return dict(archive)


def write_states(to: Path, states: Columns) -> None:
    """Write them in float64, which holds float32 exactly: simulator and runtime write the same bytes."""
    save_arrays(to, {name: x.astype(np.float64) for name, x in states.items()})


def read_states(path: Path) -> Columns | None:
    """What `write_states` wrote, by trial; None if there is no such file."""
    if not path.exists():
        return None
    found = load_arrays(path, "holds no states", "; run the study again with --replace")
    for name, x in found.items():
        if x.dtype.kind not in "fiub":
            raise InputError(f"{path} holds no states: {name} is text; run the study again with --replace")
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))
