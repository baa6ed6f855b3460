"""Bounds and scale: the public change of coordinates between z, in which methods move, and x, which rigs get.

x = s · z, coordinate by coordinate, with scales s that are powers of two, so neither direction ever rounds.
Every point that leaves for a rig passes `to_x`, which ends in a clip to the bounds: no query is outside them.
That clip hardly ever acts. A query whose shift would cross a bound has its centre moved inside by as much as
is missing, at most μ, so that both of its points fit and its slope is a full central difference. After each
round states are projected onto the box, as in projected gradient descent; optima on a bound are met exactly.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.blackbox.functions import UserOracle
from zocosmo.errors import InputError, OracleError
from zocosmo.oracle import Mask, Oracle, Query, Values
from zocosmo.subspace import Lifting

Array = NDArray[np.float64]

ALIKE = 4.0  # the largest ratio of sizes for which one reach serves all
LEAST, MOST = 2.0**-400, 2.0**400  # scales: their squares are in the range of floats


class Place(NamedTuple):
    """Scales and bounds of d coordinates; a coordinate with lo = hi stays where it is."""

    scale: Array  # (d,) powers of two
    lo: Array  # (d,) bounds of x; −inf where there is none
    hi: Array

    @property
    def is_bounded(self) -> bool:
        return bool(np.isfinite(self.lo).any() or np.isfinite(self.hi).any())

    @property
    def is_plain(self) -> bool:
        """Whether z is x, and free."""
        return not self.is_bounded and bool((self.scale == 1.0).all())

    @property
    def free(self) -> NDArray[np.bool_]:
        """(d,) coordinates that can move."""
        return self.lo < self.hi

    @property
    def box(self) -> tuple[Array, Array]:
        """The bounds of z."""
        return self.lo / self.scale, self.hi / self.scale

    def to_x(self, z: Values) -> Values:
        """The point that a rig gets, in double precision, inside the bounds whatever z is."""
        x: Values = np.clip(np.asarray(z, np.float64) * self.scale, self.lo, self.hi)
        return x

    def to_z(self, x: Values) -> Values:
        z: Values = np.asarray(x, np.float64) / self.scale
        return z

    def inside(self, z: Values) -> Values:
        """The nearest point of the box."""
        return np.clip(z, *self.box).astype(z.dtype, copy=False)

    def well_inside(self, z: Values, reach: Any) -> Values:
        """The nearest point from which no coordinate leaves the box within a reach; the middle of a narrow
        box."""
        return _between(z, *self.box, reach).astype(z.dtype, copy=False)

    def centred(self, query: Query) -> Query:
        """The same query about a centre from which ±μu stays in the box; x is a new array."""
        x = np.array(query.x)
        if not self.is_bounded:
            return query._replace(x=x)
        each = [np.abs(query._replace(directions=(u,)).shift()) for u in query.directions]
        lo, hi = (query.u.restrict(bound) for bound in self.box)
        moved = _between(query.u.restrict(x), lo, hi, np.maximum.reduce(each)).astype(x.dtype, copy=False)
        return query._replace(x=query.u.put(x, moved, out=x))

    def check_mu(self, mu: float) -> None:
        """Refuse a μ that is wider than the box of some coordinate."""
        lo, hi = self.box
        room = np.where(self.free, hi - lo, np.inf)
        if 2 * mu > room.min():
            j = int(room.argmin())
            found = f"mu = {mu:g} does not fit between the bounds of coordinate {j}, {self._range(j)}"
            raise InputError(f"{found}; use at most {room[j] / 2:g}")

    def check_start(self, x0: Values) -> None:
        """Refuse a start outside the bounds."""
        for j in np.flatnonzero(((x0 < self.lo) | (x0 > self.hi)).reshape(-1, len(self.lo)).any(axis=0))[:1]:
            worst = float(np.asarray(x0).reshape(-1, len(self.lo))[:, j].flat[0])
            raise InputError(
                f"x0 has coordinate {j} at {worst:g}, outside its bounds {self._range(int(j))}; start inside"
            )

    def _range(self, j: int) -> str:
        return f"[{self.lo[j]:g}, {self.hi[j]:g}]"

    def pairs(self) -> Array:
        """(d, 2) lo and hi of each coordinate."""
        return np.stack([self.lo, self.hi], axis=1)

    def rescaled(self, scale: Array) -> "Place":
        return self._replace(scale=powers_of_two(scale))

    def arrays(self) -> dict[str, Array]:
        return {"scale": self.scale.copy(), "lo": self.lo.copy(), "hi": self.hi.copy()}


def _between(z: Values, lo: Values, hi: Values, reach: Any) -> Values:
    """z moved as little as leaves a reach to both bounds; the middle where they are nearer than two."""
    with np.errstate(all="ignore"):
        middle = 0.5 * lo + 0.5 * hi
    narrow = hi - lo < 2 * reach
    low, high = np.where(narrow, middle, lo + reach), np.where(narrow, middle, hi - reach)
    moved: Values = np.clip(z, low, high)
    return moved


def as_place(bounds: Any, scale: ArrayLike | None, start: Values, *, by_itself: bool) -> Place:
    """The place of a run that starts at `start`, (d,) or (n, d).

    Without a scale, if `by_itself`, it is (hi − lo)/4 where both bounds of a coordinate are given, and the
    size of x0 for others beside such a coordinate. Where eta or mu is given, in units of x, the scale is 1.
    """
    d = start.shape[-1]
    lo, hi = as_bounds(bounds, d)
    place = Place(np.ones(d), lo, hi)
    place.check_start(start)
    if scale is not None:
        return place.rescaled(as_scale(scale, d))
    if not by_itself:
        return place
    both = np.isfinite(lo) & np.isfinite(hi) & (lo < hi)
    if not both.any():
        return place
    with np.errstate(all="ignore"):
        return place.rescaled(np.where(both, hi / 4 - lo / 4, sizes(start)))


def sizes(start: Values) -> Array:
    """The size of each coordinate of a start: |x0_j|; where that is 0 the smallest of the others, or 1."""
    each = np.abs(start.reshape(-1, start.shape[-1])).max(axis=0).astype(np.float64)
    other = float(each[each > 0].min()) if (each > 0).any() else 1.0
    return np.where(each > 0, each, other)


def are_alike(units: Array) -> bool:
    """Whether a quarter of the largest size moves no coordinate by more than its own."""
    return bool(units.max() <= ALIKE * units.min())


def powers_of_two(sizes: Array) -> Array:
    """The nearest powers of two, in the logarithm."""
    with np.errstate(all="ignore"):
        return np.clip(np.exp2(np.round(np.log2(sizes))), LEAST, MOST)


def as_scale(scale: ArrayLike, d: int) -> Array:
    try:
        given = np.broadcast_to(np.asarray(scale, np.float64), (d,))
    except (TypeError, ValueError):
        raise InputError(
            f"scale must be a number, or one for each of {d} coordinates; got {scale!r:.80}"
        ) from None
    if not ((given >= LEAST) & (given <= MOST)).all():
        raise InputError(f"scale must be positive: how far each coordinate usefully moves; got {scale!r:.80}")
    return given.copy()


def as_bounds(bounds: Any, d: int) -> tuple[Array, Array]:
    """lo and hi of shape (d,), from one pair for all coordinates, a pair for each, or SciPy's Bounds."""
    if bounds is None:
        return np.full(d, -np.inf), np.full(d, np.inf)
    try:
        if type(bounds).__name__ == "Bounds":
            lo, hi = (np.broadcast_to(np.asarray(each, np.float64), (d,)) for each in (bounds.lb, bounds.ub))
        else:
            pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in _pairs(bounds, d)]
            lo, hi = np.array(pairs, np.float64).T
    except (TypeError, ValueError):
        text = f"bounds must be one pair (lo, hi), or a pair for each of {d} coordinates; got {bounds!r:.80}"
        raise InputError(f"{text}; None means no bound") from None
    for j in np.flatnonzero(~(lo <= hi) | (lo == np.inf) | (hi == -np.inf))[:1]:
        raise InputError(f"bounds of coordinate {j} must ascend and be numbers, got [{lo[j]:g}, {hi[j]:g}]")
    return lo.copy(), hi.copy()


