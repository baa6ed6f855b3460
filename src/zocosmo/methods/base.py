"""What all methods share: parameters, states, public draws, and the step of a round."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.channel import Channel
from zocosmo.core.balanced import balanced_support, epoch_length
from zocosmo.core.support import Direction, Key, SupportRule, check_size, draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.core.wires import WIRES, WITH_SCALE, check_wire
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen, build_schedule, settle
from zocosmo.graphs.matching import Schedule
from zocosmo.methods.decay import Constant, Decay
from zocosmo.oracle import Query
from zocosmo.state import zeros_like

Values = NDArray[Any]
Rounds = NDArray[np.int64]
Time = TypeVar("Time", int, Rounds)  # one round, or many
Shapes = tuple[tuple[int, int], ...]
Rule = Literal["uniform", "balanced"]
Limits = Mapping[str, Callable[[str, Any], Any]]  # parameter → a check of its name and value that may raise

RULES: dict[str, SupportRule] = {"uniform": draw_support, "balanced": balanced_support}
SPELT = {"step_rule": "step"}  # fields that a config calls by another name, as methods have a `step`
COUNT = partial(check_whole, least=1)  # a limit of parameters


def check_number(
    what: str,
    value: Any,
    least: float,
    most: float = np.inf,
    *,
    open_below: bool = False,
    open_above: bool = False,
) -> None:
    """Raise InputError unless the value is finite and between the bounds, or all values of an array are."""
    low = np.greater if open_below else np.greater_equal
    high = np.less if open_above or most == np.inf else np.less_equal
    if not (np.all(low(value, least)) and np.all(high(value, most))):
        bound = f"{'above' if open_below else 'at least'} {least:g}"
        if most < np.inf:
            bound += f" and {'below' if open_above else 'at most'} {most:g}"
        raise InputError(f"{what} must be a finite number {bound}, got {value}")


class World:
    """What a method knows before the first round: the graph, the dimension, the schedule of matchings."""

    def __init__(
        self,
        graph: Graph,
        d: int,
        schedule: Chosen = "auto",
        nodes: NDArray[np.int64] | None = None,
        shapes: Shapes = (),
        ids: NDArray[np.int64] | None = None,
    ) -> None:
        self.graph, self.d = graph, d
        self.ids = ids  # names of the nodes in draws of the tape, ascending; None: their numbers
        self.shapes = shapes  # of the matrices that x consists of, in its order; () if unknown
        self.nodes = np.arange(graph.n) if nodes is None else nodes  # the nodes in this process, ascending
        self.chosen = default_schedule(graph) if schedule == "auto" else settle(graph, schedule)
        self.schedule_name = self.chosen if isinstance(self.chosen, str) else self.chosen.name

    @cached_property
    def schedule(self) -> Schedule:
        return build_schedule(self.graph, self.chosen)

    def pairs(self, tape: Tape, t: int) -> list[list[int]]:
        """The pairs of round t, each in ascending order."""
        partners = self.schedule.partners(tape, np.array([t])).reshape(-1).tolist()
        return [[i, j] for i, j in enumerate(partners) if i < j]

    @property
    def is_whole(self) -> bool:
        """Whether all nodes are in this process."""
        return len(self.nodes) == self.graph.n


def default_schedule(graph: Graph) -> str:
    """Alternating on even rings, uniform on complete graphs, maximal matchings on all others."""
    if graph.name == "ring" and graph.n % 2 == 0:
        return "alternating"
    return "complete" if len(graph.edges) == graph.n * (graph.n - 1) // 2 else "maximal"


@dataclass(frozen=True, eq=False)
class Draw:
    """What the tape gives for a round, for the n nodes in this process.

    Methods that draw more than directions add fields in a subclass: arrays, directions, or tuples of these.
    """

    u: Direction  # (…, 1 or n, q); (…, k, 1 or n, q) if a round has k of them
    more: Values | None = field(default=None, kw_only=True)  # (…, K − 1, 1 or n, q) entries on u's support

    @classmethod
    def merge(
        cls, draws: "Sequence[Self]", how: Callable[[Sequence[Values]], Values], key: Key | None = None
    ) -> Self:
        """One draw from several: `how` combines the arrays of each field. Directions get keys from `key`."""
        done: dict[int, Any] = {}  # two fields may hold the same object
        first = draws[0].parts()
        for place, (name, part) in enumerate(first.items()):
            if id(part) not in done:
                own = None if key is None else (*key, place)
                done[id(part)] = _merge_part([vars(draw)[name] for draw in draws], how, own)
        return cls(**{name: done[id(part)] for name, part in first.items()})

    def parts(self) -> dict[str, Any]:
        """The fields by name; what is cached beside them is left out."""
        return {name: vars(self)[name] for name in _names(cast(Any, type(self)))}

    def pick(self, change: Callable[[Values], Values], key: Key | None = None) -> Self:
        """This draw with `change` applied to all arrays."""
        return self.merge([self], lambda arrays: change(arrays[0]), key)

    def of_type(self, dtype: np.dtype[Any]) -> Self:
        """This draw with the signs of its directions in the type of the states."""
        done: dict[int, Any] = {
            id(part): part.with_entries(part.entries.astype(dtype))
            for part in self.parts().values()
            if isinstance(part, Direction)
        }
        if self.more is not None:
            done[id(self.more)] = self.more.astype(dtype)
        return type(self)(**{name: done.get(id(part), part) for name, part in self.parts().items()})

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """u, and the further directions on its support; each has a key of its own."""
        if self.more is None:
            return (self.u,)
        u, more, count = self.u, self.more, self.more.shape[-3]
        keys = [u.key and (*u.key, k + 1) for k in range(count)]
        return (u, *(u.with_entries(more[..., k, :, :], keys[k]) for k in range(count)))

    def one(self, k: int) -> Direction:
        """The k-th direction of a round that has several."""
        one = self.u.pick(lambda rows: rows if rows.ndim == 1 else rows[..., k, :, :])
        return one if self.u.key is None else one.keyed((*self.u.key, k))

    def with_past(self, earlier: "Callable[[int], Draw]") -> "Draw":
        """This draw with access to earlier rounds, for methods that replay them."""
        return self


@cache
def _names(kind: type[Draw]) -> tuple[str, ...]:
    """The fields of a kind of draw."""
    return tuple(each.name for each in fields(kind))


def _merge_part(parts: Sequence[Any], how: Callable[[Sequence[Values]], Values], key: Key | None) -> Any:
    first = parts[0]
    if isinstance(first, Direction):
        index, entries = how([u.index for u in parts]), how([u.entries for u in parts])
        return Direction.unchecked(index, first.d, entries, key)
    if isinstance(first, tuple):
        keys = (key and (*key, k) for k in range(len(first)))
        return tuple(
            _merge_part(each, how, own) for each, own in zip(zip(*parts, strict=True), keys, strict=True)
        )
    return None if first is None else how(parts)


@dataclass(frozen=True, eq=False)
class SharedDraw(Draw):
    """The directions of the nodes in this process, and of all nodes of the graph."""

    everyone: Direction


class State(NamedTuple):
    """What a node carries from round to round."""

    x: Values  # (…, n, d) states x_i
    m: Values | None = None  # (…, n, d) sparse momentum m_i; None if β = 0


Step = Generator[Query, Values, Any]  # yields queries, receives slopes, returns the next state


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Anything that can be compared, ours or a baseline.

    `draw` returns what all nodes rebuild from the tape, for many rounds and tapes at once. `step` is one
    round: it yields each `Query`, receives the slopes, and sends values over the channel. It may overwrite
    its state, but only after the first query: until then the caller may checkpoint it. In a batch of runs,
    numbers such as η are arrays that broadcast to (runs, n, d).
    """

    kind: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]]  # that its messages can be charged under, default first
    limits: ClassVar[Limits] = {  # checked with those of base classes; a subclass may replace one
        "eta": partial(check_number, least=0),
        "mu": partial(check_number, least=0, open_below=True),
    }
    on_supports: ClassVar[bool] = False  # steps read and write states on supports only
    coarse: ClassVar[bool] = False  # can use wires of a few bits: mixes with `held`, and settles
    server: ClassVar[bool] = False  # nodes talk to a server, node n, and not to each other
    by_sign: ClassVar[bool] = False  # a step depends on the sign of a slope, not on its size
    is_paired: ClassVar[bool] = False  # nodes talk to the partners that the schedule gives them, in pairs
    histories: ClassVar[tuple[str, ...]] = ()  # parts of the state whose length depends on the round

    eta: float
    mu: float
    decay: Decay = field(default_factory=Constant)
    codec: str = ""
    wire: str = ""  # of its messages; "" is that of the study

    def __post_init__(self) -> None:
        object.__setattr__(self, "codec", self.codec or self.codecs[0])
        check_known(f"codec of {self.kind}", self.codec, self.codecs)
        limits: dict[str, Callable[[str, Any], Any]] = {}
        for kind in reversed(type(self).__mro__):
            limits |= vars(kind).get("limits", {})
        for name, check in limits.items():
            check(name, getattr(self, name))

    def wire_for(self, wire: str, dtype: DTypeLike) -> str:
        """The wire of its messages in a study with this wire, or an InputError."""
        name = self.wire or wire
        check_wire(name, dtype)
        if WIRES[name].linked and not self.coarse:
            raise InputError(f"{self.kind} cannot use wire {name}; use f32, or cosmo or edge_local")
        if WIRES[name].dithered and self.server:
            raise InputError(f"{self.kind} cannot use wire {name}, which has no dither for a server; use f32")
        if WIRES[name].charged.scale_bits and self.codec not in WITH_SCALE:
            fits = next((f"codec {codec!r}" for codec in self.codecs if codec in WITH_SCALE), "wire f32")
            raise InputError(f"wire {name} has no codec {self.codec!r}; use {fits}")
        return name

    def check(self, world: World) -> None:
        """Raise InputError if this method cannot run in a world."""
        check_size(world.d, 1)

    def init(self, x: Values) -> Any:
        """The first state, from x of shape (…, n, d)."""
        return State(x)

    def size(self, t: int, d: int) -> int:
        """The number of coordinates drawn for each node in round t."""
        return d

    @property
    def vectors(self) -> int:
        """Entry vectors on each support that is drawn: several share one if a method has K directions."""
        return 1

    @property
    def is_one_sided(self) -> bool:
        """Whether slopes are forward differences, of which all directions share f(x)."""
        return False

    @property
    def unstated(self) -> tuple[str, ...]:
        """Fields that a manifest leaves out, so that what they were added to keeps its fingerprint."""
        return ()

    def stages(self, world: World) -> int:
        """How many times in a row a round waits for messages: twice for a server."""
        if self.server:
            return 2
        return 1 if world.graph.n > 1 else 0

    def talked(self, t: int) -> int:
        """In how many of the first t rounds nodes exchange values."""
        return t

    def matching_of(self, t: Time, d: int) -> Time:
        """The number of the matching that round t uses, which the schedule draws it by."""
        return t

    def model(self, state: Any) -> Values:
        """The point of each run at which F is measured, (…, d) in double precision: x̄ = mean_i x_i."""
        mean: Values = np.asarray(state.x, np.float64).mean(axis=-2)
        return mean

    @abstractmethod
    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        """The public draws of rounds t, which has shape (…,) like the tape."""

    @abstractmethod
    def step(self, t: int, state: Any, draw: Any, channel: Channel) -> Step:
        """Round t: ask for slopes, mix values, return the next state."""

    def eta_at(self, t: int) -> float:
        """η_t"""
        return self.eta * self.decay.factor(t)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Compressed(Method):
    """A method whose messages or steps have q of d coordinates."""

    limits: ClassVar = {"q": COUNT}

    q: int

    def check(self, world: World) -> None:
        check_size(world.d, self.q)


