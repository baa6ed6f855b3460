"""What every method has: parameters, a state, public draws, and a step that asks slopes and mixes values."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.balanced import balanced_support, epoch_length
from zocosmo.core.support import Direction, Key, SupportRule, check_size, draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen, build_schedule, settle
from zocosmo.graphs.matching import Schedule
from zocosmo.methods.decay import Constant, Decay
from zocosmo.oracle import Query
from zocosmo.state import zeros_like

Values = NDArray[Any]
Rounds = NDArray[np.int64]
Shapes = tuple[tuple[int, int], ...]
Rule = Literal["uniform", "balanced"]

RULES: dict[str, SupportRule] = {"uniform": draw_support, "balanced": balanced_support}


class World:
    """What a method may know before the first round: the graph, the dimension, the schedule of matchings."""

    def __init__(
        self,
        graph: Graph,
        d: int,
        schedule: Chosen = "auto",
        nodes: NDArray[np.int64] | None = None,
        shapes: Shapes = (),
    ) -> None:
        self.graph, self.d = graph, d
        self.shapes = shapes  # matrices that x is made of, one after the other; () where nobody knows
        self.nodes = np.arange(graph.n) if nodes is None else nodes  # whose states are here, ascending
        self._chosen = default_schedule(graph) if schedule == "auto" else settle(graph, schedule)
        self.schedule_name = self._chosen if isinstance(self._chosen, str) else self._chosen.name

    @cached_property
    def schedule(self) -> Schedule:
        return build_schedule(self.graph, self._chosen)

    @property
    def is_whole(self) -> bool:
        """Whether all nodes are here."""
        return len(self.nodes) == self.graph.n


def default_schedule(graph: Graph) -> str:
    """Alternating on even rings, uniform on complete graphs, maximal matchings on all others."""
    if graph.name == "ring" and graph.n % 2 == 0:
        return "alternating"
    return "complete" if len(graph.edges) == graph.n * (graph.n - 1) // 2 else "maximal"


@dataclass(frozen=True, eq=False)
class Draw:
    """What the tape says about a round at the nodes that are here, n of them in what follows.

    A method whose rounds draw more than a direction has a subclass with a field for each thing drawn: arrays,
    directions, or tuples of these. `merge` is the one way to pick, join and stack them.
    """

    u: Direction  # (…, 1 or n, q); (…, k, 1 or n, q) where a round has k of them

    @classmethod
    def merge(
        cls, draws: "Sequence[Self]", how: Callable[[Sequence[Values]], Values], key: Key | None = None
    ) -> Self:
        """One draw, each of whose arrays is what `how` makes of those of all draws.

        With a key, each direction is known by it and by its place in the draw.
        """
        done: dict[int, Any] = {}  # two fields may hold the same object
        for place, (name, part) in enumerate(vars(draws[0]).items()):
            if id(part) not in done:
                own = None if key is None else (*key, place)
                done[id(part)] = _merge_part([vars(draw)[name] for draw in draws], how, own)
        return cls(**{name: done[id(part)] for name, part in vars(draws[0]).items()})

    def pick(self, change: Callable[[Values], Values], key: Key | None = None) -> Self:
        """The part of many draws that `change` picks from the leading axes."""
        return self.merge([self], lambda arrays: change(arrays[0]), key)

    def of_type(self, dtype: np.dtype[Any]) -> Self:
        """This draw, with the entries of its directions in the type of the states."""
        done = {
            id(part): part.with_signs(part.signs.astype(dtype))
            for part in vars(self).values()
            if isinstance(part, Direction)
        }
        return type(self)(**{name: done.get(id(part), part) for name, part in vars(self).items()})

    def one(self, k: int) -> Direction:
        """The k-th direction of a round that has several."""
        one = self.u.pick(lambda rows: rows if rows.ndim == 1 else rows[..., k, :, :])
        return one if self.u.key is None else one.keyed((*self.u.key, k))

    def with_past(self, earlier: "Callable[[int], Draw]") -> "Draw":
        """This draw, with access to earlier rounds. Methods that replay them override it."""
        return self


def _merge_part(parts: Sequence[Any], how: Callable[[Sequence[Values]], Values], key: Key | None) -> Any:
    first = parts[0]
    if isinstance(first, Direction):
        index, signs = how([u.index for u in parts]), how([u.signs for u in parts])
        return Direction.unchecked(index, first.d, signs, key)
    if isinstance(first, tuple):
        keys = (key and (*key, k) for k in range(len(first)))
        return tuple(
            _merge_part(each, how, own) for each, own in zip(zip(*parts, strict=True), keys, strict=True)
        )
    return None if first is None else how(parts)


@dataclass(frozen=True, eq=False)
class SharedDraw(Draw):
    """Directions of the nodes here, and those of all nodes of the graph."""

    everyone: Direction


class State(NamedTuple):
    """What a node carries from round to round."""

    x: Values  # (…, n, d) states x_i
    m: Values | None = None  # (…, n, d) sparse momentum m_i; None where β = 0


Step = Generator[Query, Values, Any]  # asks for slopes, is sent them, returns the next state


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Anything that can be compared, ours or a baseline.

    `draw` is what peers rebuild from the tape; it takes many rounds and many tapes at once. `step` is one
    round: it yields each `Query` to the driver, is sent the slopes, sends values over the channel, and may
    overwrite the state it was given, but not before its first query: the caller may still checkpoint it. In a
    batch of runs, numbers such as η are arrays that broadcast to (runs, n, d).
    """

    kind: ClassVar[str]
    codecs: ClassVar[tuple[str, ...]]  # that messages of this method can be charged under, default first
    on_supports: ClassVar[bool] = False  # whether a step reads and writes states on supports alone
    server: ClassVar[bool] = False  # whether it needs a node n that all others reach, and no links else
    by_sign: ClassVar[bool] = False  # whether slopes say which way a step goes, and not how far
    histories: ClassVar[tuple[str, ...]] = ()  # parts of the state with as many rows as rounds are remembered

    eta: float
    mu: float
    decay: Decay = field(default_factory=Constant)
    codec: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "codec", self.codec or self.codecs[0])
        check_known(f"codec of {self.kind}", self.codec, self.codecs)
        check_number("eta", self.eta, 0)
        check_number("mu", self.mu, 0, open_below=True)

    def check(self, world: World) -> None:
        """Refuse a world that this method cannot run in."""
        check_size(world.d, 1)

    def init(self, x: Values) -> Any:
        """The first state, from x of shape (…, n, d)."""
        return State(x)

    def size(self, t: int, d: int) -> int:
        """How many coordinates the directions of round t have."""
        return d

    def stages(self, world: World) -> int:
        """How many times a round waits for neighbours, one after the other; a server is waited for twice."""
        if self.server:
            return 2
        return 1 if world.graph.n > 1 else 0

    def model(self, state: Any) -> Values:
        """The point of each run at which F is measured, (…, d) in double: x̄ = mean_i x_i."""
        mean: Values = np.asarray(state.x, np.float64).mean(axis=-2)
        return mean

    @abstractmethod
    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        """Public draws of rounds t, of shape (…,) like the tape."""

    @abstractmethod
    def step(self, t: int, state: Any, draw: Any, channel: Channel) -> Step:
        """Round t: asks for slopes, mixes values, returns the next state."""

    def eta_at(self, t: int) -> float:
        """η_t"""
        return self.eta * self.decay.factor(t)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters by name, as a config gives them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Sparse(Method):
    """Touches q coordinates a round, and may keep momentum on them   [eq:optional_subspace_momentum]"""

    on_supports: ClassVar[bool] = True

    q: int
    beta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("q", self.q, 1)
        check_number("beta", self.beta, 0, 1, open_above=True)

    def check(self, world: World) -> None:
        check_size(world.d, self.q)

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
        return np.where(self.beta == 0, g, blended)  # runs without momentum never meet 0 · inf


