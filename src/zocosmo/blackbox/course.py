"""The course of `minimize`: rounds until one of its limits ends them, the log, the result."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import broadcast_to, finfo

from zocosmo.blackbox.functions import UserOracle
from zocosmo.blackbox.journal import Journal
from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.blackbox.progress import Progress
from zocosmo.blackbox.suggest import Suggestion
from zocosmo.blackbox.terms import Terms
from zocosmo.errors import InputError, OracleError, check_whole
from zocosmo.methods.base import Method, check_number
from zocosmo.methods.mezo import Alone
from zocosmo.oracle import Oracle, Problem, objective

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

DONE, SPENT, STOPPED, DIVERGED, FAILED, INTERRUPTED, CONVERGED, STUCK = range(8)
SWEEPS = 2000  # most visits to a coordinate in a run that only a tolerance ends


class Limits(NamedTuple):
    """What ends a run."""

    rounds: int | None
    bits: float | None  # payload of a node, on average
    tol: float | None
    bound: float  # of a round's losses, in units of the first

    def check(self, n: int, kind: type | None) -> None:
        """Refuse limits that end no run."""
        if self.tol is not None:
            check_number("tol", self.tol, 0, 1, open_above=True)
        elif self.rounds is None and self.bits is None:
            raise InputError("say when to stop: give rounds, budget_bits (payload bits per node), or tol")
        if self.rounds is not None:
            check_whole("rounds", self.rounds, 0)
        if self.bits is not None:
            check_number("budget_bits", self.bits, 0)
        if self.rounds is not None or self.tol is not None or kind is None or not issubclass(kind, Method):
            return
        if issubclass(kind, Alone):
            raise InputError(f"{kind.kind} sends nothing, so no budget ends its run; give rounds")
        if n == 1 and not kind.server:
            raise InputError("a single node sends nothing, so no budget ends its run; give rounds")


@dataclass(eq=False)
class Course:
    """A run of `minimize`, its log and its end."""

    run: Optimizer
    oracle: Oracle
    suggestion: Suggestion | None
    log_every: int
    measure: bool
    callback: Callable[["OptimizeResult"], Any] | None
    terms: Terms | None = None
    journal: Journal | None = None

    def __post_init__(self) -> None:
        self._extra = self.suggestion.queries if self.suggestion and self.terms is None else 0
        self.rows: list[dict[str, float]] = []
        self.progress = Progress(self.run.world.d)
        self.run.watch = self.progress.see
        self.ended = ""  # how the terms ended

    @property
    def extra(self) -> int:
        """Queries outside rounds."""
        return self._extra + (0 if self.terms is None else self.terms.poller.ask.queries)

    def play(self, limits: Limits) -> int:
        """Advance until the run ends and return its status; states are checked in full now and then."""
        run, first, bound = self.run, 1.0, limits.bound
        most = None if limits.bits is None else limits.bits * run.graph.n
        if self.terms is not None and (end := self.terms.judge()):
            self.ended = end
            return CONVERGED if end == "converged" else STUCK
        rounds = self._most_rounds(limits)
        while rounds is None or run.t < rounds:
            if most is not None and run.bits.payload + run.next_bits().payload > most:
                return SPENT
            run.advance(self.oracle)
            self.progress.hear(run.query_loss)
            first = max(first, abs(run.query_loss)) if run.t == 1 else first
            if self.terms is not None and self.terms.tunes:
                self._rescue(self.terms)
            finite = run.is_finite(everywhere=run.t % self.log_every == 0)
            if not finite or not abs(run.query_loss) <= bound * first:
                return DIVERGED
            if self.after_round():
                return STOPPED
            if self.terms is not None and run.t >= self.terms.until:
                self.ended = self.terms.close(run)
                if self.ended:
                    return CONVERGED if self.ended == "converged" else STUCK
        return DONE if run.is_finite() else DIVERGED

    def _most_rounds(self, limits: Limits) -> int | None:
        if limits.rounds is not None or limits.bits is not None or self.terms is None:
            return limits.rounds
        return SWEEPS * -(-self.run.world.d // self.terms.q)

    def _rescue(self, terms: Terms) -> None:
        """Give up a term that leads nowhere: it is undone when it is closed."""
        if terms.is_lost(self.run):
            terms.undo(self.run)

    def objective(self) -> float:
        """mean_i f_i(x̄), for n queries."""
        run, oracle = self.run, self.oracle
        self._extra += run.graph.n
        if self.terms is not None and (run.mean == self.terms.x).all():
            self._extra -= run.graph.n
            return self.terms.value
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
        if self.journal is not None and self.journal.trace is not None:
            self.journal.trace.row(run, run.nfev + self.extra)
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
        text = says + (str(error) or type(error).__name__)
        return self.result(FAILED if failed else INTERRUPTED, text)

    def result(self, status: int, message: str = "") -> "OptimizeResult":
        import pandas as pd
        from scipy.optimize import OptimizeResult

        run, fine = self.run, status not in (DIVERGED, FAILED, INTERRUPTED)
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
            query_loss=run.query_loss,
            success=status == CONVERGED or (fine and not self._doubts(status)),
            status=status,
            message=message or self._message(status),
            log=pd.DataFrame(self.rows),
            states=run.x if not run.method.server else broadcast_to(run.mean, run.x.shape).copy(),
            method=run.method,
            suggestion=self.suggestion,
            snapshot=kept,
            scale=None if run.place is None else run.place.scale,
            journal=None if self.journal is None else self.journal.path,
        )

    def _doubts(self, status: int) -> str:
        """Why the end may be no minimum; "" if it is one as far as the answers tell."""
        if self.ended:
            return {
                "converged": "",
                "flat": self._flat(),
                "noise": "what is left to gain is below the noise of F, more than 1 % of what was gained",
                "stuck": "shorter steps gain nothing, although F still falls along some coordinate",
            }[self.ended]
        if self.terms is not None:
            return "the tolerance was not reached"
        return self.progress.doubts(None if self.run.place is None else self.run.place.free)

    def _flat(self) -> str:
        assert self.terms is not None
        flat = np.flatnonzero(self.terms.poll.flat).tolist()
        named = ", ".join(map(str, flat[:5])) + (", …" if len(flat) > 5 else "")
        return f"F does not answer to coordinates {named}; give them a larger scale, or leave them out"

    def _message(self, status: int) -> str:
        t = self.run.t
        text = {
            DONE: f"All {t} rounds are done.",
            CONVERGED: f"Converged after {t} rounds: what is left to gain is below the tolerance.",
            STUCK: f"Stopped after {t} rounds without reaching the tolerance.",
            SPENT: f"The budget is spent after {t} rounds; the next would exceed it.",
            STOPPED: f"The callback stopped the run after {t} rounds.",
            DIVERGED: f"The run diverged in round {t - 1}; {self._remedy()}.",
        }[status]
        doubts = "" if status in (DIVERGED, STOPPED) else self._doubts(status)
        text = f"{text} Not shown to be a minimum: {doubts}." if doubts else text
        hopeless = self.suggestion is not None and self.suggestion.signal_to_noise < 1
        return f"{text} Slopes are below the noise: see suggestion." if hopeless else text

    def _remedy(self) -> str:
        """If answers are finite but states are not, a value overflowed on the wire."""
        run, value = self.run, self.run.wire.crosses_as(float)
        if value.bits == 64 or run.is_finite() or not isfinite(run.query_loss):
            return "lower eta"
        most = finfo(value.dtype).max
        return f"a value passed {most:.6g}, the most that wire {value.name} holds: widen it, or lower eta"
