"""States of a public subspace that are lifted on a device: x = x0 + P z for all rows at once   [subspace]"""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Direction, Support, same_draw
from zocosmo.subspace import LiftedState, Lifting
from zocosmo.torch.aside import to_device
from zocosmo.torch.rows import Rows, both_points

Values = NDArray[Any]


class Shifts(NamedTuple):
    """What a query along K directions adds to z, on the device."""

    axes: torch.Tensor  # (rows, q)
    signs: torch.Tensor  # (rows, K, q) entries of the directions
    mu: torch.Tensor  # (1,), an input of a recorded forward: a constant would be recorded with it


class DeviceLift:
    """x0 and P on a device, for rows (…, n) of one run or of a stack of runs.

    The operations are those of `Lifting`, each rounded once in float32, so x and all shifted points have the
    bits of states on the host.
    """

    def __init__(self, lifting: Lifting, shape: tuple[int, ...], device: torch.device) -> None:
        space, (x0, entries, _, entry_rows) = lifting.space, lifting.tables(np.dtype(np.float32))
        self.m, self.device = space.m, device
        rows, runs = int(np.prod(shape[:-1])), int(np.prod(space.lead, dtype=int))
        self._column = to_device(space.column.reshape(runs, 1, space.d), device)
        self._x0, self._entries = (
            to_device(each.reshape(runs, 1, space.d), device) for each in (x0, entries)
        )
        self._members = to_device(space.members.reshape(-1, space.wide), device)
        self._entry_rows = to_device(entry_rows, device)
        first = np.repeat(np.arange(runs) * space.m, rows // runs)
        self._first = to_device(first[:, None], device)  # where the tables of a row's run begin

    def lift(self, z: torch.Tensor) -> torch.Tensor:
        """x of z (rows, m), as a new tensor (rows, d)."""
        by_run = z.view(len(self._column), -1, self.m)
        x = by_run.gather(2, self._column.expand(-1, by_run.shape[1], -1))
        return x.mul_(self._entries).add_(self._x0).view(len(z), -1)

    def at(self, axes: torch.Tensor, rows: torch.Tensor | slice = slice(None)) -> torch.Tensor:
        """The coordinates of x that axes (rows, q) move, (rows, q · ⌈d/m⌉)."""
        return self._members[axes + self._first[rows]].view(len(axes), -1)

    def points(
        self, z: torch.Tensor, axes: torch.Tensor, signs: torch.Tensor, mu: torch.Tensor
    ) -> torch.Tensor:
        """x + μPu of each row and direction, then x − μPu, (2 · rows · K, d)."""
        entries = self._entry_rows[axes + self._first]
        shift = mu * (signs[..., None] * entries[:, None])
        return both_points(self.lift(z), self.at(axes), shift.view(signs.shape[0] * signs.shape[1], -1))


class LiftedRows(LiftedState):
    """States z on the host and x on a device, where it is lifted when it is asked for.

    A round copies z and the signs of its directions, never anything of length d.
    """

    lifts_itself: ClassVar[bool] = True

    def __init__(self, lifting: Lifting, z: Values, x: Rows) -> None:
        self.device_lift, self._is_lifted = DeviceLift(lifting, z.shape, x.device), False
        self._ready: tuple[tuple[Direction, ...], float, Shifts] | None = None
        super().__init__(lifting, z, x)

    @property
    def x(self) -> Rows:
        rows: Rows = self._x
        if not self._is_lifted:
            rows.become(self.device_lift.lift(self.tensor()))
            self._is_lifted = True
        return rows

    def tensor(self) -> torch.Tensor:
        """z of all rows on the device, (rows, m)."""
        return to_device(self.z.reshape(-1, self.z.shape[-1]).copy(), self.device_lift.device)

    def prepare(self, directions: tuple[Direction, ...], mu: float) -> Shifts:
        """Copy the directions of the next query to the device ahead."""
        self._ready = directions, mu, self.shifts(directions, mu)
        return self._ready[2]

    def shifts(self, directions: tuple[Direction, ...], mu: float) -> Shifts:
        """The directions of a query, which share a support, on the device."""
        if self._ready is not None:
            before, by, made = self._ready
            if by == mu and len(before) == len(directions) and all(map(same_draw, before, directions)):
                return made
        lead, q, device = self.shape[:-1], directions[0].q, self.device_lift.device
        axes = np.broadcast_to(directions[0].index, (*lead, q)).reshape(-1, q)
        each = np.stack([u.entries for u in directions], axis=-2).astype(np.float32, copy=False)
        signs = np.broadcast_to(each, (*lead, len(directions), q)).reshape(-1, len(directions), q)
        arrays = axes.astype(np.int64), signs, np.full(1, mu, np.float32)
        return Shifts(*(to_device(array, device) for array in arrays))

    def put(self, support: Support, values: Values) -> Self:
        support.put(self.z, values, out=self.z)
        self._is_lifted = False
        return self

    def load(self, snapshot: Values) -> Self:
        self.z[...] = snapshot
        self._is_lifted = False
        return self
