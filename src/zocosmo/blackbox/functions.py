"""Oracles over user code: Python functions, one vectorised function, or a user's own oracle.

Every answer is checked and every query counted. Failures raise an `OracleError` of one line with the node,
the round and the query: "node 3, round 17, query x + μu: the loss is nan; …".
"""

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Protocol, TypedDict, Unpack, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.blackbox import calls
from zocosmo.blackbox.asked import Asked, as_number, is_number, where_asked
from zocosmo.blackbox.calls import TooLate, brief, within
from zocosmo.blackbox.journal import Journal, Key, point_of
from zocosmo.errors import InputError, OracleError, check_whole
from zocosmo.oracle import Arrays, Mask, Oracle, Problem, Query, Values

Fun = Callable[..., Any]

GRACE = 1.0  # seconds after an interrupt in which an answer that is under way is still kept


class Calls(TypedDict, total=False):
    """How nodes are asked one by one; see `OneByOne`."""

    timeout: float | None
    workers: int
    nodes: Sequence[int] | None


@runtime_checkable
class Numbered(Protocol):
    """A user's oracle that declares how many nodes it answers for."""

    n: int


class UserOracle(Oracle):
    """An oracle that checks and counts answers. The first call of a round is x + μu, the second x − μu; with
    one side the first is x."""

    sides = 2  # of the queries, for error messages
    journal: Journal | None = None  # keeps answers, and gives those that it has

    def __init__(self, n: int) -> None:
        self.n = check_whole("n", n, 1)
        self.queries = np.zeros(self.n, np.int64)
        self._calls = (-1, 0)  # a round, and its calls so far

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values:
        t_before, calls = self._calls
        calls = calls if t == t_before else 0
        self._calls = (-1, 0)  # a round that fails restarts at x + μu
        answers = self.ask(x, t, f"query {where_asked(calls, self.sides)}", active=active)
        self._calls = (t, calls + 1)
        return answers

    def slopes(self, query: Query, t: int) -> Values:
        self.sides = query.sides
        return super().slopes(query, t)

    def measure(self, x: Values, t: int) -> Values:
        """f_i(x) of every node at one common x of shape (d,); these queries belong to no round."""
        return self.ask(np.broadcast_to(x, (self.n, x.shape[-1])), t, "at the average")

    @abstractmethod
    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        """Answers for x (…, n, d), 0.0 for nodes outside `active`; errors say `where`."""

    def survived(self, error: OracleError) -> None:
        """The run goes on in spite of this error: a resumed one must meet it again."""
        if self.journal is not None and error.key is not None:
            self.journal.keep(error.key, str(error))

    def use_journal(self, journal: Journal) -> None:
        """Take answers from a journal before asking, and write down all others."""
        self.journal = journal
        calls.remember(self._answering(), journal.memory)

    def names(self) -> str:
        """What answers, for the journal: a program's template; functions have no name that lasts."""
        return ""

    def _paid(self, key: Key) -> Any:
        """What was answered in an earlier run, or None; an error that it survived is raised again."""
        kept = None if self.journal is None else self.journal.answer(key)
        if isinstance(kept, str):
            raise OracleError(kept, node=key.node, t=key.t, query=key.where)
        return kept

    def _answering(self) -> dict[str, Any]:
        """The user's objects that answer, by name; none where programs do."""
        return {}

    def snapshot(self) -> Arrays:
        return calls.snapshot(self._answering())

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        calls.restore(self._answering(), arrays)

    def checked(self, found: Values, t: int, where: str, active: Mask | None) -> Values:
        """Count answers (…, n) and check that they are finite; 0.0 for nodes that were not asked."""
        asked = np.broadcast_to(True if active is None else active, found.shape)
        self.queries += asked.reshape(-1, self.n).sum(axis=0)
        answers: Values = np.where(asked, found, 0.0).astype(np.float64)
        for place in np.argwhere(~np.isfinite(answers)).tolist():
            Asked(place[-1], t, where).finite(float(answers[tuple(place)]))
        return answers

    def together(
        self, ask: Callable[[], Values], x: Values, t: int, where: str, active: Mask | None
    ) -> Values:
        """Answers of all nodes in one call, checked, and kept in the journal if there is one."""
        if self.journal is None:
            return self.checked(ask(), t, where, active)
        key = Key(-1, t, where, point_of(x))
        paid = self._paid(key)
        if paid is not None:
            return self.checked(np.array(paid).reshape(x.shape[:-1]), t, where, active)
        try:
            answers = self.checked(ask(), t, where, active)
        except OracleError as error:
            error.key = key
            raise
        self.journal.keep(key, answers.reshape(-1).tolist(), calls.memories(self._answering()))
        return answers


