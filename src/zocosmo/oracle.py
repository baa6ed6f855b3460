"""Oracles: what nodes may ask of their private losses, and how a method asks it.

`Oracle` answers queries. `Problem` is an oracle that an engine can run by itself: it knows where to start and
what to measure. Every call an engine makes is declared here, with a default where one is sensible.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.support import Direction, same_draw
from zocosmo.state import lend

Values = NDArray[Any]
Mask = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
Answer = TypeVar("Answer")


class Query(NamedTuple):
    """What a method asks: slopes of f_i at x_i along some directions, for every active node.

    The directions of one query share x, μ and the sample ξ. With two sides a slope is a central difference;
    with one side it is a forward difference, and all directions share f(x).
    """

    x: Any  # (…, n, d): an array or `Coordinates`
    directions: tuple[Direction, ...]
    mu: float
    active: Mask | None = None  # (…, n); None: all
    sides: int = 2  # 2: x ± μu for each direction; 1: x once, then x + μu

    @property
    def u(self) -> Direction:
        """The direction of a query that has one; the first of several."""
        return self.directions[0]

    def each(self) -> Iterator["Query"]:
        """The same query, one direction at a time."""
        if len(self.directions) == 1:
            return iter((self,))
        return (self._replace(directions=(u,)) for u in self.directions)

    def points(self) -> tuple[Values, Values]:
        """x + μu and x − μu, or x with one side, as new arrays."""
        here, shift = self.u.restrict(self.x), self.shift()
        other = here if self.sides == 1 else here - shift
        return self.u.put(self.x, here + shift), self.u.put(self.x, other)

    def slope(self, f_plus: Values, f_other: Values) -> Values:
        """[f(x + μu) − f(x − μu)] / 2μ, or [f(x + μu) − f(x)] / μ with one side: shape (…, n, 1), in the
        type of the states."""
        slope: Values = ((f_plus - f_other)[..., None] / (self.sides * self.mu)).astype(
            self.x.dtype, copy=False
        )
        return slope

    def slopes(self, answers: Sequence[Values]) -> Values:
        """The slopes (…, n, K) from the answers at all points, in the order of `ask_points`."""
        if len(answers) == 2:
            return self.slope(answers[-1], answers[0]) if self.sides == 1 else self.slope(*answers)
        whole = np.stack(answers, axis=-1)
        plus, other = (
            (whole[..., 1:], whole[..., :1]) if self.sides == 1 else (whole[..., ::2], whole[..., 1::2])
        )
        slopes: Values = ((plus - other) / (self.sides * self.mu)).astype(self.x.dtype, copy=False)
        return slopes

    def shift(self, u: Direction | None = None) -> Values:
        """μ ε on the support, in the type of the states; of direction `u`, or of the first."""
        entries = (self.u if u is None else u).entries
        shift: Values = np.asarray(self.mu, self.x.dtype) * entries.astype(self.x.dtype, copy=False)
        return shift

    def evaluations(self) -> int:
        """Loss evaluations at each active node."""
        return len(self.directions) + 1 if self.sides == 1 else 2 * len(self.directions)


def same_question(one: Query, other: Query) -> bool:
    """Whether two queries shift by the same draws and μ, wherever they start."""
    if len(one.directions) != len(other.directions) or one.mu != other.mu:
        return False
    return all(map(same_draw, one.directions, other.directions))


class Measured(NamedTuple):
    """What a checkpoint measures of every run; arrays over runs."""

    objective: Values  # F at the centre
    local: Values  # mean_i F_i(x_i)
    disagreement: Values  # mean_i ‖x_i − x̄‖²
    norm: Values  # ‖x̄‖
    extra: Arrays  # further columns of the log, by name


class Oracle(ABC):
    """Answers f_i(x_i; ξ_{i,t}) of all nodes: x has shape (…, n, d), the answer (…, n).

    The round keys ξ, so all queries of a round see the same sample. Nodes outside `active` need not be asked;
    their entries are not used. x may not be changed or kept.
    """

    asynchronous: bool = False  # `start` returns before the answer is known

    @abstractmethod
    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values: ...

    def slopes(self, query: Query, t: int) -> Values:
        """The slopes that were asked for, (…, n, K) for K directions."""
        return ask_slopes(self, query, t)

    def part(self, k: int, of: int) -> "Callable[..., Values]":
        """What direction k of a query with `of` directions asks; itself, unless directions have their own
        examples."""
        return self

    def start(self, query: Query, t: int) -> Any:
        """Begin to answer; `finish` takes what this returns and gives the slopes.

        Between the two the driver calls `look_ahead` on an asynchronous oracle, so that the next round is
        prepared while a device computes.
        """
        return self.slopes(query, t)

    def look_ahead(  # noqa: B027
        self, coming: Direction, query: Query, t: int, more: tuple[Direction, ...] = ()
    ) -> None:
        """Prepare for round t, which will ask along `coming`, and `more` directions on its support, while
        `query` is being answered."""

    def finish(self, started: Any) -> Values:
        """The slopes of a query that was started."""
        slopes: Values = started
        return slopes

    def snapshot(self) -> Arrays:
        """What the oracle carries from round to round, as arrays by name; empty if nothing."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:  # noqa: B027
        """Continue from what `snapshot` returned."""


