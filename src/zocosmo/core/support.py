"""Supports and directions: the coordinates a round touches, and the entries on them."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from functools import lru_cache
from typing import Any, Protocol, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.distinct import first_distinct
from zocosmo.core.tape import Coins, Ids, Tape
from zocosmo.errors import InputError, check_whole

MAX_D = 2**63

Index = NDArray[np.int64]
Key = tuple[int, ...]
Values = NDArray[Any]


class Entries(Protocol):
    """A d-vector that is not an array, read and written through supports; see `zocosmo.state.Coordinates`."""

    def restrict(self, support: "Support") -> Values: ...
    def put(self, support: "Support", values: Values) -> Any: ...


class _Places:
    """The last flat places of one index array, kept because a round uses the same ones several times."""

    kept: tuple[Index, tuple[int, ...], Index] | None = None  # index, shape of the state, places

    def of(self, index: Index, x: Values) -> Index | None:
        """Where the coordinates of every row are in x.reshape(-1); None unless the index broadcasts to x."""
        kept = self.kept
        if kept is None or kept[0] is not index or kept[1] != x.shape:
            if not _fits(index.shape[:-1], x.shape[:-1]):
                return None
            self.kept = kept = index, x.shape, index + _row_starts(x.shape)
        return kept[2]


def _fits(lead: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether axes of the shape `lead` broadcast to the shape `into`."""
    return len(lead) <= len(into) and all(
        own in (1, size) for own, size in zip(lead[::-1], into[::-1], strict=False)
    )


@lru_cache(maxsize=16)
def _row_starts(shape: tuple[int, ...]) -> Index:
    """Where each row of an array begins in its flat form, (…, 1)."""
    starts = np.arange(math.prod(shape[:-1])).reshape(*shape[:-1], 1) * shape[-1]
    starts.setflags(write=False)
    return starts


