"""Supports and directions: the coordinates a round touches, and the signs on them."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.distinct import first_distinct
from zocosmo.core.tape import Ids, Tape
from zocosmo.errors import InputError

MAX_D = 2**63

Index = NDArray[np.int64]
Values = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Support:
    """Ordered coordinates s_1 < … < s_q of a d-vector; P = diag(1_S).

    `index` has shape (…, q): leading axes are many supports at once, and broadcast against those of x.

    >>> s = draw_support(Tape(0), 7, d=20, q=4)
    >>> s
    Support(d=20, q=4, index=[3, 9, 15, 17])
    >>> s.restrict(np.arange(20) * 10).tolist()
    [30, 90, 150, 170]
    """

    index: Index
    d: int

    @property
    def q(self) -> int:
        return int(self.index.shape[-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}(d={self.d}, q={self.q}, index={_brief(self.index)})"

    def restrict(self, x: Values) -> Values:
        """Res_S x = (x[s_1], …, x[s_q])   [eq:public_support_lift]"""
        if self.index.ndim == 1:
            return np.take(x, self.index, axis=-1)
        ndim = max(x.ndim, self.index.ndim)
        return np.take_along_axis(_axes(x, ndim), _axes(self.index, ndim), axis=-1)

    def put(self, x: Values, values: Values, *, out: Values | None = None) -> Values:
        """(I − P) x + Lift_S values; with out=x the q entries are written in place."""
        if out is None:
            lead = np.broadcast_shapes(x.shape[:-1], self.index.shape[:-1])
            out = np.broadcast_to(x, (*lead, self.d)).copy()
        elif out is not x:
            out[...] = x
        if self.index.ndim == 1:
            out[..., self.index] = values
        else:
            np.put_along_axis(out, _axes(self.index, out.ndim), values, axis=-1)
        return out

    def lift(self, values: Values) -> Values:
        """Lift_S v = Σ_k v_k e_{s_k}: a d-vector, zero off the support   [eq:ordered_decode]"""
        lead = np.broadcast_shapes(values.shape[:-1], self.index.shape[:-1])
        out = np.zeros((*lead, self.d), values.dtype)
        return self.put(out, values, out=out)


@dataclass(frozen=True, eq=False, repr=False)
class Direction(Support):
    """u = Pε: a support with a sign on each of its coordinates."""

    signs: NDArray[np.int8]

    def shift(self, x: Values, by: float) -> Values:
        """x + by · u"""
        return self.put(x, self.restrict(x) + by * self.signs.astype(x.dtype))


def draw_support(tape: Tape, t: Ids, *ids: Ids, d: int, q: int) -> Support:
    """A uniform q-subset of [d], in O(q) time and memory   [PROTOCOL.md, "support"]

    Ids are the round alone (a global draw), the round and an edge (t, min, max), or the round and a node.
    The k = min(q, d − q) first distinct values of the stream are the support, or what it leaves out.
    """
    check_size(d, q)
    coins = tape.coins("support", t, *ids)
    k = q if 2 * q <= d else d - q
    drawn = first_distinct(coins, d, k)
    index = drawn if k == q else _left_over(drawn, d)
    return Support(index.reshape(*coins.shape, q), d)


def draw_signs(tape: Tape, t: Ids, *ids: Ids, q: int) -> NDArray[np.int8]:
    """q Rademacher signs, the k-th for the k-th coordinate of the support   [PROTOCOL.md, "sign"]"""
    if q < 1:
        raise InputError(f"q = {q} signs cannot be drawn; q is at least 1")
    return tape.coins("sign", t, *ids).signs(q)


def draw_direction(tape: Tape, t: Ids, *ids: Ids, d: int, q: int) -> Direction:
    """u = Pε with support and signs of the same ids: E[uuᵀ] = (q/d) I   [eq:uut]"""
    return Direction(draw_support(tape, t, *ids, d=d, q=q).index, d, draw_signs(tape, t, *ids, q=q))


class SupportRule(Protocol):
    """How the support of a round (and, after it, of an edge or a node) is drawn."""

    def __call__(self, tape: Tape, t: Ids, *ids: Ids, d: int, q: int) -> Support: ...


def check_size(d: int, q: int) -> None:
    """1 ≤ q ≤ d ≤ 2^63, or an error that says which of them fails."""
    if not 1 <= d <= MAX_D:
        raise InputError(f"d = {d} is not a dimension; it must lie between 1 and 2^63")
    if not 1 <= q <= d:
        raise InputError(f"q = {q} coordinates of d = {d} cannot be drawn; q must lie between 1 and d")


def _left_over(left_out: Index, d: int) -> Index:
    """All of 0…d−1 but what each row leaves out, ascending."""
    kept = np.ones((len(left_out), d), bool)
    np.put_along_axis(kept, left_out, False, axis=1)
    return np.nonzero(kept)[1].reshape(len(left_out), -1)


def _axes(array: Values, ndim: int) -> Values:
    return array.reshape((1,) * (ndim - array.ndim) + array.shape)


def _brief(index: Index) -> str:
    if index.ndim > 1:
        return f"array{index.shape}"
    head = ", ".join(map(str, index[:4].tolist()))
    return f"[{head}{', …' if index.size > 4 else ''}]"
