"""Checkpoints: what is known of every run after some rounds."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.oracle import Measured

Values = NDArray[Any]
ENDS = ("up_bits", "down_bits")  # columns of methods with a server


class Checkpoint(NamedTuple):
    """What is known of every run after `round` rounds; arrays over runs."""

    round: int
    objective: Values  # F(x̄)
    local: Values  # mean_i F_i(x_i)
    disagreement: Values  # mean_i ‖x_i − x̄‖²
    extra: Mapping[str, Values]  # further columns of the log
    queries: NDArray[np.int64]  # of all nodes together
    stages: NDArray[np.int64]  # times that a node waited for neighbours
    bits: Mapping[str, NDArray[np.int64]]  # by codec: (runs, kinds) over the whole network
    alive: NDArray[np.bool_]  # runs that were still running when this was taken
    diverged: NDArray[np.bool_]  # those of them that end here
    served: Mapping[str, Values] | None = None  # by codec: (runs, 2), payload to a server and from it


class Bill(NamedTuple):
    """What runs have spent so far, over the whole network."""

    queries: NDArray[np.int64]  # (runs,)
    bits: Mapping[str, NDArray[np.int64]]
    served: Mapping[str, Values] | None = None


def make_checkpoint(
    t: int,
    found: Measured,
    bill: Bill,
    *,
    stages: Any,
    alive: NDArray[np.bool_],
    diverged: NDArray[np.bool_],
) -> Checkpoint:
    """The checkpoint of round t; `stages` are the waits of one round."""
    return Checkpoint(
        t,
        found.objective,
        found.local,
        found.disagreement,
        found.extra,
        bill.queries,
        np.atleast_1d(t * stages),
        bill.bits,
        alive,
        diverged,
        bill.served,
    )


def is_fine(found: Measured, first: Values, bound: float) -> NDArray[np.bool_]:
    """Which runs have not diverged: finite, and |F| at most `bound` times F at the start (or 1, if more)."""
    fine: NDArray[np.bool_] = np.isfinite(found.disagreement) & (
        np.abs(found.objective) <= bound * np.maximum(1.0, first)
    )
    return fine