class Asks(Protocol):
    """What a problem may know about the method that will ask it."""

    @property
    def kind(self) -> str: ...
    @property
    def on_supports(self) -> bool: ...
    @property
    def vectors(self) -> int: ...
    @property
    def is_one_sided(self) -> bool: ...


class Problem(Oracle):
    """An oracle with a start and exact losses, so that runs on it can be opened, measured and resumed.

    Stacked problems answer for many trials at once, on a leading axis: "(…)" below is () or (trials,).
    """

    n: int
    d: int

    overheard: bool = False  # charge a lone node as if one peer listened
    in_place: bool = False  # the state is a thing such as a model, not a vector
    has_note: bool = False  # `note` says something between checkpoints

    @property
    @abstractmethod
    def x0(self) -> Values:
        """The common start, (…, d), or (d,) where all trials share it."""

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the matrices that x is made of, in its order; empty where that is not known."""
        return ()

    @property
    def structure(self) -> tuple[Any, ...]:
        """What problems must share, besides type and size, to be stacked."""
        return ()

    @property
    def size(self) -> int:
        """Numbers that a node holds: d, or more where states are a view of something larger."""
        return self.d

    # Opening

    def admit(self, method: Asks) -> None:
        """Raise InputError if this problem cannot answer the queries of a method."""

    def states(self, method: Asks, lead: tuple[int, ...], dtype: DTypeLike) -> Any:
        """x of all nodes at the start, (*lead, n, d): an array, or `Coordinates` for methods on supports."""
        x0 = np.asarray(self.x0)[..., None, :]
        return np.array(np.broadcast_to(x0, (*lead, self.n, self.d)), dtype, order="C")

    def lifted(self, lifting: Any, z: Values, x: Any) -> Any:
        """States z of a public subspace, if this problem lifts them itself; None: x is kept beside z."""
        return None

    # Measuring

    @abstractmethod
    def local(self, x: Values) -> Values:
        """F_i(x_i) without noise, shape (…, n)."""

    def measures(self, x: Values) -> Arrays:
        """Measurements of every node at x of shape (…, n, d), by name, each (…, n).

        "objective" is F_i(x_i). The mean over nodes of each becomes a column of the log.
        """
        return {"objective": self.local(np.ascontiguousarray(x))}

    def report(self, centre: Values) -> Arrays:
        """Further columns of the log, measured once for each run at its centre (…, d)."""
        return {}

    def measure(self, x: Any, centre: Callable[[], Values]) -> Measured:
        """Everything a checkpoint records of states x (…, n, d).

        `centre` computes the point of each run at which F is measured, (…, d).
        """
        x, middle = np.asarray(x, np.float64), centre()
        extra = {name: each.mean(axis=-1) for name, each in self.at_centre(middle).items()}
        value, local = extra.pop("objective"), self.local(x).mean(axis=-1)
        apart, length = self.disagreement(x, middle), self.norm(middle)
        return Measured(value, local, apart, length, {**extra, **self.report(middle)})

    def disagreement(self, x: Values, centre: Values) -> Values:
        """mean_i ‖x_i − x̄‖² for each run, of states of all nodes."""
        return disagreement(x, centre)

    def norm(self, centre: Values) -> Values:
        """‖x̄‖ for each run."""
        return norm(centre)

    def vectors(self, x: Values) -> Values:
        """The vectors that states (…, n, d) stand for: themselves, unless d counts the axes of a subspace."""
        return x

    def at_centre(self, centre: Values) -> Arrays:
        """`measures` with every node at one shared point of each run, (…, d)."""
        return self.measures(np.broadcast_to(centre[..., None, :], (*centre.shape[:-1], self.n, self.d)))

    def note(self) -> str:
        """A few words for the progress bar."""
        return ""

    # Splitting and stacking

    @abstractmethod
    def at(self, nodes: Sequence[int]) -> Self:
        """The losses of some nodes only, to the same bits: states then have shape (…, len(nodes), d)."""

    @classmethod
    @abstractmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        """The same losses for many trials at once, on a leading axis."""


def both_sides(query: Query, ask: Callable[[Any], Answer]) -> tuple[Answer, Answer]:
    """What `ask` returns for the state at x + μu, then at x − μu, or at x for one side.

    q entries are shifted in place, and put back to the bit.
    """
    loan, shift = lend(query.x, query.u), query.shift()
    try:
        plus = ask(loan.put(loan.values + shift))
        return plus, ask(loan.put(loan.values if query.sides == 1 else loan.values - shift))
    finally:
        loan.put_back()


def plus_side(query: Query, ask: Callable[[Any], Answer]) -> Answer:
    """What `ask` returns for the state at x + μu; the entries are put back to the bit."""
    loan = lend(query.x, query.u)
    try:
        return ask(loan.put(loan.values + query.shift()))
    finally:
        loan.put_back()


def ask_points(query: Query, ask: Callable[[Any], Answer]) -> list[Answer]:
    """What `ask` returns at every point of a query: at x first if it has one side; then, for each
    direction, at x + μu, and at x − μu if it has two.

    q entries are shifted in place, and put back to the bit. Directions on one support share a loan.
    """
    answers = [ask(query.x)] if query.sides == 1 else []
    loan, on = lend(query.x, query.u), query.u
    try:
        for u in query.directions:
            if u.index is not on.index:
                loan.put_back()
                loan, on = lend(query.x, u), u
            shift = query.shift(u)
            answers.append(ask(loan.put(loan.values + shift)))
            if query.sides == 2:
                answers.append(ask(loan.put(loan.values - shift)))
    finally:
        loan.put_back()
    return answers


def ask_slopes(oracle: Callable[..., Values], query: Query, t: int) -> Values:
    """The slopes of a query, from one call of the oracle for each of its points, one after the other."""

    def ask(x: Any) -> Values:
        return oracle(x, t, active=query.active).copy()  # an oracle may reuse one array for its answers

    return query.slopes(ask_points(query, ask))


def estimate(u: Direction, slope: Values) -> Values:
    """The q values of ĝ on S:  (d/q) · slope · ε   [eq:theory_estimator]"""
    g: Values = (u.d / u.q * slope) * u.entries.astype(slope.dtype, copy=False)
    return g


def estimate_all(u: Direction, more: Values | None, slopes: Values) -> Values:
    """The q values of ĝ on S from K directions on it:  (d/q) (1/K) Σ_k s_k ε_k

    `more` has the entries of all directions but u, (…, K − 1, 1 or n, q); None if K = 1.
    """
    if more is None:
        return estimate(u, slopes)
    g = along(u, more, slopes)
    g *= u.d / (u.q * slopes.shape[-1])
    return g


def along(u: Direction, more: Values | None, slopes: Values) -> Values:
    """Σ_k s_k ε_k on the support that the directions share, added in order of k."""
    total: Values = slopes[..., :1] * u.entries.astype(slopes.dtype, copy=False)
    if more is not None:
        terms = slopes[..., 1:].swapaxes(-1, -2)[..., None] * more.astype(slopes.dtype, copy=False)
        for k in range(more.shape[-3]):
            total += terms[..., k, :, :]
    return total


def objective(problem: Problem, x: Values) -> Values:
    """F(x) = mean_i F_i(x) at one shared point for each run, x of shape (…, d)."""
    mean: Values = problem.at_centre(x)["objective"].mean(axis=-1)
    return mean


def disagreement(x: Values, centre: Values) -> Values:
    """mean_i ‖x_i − x̄‖² for each run, of states (…, n, d) and their averages (…, d)."""
    apart = x - centre[..., None, :]
    apart *= apart
    mean: Values = apart.sum(axis=-1).mean(axis=-1)
    return mean


def norm(centre: Values) -> Values:
    """‖x̄‖ for each run, of averages (…, d)."""
    length: Values = np.sqrt((centre * centre).sum(axis=-1))
    return length
