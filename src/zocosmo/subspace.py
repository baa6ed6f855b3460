"""Moving in a public subspace: states are z, losses are asked at x = x0 + P z   [core.subspace]

x is always x0[c] + (σ_c √(m/d)) · z[h(c)], in the type of the states, so its bits depend on z and on nothing
that came before. A query along u at z is a query along Pu at x, whose entries are σ_c √(m/d) ε_{h(c)}.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.core.subspace import Subspace
from zocosmo.core.support import Direction, Index, Support, same_draw
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError
from zocosmo.oracle import Query, Values
from zocosmo.state import Coordinates

KEPT = 3  # supports and directions: of this round, of the next, and one to spare


class Spread(NamedTuple):
    """The coordinates of x that some axes of z move, ascending, and the axis of each.

    Shapes (…, 1 or n, any), or (d,) and (…, 1, d) for all of them. A coordinate of a column that is one
    shorter than the longest may appear twice, with the same values.
    """

    of: Support
    at: Support
    column: Index


class Lifting:
    """x0 and P of one run, or of a stack of runs: takes states, supports and directions from z to x."""

    def __init__(self, space: Subspace, x0: Values) -> None:
        self.space = space  # of shape (…)
        self._x0 = np.broadcast_to(x0, (*space.lead, space.d))[..., None, :]
        self._cast: dict[np.dtype[Any], tuple[Values, Values]] = {}
        self._spreads: list[Spread] = []
        self._directions: list[tuple[Direction, Direction]] = []

    def lift(self, z: Values) -> Values:
        """x of states z (…, n, m), as a new array (…, n, d)."""
        x0, entries = self._in(z.dtype)
        x = self._by_column(z)
        x *= entries
        x += x0
        return x

    def start(self, n: int, dtype: DTypeLike, *, beside: bool) -> Any:
        """z = 0 of n nodes, with x beside it or alone."""
        z = np.zeros((*self.space.lead, n, self.space.m), dtype)
        return LiftedState(self, z, np.empty(0, dtype)) if beside else z

    def lift_one(self, z: Values) -> Values:
        """x of one point z (…, m) of each run."""
        return self.lift(z[..., None, :])[..., 0, :]

    def point(self, state: Any) -> Any:
        """x of a state: kept beside z, or computed."""
        return state.x if isinstance(state, LiftedState) else self.lift(state)

    def query(self, query: Query) -> Query:
        """The same query, asked in x."""
        x = self.point(query.x)
        return query._replace(x=x, directions=tuple(self.direction(u, x.dtype) for u in query.directions))

    def direction(self, u: Direction, dtype: np.dtype[Any]) -> Direction:
        """Pu, in the type of the states."""
        for kept, lifted in self._directions:
            if kept is u and lifted.entries.dtype == dtype:
                return lifted
        spread, (_, entries) = self.spread(u), self._in(dtype)
        signs = np.take_along_axis(_axes(u.lift(u.entries), spread.column.ndim), spread.column, axis=-1)
        signs = signs.astype(dtype, copy=False) * _at(entries, spread)
        lifted = Direction.unchecked(spread.at.index, self.space.d, signs, u.key)
        self._directions = [*self._directions[1 - KEPT :], (u, lifted)]
        return lifted

    def values(self, spread: Spread, z: Values) -> Values:
        """x on the coordinates of a spread."""
        x0, entries = self._in(z.dtype)
        x: Values = np.take_along_axis(z, spread.column, axis=-1)
        x *= _at(entries, spread)
        x += _at(x0, spread)
        return x

    def spread(self, support: Support) -> Spread:
        """The coordinates that belong to a support of z."""
        for kept in self._spreads:
            if same_draw(kept.of, support) or kept.of.index is support.index:
                return kept
        space = self.space
        if support.q * space.wide >= space.d:  # all, as one direction without gaps
            at = Support(np.arange(space.d), space.d)
            found = Spread(support, at, space.column[..., None, :])
        else:
            index = np.sort(self._members(support.index), axis=-1)
            at = Support(index, space.d, key=support.key, _check=False)
            found = Spread(support, at, np.take_along_axis(space.column[..., None, :], index, axis=-1))
        self._spreads = [*self._spreads[1 - KEPT :], found]
        return found

    def apart(self, z: Values, centre: Values) -> Values:
        """mean_i ‖P(z_i − z̄)‖² for each run: that of z where m divides d."""
        gap = z - centre[..., None, :]
        gap *= gap
        gap *= self.space.weights
        mean: Values = gap.sum(axis=-1).mean(axis=-1)
        return mean

    def _members(self, index: Index) -> Index:
        """The coordinates of the columns (…, 1 or n, q), in no order."""
        space = self.space
        index = _axes(index, len(space.lead) + 2)
        if space.lead:
            index = index + space.m * np.arange(space.lead[0])[:, None, None]
        members = space.members.reshape(-1, space.wide)[index]
        return members.reshape(*index.shape[:-1], -1)

    def _by_column(self, z: Values) -> Values:
        """z[h(c)] of every coordinate, as a new array."""
        column = self.space.column
        if column.ndim == 1:
            return np.take(z, column, axis=-1)
        x = np.empty((*z.shape[:-1], self.space.d), z.dtype)
        for k, of_run in enumerate(column):
            x[..., k, :, :] = np.take(z[..., k, :, :], of_run, axis=-1)
        return x

    def _in(self, dtype: np.dtype[Any]) -> tuple[Values, Values]:
        """x0, and the entries σ_c √(m/d) of P, (…, 1, d), in a type."""
        if dtype not in self._cast:
            entries = (self.space.signs * self.space.scale)[..., None, :]
            self._cast[dtype] = self._x0.astype(dtype), entries.astype(dtype)
        return self._cast[dtype]


def _at(values: Values, spread: Spread) -> Values:
    """Values (…, 1, d) on the coordinates of a spread."""
    index = spread.at.index
    return values if index.ndim == 1 else np.take_along_axis(values, index, axis=-1)


def _axes(array: Values, ndim: int) -> Values:
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def lifting_of(start: Values, size: int, seed: Seed) -> Lifting:
    """The subspace of a seed around the start of all nodes, (n, d)."""
    if (start != start[:1]).any():
        raise InputError("nodes of a subspace share its origin; give one x0 of shape (d,), or equal rows")
    return Lifting(Subspace(Tape(seed), d=start.shape[-1], m=size), start[0])


class LiftedState(Coordinates):
    """States z (…, n, m) with x beside them: a step on q axes writes q · d/m entries of x.

    Methods see z; the snapshot is z. x is an array or what the problem asked for.
    """

    def __init__(self, lifting: Lifting, z: Values, x: Any) -> None:
        self.lifting, self.z, self.x = lifting, z, x
        self.dtype, self.shape = z.dtype, z.shape
        self.load(z)

    def restrict(self, support: Support) -> Values:
        return support.restrict(self.z)

    def put(self, support: Support, values: Values) -> Self:
        support.put(self.z, values, out=self.z)
        spread = self.lifting.spread(support)
        self.x = spread.at.put(self.x, self.lifting.values(spread, self.z), out=self.x)
        return self

    def zeros_like(self) -> Any:
        """Zeros like z: nothing but x has d entries."""
        return np.zeros_like(self.z)

    def load(self, snapshot: Values) -> Self:
        self.z[...] = snapshot
        x = self.lifting.lift(self.z)
        self.x = x if isinstance(self.x, np.ndarray) else self.x.load(x)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return np.array(self.z, dtype, copy=copy)
