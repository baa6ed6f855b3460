"""Oracles: what nodes may ask of their private losses, and how a method asks it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import Direction

Values = NDArray[Any]
Mask = NDArray[np.bool_]
Answer = TypeVar("Answer")


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
        here, shift = self.u.restrict(self.x), self.shift()
        return self.u.put(self.x, here + shift), self.u.put(self.x, here - shift)

    def slope(self, f_plus: Values, f_minus: Values) -> Values:
        """[f(x + μu) − f(x − μu)] / 2μ, shape (…, n, 1), in the type of the states."""
        slope: Values = ((f_plus - f_minus)[..., None] / (2 * self.mu)).astype(self.x.dtype, copy=False)
        return slope

    def shift(self) -> Values:
        """μ ε on the support, in the type of the states."""
        shift: Values = np.asarray(self.mu, self.x.dtype) * self.u.signs.astype(self.x.dtype, copy=False)
        return shift


class Loan(NamedTuple):
    """The entries of a state on a support, lent for queries: what is put there is taken back to the bit."""

    values: Values
    put: Callable[[Values], Any]  # gives the state
    put_back: Callable[[], Any]


def lend(x: Any, u: Direction) -> Loan:
    """A loan of x on u. A state that keeps books of its steps has a `lend` of its own: shifts are none."""
    if hasattr(x, "lend"):
        loan: Loan = x.lend(u)
        return loan
    here = u.restrict(x)
    return Loan(here, lambda values: u.put(x, values, out=x), lambda: u.put(x, here, out=x))


def both_sides(query: TwoQuery, ask: Callable[[Any], Answer]) -> tuple[Answer, Answer]:
    """What `ask` says of the state at x + μu, then at x − μu: q entries of it are shifted in place, and put
    back to the bit."""
    loan, shift = lend(query.x, query.u), query.shift()
    try:
        return ask(loan.put(loan.values + shift)), ask(loan.put(loan.values - shift))
    finally:
        loan.put_back()


def two_query(oracle: Oracle, query: TwoQuery, t: int) -> Values:
    """The slope that was asked for.

    An oracle with a `two_query` of its own, such as one that answers both queries at once, is asked that.
    """
    if (at_once := getattr(oracle, "two_query", None)) is not None:
        slope: Values = at_once(query, t)
        return slope
    return query.slope(
        *both_sides(query, lambda x: oracle(x, t, active=query.active).copy())  # it may answer in one array
    )


def estimate(u: Direction, slope: Values) -> Values:
    """The q values of ĝ on S:  (d/q) · slope · ε   [eq:theory_estimator]"""
    g: Values = (u.d / u.q * slope) * u.signs.astype(slope.dtype, copy=False)
    return g


def measures(problem: Problem, x: Values) -> dict[str, Values]:
    """What is measured at one shared point of each run, x of shape (…, d): arrays (…, n) by name.

    "objective" is F_i(x), whose mean over nodes is F(x); a problem may have `measures` of its own that say
    more, and their means are columns of the log.
    """
    everywhere = np.broadcast_to(x[..., None, :], (*x.shape[:-1], problem.n, x.shape[-1]))
    own = getattr(problem, "measures", None)
    if own is None:
        return {"objective": problem.local(np.ascontiguousarray(everywhere))}
    measured: dict[str, Values] = own(everywhere)
    return measured


def objective(problem: Problem, x: Values) -> Values:
    """F(x) = mean_i F_i(x) at one shared point for each run, x of shape (…, d)."""
    mean: Values = measures(problem, x)["objective"].mean(axis=-1)
    return mean


def disagreement(x: Values, centre: Values) -> Values:
    """mean_i ‖x_i − x̄‖² for each run, of states (…, n, d) and their averages (…, d)."""
    apart = x - centre[..., None, :]
    apart *= apart
    mean: Values = apart.sum(axis=-1).mean(axis=-1)
    return mean