class OneByOne(UserOracle):
    """Asks nodes one by one, or `workers` at a time with the same answers.

    Each node gets its own copy of x, which it may modify. If several nodes fail, the lowest is reported, and
    `queries` counts the nodes up to it. `nodes` numbers the nodes of a part of a network; default 0…n−1.
    """

    def __init__(
        self,
        n: int,
        *,
        timeout: float | None = None,
        workers: int = 1,
        nodes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(n)
        self.nodes = list(range(n)) if nodes is None else list(nodes)
        if not len(self.nodes) == len(set(self.nodes)) == self.n:
            raise InputError(f"{self.n} nodes need {self.n} distinct numbers, got {self.nodes}")
        self.workers = check_whole("workers", workers, 1)
        if timeout is not None and not (is_number(timeout) and 0 < timeout < math.inf):
            raise InputError(f"timeout is a number of seconds above 0, got {timeout!r}; None sets no limit")
        self.timeout = timeout
        self._pool: ThreadPoolExecutor | None = None

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        lead = x.shape[:-1]
        if x.ndim < 2 or lead[-1] != self.n:
            raise InputError(f"x must have shape (…, {self.n}, d), got {x.shape}")
        rows, answers = x.reshape(-1, x.shape[-1]), np.zeros(math.prod(lead))
        asked = np.flatnonzero(np.broadcast_to(True if active is None else active, lead)).tolist()

        def at(row: int) -> float:
            query = Asked(self.nodes[row % self.n], t, where)
            return self._kept(rows[row], query)

        found = self._each(at, self._replay(rows, asked, t, where, answers))
        for row in asked:
            self.queries[row % self.n] += 1
            answers[row] = next(found)
        next(found, None)  # ends the generator, which would otherwise cancel the calls
        return answers.reshape(lead)

    def _replay(self, rows: Values, asked: list[int], t: int, where: str, answers: Values) -> list[int]:
        """Take out of `asked` what the journal answers; the rest is returned."""
        if self.journal is None:
            return asked
        live = []
        for row in list(asked):
            paid = self._paid(Key(self.nodes[row % self.n], t, where, point_of(rows[row])))
            if paid is None:
                live.append(row)
                continue
            answers[row] = paid
            self.queries[row % self.n] += 1
        asked[:] = live
        return live

    def _kept(self, x: Values, query: Asked) -> float:
        """The answer of one node, in the journal if there is one."""
        if self.journal is None:
            return query.finite(self._one(x.copy(), query))
        assert query.node is not None
        key = Key(query.node, query.t, query.where, point_of(x))
        try:
            answer = query.finite(self._one(x.copy(), query))
        except OracleError as error:
            error.key = key
            raise
        mine = self._answering().get(str(query.node))
        self.journal.keep(key, answer, calls.memories({str(query.node): mine}))
        return answer

    @abstractmethod
    def _one(self, x: Values, query: Asked) -> float:
        """f_i(x), finite or not, or an OracleError."""

    def _each(self, call: Callable[[int], float], rows: Sequence[int]) -> Iterator[float]:
        """The results of the calls in their order; the first error in that order ends them all."""
        if self.workers == 1:
            yield from map(call, rows)
            return
        self._pool = self._pool or ThreadPoolExecutor(self.workers, "zocosmo")
        futures = [self._pool.submit(call, row) for row in rows]
        try:
            for future in futures:
                yield future.result()
        except BaseException as error:
            for future in futures:
                future.cancel()
            self._abandon()
            if isinstance(error, Exception):
                wait(futures)  # no query is still running when the error is reported
            else:  # an interrupt does not wait long for calls that cannot be stopped
                wait(futures, timeout=GRACE)
                self._pool.shutdown(wait=False)
                self._pool = None
            raise

    def _abandon(self) -> None:
        """Stop running calls, where that is possible: a Python function cannot be stopped."""
        return


class Functions(OneByOne):
    """One function f(x) → number for all nodes, or one for each.

    With `keyed` it is called as f(x, t), so that a loss can key its sample by the round: both queries of a
    round share it. After `timeout` the answer is no longer awaited, though Python cannot stop the function.

    >>> oracle = Functions([lambda x: x.sum(), lambda x: x.max()], n=2)
    >>> oracle(np.array([[1.0, 2.0], [3.0, 4.0]]), t=0).tolist(), oracle.queries.tolist()
    ([3.0, 4.0], [1, 1])
    """

    def __init__(
        self, fun: Fun | Sequence[Fun], n: int, *, keyed: bool = False, **how: Unpack[Calls]
    ) -> None:
        super().__init__(n, **how)
        self.funs = [fun] * self.n if callable(fun) else list(fun)
        self.keyed = keyed
        if len(self.funs) != self.n:
            raise InputError(f"{self.n} nodes need {self.n} functions, or one for all; got {len(self.funs)}")
        self._fun_of: dict[int, Any] = dict(zip(self.nodes, self.funs, strict=True))
        for i, each in self._fun_of.items():
            if not callable(each):
                raise InputError(f"the loss of node {i} must be a function, got {brief(repr(each))}")

    def _answering(self) -> dict[str, Any]:
        return {str(node): fun for node, fun in self._fun_of.items()}

    def _one(self, x: Values, query: Asked) -> float:
        assert query.node is not None
        call = partial(self._fun_of[query.node], x, *((query.t,) if self.keyed else ()))
        try:
            answer = call() if self.timeout is None else within(self.timeout, call)
        except TooLate:
            found = f"the function gave no answer within {self.timeout:g} s"
            raise query.error(found, "raise timeout, or make it faster") from None
        except Exception as error:
            raise query.raised(error) from error
        return as_number(answer, query)


class Vectorized(UserOracle):
    """One function for all nodes at once: fun(X) with X of shape (n, d) returns n losses; keyed, fun(X, t).

    X has the rows of inactive nodes too; their losses are neither read nor counted.
    """

    def __init__(self, fun: Fun, n: int, *, keyed: bool = False) -> None:
        super().__init__(n)
        if not callable(fun):
            raise InputError(f"the vectorised loss must be one function, got {brief(repr(fun))}")
        self.fun, self.keyed = fun, keyed

    def _answering(self) -> dict[str, Any]:
        return {"all": self.fun}

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        query, key = Asked(None, t, where), (t,) if self.keyed else ()

        def ask() -> Values:
            runs = x.reshape(-1, self.n, x.shape[-1])
            found = [query.answers(partial(self.fun, run.copy(), *key), (self.n,)) for run in runs]
            return np.stack(found).reshape(x.shape[:-1])

        return self.together(ask, x, t, where, active)


class Answered(UserOracle):
    """A plain oracle, called as oracle(x, t, active=…) with x (…, n, d), whose answers (…, n) are checked."""

    def __init__(self, oracle: Oracle, n: int) -> None:
        super().__init__(n)
        self.oracle = oracle

    def _answering(self) -> dict[str, Any]:
        return {"all": self.oracle}

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        """x is passed without a copy: an oracle may neither modify nor keep it."""
        ask = partial(self.oracle, x, t, active=active)
        answers = partial(Asked(None, t, where).answers, ask, x.shape[:-1])
        return self.together(answers, x, t, where, active)


def as_oracle(
    fun: Any,
    n: int,
    *,
    vectorized: bool = False,
    keyed: bool = False,
    timeout: float | None = None,
    workers: int = 1,
) -> Oracle:
    """A user's function, list of functions or oracle as an oracle for n nodes; ours are returned as is."""
    if is_plain_oracle(fun):
        fun = Answered(fun, n)
    if isinstance(fun, UserOracle | Problem):
        if fun.n != n:
            raise InputError(f"the oracle answers for {fun.n} nodes, but there are {n}; make them equal")
        if vectorized or keyed or timeout is not None or workers != 1:
            raise InputError("an oracle takes vectorized, keyed, timeout and workers when it is made")
        return fun
    if not vectorized:
        return Functions(fun, n, keyed=keyed, timeout=timeout, workers=workers)
    if timeout is not None or workers != 1:
        raise InputError("a vectorised loss answers all nodes in one call: leave out timeout and workers")
    return Vectorized(fun, n, keyed=keyed)


def is_plain_oracle(fun: Any) -> bool:
    """Whether this is a user's oracle: a callable with a parameter `active`."""
    if not callable(fun) or isinstance(fun, UserOracle | Problem):
        return False
    try:
        return "active" in inspect.signature(fun).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return False


def as_start(x0: ArrayLike, n: int | None) -> Values:
    """x0 of shape (d,) or (n, d), checked, as new states (n, d); in its own shape if n is not known."""
    try:
        start = np.asarray(x0)
    except ValueError:
        raise InputError(f"x0 must be numbers of shape (d,) or (n, d), got rows of {x0!r:.80}") from None
    if start.ndim not in (1, 2) or start.dtype.kind not in "iuf" or not start.size:
        raise InputError(f"x0 must be numbers of shape (d,) or (n, d), got {start.dtype} of {start.shape}")
    if n is not None and start.ndim == 2 and len(start) != n:
        raise InputError(f"x0 has {len(start)} rows for {n} nodes; give one row per node, or one for all")
    if not np.isfinite(start).all():
        raise InputError("x0 must be finite")
    start = start.astype(np.float64, copy=False)
    return start if n is None else np.broadcast_to(start, (n, start.shape[-1])).copy()


def count_nodes(fun: Any, x0: ArrayLike, graph: int | None, n: int | None) -> int:
    """The number of nodes, on which all arguments must agree; 1 if none gives it."""
    if isinstance(fun, str | bytes):
        raise InputError(
            f"fun must be a function, got the text {fun!r:.80}; for a program use "
            "zocosmo.blackbox.commands.Command(text, n), or zocosmo minimize --command"
        )
    said: dict[str, int | None] = {"n": n, "graph": graph}
    if isinstance(fun, UserOracle | Problem):
        said["the oracle"] = fun.n
    elif is_plain_oracle(fun):
        said["the oracle"] = fun.n if isinstance(fun, Numbered) else None
    elif isinstance(fun, Sequence):
        said["the list of functions"] = len(fun)
    elif not callable(fun):
        raise InputError(f"fun must be a function, a list of functions or an oracle, got {fun!r:.80}")
    rows = as_start(x0, None)
    if rows.ndim == 2:
        said["x0"] = len(rows)
    counts = {who: check_whole(who, count, 1) for who, count in said.items() if count is not None}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{who}: {count}" for who, count in counts.items())
        raise InputError(f"the number of nodes must be the same everywhere, got {found}")
    return next(iter(counts.values()), 1)
