"""The driver of a round, used by every engine: the simulator, a process, torch, ask and tell."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.methods.base import Draw, Method, Step
from zocosmo.oracle import Arrays, Measured, Oracle, Problem, Query
from zocosmo.rounds.checkpoint import Bill, Checkpoint, is_fine, make_checkpoint
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.guard import Guard, Guarded
from zocosmo.state import restore, snapshot

Values = NDArray[Any]


class Rounds:
    """Runs a method round by round on the nodes in this process, for one run or many.

    A round is `ask` and `tell` until the method's step ends, or `advance` with an oracle that answers. The
    step takes its draw from `draws`, sends over `channel`, and returns the next state.
    """

    def __init__(
        self,
        method: Method,
        state: Any,
        draws: DrawAhead,
        channel: Channel,
        *,
        lead: tuple[int, ...] = (),
        guard: Guard | None = None,
    ) -> None:
        self.draws, self.channel, self.t = draws, channel, 0
        self.state = state
        self.asked = np.zeros((*lead, len(channel.nodes)), np.int64)  # queries to each node
        self.guarded = Guarded(method, guard, len(channel.graphs), channel.dtype)
        self._step: Step | None = None  # of the current round, paused at its query
        self._query: Query | None = None

    @property
    def method(self) -> Method:
        """The method with its current step size."""
        return self.guarded.now

    # A round

    def draw(self) -> Draw:
        """The public draw of this round."""
        return self.draws.at(self.t)

    @property
    def asking(self) -> Query | None:
        """The query that has no answer yet, if the round has begun."""
        return self._query

    def ask(self) -> Query | None:
        """The next query of this round, the same until `tell`; None if the round ended without one."""
        if self._step is None:
            with np.errstate(all="ignore"):
                self._begin()
        return self._query

    def tell(self, slopes: Values) -> None:
        """Answer the query with slopes (…, n, K): the step asks again or ends the round."""
        with np.errstate(all="ignore"):
            self._take(slopes)

    def advance(self, oracle: Oracle) -> None:
        """One round, answered by an oracle."""
        t = self.t
        with np.errstate(all="ignore"):
            if self._step is None:
                self._begin()
            while self.t == t and self._query is not None:
                self._take(self._answer(oracle, self._query))

    def skip(self) -> None:
        """Skip this round: no query, no message, no change of state."""
        self.drop()
        self.t += 1

    def drop(self) -> None:
        """Abandon the current round; it can be started again."""
        self._step = self._query = None

    def use(self, method: Method) -> None:
        """Continue with other parameters of the same method."""
        self.guarded.method = method
        self.guarded.set(self.guarded.scale)

    def _answer(self, oracle: Oracle, query: Query) -> Values:
        started = oracle.start(query, self.t)
        if oracle.asynchronous:
            coming, *more = self.draws.at(self.t + 1).directions
            oracle.look_ahead(coming, query, self.t + 1, tuple(more))
        return oracle.finish(started)

    def _begin(self) -> None:
        self.channel.begin(self.t)
        self._step = self.method.step(self.t, self.state, self.draw(), self.channel)
        self._send(None)

    def _take(self, slopes: Values) -> None:
        assert self._query is not None
        each, active = self._query.evaluations(), self._query.active
        self.asked += each if active is None else each * active
        self._send(slopes)

    def _send(self, slopes: Values | None) -> None:
        """Run the step to its next query, or to its end, which returns the next state."""
        assert self._step is not None
        try:
            self._query = self._step.send(slopes)  # type: ignore[arg-type]
        except StopIteration as done:
            self.state = done.value
            self.skip()
        except BaseException:
            self.drop()
            raise

    # Snapshots

    def arrays(self) -> Arrays:
        """What an exact resume needs. These are not copies: save them before the next round."""
        bills = {f"bits.{codec}": self.channel.ledger(codec).counts for codec in self.channel.codecs}
        rest = {"t": np.array(self.t), "queries": self.asked}
        return {**snapshot(self.state), **bills, **rest, **self.guarded.arrays(), **self.channel.arrays()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `arrays` returned."""
        self.drop()
        self.state = restore(self.state, arrays)
        for codec in self.channel.codecs:
            self.channel.ledger(codec).counts[...] = arrays[f"bits.{codec}"]
        self.t, self.asked = int(arrays["t"]), np.array(arrays["queries"])
        self.guarded.restore(arrays)
        self.channel.restore(arrays)


class MeasuredRounds(Rounds):
    """Rounds on a problem that measures them; a run diverges if it is not finite, or its objective is above
    `bound` · max(1, F at the start), at a checkpoint."""

    def __init__(
        self,
        method: Method,
        problem: Problem,
        draws: DrawAhead,
        channel: Channel,
        *,
        stages: Any,
        bound: float,
        guard: Guard | None,
    ) -> None:
        runs = len(channel.graphs)
        state = method.init(problem.states(method, (runs,), channel.dtype))
        super().__init__(method, state, draws, channel, lead=(runs,), guard=guard)
        self.problem, self.stages, self.bound = problem, stages, bound
        self.alive = np.ones(runs, bool)
        self._first: Values | None = None  # F at the start

    def round(self) -> None:
        """Advance all runs by one round."""
        self.advance(self.problem)

    def judge(self, found: Measured, bill: Bill) -> Checkpoint:
        """The checkpoint from these measurements; runs that diverged are no longer alive."""
        found = found._replace(extra={**found.extra, **self.guarded.columns()})
        self.guarded.see(found.norm, found.local)
        self._first = found.objective if self._first is None else self._first
        was, diverged = self.alive, self.alive & ~is_fine(found, self._first, self.bound)
        self.alive = was & ~diverged
        waits = self.method.talked(self.t) * self.stages
        return make_checkpoint(self.t, found, bill, waits=waits, alive=was, diverged=diverged)

    def arrays(self) -> Arrays:
        first = {} if self._first is None else {"first": self._first}
        kept = {f"problem.{name}": array for name, array in self.problem.snapshot().items()}
        return {**super().arrays(), **first, **kept, "alive": self.alive}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super().restore(arrays)
        self.alive, self._first = np.array(arrays["alive"]), arrays.get("first")
        mine = {name: array for name, array in arrays.items() if name.startswith("problem.")}
        self.problem.restore({name.removeprefix("problem."): array for name, array in mine.items()})
