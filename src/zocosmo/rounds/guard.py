"""The guard of the step size: it drops when states grow and nothing is learnt."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.methods.base import Method

Values = NDArray[Any]


class Seen(NamedTuple):
    """What the guard remembers of a checkpoint, for each run."""

    norm: Values  # ‖x̄‖
    loss: Values  # mean loss that nodes saw


@dataclass(frozen=True, kw_only=True)
class Guard:
    """η is multiplied by `by` when, from one checkpoint to the next, ‖x̄‖ grew by more than the share `grow`
    and the mean loss of the nodes' queries did not fall.

    A random walk does that: its norm grows and its loss does not fall. Both numbers are measured over the
    whole network and handed to all, so every node drops at the same round. Off unless a plan asks for it.
    """

    grow: float = 0.05
    by: float = 0.5

    def __post_init__(self) -> None:
        if not self.grow >= 0 or not 0 < self.by < 1:
            raise InputError(f"a guard has grow ≥ 0 and by between 0 and 1, got {self.grow} and {self.by}")

    def factor(self, before: Seen, now: Seen) -> Values:
        """1 or `by`, for each run; 1 where something was not measured."""
        walks = (now.norm > (1.0 + self.grow) * before.norm) & (now.loss >= before.loss)
        return np.where(walks, self.by, 1.0)


class Guarded:
    """A method of one or many runs, with the step that its guard has left it; without a guard, as it is.

    η is an array (runs, 1, 1) in the type of the states wherever there is a guard: it then rounds alike for
    one run and many, in the simulator and in a process.
    """

    def __init__(self, method: Method, guard: Guard | None, runs: int, dtype: np.dtype[Any]) -> None:
        self.method, self.guard, self.dtype = method, guard, dtype
        self.scale: Values = np.ones(runs)
        self.seen: Seen | None = None
        self.now = self._scaled()

    def see(self, norm: Values, loss: Values) -> None:
        """Let the guard see a checkpoint."""
        if self.guard is None:
            return
        now = Seen(norm, loss)
        if self.seen is not None:
            self.set(self.scale * self.guard.factor(self.seen, now))
        self.seen = now

    def set(self, scale: Values) -> None:
        self.scale = scale
        self.now = self._scaled()  # of the new scale

    def columns(self) -> dict[str, Values]:
        """For the log: what η is multiplied by."""
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