@dataclass(frozen=True, eq=False, repr=False)
class Support:
    """Ordered coordinates s_1 < … < s_q of a d-vector; P = diag(1_S).

    `index` has shape (…, q): leading axes hold many supports and broadcast against those of x.

    >>> s = draw_support(Tape(0), 7, d=20, q=4)
    >>> s
    Support(d=20, q=4, index=[3, 9, 15, 17])
    >>> s.restrict(np.arange(20) * 10).tolist()
    [30, 90, 150, 170]
    """

    index: Index
    d: int
    _: KW_ONLY
    key: Key | None = None  # which draw this is: equal keys are equal draws; None where nobody says
    _places: _Places = field(default_factory=_Places)
    _check: InitVar[bool] = True

    def __post_init__(self, _check: bool) -> None:
        if not _check:
            return
        index = self.index
        if index.ndim < 1 or index.dtype.kind not in "iu" or not index.shape[-1]:
            raise InputError(
                f"a support must be an array of integers, got {index.dtype} of shape {index.shape}"
            )
        if not ascends_below(index, self.d):
            raise InputError(f"coordinates must ascend from 0 to below d = {self.d}, got {_brief(index)}")

    @property
    def q(self) -> int:
        return int(self.index.shape[-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d}, q={self.q}, index={_brief(self.index)})"

    def restrict(self, x: "Values | Entries") -> Values:
        """Res_S x = (x[s_1], …, x[s_q])   [eq:public_support_lift]"""
        if not isinstance(x, np.ndarray):
            return x.restrict(self)
        index, d, shape = self.index, self.d, x.shape
        if shape[-1:] != (d,):
            self._check_last("a state", x, d)
        if index.ndim == 1:
            if index.size == d:
                return x.copy()
            if x.size == d and x.flags.c_contiguous:  # one row: much faster without axes
                return x.take(index).reshape(shape[:-1] + index.shape)
            return np.take(x, index, axis=-1)
        flat = self.places(x)
        if flat is not None:
            return x.reshape(-1).take(flat)
        ndim = max(x.ndim, self.index.ndim)
        return np.take_along_axis(_axes(x, ndim), _axes(self.index, ndim), axis=-1)

    def put(self, x: Any, values: Values, *, out: Any = None) -> Any:
        """(I − P) x + Lift_S values; with out=x the q entries are written in place."""
        if not isinstance(x, np.ndarray):
            return x.put(self, values)
        if out is x and self._is_row(x, values):
            x.reshape(-1)[self.index] = values.reshape(-1)
            return x
        self._check_last("a state", x, self.d)
        self._check_last("values", values, self.q)
        if values.dtype != x.dtype and not np.can_cast(values.dtype, x.dtype, "same_kind"):
            raise InputError(
                f"{values.dtype} values do not fit a state of {x.dtype}; convert the state first"
            )
        if out is None:
            lead = np.broadcast_shapes(x.shape[:-1], self.index.shape[:-1], values.shape[:-1])
            out = np.broadcast_to(x, (*lead, self.d)).copy()
        elif out is not x:
            out[...] = x
        index, d = self.index, self.d
        if index.ndim == 1 and out.size == d and values.size == index.size and out.flags.c_contiguous:
            out.reshape(-1)[slice(None) if index.size == d else index] = values.reshape(-1)
        elif self.index.ndim == 1:
            out[..., slice(None) if self.q == self.d else self.index] = values
        elif (flat := self.places(out)) is not None:
            out.reshape(-1)[flat] = values
        else:
            np.put_along_axis(out, _axes(self.index, out.ndim), values, axis=-1)
        return out

    def places(self, x: Values) -> Index | None:
        """Where the coordinates of every row are in x.reshape(-1); None if x is not contiguous, or all rows
        share one index without axes."""
        if self.index.ndim == 1 or not x.flags.c_contiguous or x.ndim < self.index.ndim:
            return None
        return self._places.of(self.index, x)

    def lift(self, values: Values) -> Values:
        """Lift_S v = Σ_k v_k e_{s_k}: a d-vector, zero off the support   [eq:ordered_decode]"""
        lifted: Values = self.put(np.zeros(self.d, values.dtype), values)
        return lifted

    def _is_row(self, x: Values, values: Values) -> bool:
        """Whether x is one contiguous row of d and these are its q values, of its type, and not all of it."""
        d, q = self.d, self.index.size
        fits = x.shape[-1:] == (d,) and values.shape[-1:] == self.index.shape and x.dtype == values.dtype
        return fits and x.size == d != q == values.size and x.flags.c_contiguous

    @staticmethod
    def _check_last(what: str, array: Values, size: int) -> None:
        if array.shape[-1:] != (size,):
            raise InputError(f"{what} must have {size} entries on the last axis, got shape {array.shape}")


@dataclass(frozen=True, eq=False, repr=False)
class Direction(Support):
    """u = Pε: a support with an entry on each of its coordinates, a sign unless a method draws normals."""

    entries: NDArray[Any]  # signs as int8 when drawn

    @property
    def signs(self) -> NDArray[Any]:
        """The entries of a direction of signs, ±1."""
        return self.entries

    def shift(self, x: Values, by: float, *, out: Values | None = None) -> Values:
        """x + by · u; with out=x in place, touching q entries"""
        shifted: Values = self.put(x, self.restrict(x) + by * self.entries.astype(x.dtype), out=out)
        return shifted

    @classmethod
    def unchecked(cls, index: Index, d: int, entries: NDArray[Any], key: Key | None = None) -> "Direction":
        """From an index that was checked before, alone or as part of another."""
        made = object.__new__(cls)  # a round makes one for each direction: no checks, no defaults
        vars(made).update(index=index, d=d, entries=entries, key=key, _places=_Places())
        return made

    def keyed(self, key: Key | None) -> "Direction":
        """The same direction under a key."""
        return self.with_entries(self.entries, key)

    def with_entries(self, entries: NDArray[Any], key: Key | None = None) -> "Direction":
        """Other entries on the same support: nothing is copied, checked or located again."""
        other = object.__new__(Direction)  # as `unchecked`
        vars(other).update(vars(self), entries=entries, key=key)
        return other

    def pick(self, change: Callable[[Values], Values]) -> "Direction":
        """The directions that `change` picks from the leading axes, unchecked."""
        index, entries = change(self.index), change(self.entries)
        return (
            self.with_entries(entries) if index is self.index else Direction.unchecked(index, self.d, entries)
        )


