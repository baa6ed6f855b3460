"""A whole run in one call, with a result like those of SciPy's optimisers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from zocosmo._version import __version__
from zocosmo.blackbox.asked import is_number
from zocosmo.blackbox.choice import as_graph, with_defaults
from zocosmo.blackbox.course import Course, Limits
from zocosmo.blackbox.functions import UserOracle, as_oracle, as_start, count_nodes
from zocosmo.blackbox.journal import Journal, point_of
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.blackbox.place import Place, as_place
from zocosmo.blackbox.questions import method_entry, schedule_entry
from zocosmo.blackbox.suggest import as_reach
from zocosmo.blackbox.traces import RunTrace
from zocosmo.blackbox.tuning import Space, Tuning
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_whole
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.methods import METHODS
from zocosmo.methods.base import Method, World
from zocosmo.oracle import Oracle, Problem, Values

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


def minimize(
    fun: Any,
    x0: ArrayLike,
    *,
    graph: Graph | str | None = None,
    n: int | None = None,
    method: str | Method = "cosmo",
    q: int | None = None,
    eta: float | None = None,
    mu: float | None = None,
    rounds: int | None = None,
    budget_bits: float | None = None,
    reach: ArrayLike | None = None,
    seed: Seed = 0,
    beta: float = 0.0,
    directions: int | str | None = None,
    signs: str | None = None,
    sides: int | None = None,
    step: str | None = None,
    schedule: Chosen = "auto",
    wire: str | None = None,
    subspace: int | None = None,
    vectorized: bool = False,
    keyed: bool = False,
    timeout: float | None = None,
    workers: int = 1,
    callback: Callable[["OptimizeResult"], Any] | None = None,
    log_every: int = 10,
    measure: bool = False,
    bound: float = 1e12,
    resume: Mapping[str, Any] | None = None,
    bounds: Any = None,
    scale: ArrayLike | None = None,
    tol: float | None = None,
    journal: str | Path | None = None,
    **options: Any,
) -> "OptimizeResult":
    """Minimise mean_i f_i(x) from queries alone, over a network simulated in memory.

    `fun` is f(x) → number for all nodes, a list with one function for each node, or an oracle. The default
    graph joins two nodes; more form a ring. x0 is one start (d,), or one for each node (n, d), such as
    `result.states` of an earlier run; with a server those all equal its model, as inactive nodes lag behind.
    The run stops after `rounds`, or before `budget_bits` (mean payload per node) would be exceeded.
    `schedule` is a name, or your own matchings and weights (`Listed`, or a mapping). Missing q, eta and mu
    come from `suggest`, whose probes go as far as `reach`: see `result.suggestion`; its queries are counted.
    `options` are further fields of the method, such as coupling. `directions` sign vectors share a support,
    with `signs` independent or orthogonal and slopes from `sides` 1 or 2; "auto" leaves them to `suggest`.
    Where none of q, eta, mu, directions, signs, sides, step and wire is named, they are left to it too, and
    values cross in 8 bits (mod8); a named one leaves the others as they were: one direction, 64 bits.
    With `step` normalised, eta is about the length of a step and must be given. `subspace` is the
    size of a public subspace around x0, the same at all nodes, in which the run moves; q, eta and mu are then
    those of its axes.

    No query is outside `bounds`: one pair (lo, hi), or one for each coordinate; None is no bound. `scale`
    says how far each coordinate usefully moves; eta and mu are then those of z = x/scale, rounded to powers
    of two. Left out with eta and mu, it is a quarter of what the bounds leave.

    With `tol` the run polls F along each coordinate now and then, retunes eta, mu and scale if they were left
    out, and stops when what is left to gain is at most tol of what was gained, or when it stagnates. It asks
    at most 2,000 times for each coordinate unless `rounds` or `budget_bits` say otherwise.

    `journal` names a file that keeps every answer. The same call again, after a crash, an interrupt or a
    failure, or with more rounds, takes from it what was paid for and asks only for the rest.

    `resume` takes the `snapshot` of an earlier result and continues that run to the same bits: pass the same
    arguments, with method=result.method. Losses with `state_dict` and `load_state_dict` have their memory in
    the snapshot.

    An error raised by a round or a measurement carries the result so far as `.result`: an OracleError with
    status 4, anything else (an interrupt, a callback's error) with status 5.

    `log` has a row every `log_every` rounds: query_loss, the mean of the last round's answers, is free;
    measure=True adds the objective at the average for n queries a row. A callback that returns True stops.
    """
    check_whole("log_every", log_every, 1)
    _check_kinds(eta=eta, mu=mu, beta=beta, bound=bound, budget_bits=budget_bits, tol=tol)
    if not bound > 0:
        raise InputError(f"bound must be above 0, got {bound}")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function, got {callback!r}")
    n = count_nodes(fun, x0, graph.n if isinstance(graph, Graph) else None, n)
    limits = Limits(rounds, budget_bits, tol, bound)
    limits.check(n, METHODS.get(method) if isinstance(method, str) else type(method))
    start = as_start(x0, n)
    _check_resume(resume, method, tol, journal)
    alone = eta is None and mu is None and isinstance(method, str)
    if resume is not None and "place.scale" in resume:
        scale = np.asarray(resume["place.scale"])
    far, place = as_reach(reach, start), as_place(bounds, scale, start, by_itself=alone)
    world = World(as_graph(graph, n), start.shape[-1] if subspace is None else subspace, schedule)
    oracle = as_oracle(fun, n, vectorized=vectorized, keyed=keyed, timeout=timeout, workers=workers)
    several = {"directions": directions, "signs": signs, "sides": sides, "step": step}
    named = {"q": q, "eta": eta, "mu": mu, "beta": beta or None, **several, **options}
    asks_alike = isinstance(oracle, UserOracle) and not keyed  # directions of a round share no sample
    given = with_defaults(method, named, wire, n=n, several=asks_alike)
    wire = wire or "f64"
    about: dict[str, Any] = {"seed": seed, "schedule": schedule, "wire": wire, "subspace": subspace}
    space = Space(oracle, n, start, place, subspace, seed, wire, None if reach is None else far)
    tuning = None if tol is None else Tuning(space, tol, alone)
    admit = oracle.admit if isinstance(oracle, Problem) else None
    answers = (
        None
        if journal is None
        else _open_journal(journal, oracle, start, place, world, method, given, about, tol)
    )
    if answers is not None:
        ends = {"rounds": rounds, "budget": budget_bits, "tol": tol}
        name = method if isinstance(method, str) else method.kind
        answers.trace = RunTrace(answers.path, world, seed, method=name, **ends)
    course: Course | None = None
    try:
        chosen, suggestion = (tuning or space).complete(method, given, world, admit)
        if tuning is not None:
            place = tuning.place
        plain = place.is_plain and (tuning is None or not tuning.tunes)
        placed: dict[str, Any] = {} if plain else {"bounds": place.pairs(), "scale": place.scale}
        run = Optimizer(x0, graph=world.graph, method=chosen, **about, **placed)
        if resume is not None:
            run.restore(resume, oracle)
        terms = None if tuning is None else tuning.start(run)
        course = Course(run, oracle, suggestion, log_every, measure, callback, terms, answers)
        course.row()
        result = course.result(course.play(limits))
    except BaseException as error:
        if course is not None:
            error.result = course.partial(error)  # type: ignore[attr-defined]
        if answers is not None:
            if answers.trace is not None:
                answers.trace.end("failed" if isinstance(error, Exception) else "stopped", str(error))
            answers.close()
            error.journal = answers  # type: ignore[attr-defined]
        raise
    if answers is not None:
        if answers.trace is not None:
            answers.trace.row(course.run, result.nfev, last=True)
        answers.end()
    return result


def reached(error: BaseException) -> "OptimizeResult | None":
    """The result that `minimize` attached to this error; None for errors raised elsewhere."""
    return vars(error).get("result")


def kept_answers(error: BaseException) -> str:
    """What the journal of a run that ended in this error has, and what to do with it; "" if nothing."""
    journal: Journal | None = vars(error).get("journal")
    if journal is None or not journal.paid:
        return ""
    how = "--resume it" if journal.is_kept else "the same command goes on from there"
    kept = "1 answer is" if journal.paid == 1 else f"{journal.paid} answers are"
    return f"{kept} kept in {journal.path}: {how}"


def _check_kinds(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not is_number(value):
            raise InputError(f"{name} must be a number, got {value!r:.80}")


def _check_resume(resume: Any, method: Any, tol: float | None, journal: Any) -> None:
    if resume is None:
        return
    if not isinstance(method, Method):
        raise InputError(f"resume needs the method of the earlier run, got {method!r}; pass result.method")
    if tol is not None or journal is not None:
        raise InputError("a run with tol or a journal goes on from its journal; leave out resume")


def _open_journal(
    where: str | Path,
    oracle: Oracle,
    start: Values,
    place: Place,
    world: World,
    method: str | Method,
    given: Mapping[str, Any],
    about: Mapping[str, Any],
    tol: float | None,
) -> Journal:
    """The journal of this run; in a folder, a file named after the question, which a run that ends
    deletes."""
    if not isinstance(oracle, UserOracle):
        raise InputError("a journal keeps answers of functions and programs; this is a problem of ours")
    question = {
        **{name: str(value) for name, value in about.items() if name != "schedule"},
        **{f"method.{name}": repr(value) for name, value in given.items() if value is not None},
        **{"x0": point_of(start), "nodes": world.graph.n, "edges": [list(e) for e in world.graph.edges]},
        **{"schedule": schedule_entry(world.chosen), "tol": tol},
        **{"method": method if isinstance(method, str) else method_entry(method), "version": __version__},
        **{name: point_of(part) for name, part in place.arrays().items()},
        "asks": oracle.names(),
    }
    journal = Journal(Path(where), question)
    oracle.use_journal(journal)
    return journal