@dataclass(frozen=True, kw_only=True)
class Sparse(Compressed):
    """Changes q coordinates per round, and may keep momentum on them   [eq:optional_subspace_momentum]"""

    limits: ClassVar = {"beta": partial(check_number, least=0, most=1, open_above=True)}
    on_supports: ClassVar[bool] = True

    beta: float = 0.0

    def init(self, x: Values) -> State:
        return State(x, zeros_like(x) if np.any(self.beta) else None)

    def size(self, t: int, d: int) -> int:
        return self.q

    def blend(self, u: Direction, m: Values | None, g: Values) -> Values:
        """The q values of m⁺ on S:  β m + (1 − β) ĝ"""
        if m is None:
            return g
        blended: Values = self.beta * u.restrict(m)
        blended += (1 - self.beta) * g
        if np.ndim(self.beta) == 0:
            return blended
        return np.where(self.beta == 0, g, blended)  # no 0 · inf in runs without momentum

    def keep(self, u: Direction, m: Values | None, m_S: Values) -> Values | None:
        """m⁺ = (I − P) m + P m_S, in place: entries off the support do not decay."""
        return None if m is None else u.put(m, m_S, out=m)


class Ruled(Compressed):
    """A method on supports, with a rule for them."""

    limits: ClassVar = {"rule": partial(check_known, known=RULES)}
    rule: Rule  # each method declares this field after its own, since labels keep the order

    def size(self, t: int, d: int) -> int:
        """q, or the rest of [d] in the last round of a balanced epoch."""
        return self.q if self.rule == "uniform" else min(self.q, d - t % epoch_length(d, self.q) * self.q)


