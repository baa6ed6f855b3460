"""The last states of a study: states.npz, an array (n, d) for each trial, named trial-0, trial-1, …"""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.files import replace_file

STATES = "states.npz"

States = dict[str, NDArray[Any]]


def write_states(to: Path, states: Mapping[str, NDArray[Any]]) -> None:
    """Write them in float64, which holds float32 exactly: simulator and runtime write the same bytes."""

    def write(path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, allow_pickle=False, **{k: x.astype(np.float64) for k, x in states.items()})

    replace_file(to, write)


def read_states(path: Path) -> States | None:
    """What `write_states` wrote, by trial; None if there is no such file."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            found = dict(archive)
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} holds no states ({error}); run the study again with --replace") from None
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))
