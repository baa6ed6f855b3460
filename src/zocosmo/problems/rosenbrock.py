"""Rosenbrock functions, shifted differently at every node   [eq:appendix_rosenbrock_objective]"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_whole
from zocosmo.oracle import Mask, Problem, Values
from zocosmo.problems.draws import Array, Scratch, normals, private
from zocosmo.problems.nodes import check_nodes


class Rosenbrock(Problem):
    """F_i(x) = Σ_r α (z_{r+1} − z_r²)² + (1 − z_r)²,  z = x − s_i"""

    def __init__(self, shifts: Array, alpha: Array | float, x0: Array) -> None:
        self.shifts, self.alpha, self._x0 = shifts, alpha, x0
        self.n, self.d = shifts.shape[-2:]
        self._scratch = Scratch()

    @property
    def x0(self) -> Array:
        return self._x0

    def local(self, x: Values) -> Array:
        x = np.ascontiguousarray(x)  # the last bits of sums depend on the layout
        shape = np.broadcast_shapes(x.shape, self.shifts.shape)
        z = np.subtract(x, self.shifts, out=self._scratch("z", shape))
        head = z[..., :-1]
        bend = np.multiply(head, head, out=self._scratch("bend", head.shape))
        np.subtract(z[..., 1:], bend, out=bend)
        bend *= bend
        bend *= self.alpha
        np.subtract(1.0, head, out=head)
        head *= head
        bend += head
        total: Array = bend.sum(axis=-1)
        return total

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Array:
        return self.local(x)

    def at(self, nodes: Sequence[int]) -> Self:
        shifts = self.shifts.take(check_nodes(nodes, self.n), axis=-2)
        return type(self)(shifts, self.alpha, self.x0)

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        alpha = np.array([each.alpha for each in problems])[:, None, None]
        return cls(np.stack([p.shifts for p in problems]), alpha, np.stack([p.x0 for p in problems]))


def rosenbrock(
    n: int, seed: Seed, *, d: int, alpha: float = 2.0, shift: float = 0.02, start: float = -1.0
) -> Rosenbrock:
    """Rosenbrock over n nodes: s_i ~ N(0, shift² I), every node starts at (start, …, start).

    >>> rosenbrock(2, 0, d=3, shift=0.0).local(np.ones((2, 3))).tolist()
    [0.0, 0.0]
    """
    check_whole("d", d, 2)
    if shift < 0 or alpha < 0:
        raise InputError(f"shift and alpha must be at least 0, got shift = {shift}, alpha = {alpha}")
    shifts = shift * normals(private(seed), "shift", np.arange(check_whole("n", n, 1)), size=d)
    return Rosenbrock(shifts, alpha, np.full(d, float(start)))
