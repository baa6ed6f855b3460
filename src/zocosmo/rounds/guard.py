"""The guard of the step size, which drops if states grow without progress."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.methods.base import Method

Values = NDArray[Any]


class Seen(NamedTuple):
    """What the guard remembers from a checkpoint, for each run."""

    norm: Values  # ‖x̄‖
    loss: Values  # mean_i F_i(x_i)


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Multiplies η by `by` if, since the last checkpoint, ‖x̄‖ grew by more than the fraction `grow` and the
    mean local loss did not fall, as in a random walk.

    Both are measured over the whole network and sent to all nodes, so η drops everywhere in the same round.
    """

    grow: float = 0.05
    by: float = 0.5

    def __post_init__(self) -> None:
        if not self.grow >= 0 or not 0 < self.by < 1:
            raise InputError(f"a guard needs grow ≥ 0 and 0 < by < 1, got {self.grow} and {self.by}")

    def factor(self, before: Seen, now: Seen) -> Values:
        """1 or `by` for each run; 1 if a measurement is nan."""
        walks = (now.norm > (1.0 + self.grow) * before.norm) & (now.loss >= before.loss)
        return np.where(walks, self.by, 1.0)


class Guarded:
    """A method of one or many runs with the step size that its guard allows.

    With a guard η is an array (runs, 1, 1) in the type of the states, so that it rounds the same for one run
    and many, in the simulator and in a process.
    """

    def __init__(self, method: Method, guard: Guard | None, runs: int, dtype: np.dtype[Any]) -> None:
        self.method, self.guard, self.dtype = method, guard, dtype
        self.scale: Values = np.ones(runs)
        self.seen: Seen | None = None
        self.now = self._scaled()

    def see(self, norm: Values, loss: Values) -> None:
        """Update the step size at a checkpoint."""
        if self.guard is None:
            return
        now = Seen(norm, loss)
        if self.seen is not None:
            self.set(self.scale * self.guard.factor(self.seen, now))
        self.seen = now

    def set(self, scale: Values) -> None:
        self.scale = scale
        self.now = self._scaled()

    def columns(self) -> dict[str, Values]:
        """The factor of η, for the log."""
        return {} if self.guard is None else {"step_factor": self.scale.copy()}

    def arrays(self) -> dict[str, Values]:
        if self.guard is None:
            return {}
        seen = {} if self.seen is None else {"guard.seen": np.stack(self.seen)}
        return {"guard.scale": self.scale, **seen}

    def restore(self, arrays: Mapping[str, Values]) -> None:
        if self.guard is not None:
            self.set(arrays["guard.scale"].copy())
            self.seen = Seen(*arrays["guard.seen"]) if "guard.seen" in arrays else None

    def _scaled(self) -> Method:
        if self.guard is None:
            return self.method
        eta = np.asarray(self.method.eta, np.float64) * self.scale[:, None, None]
        return replace(self.method, eta=eta.astype(self.dtype))  # type: ignore[arg-type]
