"""Several directions on one support, slopes from one side or two, and steps of a set length."""

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.signs import SIGNS, Signs, draw_sign_vectors, first_and_more, most_directions, order
from zocosmo.core.tape import Ids, Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.matching import Partners
from zocosmo.methods.base import COUNT, Draw, Method, State, Values, World
from zocosmo.oracle import Mask, Query, along, estimate_all

Sides = Literal[1, 2]
StepRule = Literal["plain", "normalised", "normalised_local"]

KEPT, NEW = 0.95, 0.05  # shares of the running mean and of the new mean in v
FIELDS = ("directions", "signs", "sides")  # left out of manifests where they are the defaults


class SeveralState(NamedTuple):
    """The state of a method with normalised or corrected steps, or that holds supports."""

    x: Values  # (…, n, d) states x_i
    m: Values | None = None  # (…, n, d) sparse momentum m_i; None if β = 0
    v: NDArray[np.float64] | None = None  # (…, n, 1) running mean of squared slopes; 0 until one is not 0
    c: Values | None = None  # (…, n, d) corrections, whose sum over nodes is 0; None if γ = 0
    before: Values | None = None  # (…, n, d) x before the rounds on a support; None if each has its own


class Several(Method):
    """A method with K directions on one support.

        ĝ_S = (d/q) (1/K) Σ_k s_k ε_k

    s_k is a central difference with two sides, [f(x + με_k) − f(x)]/μ with one. With orthogonal signs K is
    at most Q, the least power of two that is at least q; the last round of a balanced epoch has at most its
    own Q.
    """

    limits: ClassVar = {
        "directions": COUNT,
        "signs": partial(check_known, known=SIGNS),
        "sides": partial(check_whole, least=1, most=2),
    }
    directions: int  # each method declares these fields after its own, since labels keep the order
    signs: Signs
    sides: Sides

    @classmethod
    def retunes(cls, given: Mapping[str, Any]) -> bool:
        """Whether a run with these settings can go on with another step and scale: x and momentum are all
        that a node keeps."""
        plain = given.get("step") in (None, "plain") and not given.get("correction")
        return plain and given.get("hold") in (None, 1)

    @property
    def vectors(self) -> int:
        return self.directions

    @property
    def is_one_sided(self) -> bool:
        return self.sides == 1

    @property
    def unstated(self) -> tuple[str, ...]:
        """Fields that a manifest leaves out."""
        return self.defaults_among(FIELDS)

    def defaults_among(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of these fields that have their default values."""
        defaults = {each.name: each.default for each in fields(self)}
        return tuple(name for name in names if self.settings[name] == defaults[name])

    def check(self, world: World) -> None:
        super().check(world)
        q = self.size(0, world.d)
        if self.signs == "orthogonal" and self.directions > order(q):
            raise InputError(
                f"{self.directions} orthogonal directions do not fit on q = {q} coordinates; "
                f"there are {order(q)}: lower directions, raise q, or use independent signs"
            )

    # Drawing and asking

    def sign_vectors(
        self, q: int, tape: Tape, t: Ids, *ids: Ids
    ) -> tuple[NDArray[np.int8], NDArray[np.int8] | None]:
        """The signs of direction 0, (…, 1 or n, q), and of the others, (…, K − 1, 1 or n, q), or None."""
        directions = most_directions(self.signs, self.directions, q)
        return first_and_more(draw_sign_vectors(tape, t, *ids, q=q, directions=directions, signs=self.signs))

    def query(self, x: Any, draw: Draw, active: Mask | None = None) -> Query:
        """Slopes at x along all directions of a round."""
        return Query(x, draw.directions, self.mu, active, self.sides)


class Scaled(Several):
    """A method with K directions on one support whose steps may have a set length.

        ĝ_S = (d/q) (1/K) Σ_k s_k ε_k             step_rule plain
        ĝ_S = (1/√(qK)) Σ_k (s_k/√v) ε_k          normalised: η is about the length of a step

    v ← 0.95 v + 0.05 mean_k s_k², or the mean alone in the first round of a node. Nodes average log v with
    those they mix with before they step, in 16 bits a message; `normalised_local` sends nothing.
    """

    limits: ClassVar = {"step_rule": lambda _, value: check_known("step", value, get_args(StepRule))}
    step_rule: StepRule  # `step` in a config

    @property
    def is_scaled(self) -> bool:
        """Whether steps are normalised."""
        return self.step_rule != "plain"

    @property
    def unstated(self) -> tuple[str, ...]:
        return (*super().unstated, *self.defaults_among(("step_rule",)))

    def stages(self, world: World) -> int:
        waits = super().stages(world)
        return waits + 1 if waits and self.step_rule == "normalised" else waits

    def init(self, x: Any) -> Any:
        state = super().init(x)
        if not self.is_scaled:
            return state
        return SeveralState(state.x, state.m, np.zeros((*x.shape[:-1], 1)))

    def scale(
        self,
        state: Any,
        slopes: Values,
        channel: Channel,
        active: Mask | None = None,
        partners: Partners | None = None,
        *,
        alone: bool = False,
    ) -> Values | None:
        """v after this round's slopes, shared with neighbours or partners unless `alone`; None if steps are
        plain."""
        if not self.is_scaled:
            return None
        v = running_mean(state.v, slopes)
        if active is not None:
            v = np.where(active[..., None], v, state.v)
        return channel.mix_levels(v, partners) if self.step_rule == "normalised" and not alone else v

    def estimate(self, draw: Draw, slopes: Values, v: Values | None) -> Values:
        """ĝ on the support, in units of a step."""
        if v is None:
            return estimate_all(draw.u, draw.more, slopes)
        factor = per_length(v, draw.u.q * slopes.shape[-1])
        g: Values = along(draw.u, draw.more, slopes) * factor.astype(slopes.dtype)
        return g

    def state_of(self, x: Any, m: Any, v: Values | None, c: Any = None, before: Any = None) -> Any:
        """A state of these parts."""
        plain = v is None and c is None and before is None
        return State(x, m) if plain else SeveralState(x, m, v, c, before)


def per_length(v: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """1/√(qK v), which makes Σ_k s_k ε_k about 1 long; 0 where v is 0. `size` is qK."""
    return np.where(v > 0, 1 / np.sqrt(size * np.where(v > 0, v, 1.0)), 0.0)


def running_mean(v: NDArray[np.float64], slopes: Values) -> NDArray[np.float64]:
    """0.95 v + 0.05 mean_k s_k²; where v is 0, the mean. Squares are added in order of k, in double."""
    s = slopes.astype(np.float64)
    mean = s[..., :1] * s[..., :1]
    for k in range(1, s.shape[-1]):
        mean += s[..., k : k + 1] * s[..., k : k + 1]
    mean /= s.shape[-1]
    return np.where(v == 0, mean, KEPT * v + NEW * mean)
