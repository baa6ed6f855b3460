"""Edge-local ZO-COSMO: a public matching, and a support for each of its pairs."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.balanced import epoch_length
from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.signs import Signs
from zocosmo.core.tape import Tape
from zocosmo.errors import GraphError, InputError, check_known
from zocosmo.graphs.matching import Partners
from zocosmo.methods.base import COUNT, RULES, Draw, Rounds, Rule, Step, Time, World
from zocosmo.methods.corrected import Corrected
from zocosmo.methods.several import Sides, StepRule
from zocosmo.state import zeros_like

Together = Literal["round", "epoch"]


@dataclass(frozen=True, eq=False)
class EdgeLocalDraw(Draw):
    partners: Partners  # (…, n)


@dataclass(frozen=True, kw_only=True)
class EdgeLocal(Corrected):
    """Edge-local ZO-COSMO: each pair of a matching averages on its own support   [alg:edge_local_cosmo]

        for e = {i, j} in M_t:   m⁺, y as in ZO-COSMO on S_e
                                 x_i⁺ = x_j⁺ = (y_i + y_j) / 2 on S_e

    `coupling` is what pairs share: G support and signs, S the support, I nothing. Idle nodes do not change.

    With `hold` L a pair keeps its support for L rounds: both ends step in each, with signs and samples of the
    round, and exchange values in the last. With `pairs: epoch` and balanced supports a node keeps its partner
    until they have met on every coordinate, so each coordinate meets one matching after the other. On a ring
    of eight nodes a meeting then halves the slowest disagreement; a matching picked by chance leaves 85 %.
    """

    kind: ClassVar[str] = "edge_local"
    codecs: ClassVar[tuple[str, ...]] = ("values", "indexed", "plain", "delta", "entropy")
    coarse: ClassVar[bool] = True
    is_paired: ClassVar[bool] = True
    limits: ClassVar = {
        "coupling": partial(check_known, known=COUPLINGS),
        "hold": COUNT,
        "pairs": partial(check_known, known=get_args(Together)),
    }

    coupling: Literal["G", "S", "I"] = "I"
    rule: Rule = "uniform"
    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"
    correction: float = 0.0
    hold: int = 1  # rounds on one support; values cross in the last of them
    pairs: Together = "round"  # how long partners stay together

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs == "epoch" and self.rule != "balanced":
            raise InputError("pairs stay together for an epoch of balanced supports; set rule: balanced")

    @property
    def is_fleeting(self) -> bool:
        """Whether every round has a matching and an exchange of its own."""
        return self.hold == 1 and self.pairs == "round"

    @property
    def unstated(self) -> tuple[str, ...]:
        defaults = {"hold": self.hold == 1, "pairs": self.pairs == "round"}
        return (*super().unstated, *(name for name, is_default in defaults.items() if is_default))

    def check(self, world: World) -> None:
        super().check(world)
        if world.graph.n < 2:
            raise GraphError("edge_local needs at least 2 nodes; use cosmo for a single node")
        _ = world.schedule  # raises if the schedule does not fit the graph

    def init(self, x: Any) -> Any:
        state = super().init(x)
        if self.hold == 1:
            return state
        v = state.v if self.is_scaled else None
        return self.state_of(state.x, state.m, v, self.correction_of(state), zeros_like(x))

    def size(self, t: int, d: int) -> int:
        return super().size(t // self.hold, d)

    def talked(self, t: int) -> int:
        return t // self.hold

    def matching_of(self, t: Time, d: int) -> Time:
        return t // (self.hold * (epoch_length(d, self.q) if self.pairs == "epoch" else 1))

    def draw(self, world: World, tape: Tape, t: Rounds) -> EdgeLocalDraw:
        partners = world.schedule.partners(tape, self.matching_of(t, world.d))  # line 3
        coupling, rule = COUPLINGS[self.coupling], RULES[self.rule]
        nodes = None if world.is_whole else world.nodes
        if nodes is not None:
            partners = partners[..., nodes]
        several: dict[str, Any] = {"directions": self.directions, "signs": self.signs}
        several["meeting"], named = t // self.hold, partners
        if world.ids is not None:
            named, nodes = world.ids[partners], world.ids[world.nodes]
        u, more = coupling.several_by_node(  # line 5
            tape, t, named, d=world.d, q=self.q, rule=rule, nodes=nodes, **several
        )
        return EdgeLocalDraw(u, partners, more=more)

    def step(self, t: int, state: Any, draw: EdgeLocalDraw, channel: Channel) -> Step:
        x, m, c, u, partners = state.x, state.m, self.correction_of(state), draw.u, draw.partners
        before, meets = state.before if self.hold > 1 else None, (t + 1) % self.hold == 0
        active = partners != channel.nodes
        everyone = bool(active.all())
        asked = None if everyone else active
        slopes = yield self.query(x, draw, asked)  # line 7
        v = self.scale(state, slopes, channel, asked, partners, alone=not meets)
        x_S, m_S = u.restrict(x), self.blend(u, m, self.estimate(draw, slopes, v))
        if before is not None and t % self.hold == 0:
            before = u.put(before, x_S, out=before)
        y_S = mixed = self.move(t, u, x_S, m_S, c if meets else None)  # line 8
        if meets:
            held = x_S if before is None else u.restrict(before)
            mixed = channel.mix_pairs(y_S, partners, u, held=held)  # lines 9 and 10
        if not everyone:
            mixed, y_S = np.where(active[..., None], (mixed, y_S), x_S)
            m_S = m_S if m is None else np.where(active[..., None], m_S, u.restrict(m))
        x = self.finish(u, x, c, y_S, mixed, channel) if meets else u.put(x, y_S, out=x)
        return self.state_of(x, self.keep(u, m, m_S), v, c, before)
