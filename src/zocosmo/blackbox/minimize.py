"""A whole run in one call, with a result like those of SciPy's optimisers."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

from numpy import broadcast_to, finfo
from numpy.typing import ArrayLike

from zocosmo.blackbox.functions import Lifted, UserOracle, as_oracle, as_start, count_nodes, is_number
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.blackbox.suggest import Suggestion, as_reach, q_reason, suggest, suggest_only_q, suggest_q
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, OracleError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph, ring
from zocosmo.graphs.listed import Chosen
from zocosmo.methods import METHODS
from zocosmo.methods.base import SPELT, Method, World, as_fields, check_number
from zocosmo.methods.mezo import Alone
from zocosmo.oracle import Oracle, Problem, objective
from zocosmo.subspace import lifting_of

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

SUGGESTED = ("q", "eta", "mu")
DONE, SPENT, STOPPED, DIVERGED, FAILED, INTERRUPTED = range(6)


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
    wire: str = "f64",
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
    With `step` normalised, eta is about the length of a step and must be given. `subspace` is the
    size of a public subspace around x0, the same at all nodes, in which the run moves; q, eta and mu are then
    those of its axes.

    `resume` takes the `snapshot` of an earlier result and continues that run to the same bits: pass the same
    arguments, with method=result.method. Losses with `state_dict` and `load_state_dict` have their memory in
    the snapshot.

    An error raised by a round or a measurement carries the result so far as `.result`: an OracleError with
    status 4, anything else (an interrupt, a callback's error) with status 5.

    `log` has a row every `log_every` rounds: query_loss, the mean of the last round's answers, is free;
    measure=True adds the objective at the average for n queries a row. A callback that returns True stops.
    """
    check_whole("log_every", log_every, 1)
    _check_kinds(eta=eta, mu=mu, beta=beta, bound=bound, budget_bits=budget_bits)
    if not bound > 0:
        raise InputError(f"bound must be above 0, got {bound}")
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be a function, got {callback!r}")
    n = count_nodes(fun, x0, graph.n if isinstance(graph, Graph) else None, n)
    _check_limits(rounds, budget_bits, n, METHODS.get(method) if isinstance(method, str) else type(method))
    start = as_start(x0, n)
    far, inside = as_reach(reach, start), None if subspace is None else lifting_of(start, subspace, seed)
    world = World(as_graph(graph, n), start.shape[-1] if inside is None else inside.space.m, schedule)
    oracle = as_oracle(fun, n, vectorized=vectorized, keyed=keyed, timeout=timeout, workers=workers)
    if resume is not None and not isinstance(method, Method):
        raise InputError(f"resume needs the method of the earlier run, got {method!r}; pass result.method")
    several = {"directions": directions, "signs": signs, "sides": sides, "step": step}
    given = {"q": q, "eta": eta, "mu": mu, "beta": beta or None, **several, **options}
    probe = partial(suggest, oracle, start, n=n, seed=seed, wire=wire, reach=reach)
    if inside is not None:
        lifted, z = Lifted(oracle, inside, n), inside.start(n, float, beside=False)
        probe = partial(suggest, lifted, z, n=n, seed=seed, wire=wire, reach=far / inside.space.scale)
    admit = oracle.admit if isinstance(oracle, Problem) else None
    chosen, suggestion = complete_method(method, given, world, wire, probe, admit)
    about: dict[str, Any] = {"seed": seed, "schedule": schedule, "wire": wire, "subspace": subspace}
    run = Optimizer(x0, graph=world.graph, method=chosen, **about)
    if resume is not None:
        run.restore(resume, oracle)
    journal = _Journal(run, oracle, suggestion, log_every, measure, callback)
    try:
        journal.row()
        return journal.result(journal.play(rounds, budget_bits, bound))
    except BaseException as error:
        error.result = journal.partial(error)  # type: ignore[attr-defined]
        raise


def reached(error: BaseException) -> "OptimizeResult | None":
    """The result that `minimize` attached to this error; None for errors raised elsewhere."""
    return vars(error).get("result")