def keep(u: Direction, m: Values | None, m_S: Values) -> Values | None:
    """m⁺ = (I − P) m + P m_S, in place: entries off the support are kept, not decayed."""
    return None if m is None else u.put(m, m_S, out=m)


def ruled_size(rule: str, t: int, d: int, q: int) -> int:
    """Coordinates of round t: q, but what is left of [d] in the last round of a balanced epoch."""
    return q if rule == "uniform" else min(q, d - t % epoch_length(d, q) * q)


def own_directions(world: World, tape: Tape, t: Rounds, q: int) -> Draw:
    """A public direction for each node here, ids (t, i); all coordinates where q = d."""
    return Draw(_by_node(world, tape, t, q, world.nodes))


def shared_directions(world: World, tape: Tape, t: Rounds, q: int) -> SharedDraw:
    """`own_directions`, and those of all other nodes."""
    return among(world, _by_node(world, tape, t, q, np.arange(world.graph.n)))


def among(world: World, everyone: Direction) -> SharedDraw:
    """The directions of the nodes here, out of those of all nodes."""
    if world.is_whole:
        return SharedDraw(everyone, everyone)
    here = everyone.pick(lambda rows: rows if rows.ndim == 1 else rows[..., world.nodes, :])
    return SharedDraw(here, everyone)


def _by_node(world: World, tape: Tape, t: Rounds, q: int, nodes: NDArray[np.int64]) -> Direction:
    tape, t = tape[..., None], np.asarray(t)[..., None]
    signs = draw_signs(tape, t, nodes, q=q)
    index = np.arange(q) if q == world.d else draw_support(tape, t, nodes, d=world.d, q=q).index
    return Direction(index, world.d, signs)


def check_number(
    what: str,
    value: Any,
    least: float,
    most: float = np.inf,
    *,
    open_below: bool = False,
    open_above: bool = False,
) -> None:
    """Refuse what is no finite number between two bounds; arrays of a batch are looked at as a whole."""
    low = np.greater if open_below else np.greater_equal
    high = np.less if open_above or most == np.inf else np.less_equal
    if not (np.all(low(value, least)) and np.all(high(value, most))):
        bound = f"{'above' if open_below else 'at least'} {least:g}"
        if most < np.inf:
            bound += f" and {'below' if open_above else 'at most'} {most:g}"
        raise InputError(f"{what} must be a finite number {bound}, got {value}")
