"""Oracles: what nodes may ask of their private losses, and how a method asks it."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import Direction

Values = NDArray[Any]
Mask = NDArray[np.bool_]


class Oracle(Protocol):
    """Answers f_i(x_i; ξ_{i,t}) of all nodes: x has shape (…, n, d), the answer (…, n).

    ξ is keyed by the round, so two queries of one round see the same sample. Nodes outside `active` need
    not be asked; what stands in their place is not used. x may not be changed or kept.
    """

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values: ...


@runtime_checkable
class Problem(Oracle, Protocol):
    """An oracle whose exact losses are known too, so that runs on it can be measured."""

    n: int
    d: int

    @property
    def x0(self) -> Values:
        """The common start, shape (…, d)."""
        ...

    def local(self, x: Values) -> Values:
        """F_i(x_i) without noise, shape (…, n)."""
        ...

    def at(self, nodes: Sequence[int]) -> Self:
        """The losses of some nodes only, to the same bits: states then have shape (…, len(nodes), d)."""
        ...

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        """The same losses for many trials at once, on a leading axis."""
        ...


class TwoQuery(NamedTuple):
    """What a method asks in a round: the slope of f_i at x_i along u_i, for every active node."""

    x: Values  # (…, n, d)
    u: Direction
    mu: float
    active: Mask | None = None  # (…, n); None: all

    def points(self) -> tuple[Values, Values]:
        """x + μu and x − μu, as new arrays."""
        here, shift = self.u.restrict(self.x), self._shift()
        return self.u.put(self.x, here + shift), self.u.put(self.x, here - shift)

    def slope(self, f_plus: Values, f_minus: Values) -> Values:
        """[f(x + μu) − f(x − μu)] / 2μ, shape (…, n, 1), in the type of the states."""
        slope: Values = ((f_plus - f_minus)[..., None] / (2 * self.mu)).astype(self.x.dtype, copy=False)
        return slope

    def _shift(self) -> Values:
        shift: Values = np.asarray(self.mu, self.x.dtype) * self.u.signs.astype(self.x.dtype, copy=False)
        return shift


def two_query(oracle: Oracle, query: TwoQuery, t: int) -> Values:
    """The slope that was asked for. The q entries are shifted in place and put back to the bit."""
    x, u, active = query.x, query.u, query.active
    here, shift = u.restrict(x), query._shift()
    try:
        f_plus = oracle(u.put(x, here + shift, out=x), t, active=active).copy()  # it may answer in one array
        f_minus = oracle(u.put(x, here - shift, out=x), t, active=active)
    finally:
        u.put(x, here, out=x)
    return query.slope(f_plus, f_minus)


def estimate(u: Direction, slope: Values) -> Values:
    """The q values of ĝ on S:  (d/q) · slope · ε   [eq:theory_estimator]"""
    g: Values = (u.d / u.q * slope) * u.signs.astype(slope.dtype, copy=False)
    return g


def objective(problem: Problem, x: Values) -> Values:
    """F(x) = mean_i F_i(x) at one shared point for each run, x of shape (…, d)."""
    everywhere = np.broadcast_to(x[..., None, :], (*x.shape[:-1], problem.n, x.shape[-1]))
    mean: Values = problem.local(np.ascontiguousarray(everywhere)).mean(axis=-1)
    return mean


def disagreement(x: Values, centre: Values) -> Values:
    """mean_i ‖x_i − x̄‖² for each run, of states (…, n, d) and their averages (…, d)."""
    apart = x - centre[..., None, :]
    apart *= apart
    mean: Values = apart.sum(axis=-1).mean(axis=-1)
    return mean
