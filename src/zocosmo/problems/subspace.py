"""A problem in a public subspace: nodes move z, and every query is answered at x = x0 + P z."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.subspace import Subspace
from zocosmo.core.support import Direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError
from zocosmo.oracle import Arrays, Asks, Mask, Problem, Query, Values
from zocosmo.subspace import LiftedState, Lifting


class SubspaceProblem(Problem):
    """The losses of a problem on x0 + P z, asked and measured at z.

    Disagreement and norm are those of x, as are all other columns of the log.
    """

    def __init__(self, inner: Problem, space: Subspace) -> None:
        self.inner, self.space = inner, space
        self.n, self.d = inner.n, space.m
        self.asynchronous, self.overheard, self.has_note = inner.asynchronous, inner.overheard, inner.has_note

    @cached_property
    def lifting(self) -> Lifting:
        return Lifting(self.space, self.inner.x0)

    @property
    def x0(self) -> Values:
        return np.zeros((*self.space.lead, self.d))

    @property
    def structure(self) -> tuple[Any, ...]:
        return type(self.inner), self.inner.d, self.inner.structure

    @property
    def size(self) -> int:
        return self.inner.size

    def states(self, method: Asks, lead: tuple[int, ...], dtype: DTypeLike) -> Any:
        z = np.zeros((*lead, self.n, self.d), dtype)
        if not method.on_supports:
            return z
        x = self.inner.states(method, lead, dtype)
        own = self.inner.lifted(self.lifting, z, x)
        return LiftedState(self.lifting, z, x) if own is None else own

    def admit(self, method: Asks) -> None:
        self.inner.admit(method)

    # Answering

    def __call__(self, x: Any, t: int, *, active: Mask | None = None) -> Values:
        return self.inner(self.lifting.point(x), t, active=active)

    def slopes(self, query: Query, t: int) -> Values:
        return self.inner.slopes(self.lifting.query(query), t)

    def part(self, k: int, of: int) -> Callable[..., Values]:
        ask = self.inner.part(k, of)
        return lambda x, t, *, active=None: ask(self.lifting.point(x), t, active=active)

    def start(self, query: Query, t: int) -> Any:
        return self.inner.start(self.lifting.query(query), t)

    def look_ahead(self, coming: Direction, query: Query, t: int, more: tuple[Direction, ...] = ()) -> None:
        then = self.lifting.query(query._replace(directions=(coming, *more)))
        self.inner.look_ahead(then.u, self.lifting.query(query), t, then.directions[1:])

    def finish(self, started: Any) -> Values:
        return self.inner.finish(started)

    def snapshot(self) -> Arrays:
        return self.inner.snapshot()

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.inner.restore(arrays)

    # Measuring

    def local(self, x: Values) -> Values:
        return self.inner.local(self.lifting.lift(x))

    def measures(self, x: Values) -> Arrays:
        return self.inner.measures(self.lifting.lift(x))

    def at_centre(self, centre: Values) -> Arrays:
        return self.inner.at_centre(self.lifting.lift_one(centre))

    def report(self, centre: Values) -> Arrays:
        return self.inner.report(self.lifting.lift_one(centre))

    def disagreement(self, x: Values, centre: Values) -> Values:
        return self.lifting.apart(x, centre)

    def norm(self, centre: Values) -> Values:
        return self.inner.norm(self.lifting.lift_one(centre))

    def vectors(self, x: Values) -> Values:
        return self.lifting.lift(x)

    def note(self) -> str:
        return self.inner.note()

    # Splitting and stacking

    def at(self, nodes: Sequence[int]) -> Self:
        return type(self)(self.inner.at(nodes), self.space)

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        inner = type(problems[0].inner).stack([each.inner for each in problems])
        return cls(inner, Subspace.stack([each.space for each in problems]))


def in_subspace(problem: Problem, size: int, seed: Seed) -> SubspaceProblem:
    """The problem in the public subspace of a seed."""
    if problem.in_place:
        raise InputError("a subspace needs states that are vectors; this problem's state is the model itself")
    return SubspaceProblem(problem, Subspace(Tape(seed), d=problem.d, m=size))
