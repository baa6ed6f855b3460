"""One run on people's own losses, round by round: ask and tell, or an oracle that answers."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from zocosmo.blackbox.functions import as_start
from zocosmo.channel import MemoryChannel, Wire
from zocosmo.core.payload import Bits
from zocosmo.core.support import Direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError, OracleError
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.methods.base import Draw, Method, Step, World, drive
from zocosmo.oracle import Mask, Oracle, TwoQuery, Values, disagreement, two_query
from zocosmo.sim.draws import DrawAhead

Arrays = dict[str, NDArray[Any]]


class Ask(NamedTuple):
    """What round `round` wants to know: f_i at both points of every active node."""

    round: int
    points: Values  # (2, n, d): x + μu, then x − μu
    active: Mask  # (n,); answers of the others are not read


class Optimizer:
    """One run of a method over a graph, all nodes in this memory; the caller brings the losses.

    Either `ask` for points and `tell` what their losses are, or have `advance` ask an oracle: the same bits.

    >>> from zocosmo.graphs import ring
    >>> from zocosmo.methods import Cosmo
    >>> run = Optimizer([1.0, 2.0], graph=ring(4), method=Cosmo(q=1, eta=0.1, mu=0.01))
    >>> while run.t < 100:
    ...     run.tell((run.ask().points ** 2).sum(axis=-1))
    >>> bool(np.abs(run.mean).max() < 1e-6), run.bits_per_node, run.nfev
    (True, 12800.0, 800)
    """

    def __init__(
        self,
        x0: ArrayLike,
        *,
        graph: Graph,
        method: Method,
        seed: Seed = 0,
        schedule: Chosen = "auto",
        wire: str = "f64",
        dtype: DTypeLike = np.float64,
    ) -> None:
        start = as_start(x0, graph.n).astype(dtype)
        self.world = World(graph, start.shape[-1], schedule)
        method.check(self.world)
        self.graph, self.method, self.t, self.nfev = graph, method, 0, 0
        self.query_loss = float("nan")  # mean of all that was answered in the last round
        options: dict[str, Any] = {"d": self.world.d, "wire": wire, "codecs": (method.codec,), "dtype": dtype}
        options["server"] = method.server
        self._channel, self._scratch = (MemoryChannel([graph], **options) for _ in range(2))
        self._scratch.at_most = True
        self._draws = DrawAhead(method, [self.world], [seed], np.dtype(dtype))
        self._state = method.init(start)
        self._tape = np.frombuffer(bytes.fromhex(Tape(seed).commitment()), np.uint8)
        self._touched: Direction | None = None  # what the last round asked along
        self._step: Step | None = None  # of the round under way, stopped where it asked
        self._query: TwoQuery | None = None
        self._spare: Any = None  # a state that prices rounds
        self._heard: list[tuple[float, int]] = []  # in this round: sums of answers, and how many

    @property
    def x(self) -> Values:
        """The states of all nodes, (n, d), as a copy."""
        x: Values = self._state.x.copy()
        return x

    @property
    def mean(self) -> Values:
        """x̄, the average over the network, (d,)."""
        with np.errstate(all="ignore"):
            mean: Values = self.method.model(self._state)
        return mean

    @property
    def disagreement(self) -> float:
        """mean_i ‖x_i − x̄‖²"""
        with np.errstate(all="ignore"):
            return float(disagreement(self._state.x.astype(np.float64, copy=False), self.mean))

    @property
    def wire(self) -> Wire:
        return self._channel.wire

    @property
    def bits(self) -> Bits:
        """What crossed the network so far."""
        return self._channel.ledger(self.method.codec).network()

    @property
    def bits_per_node(self) -> float:
        """Payload sent so far, on average over the nodes."""
        return self.bits.payload / self.graph.n

    def is_finite(self, *, everywhere: bool = True) -> bool:
        """Whether all states are; or only those coordinates that the last round asked along, for O(q)."""
        x = self._state.x
        if not everywhere and self._touched is not None:
            return bool(np.isfinite(self._touched.restrict(x)).all())
        if self.method.server and not np.isfinite(self.mean).all():
            return False  # nodes may not have heard of it yet
        with np.errstate(all="ignore"):  # a sum finds out without a copy, unless it overflows by itself
            return bool(np.isfinite(x.sum()) or np.isfinite(x).all())

    def ask(self) -> Ask:
        """The points of this round; the same ones until they are told."""
        query = self._pending()
        return Ask(self.t, np.stack(query.points()), self._active(query))

    def tell(self, values: ArrayLike) -> None:
        """The losses at the points asked for, (2, n). Refused values leave all as it was: tell again."""
        if self._query is None:
            raise InputError(f"nothing was asked in round {self.t} yet; call ask() before tell()")
        active = self._active(self._query)
        answers = self._checked(np.asarray(values), active)
        with np.errstate(all="ignore"):
            for row in answers:
                self._hear(row, active)
            slope = self._query.slope(*answers)
        self._answer(slope)

    def advance(self, oracle: Oracle) -> None:
        """The rest of this round, asking the oracle. Entries are shifted in place: no d-vector is copied.

        An oracle that raises leaves all as it was before its query.
        """
        t, loud = self.t, np.geterr()

        def listen(x: Values, t: int, *, active: Mask | None = None) -> Values:
            with np.errstate(**loud):  # people's own warnings are theirs
                answers = oracle(x, t, active=active)
            self._hear(answers, active)
            return answers

        while self.t == t:
            query, heard = self._pending(), len(self._heard)
            try:
                with np.errstate(all="ignore"):
                    slope = two_query(listen, query, t)
            except BaseException:
                del self._heard[heard:]
                raise
            self._answer(slope)

    def next_bits(self) -> Bits:
        """What this round will send over the network, known in advance: coins are public, and so are sizes;
        the most it may, where a message is as long as private values say. The step is played on a state
        beside, with slopes of zero: values have no say in it."""
        self._check_between()
        self._scratch.ledger(self.method.codec).counts[...] = 0
        zero = np.zeros((*self._state.x.shape[:-1], 1), self._state.x.dtype)
        fresh = self._spare is None or self.method.histories  # which say what is still to be sent
        spare = self._copied() if fresh else self._spare
        with np.errstate(all="ignore"):
            step = self.method.step(self.t, spare, self._draw(), self._scratch)
            self._spare = drive(step, lambda query: zero)
        return self._scratch.ledger(self.method.codec).network()

    def arrays(self) -> Arrays:
        """All that an exact continuation needs, as copies."""
        self._check_between()
        return self._arrays()

    def _arrays(self) -> Arrays:
        state = {f"state.{k}": part for k, part in self._copied()._asdict().items() if part is not None}
        paid = self._channel.ledger(self.method.codec).counts - self._begun()
        bits = {f"bits.{self.method.codec}": paid}
        loss = np.array(self.query_loss)
        counts = {"t": np.array(self.t), "queries": np.array(self.nfev)}
        return {**state, **bits, **counts, "query_loss": loss, "tape": self._tape}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `arrays` gave, in an optimizer made alike: `tape` tells its seed from others."""
        for name, part in self._arrays().items():
            if name not in arrays or not self._fits(name, np.shape(arrays[name]), part.shape):
                got = np.shape(arrays[name]) if name in arrays else "nothing"
                raise InputError(f"{name} must have shape {part.shape}, got {got}; was it another run?")
        if (np.asarray(arrays["tape"]) != self._tape).any():
            raise InputError("these arrays are of a run with another seed; make the optimizer with that seed")
        names = [name for name in self._state._fields if f"state.{name}" in arrays]
        self._state = self._state._replace(**{name: arrays[f"state.{name}"].copy() for name in names})
        codec = self.method.codec
        self._channel.ledger(codec).counts[...] = arrays[f"bits.{codec}"]
        self.t, self.nfev = int(arrays["t"]), int(arrays["queries"])
        self.query_loss = float(arrays["query_loss"])
        self._step, self._query, self._heard = None, None, []

    def _fits(self, name: str, found: tuple[int, ...], here: tuple[int, ...]) -> bool:
        """Whether a part has the shape it should; a history may be longer or shorter, on its first axis."""
        if name.removeprefix("state.") in self.method.histories:
            return len(found) == len(here) and found[1:] == here[1:]
        return found == here

    def _begun(self) -> Any:
        """What a round that was asked for, and not told yet, has sent before its first query: it is played
        again on the side."""
        if self._step is None or self._heard:
            return 0
        ledger = self._scratch.ledger(self.method.codec)
        ledger.counts[...] = 0
        with np.errstate(all="ignore"):
            step = self.method.step(self.t, self._copied(), self._draw(), self._scratch)
            next(step)
        step.close()
        return self._scratch.ledger(self.method.codec).counts

    def _draw(self) -> Draw:
        return _alone(self._draws.at(self.t))

    def _pending(self) -> TwoQuery:
        if self._query is None:
            self._step = self.method.step(self.t, self._state, self._draw(), self._channel)
            with np.errstate(all="ignore"):
                self._query = next(self._step)
        return self._query

    def _answer(self, slope: Values) -> None:
        """Send the slope into the step: it asks again, or ends the round."""
        assert self._query is not None
        assert self._step is not None
        self.nfev += 2 * int(self._active(self._query).sum())
        self._touched = self._query.u
        try:
            with np.errstate(all="ignore"):
                self._query = self._step.send(slope)
        except StopIteration as done:
            self._state, self._step, self._query = done.value, None, None
            self.query_loss = sum(total for total, _ in self._heard) / sum(count for _, count in self._heard)
            self._heard, self.t = [], self.t + 1

    def _hear(self, answers: Values, active: Mask | None) -> None:
        told = answers if active is None else answers[active]
        self._heard.append((float(told.sum()), told.size))

    def _active(self, query: TwoQuery) -> Mask:
        everyone = np.ones(self.graph.n, bool)
        return everyone if query.active is None else query.active & everyone

    def _checked(self, values: Values, active: Mask) -> Values:
        n = self.graph.n
        if values.shape != (2, n) or values.dtype.kind not in "iuf":
            raise InputError(f"tell takes numbers of shape (2, {n}), got {values.dtype} of {values.shape}")
        for query, node in np.argwhere(~np.isfinite(values) & active).tolist():
            sign, found = "+−"[query], values[query, node]
            where = f"query x {sign} μu"
            raise OracleError(
                f"node {node}, round {self.t}, {where}: the loss is {found:g}; tell a finite number",
                node=node,
                t=self.t,
                query=where,
            )
        kept: Values = np.where(active, values, 0).astype(np.float64)
        return kept

    def _copied(self) -> Any:
        """The state with arrays of its own."""
        return type(self._state)(*(None if part is None else part.copy() for part in self._state))

    def _check_between(self) -> None:
        if self._heard:
            raise InputError(f"round {self.t} is half told; finish it first")


def _alone(draw: Draw) -> Draw:
    """A draw-ahead has an axis of runs, and this is the only one."""
    earlier = draw.earlier
    alone = draw.pick(lambda array: array if array.ndim == 1 else array[0])
    return alone if earlier is None else alone._replace(earlier=lambda t: _alone(earlier(t)))
