"""Oracles over people's own code: Python functions, one vectorised function, or an oracle of their own.

Every answer is checked and every query counted. What goes wrong is an `OracleError` of one line that names
the node, the round and the query: "node 3, round 17, query x + μu: the loss is nan; …".
"""

import inspect
import json
import math
import numbers
import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, NamedTuple, Protocol, SupportsFloat, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.errors import InputError, OracleError, check_whole
from zocosmo.oracle import Arrays, Mask, Oracle, Problem, Values

BRIEF = 200  # characters of a foreign message that are quoted
NUMBER = "return one finite number"

Fun = Callable[..., Any]


@runtime_checkable
class Numbered(Protocol):
    """A user's oracle that says how many nodes it answers for."""

    n: int


@runtime_checkable
class Remembers(Protocol):
    """A user's loss with a memory: what it returns as `state_dict` must fit into JSON."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any) -> None: ...


class Asked(NamedTuple):
    """Which answer is awaited, so that an error can say so."""

    node: int | None  # None: all at once
    t: int
    where: str  # "query x + μu"

    def error(self, found: str, remedy: str) -> OracleError:
        who = "all nodes" if self.node is None else f"node {self.node}"
        text = f"{who}, round {self.t}, {self.where}: {found}; {remedy}"
        return OracleError(text, node=self.node, t=self.t, query=self.where)

    def shaped(self, answers: Values, shape: tuple[int, ...]) -> Values:
        if answers.shape == shape and answers.dtype.kind in "iuf":
            return answers
        found = f"the losses are {answers.dtype} of shape {answers.shape}"
        raise self.error(found, f"return numbers of shape {shape}, one for each node")

    def finite(self, number: float) -> float:
        if math.isfinite(number):
            return number
        remedy = "return a value a little worse than nearby ones there, or move x0 or mu inside"
        raise self.error(f"the loss is {number:g}", remedy)


class UserOracle(Oracle):
    """An oracle that checks and counts. The first call of a round is x + μu, the second x − μu."""

    def __init__(self, n: int) -> None:
        self.n = check_whole("n", n, 1)
        self.queries = np.zeros(self.n, np.int64)
        self._calls = (-1, 0)  # of which round, how many

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values:
        t_before, calls = self._calls
        calls = calls if t == t_before else 0
        self._calls = (-1, 0)  # a round that fails is asked again from its start
        answers = self.ask(x, t, "query x − μu" if calls % 2 else "query x + μu", active=active)
        self._calls = (t, calls + 1)
        return answers

    def measure(self, x: Values, t: int) -> Values:
        """f_i(x) of every node at one common x of shape (d,); queries that no round pays for."""
        return self.ask(np.broadcast_to(x, (self.n, x.shape[-1])), t, "at the average")

    @abstractmethod
    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        """Answers for x (…, n, d), 0.0 for nodes outside `active`; errors say `where`."""

    def _answering(self) -> dict[str, Any]:
        """The user's objects that answer, by name; none where programs do."""
        return {}

    def snapshot(self) -> Arrays:
        """What objects with a memory remember, as JSON."""
        kept = {name: _memory(name, each) for name, each in self._remembering()}
        return {"memory": np.frombuffer(json.dumps(kept).encode(), np.uint8)} if kept else {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `snapshot` returned; memories of nodes hosted elsewhere are left alone."""
        losses = self._remembering()
        kept = json.loads(arrays["memory"].tobytes()) if losses and "memory" in arrays else {}
        for name, each in losses:
            if name not in kept:
                raise InputError(f"the snapshot lacks node {name}; it has {brief(', '.join(kept)) or 'none'}")
            guarded(name, "load_state_dict", partial(each.load_state_dict, kept[name]))

    def _remembering(self) -> list[tuple[str, Remembers]]:
        return [(name, each) for name, each in self._answering().items() if isinstance(each, Remembers)]

    def checked(self, found: Values, t: int, where: str, active: Mask | None) -> Values:
        """Answers (…, n) that came at once: counted, finite, and 0.0 where nobody was asked."""
        asked = np.broadcast_to(True if active is None else active, found.shape)
        self.queries += asked.reshape(-1, self.n).sum(axis=0)
        answers: Values = np.where(asked, found, 0.0).astype(np.float64)
        for place in np.argwhere(~np.isfinite(answers)).tolist():
            Asked(place[-1], t, where).finite(float(answers[tuple(place)]))
        return answers


class OneByOne(UserOracle):
    """Asks nodes one by one, or `workers` of them at a time; answers do not depend on which.

    Each node gets a copy of its x that it may scribble on, the one copy that a query costs. Where several
    nodes fail, the lowest is reported, and `queries` counts the nodes up to it. `nodes` are their numbers,
    where they are some of a larger network; else 0…n−1.
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
            raise InputError(f"{self.n} nodes need {self.n} numbers that differ, got {self.nodes}")
        self.workers = check_whole("workers", workers, 1)
        if timeout is not None and not (is_number(timeout) and 0 < timeout < math.inf):
            raise InputError(f"timeout is a number of seconds above 0, got {timeout!r}; None waits for ever")
        self.timeout = timeout
        self._pool: ThreadPoolExecutor | None = None

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        lead = x.shape[:-1]
        if x.ndim < 2 or lead[-1] != self.n:
            raise InputError(f"x must have shape (…, {self.n}, d), got {x.shape}")
        rows, answers = x.reshape(-1, x.shape[-1]), np.zeros(math.prod(lead))
        asked = np.flatnonzero(np.broadcast_to(True if active is None else active, lead)).tolist()
        found = self._each([partial(self._at, rows, row, t, where) for row in asked])
        for row in asked:
            self.queries[row % self.n] += 1
            answers[row] = next(found)
        next(found, None)  # all are answered: it ends, and abandons nobody
        return answers.reshape(lead)

    def _at(self, rows: Values, row: int, t: int, where: str) -> float:
        query = Asked(self.nodes[row % self.n], t, where)
        return query.finite(self._one(rows[row].copy(), query))

    @abstractmethod
    def _one(self, x: Values, query: Asked) -> float:
        """f_i(x) as it comes, or an OracleError."""

    def _each(self, calls: Sequence[Callable[[], float]]) -> Iterator[float]:
        """What the calls give, in their order; the first error in that order ends them all."""
        if self.workers == 1:
            yield from (call() for call in calls)
            return
        self._pool = self._pool or ThreadPoolExecutor(self.workers, "zocosmo")
        futures = [self._pool.submit(call) for call in calls]
        try:
            for future in futures:
                yield future.result()
        except BaseException as error:
            for future in futures:
                future.cancel()
            self._abandon()
            if isinstance(error, Exception):
                wait(futures)  # nobody is still asking when an error is reported
            else:  # nobody waits for what cannot be ended
                self._pool.shutdown(wait=False)
                self._pool = None
            raise

    def _abandon(self) -> None:
        """End what is under way; a Python function cannot be ended."""
        return


class Functions(OneByOne):
    """One function f(x) → number for all nodes, or one for each.

    With `keyed` it is called as f(x, t): a loss that samples can fix its sample by the round, which the two
    queries of a round share. A function that passes `timeout` is given up, though Python cannot stop it.

    >>> oracle = Functions([lambda x: x.sum(), lambda x: x.max()], n=2)
    >>> oracle(np.array([[1.0, 2.0], [3.0, 4.0]]), t=0).tolist(), oracle.queries.tolist()
    ([3.0, 4.0], [1, 1])
    """

    def __init__(
        self,
        fun: Fun | Sequence[Fun],
        n: int,
        *,
        keyed: bool = False,
        timeout: float | None = None,
        workers: int = 1,
        nodes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(n, timeout=timeout, workers=workers, nodes=nodes)
        self.funs = [fun] * self.n if callable(fun) else list(fun)
        self.keyed = keyed
        if len(self.funs) != self.n:
            raise InputError(f"{self.n} nodes need {self.n} functions, or one for all; got {len(self.funs)}")
        self._fun_of = dict(zip(self.nodes, self.funs, strict=True))
        for i, each in self._fun_of.items():
            if not callable(each):
                raise InputError(f"the loss of node {i} must be a function, got {brief(repr(each))}")

    def _answering(self) -> dict[str, Any]:
        return {str(node): fun for node, fun in self._fun_of.items()}

    def _one(self, x: Values, query: Asked) -> float:
        assert query.node is not None
        call = partial(self._fun_of[query.node], x, *((query.t,) if self.keyed else ()))
        try:
            answer = call() if self.timeout is None else _within(self.timeout, call)
        except _TooLate:
            found = f"the function gave no answer within {self.timeout:g} s"
            raise query.error(found, "raise timeout, or make it faster") from None
        except Exception as error:
            raise _raised(query, error) from error
        return _number(answer, query)


class Vectorized(UserOracle):
    """One function for all nodes at once: fun(X) with X of shape (n, d) gives n losses; keyed, fun(X, t).

    Rows of nodes outside `active` are passed along, but what comes back for them is neither read nor counted.
    """

    def __init__(self, fun: Fun, n: int, *, keyed: bool = False) -> None:
        super().__init__(n)
        if not callable(fun):
            raise InputError(f"the vectorised loss must be one function, got {brief(repr(fun))}")
        self.fun, self.keyed = fun, keyed

    def _answering(self) -> dict[str, Any]:
        return {"all": self.fun}

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        runs = x.reshape(-1, self.n, x.shape[-1])
        found = [self._all(run.copy(), Asked(None, t, where)) for run in runs]
        return self.checked(np.stack(found).reshape(x.shape[:-1]), t, where, active)

    def _all(self, x: Values, query: Asked) -> Values:
        try:
            answers = np.asarray(self.fun(x, query.t) if self.keyed else self.fun(x))
        except Exception as error:
            raise _raised(query, error) from error
        return query.shaped(answers, (self.n,))


class Answered(UserOracle):
    """A plain oracle, called as oracle(x, t, active=…) with x (…, n, d), whose answers (…, n) are checked."""

    def __init__(self, oracle: Oracle, n: int) -> None:
        super().__init__(n)
        self.oracle = oracle

    def _answering(self) -> dict[str, Any]:
        return {"all": self.oracle}

    def ask(self, x: Values, t: int, where: str, *, active: Mask | None = None) -> Values:
        """x is not copied: an oracle may neither change nor keep it."""
        query = Asked(None, t, where)
        try:
            found = np.asarray(self.oracle(x, t, active=active))
        except OracleError:
            raise
        except Exception as error:
            raise _raised(query, error) from error
        return self.checked(query.shaped(found, x.shape[:-1]), t, where, active)


def as_oracle(
    fun: Any,
    n: int,
    *,
    vectorized: bool = False,
    keyed: bool = False,
    timeout: float | None = None,
    workers: int = 1,
) -> Oracle:
    """Whatever people hand over as an oracle for n nodes; oracles and problems pass as they are."""
    if is_plain_oracle(fun):
        fun = Answered(fun, n)
    if isinstance(fun, UserOracle | Problem):
        if fun.n != n:
            raise InputError(f"the oracle answers for {fun.n} nodes, but there are {n}; make them agree")
        if vectorized or keyed or timeout is not None or workers != 1:
            raise InputError("vectorized, keyed, timeout and workers are set where an oracle is made")
        return fun
    if not vectorized:
        return Functions(fun, n, keyed=keyed, timeout=timeout, workers=workers)
    if timeout is not None or workers != 1:
        raise InputError("a vectorised loss is one call for all nodes: leave out timeout and workers")
    return Vectorized(fun, n, keyed=keyed)


def is_plain_oracle(fun: Any) -> bool:
    """Whether it declares the signature of an oracle, with a parameter `active`, and is none of ours."""
    if not callable(fun) or isinstance(fun, UserOracle | Problem):
        return False
    try:
        return "active" in inspect.signature(fun).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return False


def is_number(given: Any) -> bool:
    return isinstance(given, numbers.Real) and not isinstance(given, bool)


def as_start(x0: ArrayLike, n: int | None) -> Values:
    """x0 of shape (d,), the same for all, or (n, d), as new states (n, d); as it is, where n is not known."""
    try:
        start = np.asarray(x0)
    except ValueError:
        raise InputError(f"x0 must be numbers of shape (d,) or (n, d), got rows of {x0!r:.80}") from None
    if start.ndim not in (1, 2) or start.dtype.kind not in "iuf" or not start.size:
        raise InputError(f"x0 must be numbers of shape (d,) or (n, d), got {start.dtype} of {start.shape}")
    if n is not None and start.ndim == 2 and len(start) != n:
        raise InputError(f"x0 has {len(start)} rows for {n} nodes; give one row a node, or one x0 for all")
    if not np.isfinite(start).all():
        raise InputError("x0 must be finite")
    start = start.astype(np.float64, copy=False)
    return start if n is None else np.broadcast_to(start, (n, start.shape[-1])).copy()


def count_nodes(fun: Any, x0: ArrayLike, graph: int | None, n: int | None) -> int:
    """How many nodes there are, from all that says so."""
    if isinstance(fun, str | bytes):
        raise InputError(
            f"fun must be a function, got the text {fun!r:.80}; a program goes into "
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


def _number(answer: Any, query: Asked) -> float:
    """A plain number, NumPy's, a Decimal, or an array of size 1; NaN and infinities pass."""
    try:
        array = np.asarray(answer)
    except Exception:
        raise query.error(f"the loss is {brief(repr(answer))}", NUMBER) from None
    is_object = not array.ndim and array.dtype.kind == "O" and isinstance(answer, SupportsFloat)
    if is_number(answer) or is_object:
        try:
            return float(answer)
        except OverflowError:
            return math.inf
    if array.size == 1 and array.dtype.kind in "iuf":
        return float(array.reshape(()))
    shaped = array.ndim and array.dtype.kind in "iuf"
    raise query.error(
        f"the loss is {f'an array of shape {array.shape}' if shaped else brief(repr(answer))}", NUMBER
    )


class _TooLate(Exception):
    """Not TimeoutError, which a function may raise itself."""


def _within(seconds: float, call: Callable[[], Any]) -> Any:
    """What the call gives or raises, waited for so long; in a daemon thread, as nothing can end it."""
    done: list[tuple[Any, BaseException | None]] = []

    def target() -> None:
        try:
            done.append((call(), None))
        except BaseException as error:
            done.append((None, error))

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(seconds)
    if not done:
        raise _TooLate
    answer, error = done[0]
    if error is not None:
        raise error
    return answer


def guarded(node: int | str, what: str, call: Callable[[], Any]) -> Any:
    """What the user's code returns, or an OracleError that names the node."""
    try:
        return call()
    except Exception as error:
        said = f"{type(error).__name__}: {brief(str(error))}"
        raise OracleError(f"node {node}: {what} raised {said}; make it work for every node") from error


def _memory(node: str, loss: Remembers) -> Any:
    state = guarded(node, "state_dict", loss.state_dict)
    try:
        return json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        found = f"node {node}: state_dict gave what JSON cannot hold: {brief(str(error))}"
        raise OracleError(f"{found}; return numbers, text, lists and mappings") from None


def _raised(query: Asked, error: Exception) -> OracleError:
    found = f"the function raised {type(error).__name__}: {brief(str(error))}"
    return query.error(found, "make it return a number for every x")


def brief(text: str) -> str:
    """On one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= BRIEF else line[: BRIEF - 1] + "…"
