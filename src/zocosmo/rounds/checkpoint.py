"""Checkpoints: the measurements and the bill of every run after some rounds."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.oracle import Measured

Values = NDArray[Any]
ENDS = ("up_bits", "down_bits")  # columns of methods with a server


class Checkpoint(NamedTuple):
    """Measurements and bill after `round` rounds; arrays over runs."""

    round: int
    objective: Values  # F(x̄)
    local: Values  # mean_i F_i(x_i)
    disagreement: Values  # mean_i ‖x_i − x̄‖²
    extra: Mapping[str, Values]  # further columns of the log
    queries: NDArray[np.int64]  # total over nodes
    stages: NDArray[np.int64]  # times that a node waited for messages
    bits: Mapping[str, NDArray[np.int64]]  # by codec: (runs, kinds) over the whole network
    alive: NDArray[np.bool_]  # runs that had not diverged before
    diverged: NDArray[np.bool_]  # runs that diverged by now
    served: Mapping[str, Values] | None = None  # by codec: (runs, 2), payload to a server and from it


class Bill(NamedTuple):
    """What runs have spent so far, over the whole network."""

    queries: NDArray[np.int64]  # (runs,)
    bits: Mapping[str, NDArray[np.int64]]
    served: Mapping[str, Values] | None = None
    tally: Mapping[str, NDArray[np.int64]] = {}  # what went wrong on links, by name


def make_checkpoint(
    t: int,
    found: Measured,
    bill: Bill,
    *,
    waits: Any,
    alive: NDArray[np.bool_],
    diverged: NDArray[np.bool_],
) -> Checkpoint:
    """The checkpoint of round t; `waits` are those of all rounds so far."""
    measured = {name: value for name, value in found._asdict().items() if name != "norm"}
    measured["extra"] = {**found.extra, **bill.tally}
    stages, spent = np.atleast_1d(waits), {name: bill._asdict()[name] for name in Bill._fields[:3]}
    return Checkpoint(t, stages=stages, alive=alive, diverged=diverged, **measured, **spent)


def is_fine(found: Measured, first: Values, bound: float) -> NDArray[np.bool_]:
    """Which runs have not diverged: finite, and |F| at most `bound` times F at the start (or 1, if more)."""
    fine: NDArray[np.bool_] = np.isfinite(found.disagreement) & (
        np.abs(found.objective) <= bound * np.maximum(1.0, first)
    )
    return fine