def as_method(name: str, found: Any) -> type[Method]:
    """A user's method: a frozen dataclass under Method, with a kind of its own."""
    if not (isinstance(found, type) and issubclass(found, Method) and is_dataclass(found)):
        raise InputError(f"{name} is no method; give a frozen dataclass under zocosmo.methods.Method")
    for needed in ("kind", "codecs"):
        if not any(needed in vars(each) for each in found.__mro__):
            raise InputError(f"{name} lacks {needed!r}; set it in the class, as every method does")
    return found


def as_config(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by the names that a config has for them."""
    return {SPELT.get(name, name): value for name, value in settings.items()}


def as_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by the names of a config, as keywords of a method."""
    fields_of = {name: field_name for field_name, name in SPELT.items()}
    return {fields_of.get(name, name): value for name, value in given.items()}


def own_directions(world: World, tape: Tape, t: Rounds, q: int) -> Draw:
    """A public direction for each node in this process, ids (t, i); dense if q = d."""
    return Draw(_by_node(world, tape, t, q, world.nodes))


def shared_directions(world: World, tape: Tape, t: Rounds, q: int) -> SharedDraw:
    """As `own_directions`, with those of all nodes of the graph."""
    return among(world, _by_node(world, tape, t, q, np.arange(world.graph.n)))


def among(world: World, everyone: Direction) -> SharedDraw:
    """The directions of all nodes, with those in this process picked out."""
    if world.is_whole:
        return SharedDraw(everyone, everyone)
    here = everyone.pick(lambda rows: rows if rows.ndim == 1 else rows[..., world.nodes, :])
    return SharedDraw(here, everyone)


def _by_node(world: World, tape: Tape, t: Rounds, q: int, nodes: NDArray[np.int64]) -> Direction:
    tape, t = tape[..., None], np.asarray(t)[..., None]
    signs = draw_signs(tape, t, nodes, q=q)
    index = np.arange(q) if q == world.d else draw_support(tape, t, nodes, d=world.d, q=q).index
    return Direction(index, world.d, signs)