def _pairs(bounds: Any, d: int) -> list[Any]:
    given = list(bounds)
    if len(given) == 2 and all(each is None or np.ndim(each) == 0 for each in given):
        return [tuple(given)] * d
    if len(given) != d or any(len(each) != 2 for each in given):
        raise ValueError
    return given


class Behind(UserOracle):
    """An oracle asked in other coordinates than those in which it answers."""

    def __init__(self, oracle: Oracle, n: int) -> None:
        super().__init__(n)
        self.oracle = oracle

    @abstractmethod
    def point(self, x: Values) -> Values:
        """The points that the oracle gets."""

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        x = self.point(x)
        if isinstance(self.oracle, UserOracle):
            return self.oracle.ask(x, t, where, active=active)
        return self.oracle(x, t, active=active)

    def survived(self, error: OracleError) -> None:
        if isinstance(self.oracle, UserOracle):
            self.oracle.survived(error)


class Placed(Behind):
    """An oracle asked at z that answers at x, inside the bounds."""

    def __init__(self, oracle: Oracle, place: Place, n: int) -> None:
        super().__init__(oracle, n)
        self.place = place

    def point(self, x: Values) -> Values:
        return self.place.to_x(x)


class Lifted(Behind):
    """An oracle asked at z, of a subspace, that answers at x."""

    def __init__(self, oracle: Oracle, lifting: Lifting, n: int) -> None:
        super().__init__(oracle, n)
        self.lifting = lifting

    def point(self, x: Values) -> Values:
        return self.lifting.lift(x)
