"""A run on users' own losses: the rounds of a method, all nodes in memory, points as rigs get them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from zocosmo.blackbox.choice import as_graph, complete_method
from zocosmo.blackbox.functions import UserOracle, as_start, count_nodes
from zocosmo.blackbox.place import as_place
from zocosmo.channel import MemoryChannel
from zocosmo.core.payload import Bits
from zocosmo.core.support import Direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.methods.base import Method, State, World
from zocosmo.oracle import (
    Arrays,
    Mask,
    Oracle,
    Problem,
    Query,
    Values,
    both_sides,
    disagreement,
    plus_side,
)
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import Rounds
from zocosmo.subspace import lifting_of


class Engine:
    """The rounds of a run; `Optimizer` adds asking, telling and files."""

    def __init__(
        self,
        x0: ArrayLike,
        *,
        graph: Graph | str | None = None,
        method: Method | str = "cosmo",
        n: int | None = None,
        seed: Seed = 0,
        schedule: Chosen = "auto",
        wire: str = "f64",
        dtype: DTypeLike = np.float64,
        subspace: int | None = None,
        bounds: Any = None,
        scale: ArrayLike | None = None,
        **given: Any,
    ) -> None:
        graph = as_graph(graph, count_nodes(_nobody, x0, graph.n if isinstance(graph, Graph) else None, n))
        start = as_start(x0, graph.n)
        place = as_place(bounds, scale, start, by_itself=False)
        self.place = None if place.is_plain and scale is None else place
        self._about = {"seed": seed, "wire": wire, "dtype": np.dtype(dtype).name, "subspace": subspace}
        self._x0 = start
        start = start.astype(dtype) if self.place is None else self.place.to_z(start).astype(dtype)
        m = start.shape[-1] if subspace is None else subspace
        method, _ = complete_method(method, given, World(graph, m, schedule), wire, _cannot_probe)
        if self.place is not None:
            self.place.check_mu(method.mu)
        self.lifting = None if subspace is None else lifting_of(start, subspace, seed)
        if self.lifting is not None:
            start = self.lifting.start(graph.n, dtype, beside=method.on_supports)
        self.world = World(graph, start.shape[-1], schedule)
        method.check(self.world)
        self.graph, self.method = graph, method
        self.query_loss = float("nan")  # mean of all answers of the last round
        draws = DrawAhead(method, [self.world], [seed], np.dtype(dtype), runs=False)
        tape = Tape(seed)
        crosses = method.wire_for(wire, dtype)
        about: dict[str, Any] = {"d": self.world.d, "wire": crosses, "dtype": dtype, "server": method.server}
        channel, priced = (
            MemoryChannel([graph], codecs=(method.codec,), tape=tape, **about) for _ in range(2)
        )
        priced.at_most = True
        self.wire = channel.wire
        self._rounds = Rounds(method, method.init(start), draws, channel)
        self._rehearsal = Rounds(method, None, draws, priced)  # prices rounds in advance
        self._tape = np.frombuffer(bytes.fromhex(tape.commitment()), np.uint8)
        self._touched: Direction | None = None  # the last direction asked along
        self._told: list[Values] = []  # slopes of the pending query so far, one for each direction
        self._of = 1  # directions of the pending query
        self._here: Values | None = None  # f at x, if the pending query has one side and it was told
        self._heard: list[tuple[float, int]] = []  # sums and counts of this round's answers
        self._before = 0  # calls of this round's earlier queries
        self.watch: Callable[[Query, Values], None] | None = None  # sees all slopes of a query

    @property
    def t(self) -> int:
        """Rounds done."""
        return self._rounds.t

    @property
    def nfev(self) -> int:
        """Queries answered."""
        query, done = self._rounds.asking, int(self._rounds.asked.sum())
        if query is None:
            return done
        told = query.sides * len(self._told) + (self._here is not None)
        return done + (told * int(self._active(query).sum()) if told else 0)

    @property
    def _state(self) -> Any:
        return self._rounds.state

    @property
    def x(self) -> Values:
        """The states of all nodes, (n, d), as a copy."""
        x = np.array(self._state.x)
        x = x if self.lifting is None else self.lifting.lift(x)
        return x if self.place is None else self.place.to_x(x)

    @property
    def mean(self) -> Values:
        """x̄, the average over the network, (d,)."""
        with np.errstate(all="ignore"):
            mean: Values = self.method.model(self._state)
            mean = mean if self.lifting is None else self.lifting.lift_one(mean)
            return mean if self.place is None else self.place.to_x(mean)

    @property
    def disagreement(self) -> float:
        """mean_i ‖x_i − x̄‖²"""
        with np.errstate(all="ignore"):
            if self.place is not None:
                return float(disagreement(self.x, self.mean))
            x, mean = np.asarray(self._state.x, np.float64), self.method.model(self._state)
            return float(disagreement(x, mean) if self.lifting is None else self.lifting.apart(x, mean))

    @property
    def bits(self) -> Bits:
        """Bits sent over the network so far."""
        return self._rounds.channel.ledger(self.method.codec).network()

    @property
    def bits_per_node(self) -> float:
        """Payload sent so far, on average over the nodes."""
        return self.bits.payload / self.graph.n

    def is_finite(self, *, everywhere: bool = True) -> bool:
        """Whether all states are finite; else only the coordinates last asked along are checked, in O(q)."""
        x = np.asarray(self._state.x)
        if not everywhere and self._touched is not None:
            return bool(np.isfinite(self._touched.restrict(x)).all())
        if self.method.server and not np.isfinite(self.mean).all():
            return False  # before any node has received it
        with np.errstate(all="ignore"):  # a sum needs no copy; one that overflows is checked again
            return bool(np.isfinite(x.sum()) or np.isfinite(x).all())

    def advance(self, oracle: Oracle) -> None:
        """Finish this round with an oracle. Entries are shifted in place, so no d-vector is copied.

        If the oracle raises, everything is as it was before the query.
        """
        self._admit(oracle)
        t, loud = self.t, np.geterr()
        while self.t == t:
            query, heard = self._pending(), len(self._heard)
            part = oracle.part(len(self._told), self._of) if isinstance(oracle, Oracle) else oracle

            def listen(x: Values, active: Mask | None = query.active, part: Any = part) -> Values:
                x = self._outside(x)
                with np.errstate(**loud):  # as the caller has set it
                    answers = part(x, t, active=active)
                self._hear(answers, active)
                kept: Values = answers.copy()
                return kept

            try:
                with np.errstate(all="ignore"):
                    slope = self._slope(query, listen)
            except BaseException:
                del self._heard[heard:]
                raise
            self._answer(slope)

    def _slope(self, query: Query, ask: Callable[[Any], Values]) -> Values:
        """The slope along one direction; with one side f at x is asked once for all directions."""
        if query.sides == 2:
            return query.slope(*both_sides(query, ask))
        here = ask(query.x) if self._here is None else self._here
        slope = query.slope(plus_side(query, ask), here)
        self._here = here
        return slope

    def _admit(self, oracle: Oracle) -> None:
        """Refuse a problem that cannot answer; tell an oracle of functions how many sides queries have."""
        if isinstance(oracle, Problem):
            oracle.admit(self.method)
        elif isinstance(oracle, UserOracle):
            oracle.sides = 1 if self.method.is_one_sided else 2

    def next_bits(self) -> Bits:
        """The bits that this round will send, known in advance because draws and sizes are public; an upper
        bound where a message's length depends on private values.

        A copy of the state takes the step with slopes of zero.
        """
        self._check_between()
        rehearsal, x = self._rehearse(), self._state.x
        while rehearsal.t == self.t and (query := rehearsal.ask()) is not None:
            rehearsal.tell(np.zeros((*x.shape[:-1], len(query.directions)), x.dtype))
        return rehearsal.channel.ledger(self.method.codec).network()

    def arrays(self, oracle: Oracle | None = None) -> Arrays:
        """Copies of all arrays that an exact continuation needs, the oracle's memory included."""
        self._check_between()
        kept = {} if oracle is None else oracle.snapshot()
        return {**self._arrays(), **{f"oracle.{name}": array.copy() for name, array in kept.items()}}

    def _arrays(self) -> Arrays:
        arrays = {name: array.copy() for name, array in self._rounds.arrays().items()}
        arrays[f"bits.{self.method.codec}"] -= self._begun()
        placed = {} if self.place is None else {f"place.{k}": v for k, v in self.place.arrays().items()}
        return {**arrays, "query_loss": np.array(self.query_loss), "tape": self._tape, **placed}

    def restore(self, arrays: Mapping[str, NDArray[Any]], oracle: Oracle | None = None) -> None:
        """Continue from what `arrays` returned, in an optimizer made with the same arguments."""
        for name, part in self._arrays().items():
            if name not in arrays or not self._fits(name, np.shape(arrays[name]), part.shape):
                got = np.shape(arrays[name]) if name in arrays else "nothing"
                raise InputError(f"{name} must have shape {part.shape}, got {got}; restore the same run")
        if (np.asarray(arrays["tape"]) != self._tape).any():
            raise InputError("the arrays are of a run with another seed; make the optimizer with that seed")
        self._restore_place(arrays)
        self._rounds.restore({name: np.array(array) for name, array in arrays.items()})
        self.query_loss = float(arrays["query_loss"])
        self._told, self._heard, self._here, self._before = [], [], None, 0
        if oracle is not None:
            mine = {name: array for name, array in arrays.items() if name.startswith("oracle.")}
            oracle.restore({name.removeprefix("oracle."): array for name, array in mine.items()})

    def _restore_place(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the scale of the arrays; bounds must be the same."""
        if self.place is None:
            if "place.scale" in arrays:
                raise InputError("the arrays are of a run with bounds or a scale; pass the same")
            return
        same = (
            (np.asarray(arrays[f"place.{name}"]) == vars_)
            for name, vars_ in self.place.arrays().items()
            if name != "scale"
        )
        if not all(each.all() for each in same):
            raise InputError("the arrays are of a run with other bounds; pass the same")
        self.place = self.place._replace(scale=np.array(arrays["place.scale"]))

    def retune(self, *, eta: float, mu: float, scale: NDArray[np.float64] | None = None) -> None:
        """Go on with another step size and μ, and another scale: states keep their x, momentum its direction.

        Scales are powers of two, so z changes without rounding.
        """
        self._check_between()
        self._rounds.drop()
        self.method = replace(self.method, eta=eta, mu=mu)
        for rounds in (self._rounds, self._rehearsal):
            rounds.use(self.method)
        if scale is None:
            return
        assert self.place is not None
        assert isinstance(self._state, State)
        ratio = self.place.scale / scale
        x, m = self._state
        self._rounds.state = State(x * ratio, None if m is None else m / ratio)
        self._rehearsal.state = None
        self.place = self.place._replace(scale=scale)

    def move(self, x: Values) -> None:
        """Put all nodes elsewhere, at x (n, d), and forget their momentum."""
        self._check_between()
        self._rounds.drop()
        assert isinstance(self._state, State)
        m = self._state.m
        z = np.array(x if self.place is None else self.place.to_z(x), self._state.x.dtype)
        self._rounds.state = State(z, None if m is None else np.zeros_like(m))
        self._rehearsal.state = None

    def _fits(self, name: str, found: tuple[int, ...], here: tuple[int, ...]) -> bool:
        """Whether a part has the right shape; a history may differ in length, its first axis."""
        if name.removeprefix("state.") in self.method.histories:
            return len(found) == len(here) and found[1:] == here[1:]
        return found == here

    def _begun(self) -> Any:
        """The bits that a round which was asked, but not told, has sent before its first query."""
        if self._rounds.asking is None or self._heard:
            return 0
        rehearsal = self._rehearse()
        rehearsal.ask()
        return rehearsal.channel.ledger(self.method.codec).counts

    def _rehearse(self) -> Rounds:
        """A rehearsal of this round, with nothing charged yet.

        Only histories decide what is sent. Without them one copy of the state serves all rounds.
        """
        rehearsal = self._rehearsal
        rehearsal.drop()
        if rehearsal.state is None or self.method.histories:
            parts = (None if part is None else np.array(part) for part in self._state)
            rehearsal.state = type(self._state)(*parts)
        rehearsal.t = self.t
        rehearsal.channel.ledger(self.method.codec).counts[...] = 0
        return rehearsal

    def _pending(self) -> Query:
        """The next query, along one direction; of d coordinates in a subspace too, of z where there is a
        place."""
        query = self._rounds.ask()
        assert query is not None
        self._of = len(query.directions)
        if self.place is not None:
            whole = self._placed(query)
            return whole._replace(directions=whole.directions[len(self._told) :][:1])
        query = query._replace(directions=query.directions[len(self._told) :][:1])
        return query if self.lifting is None else self.lifting.query(query)

    def _placed(self, query: Query) -> Query:
        """All directions about one centre inside the bounds."""
        assert self.place is not None
        return self.place.centred(query if self.lifting is None else self.lifting.query(query))

    def _outside(self, points: Any) -> Any:
        """Points as rigs get them."""
        return points if self.place is None else self.place.to_x(points)

    def _answer(self, slope: Values) -> None:
        """Take the slope along one direction; the step continues once the query has all its slopes."""
        query = self._rounds.asking
        assert query is not None
        self._touched = query.directions[len(self._told)]
        self._told.append(slope)
        if len(self._told) < len(query.directions):
            return
        t, slopes = self.t, np.concatenate(self._told, axis=-1)
        self._told, self._here = [], None
        self._before += query.evaluations()
        if self.watch is not None:
            self.watch(query, slopes)
        try:
            self._rounds.tell(slopes)
        except BaseException:
            self._heard, self._before = [], 0  # the round begins again
            raise
        if self.t > t:
            self._before = 0
            self._project()
            self.query_loss = sum(total for total, _ in self._heard) / sum(count for _, count in self._heard)
            self._heard = []

    def _project(self) -> None:
        """Put states that a step took out of the bounds back onto them."""
        x = self._state.x
        free = self.place is None or not self.place.is_bounded or self.lifting is not None
        if not free and isinstance(x, np.ndarray):
            assert self.place is not None
            self._rounds.state = self._state._replace(x=self.place.inside(x))

    def _hear(self, answers: Values, active: Mask | None) -> None:
        told = answers if active is None else answers[active]
        self._heard.append((float(told.sum()), told.size))

    def _active(self, query: Query) -> Mask:
        everyone = np.ones(self.graph.n, bool)
        return everyone if query.active is None else query.active & everyone

    @property
    def is_half_told(self) -> bool:
        """Whether this round has some, but not all, of its answers."""
        return bool(self._heard)

    def _check_between(self) -> None:
        if self.is_half_told:
            raise InputError(f"round {self.t} is half told; finish it first")


def _cannot_probe(**_: Any) -> Any:
    raise InputError("an Optimizer asks nothing by itself, so it cannot suggest eta and mu; give both")


def _nobody(x: Values) -> float:
    """A loss that is never asked."""
    raise AssertionError
