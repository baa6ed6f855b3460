"""ZO-COSMO over a spanning tree: nodes step on one support, then all take the mean of their moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.signs import Signs
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.errors import check_known
from zocosmo.methods.base import COUNT, RULES, Draw, Rounds, Rule, Ruled, Step, Values, World
from zocosmo.methods.several import Scaled, Sides, StepRule, per_length, running_mean
from zocosmo.oracle import along
from zocosmo.state import zeros_like
from zocosmo.traffic import tree_stages


class TreeMeanState(NamedTuple):
    x: Any  # (…, n, d) states x_i, alike after an exchange
    c: Values | None = None  # (…, n, K) moves along the directions since then; None if each round has one
    before: Any = None  # (…, n, d) x at the last exchange; None if each round has one
    v: Values | None = None  # (…, n, 1) running mean of squared mean slopes, alike; None if steps are plain


@dataclass(frozen=True, kw_only=True)
class TreeMean(Scaled, Ruled):
    """ZO-COSMO over a spanning tree: K numbers say what a node learnt in L rounds, and all hear their sum

        c_i ← c_i − η (d/q) (1/K) s_i              s_i: slopes along the K directions ε_k
        x_i = x + Σ_k c_ik ε_k   on S              in each of L rounds
        x⁺  = x + (1/N) Σ_k (Σ_i c_ik) ε_k         in the last of them; c_i ← 0

    All nodes have one support and its K directions for L rounds. Each walks in their span, on samples of its
    own; then sums of c go up the breadth-first tree of node 0 and the total comes down, so nodes that start
    alike are alike again. A message has K numbers, however many coordinates S has. With q = K = 2^j
    orthogonal directions span all of S, and nodes take the mean of their values on it.

    With normalised steps c_i are sums of slopes, and x_i = x − (η/√(qK)) Σ_k (c_ik/√v) ε_k. v is a running
    mean of (1/K) Σ_k (C_k/L)², C_k = (1/N) Σ_i c_ik, which all nodes know from the sum: nothing more is sent,
    and η is about how far the average moves in a round, however many nodes there are. On the way, before the
    sum is known, a node puts its own c_i in the place of C, and the rounds so far in that of L.
    """

    kind: ClassVar[str] = "tree_mean"
    codecs: ClassVar[tuple[str, ...]] = ("scalars",)
    on_supports: ClassVar[bool] = True
    limits: ClassVar = {
        "hold": COUNT,
        "step_rule": lambda _, value: check_known("step", value, ("plain", "normalised")),  # v costs nothing
    }

    rule: Rule = "uniform"
    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"
    hold: int = 1  # rounds on one support; sums go over the tree in the last of them

    @classmethod
    def retunes(cls, given: Mapping[str, Any]) -> bool:
        return False

    def init(self, x: Any) -> TreeMeanState:
        v = np.zeros((*x.shape[:-1], 1)) if self.is_scaled else None
        if self.hold == 1:
            return TreeMeanState(x, v=v)
        return TreeMeanState(x, np.zeros((*x.shape[:-1], self.directions), x.dtype), zeros_like(x), v)

    def size(self, t: int, d: int) -> int:
        return super().size(t // self.hold, d)

    def talked(self, t: int) -> int:
        return t // self.hold

    def stages(self, world: World) -> int:
        return tree_stages(world.graph)

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        ids = tape[..., None], np.asarray(t)[..., None] // self.hold  # the same for all nodes, and L rounds
        support = RULES[self.rule](*ids, d=world.d, q=self.q)
        first, more = self.sign_vectors(support.q, *ids)
        return Draw(Direction.unchecked(support.index, world.d, first), more=more)

    def step(self, t: int, state: TreeMeanState, draw: Draw, channel: Channel) -> Step:
        x, c, before, v = state
        u, meets = draw.u, (t + 1) % self.hold == 0
        slopes = yield self.query(x, draw)
        K = slopes.shape[-1]  # in the last round of a balanced epoch there may be fewer
        moves = slopes if v is not None else -self.eta_at(t) * (u.d / (u.q * K) * slopes)
        if before is not None and t % self.hold == 0:
            before, c = u.put(before, u.restrict(x), out=before), np.zeros_like(c)
        if c is not None:
            c[..., :K] += moves
            moves = c[..., :K]
        if meets:
            moves = channel.sum_values(moves) / channel.n
        if v is not None:
            moves, now = self.scaled(t, u.q, moves, v)
            v = now if meets else v
        held = u.restrict(x if before is None else before)
        return TreeMeanState(u.put(x, held + along(u, draw.more, moves), out=x), c, before, v)

    def scaled(self, t: int, q: int, slopes: Values, v: Values) -> tuple[Values, Values]:
        """Moves of a set length along sums of slopes over the rounds on a support, and v with their mean."""
        v = running_mean(v, slopes / (t % self.hold + 1))
        factor = -self.eta_at(t - t % self.hold) * per_length(v, q * slopes.shape[-1])
        return factor.astype(slopes.dtype) * slopes, v