def same_draw(one: Support, other: Support) -> bool:
    """Whether two supports are one draw: the same object, or equal keys."""
    return one is other or (one.key is not None and one.key == other.key)


def same_support(one: Support, other: Support) -> bool:
    """Whether two draws are on one support, as all directions of a round with several are."""
    return one.index is other.index or same_draw(one, other)


class SupportRule(Protocol):
    """Draws the support of a round, or of an edge or node in a round."""

    def __call__(self, tape: Tape, t: Ids, *ids: Ids, d: int, q: int) -> Support: ...


def draw_support(tape: Tape, t: Ids, *ids: Ids, d: int, q: int) -> Support:
    """A uniform q-subset of [d], in O(q) time and memory   [PROTOCOL.md, "support"]

    The ids are a round (a global draw), a round and an edge (t, min, max), or a round and a node. The first
    k = min(q, d − q) distinct values of the stream are the support or, if q > d/2, its complement.
    """
    d, q = check_size(d, q)
    return Support(distinct(tape.coins("support", t, *ids), d, q), d)


def distinct(coins: Coins, d: int, q: int) -> Index:
    """A uniform q-subset of [d] from each stream, ascending: the rule of `draw_support`."""
    if 2 * q <= d:
        return first_distinct(coins, d, q)
    return _left_over(first_distinct(coins, d, d - q), d)


def draw_signs(tape: Tape, t: Ids, *ids: Ids, q: int) -> NDArray[np.int8]:
    """q Rademacher signs, the k-th for the k-th coordinate of the support   [PROTOCOL.md, "sign"]"""
    return tape.coins("sign", t, *ids).signs(check_whole("the number of signs q", q, 1))


def draw_direction(
    tape: Tape, t: Ids, *ids: Ids, d: int, q: int, rule: SupportRule = draw_support
) -> Direction:
    """u = Pε, support and signs drawn with the same ids: E[uuᵀ] = (q/d) I   [eq:uut]"""
    support = rule(tape, t, *ids, d=d, q=q)
    return Direction(support.index, support.d, draw_signs(tape, t, *ids, q=support.q))


def check_size(d: SupportsIndex, q: SupportsIndex) -> tuple[int, int]:
    """d and q as Python integers, or an error that names the first to violate 1 ≤ q ≤ d ≤ 2^63."""
    whole_d, whole_q = check_whole("d", d, -MAX_D), check_whole("q", q, -MAX_D)
    if not 1 <= whole_d <= MAX_D:
        raise InputError(f"d = {d} is not a dimension; it must lie between 1 and 2^63")
    if not 1 <= whole_q <= whole_d:
        raise InputError(f"q = {q} coordinates of d = {d} cannot be drawn; q must lie between 1 and d")
    return whole_d, whole_q


def ascends_below(index: NDArray[Any], d: int) -> bool:
    """Whether each row is strictly ascending within 0…d−1; rows must not be empty."""
    inside = (index[..., 0] >= 0) & (index[..., -1] < d)
    if not (inside if index.ndim == 1 else inside.all()):
        return False
    if not index.flags.c_contiguous:
        return bool((index[..., 1:] > index[..., :-1]).all())
    flat, q = index.reshape(-1), index.shape[-1]  # all rows in one go; the next row may start below
    ascends = flat[1:] > flat[:-1]
    ascends[q - 1 :: q] = True
    return bool(ascends.all())


def _left_over(left_out: Index, d: int) -> Index:
    """The complement of each row in 0…d−1, ascending."""
    kept = np.ones((*left_out.shape[:-1], d), bool)
    np.put_along_axis(kept, left_out, False, axis=-1)
    return np.nonzero(kept)[-1].reshape(*left_out.shape[:-1], d - left_out.shape[-1])


def _axes(array: Values, ndim: int) -> Values:
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def _brief(index: Index) -> str:
    if index.ndim > 1:
        return f"array{index.shape}"
    head = ", ".join(map(str, index[:4].tolist()))
    return f"[{head}{', …' if index.size > 4 else ''}]"
