"""Moving in a public subspace: states are z, losses are asked at x = x0 + P z   [core.subspace]

x is always x0[c] + (σ_c √(m/d)) · z[h(c)], in the type of the states, so its bits depend on z and on nothing
that came before. A query along u at z is a query along Pu at x, whose entries are σ_c √(m/d) ε_{h(c)}.
"""

from typing import Any, ClassVar, NamedTuple, Self

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
    """The coordinates of x that some axes of z move, axis by axis.

    A coordinate of a column that is one shorter than the longest appears twice, with the same values.
    """

    of: Support  # axes of z
    at: Support  # coordinates (…, 1 or n, q · ⌈d/m⌉), not ascending; or all d
    rows: Index | None  # (…, 1 or n, q) of the tables of all runs; None: all d


class Tables(NamedTuple):
    """x0 and the entries σ_c √(m/d) of P, in one type, in the order of coordinates and of columns."""

    x0: Values  # (…, 1, d)
    entries: Values
    x0_rows: Values  # (runs · m, ⌈d/m⌉)
    entry_rows: Values


class Lifting:
    """x0 and P of one run, or of a stack of runs: takes states, supports and directions from z to x."""

    def __init__(self, space: Subspace, x0: Values) -> None:
        self.space = space  # of shape (…)
        self._x0 = np.broadcast_to(x0, (*space.lead, space.d))
        self._tables: dict[np.dtype[Any], Tables] = {}
        self._spreads: list[Spread] = []
        self._directions: list[tuple[Direction, Direction]] = []

    def lift(self, z: Values) -> Values:
        """x of states z (…, n, m), as a new array (…, n, d)."""
        tables, x = self.tables(z.dtype), self._by_column(z)
        x *= tables.entries
        x += tables.x0
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
        """The same query, asked in x; a state that lifts itself answers in z."""
        if isinstance(query.x, LiftedState) and query.x.lifts_itself:
            return query
        x = self.point(query.x)
        return query._replace(x=x, directions=tuple(self.direction(u, x.dtype) for u in query.directions))

    def direction(self, u: Direction, dtype: np.dtype[Any]) -> Direction:
        """Pu, in the type of the states."""
        for kept, lifted in self._directions:
            if kept is u and lifted.entries.dtype == dtype:
                return lifted
        spread, tables = self.spread(u), self.tables(dtype)
        if spread.rows is None:
            nodes = u.entries.shape[-2:-1] or (1,)
            whole = np.broadcast_to(u.lift(u.entries), (*self.space.lead, *nodes, self.space.m))
            entries = self._by_column(whole) * tables.entries
        else:
            entries = _flat(u.entries[..., None] * tables.entry_rows[spread.rows])
        lifted = Direction.unchecked(spread.at.index, self.space.d, entries.astype(dtype, copy=False), u.key)
        self._directions = [*self._directions[1 - KEPT :], (u, lifted)]
        return lifted

    def values(self, spread: Spread, z: Values) -> Values:
        """x on the coordinates of a spread."""
        if spread.rows is None:
            return self.lift(z)
        tables = self.tables(z.dtype)
        x = spread.of.restrict(z)[..., None] * tables.entry_rows[spread.rows]
        x += tables.x0_rows[spread.rows]
        return _flat(x)

    def spread(self, support: Support) -> Spread:
        """The coordinates that belong to a support of z."""
        for kept in self._spreads:
            if same_draw(kept.of, support) or kept.of.index is support.index:
                return kept
        space, key = self.space, support.key
        if support.q * space.wide >= space.d:  # all, as one direction without gaps
            found = Spread(support, Support(np.arange(space.d), space.d, key=key), None)
        else:
            rows = _axes(support.index, len(space.lead) + 2)
            if space.lead:
                rows = rows + space.m * np.arange(space.lead[0])[:, None, None]
            index = _flat(space.members.reshape(-1, space.wide)[rows])
            found = Spread(support, Support(index, space.d, key=key, _check=False), rows)
        self._spreads = [*self._spreads[1 - KEPT :], found]
        return found

    def apart(self, z: Values, centre: Values) -> Values:
        """mean_i ‖P(z_i − z̄)‖² for each run: that of z where m divides d."""
        gap = z - centre[..., None, :]
        gap *= gap
        gap *= self.space.weights
        mean: Values = gap.sum(axis=-1).mean(axis=-1)
        return mean

    def _by_column(self, z: Values) -> Values:
        """z[h(c)] of every coordinate, as a new array."""
        column = self.space.column
        if column.ndim == 1:
            return np.take(z, column, axis=-1)
        x = np.empty((*z.shape[:-1], self.space.d), z.dtype)
        for k, of_run in enumerate(column):
            x[..., k, :, :] = np.take(z[..., k, :, :], of_run, axis=-1)
        return x

    def tables(self, dtype: np.dtype[Any]) -> Tables:
        """x0 and the entries of P in a type."""
        if dtype not in self._tables:
            space, members = self.space, self.space.members
            x0, entries = self._x0.astype(dtype), (space.signs * space.scale).astype(dtype)
            by_column = (
                np.take_along_axis(each, members.reshape(*space.lead, -1), axis=-1).reshape(-1, space.wide)
                for each in (x0, entries)
            )
            self._tables[dtype] = Tables(x0[..., None, :], entries[..., None, :], *by_column)
        return self._tables[dtype]


def _axes(array: Values, ndim: int) -> Values:
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def _flat(array: Values) -> Values:
    """The last two axes as one."""
    return array.reshape(*array.shape[:-2], -1)


def lifting_of(start: Values, size: int, seed: Seed) -> Lifting:
    """The subspace of a seed around the start of all nodes, (n, d)."""
    if (start != start[:1]).any():
        raise InputError("nodes of a subspace share its origin; give one x0 of shape (d,), or equal rows")
    return Lifting(Subspace(Tape(seed), d=start.shape[-1], m=size), start[0])


class LiftedState(Coordinates):
    """States z (…, n, m) with x beside them: a step on q axes writes q · d/m entries of x.

    Methods see z; the snapshot is z. x is an array or what the problem asked for.
    """

    lifts_itself: ClassVar[bool] = False  # queries are answered from z, for the problem that asked for it

    def __init__(self, lifting: Lifting, z: Values, x: Any) -> None:
        self.lifting, self.z, self._x = lifting, z, x
        self.dtype, self.shape = z.dtype, z.shape
        self.load(z)

    @property
    def x(self) -> Any:
        return self._x

    def restrict(self, support: Support) -> Values:
        return support.restrict(self.z)

    def put(self, support: Support, values: Values) -> Self:
        support.put(self.z, values, out=self.z)
        spread = self.lifting.spread(support)
        self._x = spread.at.put(self._x, self.lifting.values(spread, self.z), out=self._x)
        return self

    def zeros_like(self) -> Any:
        """Zeros like z: nothing but x has d entries."""
        return np.zeros_like(self.z)

    def load(self, snapshot: Values) -> Self:
        self.z[...] = snapshot
        x = self.lifting.lift(self.z)
        self._x = x if isinstance(self._x, np.ndarray) else self._x.load(x)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return np.array(self.z, dtype, copy=copy)