def complete_method(
    method: str | Method,
    given: Mapping[str, Any],
    world: World,
    wire: str,
    probe: Callable[..., Suggestion],
    admit: Callable[[Method], None] | None = None,
) -> tuple[Method, Suggestion | None]:
    """The method with the given fields, and suggestions for missing ones; `admit` may refuse it before
    anything is asked."""
    given = {name: value for name, value in given.items() if value is not None}
    admit = admit or _anyone
    if isinstance(method, Method):
        if given:
            raise InputError(f"a finished method does not take {', '.join(given)}; set them in the method")
        admit(method)
        return method, None
    if not isinstance(method, str):
        raise InputError(f"method must be a name or a finished method such as Cosmo(q=…), got {method!r:.80}")
    check_known("method", method, METHODS)
    kind, d = METHODS[method], world.d
    given, known = as_fields(given), [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            names = sorted(SPELT.get(field, field) for field in known)
            raise InputError(f"method {method} has no {SPELT.get(name, name)!r}; it has {', '.join(names)}")
    if "decay" in given and (isinstance(given["decay"], type) or not hasattr(given["decay"], "factor")):
        raise InputError(
            f"decay must be one made of a class in zocosmo.methods.DECAYS, got {given['decay']!r:.80}"
        )
    for field in fields(kind):
        if field.default is field.default_factory is MISSING and field.name not in (*given, *SUGGESTED):
            raise InputError(f"method {method} needs {field.name!r}, which cannot be suggested; give it")
    missing = [name for name in SUGGESTED if name in known and name not in given]
    if given.get("directions") == "auto":
        return _several(kind, given, world, probe, admit)
    if not missing:
        done = kind(**given)
        admit(done)
        return done, None
    sized = {"q": suggest_q(d, wire), **given} if "q" in known else given
    trial = kind(**{"eta": 1.0, "mu": 1.0, **sized})
    trial.check(world)  # before any query is spent
    admit(trial)
    if missing == ["q"]:
        return trial, suggest_only_q(trial.eta, trial.mu, d, wire)
    if "eta" in missing and trial.settings.get("step_rule", "plain") != "plain":
        raise InputError("with a normalised step eta is the length of a step; give eta")
    found = probe(q=min(trial.size(1, d), d))  # the widest direction of a round
    if "q" in missing:
        found = found._replace(reasons=(q_reason(d, wire), *found.reasons))
    found = found._replace(q=sized.get("q", d))
    if trial.by_sign and found.slope:
        eta = found.eta * found.slope
        why = f"eta = {eta:.3g}: that times the slope {found.slope:.3g}, as steps of {method} ignore its size"
        found = found._replace(eta=eta, reasons=(*found.reasons, why))
    return kind(**{"eta": found.eta, "mu": found.mu, **sized}), found


def _anyone(method: Method) -> None:
    """Refuses no method."""


def _several(
    kind: type[Method],
    given: Mapping[str, Any],
    world: World,
    probe: Callable[..., Suggestion],
    admit: Callable[[Method], None],
) -> tuple[Method, Suggestion]:
    """The method with suggested directions, signs and sides, and whatever else is missing."""
    if set_by_hand := [name for name in ("signs", "sides", "step_rule") if name in given]:
        names = ", ".join(SPELT.get(name, name) for name in set_by_hand)
        raise InputError(f"directions auto chooses signs and sides for plain steps; leave out {names}")
    if "q" not in {field.name for field in fields(kind)}:
        raise InputError(
            f"directions auto chooses directions on supports, and {kind.kind} has no q; give them"
        )
    rest = {name: value for name, value in given.items() if name != "directions"}
    trial = kind(**{"eta": 1.0, "mu": 1.0, "q": 1, **rest})
    trial.check(world)
    admit(trial)
    found = probe(q=given.get("q"), directions="auto")
    chosen = {"directions": found.directions, "signs": found.signs, "sides": found.sides}
    done = kind(**{"eta": found.eta, "mu": found.mu, "q": found.q, **rest, **chosen})
    admit(done)
    return done, found


def as_graph(graph: Graph | str | None, n: int) -> Graph:
    """A graph by its name; by default two nodes are joined, and more form a ring."""
    if isinstance(graph, Graph):
        return graph
    if graph is None:
        return ring(n) if n > 2 else Graph.of(n, [(0, 1)][: n - 1], "complete")
    check_known("graph", graph, GRAPHS)
    try:
        return GRAPHS[graph](n)
    except TypeError:
        raise InputError(f"graph {graph!r} has parameters; pass zocosmo.graphs.{graph}({n}, …)") from None


@dataclass(eq=False)
class _Journal:
    """A run of `minimize` and its log."""

    run: Optimizer
    oracle: Oracle
    suggestion: Suggestion | None
    log_every: int
    measure: bool
    callback: Callable[["OptimizeResult"], Any] | None

    def __post_init__(self) -> None:
        self.extra = self.suggestion.queries if self.suggestion else 0  # queries outside rounds
        self.rows: list[dict[str, float]] = []

    def play(self, rounds: int | None, budget_bits: float | None, bound: float) -> int:
        """Advance until the run ends and return its status; states are checked in full now and then."""
        run, first = self.run, 1.0
        most = None if budget_bits is None else budget_bits * run.graph.n
        while rounds is None or run.t < rounds:
            if most is not None and run.bits.payload + run.next_bits().payload > most:
                return SPENT
            run.advance(self.oracle)
            first = max(first, abs(run.query_loss)) if run.t == 1 else first
            finite = run.is_finite(everywhere=run.t % self.log_every == 0)
            if not finite or not abs(run.query_loss) <= bound * first:
                return DIVERGED
            if self.after_round():
                return STOPPED
        return DONE if run.is_finite() else DIVERGED

    def objective(self) -> float:
        """mean_i f_i(x̄), for n queries."""
        run, oracle = self.run, self.oracle
        self.extra += run.graph.n
        if isinstance(oracle, UserOracle):
            return float(oracle.measure(run.mean, run.t).mean())
        assert isinstance(oracle, Problem)
        return float(objective(oracle, run.mean))

    def row(self, *, ask: bool = True) -> None:
        run = self.run
        extra = {"objective": self.objective() if ask else float("nan")} if self.measure else {}
        queries = run.nfev + self.extra
        row = {"round": run.t, "bits": run.bits_per_node, "queries": queries, "query_loss": run.query_loss}
        self.rows.append({**row, "disagreement": run.disagreement, **extra})

    def after_round(self) -> bool:
        """Log and call back; whether the callback stops the run."""
        run = self.run
        if run.t % self.log_every == 0:
            self.row()
        if self.callback is None:
            return False
        from scipy.optimize import OptimizeResult

        nfev, bits = run.nfev + self.extra, run.bits_per_node
        now = OptimizeResult(x=run.mean, fun=run.query_loss, nit=run.t, nfev=nfev, bits=bits)
        try:
            return bool(self.callback(now))
        except StopIteration:
            return True

    def partial(self, error: BaseException) -> "OptimizeResult":
        """The result when an error was raised, without further queries."""
        failed = isinstance(error, OracleError)
        says = f"{'The oracle failed' if failed else 'Interrupted'} in round {self.run.t}: "
        return self.result(FAILED if failed else INTERRUPTED, says + (str(error) or type(error).__name__))

    def result(self, status: int, message: str = "") -> "OptimizeResult":
        import pandas as pd
        from scipy.optimize import OptimizeResult

        run, fine = self.run, status < DIVERGED
        kept = None if run.is_half_told else run.arrays(self.oracle)  # before queries outside rounds
        if not self.rows or self.rows[-1]["round"] != run.t:
            self.row(ask=fine)
        asked = None if self.measure or not fine else self.objective()
        fun = self.rows[-1].get("objective", float("nan")) if asked is None else asked
        return OptimizeResult(
            x=run.mean,
            fun=fun,
            nit=run.t,
            nfev=run.nfev + self.extra,
            bits=run.bits_per_node,
            bits_by_kind={kind: bits / run.graph.n for kind, bits in run.bits._asdict().items()},
            disagreement=run.disagreement,
            success=fine,
            status=status,
            message=message or self._message(status),
            log=pd.DataFrame(self.rows),
            states=run.x if not run.method.server else broadcast_to(run.mean, run.x.shape).copy(),
            method=run.method,
            suggestion=self.suggestion,
            snapshot=kept,
        )

    def _message(self, status: int) -> str:
        t = self.run.t
        text = {
            DONE: f"All {t} rounds are done.",
            SPENT: f"The budget is spent after {t} rounds; the next would exceed it.",
            STOPPED: f"The callback stopped the run after {t} rounds.",
            DIVERGED: f"The run diverged in round {t - 1}; {self._remedy()}.",
        }[status]
        hopeless = self.suggestion is not None and self.suggestion.signal_to_noise < 1
        return f"{text} Slopes are below the noise: see suggestion." if hopeless else text

    def _remedy(self) -> str:
        """If answers are finite but states are not, a value overflowed on the wire."""
        run, value = self.run, self.run.wire.crosses_as(float)
        if value.bits == 64 or run.is_finite() or not isfinite(run.query_loss):
            return "lower eta"
        most = finfo(value.dtype).max
        return f"a value passed {most:.6g}, the most that wire {value.name} holds: widen it, or lower eta"


def _check_kinds(**given: Any) -> None:
    for name, value in given.items():
        if value is not None and not is_number(value):
            raise InputError(f"{name} must be a number, got {value!r:.80}")


def _check_limits(rounds: int | None, budget_bits: float | None, n: int, kind: type | None) -> None:
    if rounds is None and budget_bits is None:
        raise InputError("say when to stop: give rounds, budget_bits (payload bits per node), or both")
    if rounds is not None:
        check_whole("rounds", rounds, 0)
    if budget_bits is not None:
        check_number("budget_bits", budget_bits, 0)
    if rounds is not None or kind is None or not issubclass(kind, Method):
        return
    if issubclass(kind, Alone):
        raise InputError(f"{kind.kind} sends nothing, so no budget ends its run; give rounds")
    if n == 1 and not kind.server:
        raise InputError("a single node sends nothing, so no budget ends its run; give rounds")
