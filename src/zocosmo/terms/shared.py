"""The losses of members: each has a share of the problem, in any order; two may have the same."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.oracle import Mask, Measured, Problem, Values


class Shared(Problem):
    """A problem of n shares, asked by members who hold some of them; states are (1, members, d).

    F is the mean over all shares, whoever is there; `local` is the mean over members. Members with one share
    see the same samples.
    """

    def __init__(self, whole: Problem, shares: NDArray[np.int64]) -> None:
        self._one, self.shares = whole, shares
        self.whole = type(whole).stack([whole])
        self.n, self.d = len(shares), whole.d
        order = np.argsort(shares, kind="stable")
        held, first = np.unique(shares[order], return_index=True)
        times = np.arange(self.n) - np.repeat(first, np.diff([*first, self.n]))
        layers = [np.flatnonzero(times == k) for k in range(int(times.max()) + 1)]
        self._parts = [(order[layer], self._of(shares[order[layer]])) for layer in layers]
        in_order = len(held) == self.n and bool((order == np.arange(self.n)).all())
        self._only = self._parts[0][1] if in_order else None

    def _of(self, shares: NDArray[np.int64]) -> Problem:
        if len(shares) == self._one.n:
            return self.whole
        return type(self._one).stack([self._one.at(shares.tolist())])

    @property
    def x0(self) -> Values:
        return self.whole.x0

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values:
        if self._only is not None:
            return self._only(x, t, active=active)

        def ask(rows: NDArray[np.int64], part: Problem) -> Values:
            asked = None if active is None else active[..., rows]
            return part(x.take(rows, axis=-2), t, active=asked)

        return self._together(ask, x)

    def local(self, x: Values) -> Values:
        if self._only is not None:
            return self._only.local(x)
        return self._together(lambda rows, part: part.local(x.take(rows, axis=-2)), x)

    def _together(self, ask: Callable[[NDArray[np.int64], Problem], Values], x: Values) -> Values:
        """The answers of all parts, in the order of members."""
        answers = [(rows, ask(rows, part)) for rows, part in self._parts]
        out = np.empty(x.shape[:-1], answers[0][1].dtype)
        for rows, answer in answers:
            out[..., rows] = answer
        return out

    def measure(self, x: Any, centre: Callable[[], Values]) -> Measured:
        x, middle = np.asarray(x, np.float64), centre()
        extra = {name: each.mean(axis=-1) for name, each in self.whole.at_centre(middle).items()}
        value, local = extra.pop("objective"), self.local(np.ascontiguousarray(x)).mean(axis=-1)
        apart, length = self.whole.disagreement(x, middle), self.whole.norm(middle)
        living = {"living": np.full(value.shape, self.n)}
        return Measured(value, local, apart, length, {**extra, **self.whole.report(middle), **living})

    def vectors(self, x: Values) -> Values:
        return self.whole.vectors(x)

    def at(self, nodes: Sequence[int]) -> Self:
        return type(self)(self._one, self.shares[list(nodes)])

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        if len(problems) != 1:
            raise InputError(f"members of one network are one run, got {len(problems)}")
        return problems[0]
