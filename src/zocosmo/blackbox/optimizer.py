"""One run on a user's own losses, round by round: ask and tell, or with an oracle."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from zocosmo.blackbox.asked import Asked, where_asked
from zocosmo.blackbox.choice import as_graph, complete_method
from zocosmo.blackbox.functions import UserOracle, as_start, count_nodes
from zocosmo.blackbox.place import as_place
from zocosmo.blackbox.questions import (
    Question,
    Singles,
    as_id,
    calls_of,
    graph_entry,
    method_entry,
    read_graph,
    read_method,
    read_run,
    schedule_entry,
    write_run,
)
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


class Ask(NamedTuple):
    """A part of the query of round `round`: f_i at these points of every active node.

    With two sides there is a part for each direction. With one side the first part is x, and the others are
    one point each.
    """

    round: int
    points: Values  # (2, n, d): x + μu, then x − μu; with one side (1, n, d): x, then x + μu
    active: Mask  # (n,); losses of other nodes are ignored


class Optimizer:
    """One run of a method over a graph, all nodes in memory; the caller supplies the losses.

    Either `ask` for points and `tell` their losses, or let `advance` query an oracle: the bits are the same.
    Rigs of different speed take `questions` and are told one by one, in any order. `subspace` is the size of
    a public subspace around x0 in which the run moves; points and states have d coordinates all the same.

    Graph and method are objects or names; `given` are fields of a method by name, eta and mu among them. No
    point is ever outside `bounds`; with a `scale` eta and mu are those of z = x/scale [blackbox.place].

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
        about: dict[str, Any] = {"d": self.world.d, "wire": wire, "dtype": dtype, "server": method.server}
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
        self._singles, self._before = (
            Singles(graph.n),
            0,
        )  # answers by node; calls of this round's earlier queries
        self._between: Arrays | None = None  # what `save` writes if this round is half told
        self._fed: list[Values] = []  # what was told since then
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

    def ask(self) -> Ask:
        """The points of this round; the same until their losses are told."""
        query = self._pending()
        if query.sides == 2:
            return Ask(self.t, self._outside(np.stack(query.points())), self._active(query))
        points = query.points()[1 if self._here is None else 0]
        return Ask(self.t, self._outside(points[None]), self._active(query))

    def questions(self, node: int | None = None) -> list[Question]:
        """What is still to be asked of all nodes, or of one, before this query has its answers; points of all
        its directions. A node without questions waits for the others."""
        whole = self._whole()
        active, open_ = self._active(whole), calls_of(whole, len(self._told), self._here is not None)
        nodes = [i for i in np.flatnonzero(active).tolist() if node is None or i == node]
        out = []
        for call in open_ if any(self._singles.is_open(c, i) for c in open_ for i in nodes) else ():
            points = self._outside(self._point(whole, call))
            out += [
                Question(self.t, self._before + call, i, points[i])
                for i in nodes
                if self._singles.is_open(call, i)
            ]
        return out

    def tell(self, values: ArrayLike, question: Question | tuple[int, int, int] | None = None) -> bool | None:
        """Take the losses at the points asked for, (2, n) or (1, n). Refused values change nothing.

        With a question, or its id, take the loss of one node. Then the result says whether it was used: False
        if it came too late, because its round is over or the question was answered before.
        """
        if question is not None:
            return self._tell_one(as_id(question, self.graph.n), values)
        if self._singles.kept:
            raise InputError(f"round {self.t} is told one by one; go on with questions()")
        if self._rounds.asking is None:
            raise InputError(f"nothing has been asked in round {self.t}; call ask() before tell()")
        self._tell_all(np.asarray(values))
        return None

    def _tell_one(self, asked: tuple[int, int, int], value: Any) -> bool:
        t, call, node = asked
        if (t, call) < (self.t, self._before):
            return False
        whole = self._whole()
        calls = calls_of(whole, 0, False)
        if t > self.t or call - self._before not in calls or not self._active(whole)[node]:
            raise InputError(f"question {asked} has not been asked; take one of questions()")
        if call - self._before not in calls_of(whole, len(self._told), self._here is not None):
            return False
        if not self._singles.take((t, call - self._before, node), value):
            return False
        self._feed()
        return True

    def _feed(self) -> None:
        """Hand on the single answers once the pending query has all of them."""
        whole = self._whole()
        calls = calls_of(whole, len(self._told), self._here is not None)
        rows = [self._singles.row(call, self._active(whole)) for call in calls]
        if any(row is None for row in rows):
            return
        self._singles.kept = {}
        step = 2 if whole.sides == 2 else 1
        for k in range(0, len(rows), step):
            self._tell_all(np.stack(rows[k : k + step]))  # type: ignore[arg-type]

    def _tell_all(self, values: Values) -> None:
        query = self._pending()
        active = self._active(query)
        answers = self._checked(values, active, query.sides)
        if not self.is_half_told:
            self._between, self._fed = self._arrays(), []
        self._fed.append(answers)
        with np.errstate(all="ignore"):
            for row in answers:
                self._hear(row, active)
            if query.sides == 1 and self._here is None:
                self._here = answers[0]
                return
            slope = query.slope(answers[0], answers[1] if self._here is None else self._here)
        self._answer(slope)

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
        self._told, self._heard, self._here, self._before, self._singles.kept = [], [], None, 0, {}
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

    def save(self, path: str | Path) -> None:
        """Write all of the run to a file, answers of a round that is half told included."""
        place = None if self.place is None else [self.place.lo.tolist(), self.place.hi.tolist()]
        about = {
            **self._about,
            **{"graph": graph_entry(self.graph), "method": method_entry(self.method), "box": place},
            "schedule": schedule_entry(self.world.chosen),
        }
        arrays = (self._between if self.is_half_told else None) or self._arrays()
        fed = {f"fed.{k}": part for k, part in enumerate(self._fed if self.is_half_told else [])}
        write_run(Path(path), about, {"x0": self._x0, **arrays, **fed, **self._singles.arrays()})

    @classmethod
    def load(cls, path: str | Path) -> "Optimizer":
        """The run that `save` wrote, to the same bits."""
        about, arrays = read_run(Path(path))
        scale, box = arrays.get("place.scale"), about.pop("box")
        bounds = None if box is None else np.stack(box, axis=1)
        made = {"graph": read_graph(about.pop("graph")), "method": read_method(about.pop("method"))}
        run = cls(arrays.pop("x0"), **made, **about, bounds=bounds, scale=scale)
        run.restore(arrays)
        for k in range(sum(name.startswith("fed.") for name in arrays)):
            run._pending()
            run._tell_all(arrays[f"fed.{k}"])
        run._singles.restore(arrays)
        return run

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
        """The next query, along one direction; of d coordinates in a subspace too, of z where there is a place."""
        query = self._rounds.ask()
        assert query is not None
        self._of = len(query.directions)
        if self.place is not None:
            whole = self._placed(query)
            return whole._replace(directions=whole.directions[len(self._told) :][:1])
        query = query._replace(directions=query.directions[len(self._told) :][:1])
        return query if self.lifting is None else self.lifting.query(query)

    def _whole(self) -> Query:
        """The pending query along all its directions."""
        query = self._rounds.ask()
        assert query is not None
        if self.place is not None:
            return self._placed(query)
        return query if self.lifting is None else self.lifting.query(query)

    def _placed(self, query: Query) -> Query:
        """All directions about one centre inside the bounds."""
        assert self.place is not None
        return self.place.centred(query if self.lifting is None else self.lifting.query(query))

    def _point(self, whole: Query, call: int) -> Values:
        """The points of all nodes for one call of a query."""
        if whole.sides == 1:
            one = whole._replace(directions=whole.directions[max(call - 1, 0) :][:1])
            return one.points()[0 if call else 1]
        return whole._replace(directions=whole.directions[call // 2 :][:1]).points()[call % 2]

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
        if self.place is not None and self.place.is_bounded and isinstance(x, np.ndarray):
            if self.lifting is None:
                self._rounds.state = self._state._replace(x=self.place.inside(x))

    def _hear(self, answers: Values, active: Mask | None) -> None:
        told = answers if active is None else answers[active]
        self._heard.append((float(told.sum()), told.size))

    def _active(self, query: Query) -> Mask:
        everyone = np.ones(self.graph.n, bool)
        return everyone if query.active is None else query.active & everyone

    def _checked(self, values: Values, active: Mask, sides: int) -> Values:
        shape = sides, self.graph.n
        if values.shape != shape or values.dtype.kind not in "iuf":
            raise InputError(f"tell takes numbers of shape {shape}, got {values.dtype} of {values.shape}")
        for query, node in np.argwhere(~np.isfinite(values) & active).tolist():
            call = query if sides == 2 else int(self._here is not None)
            asked = Asked(node, self.t, f"query {where_asked(call, sides)}")
            raise asked.error(f"the loss is {values[query, node]:g}", "tell a finite number")
        kept: Values = np.where(active, values, 0).astype(np.float64)
        return kept

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
