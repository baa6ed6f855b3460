"""Edge-local ZO-COSMO: a public matching, and a support for each of its pairs."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.signs import Signs
from zocosmo.core.tape import Tape
from zocosmo.errors import GraphError, check_known
from zocosmo.graphs.matching import Partners
from zocosmo.methods.base import RULES, Draw, Rounds, Rule, State, Step, World
from zocosmo.methods.corrected import Corrected
from zocosmo.methods.several import Sides, StepRule


@dataclass(frozen=True, eq=False)
class EdgeLocalDraw(Draw):
    partners: Partners  # (…, n)


@dataclass(frozen=True, kw_only=True)
class EdgeLocal(Corrected):
    """Edge-local ZO-COSMO: each pair of a matching averages on its own support   [alg:edge_local_cosmo]

        for e = {i, j} in M_t:   m⁺, y as in ZO-COSMO on S_e
                                 x_i⁺ = x_j⁺ = (y_i + y_j) / 2 on S_e

    `coupling` is what pairs share: G support and signs, S the support, I nothing. Idle nodes do not change.
    """

    kind: ClassVar[str] = "edge_local"
    codecs: ClassVar[tuple[str, ...]] = ("values", "indexed", "plain", "delta", "entropy")
    coarse: ClassVar[bool] = True
    is_paired: ClassVar[bool] = True
    limits: ClassVar = {"coupling": partial(check_known, known=COUPLINGS)}

    coupling: Literal["G", "S", "I"] = "I"
    rule: Rule = "uniform"
    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"
    correction: float = 0.0

    def check(self, world: World) -> None:
        super().check(world)
        if world.graph.n < 2:
            raise GraphError("edge_local needs at least 2 nodes; use cosmo for a single node")
        _ = world.schedule  # raises if the schedule does not fit the graph

    def draw(self, world: World, tape: Tape, t: Rounds) -> EdgeLocalDraw:
        partners = world.schedule.partners(tape, t)  # line 3
        coupling, rule = COUPLINGS[self.coupling], RULES[self.rule]
        nodes = None if world.is_whole else world.nodes
        if nodes is not None:
            partners = partners[..., nodes]
        several: dict[str, Any] = {"directions": self.directions, "signs": self.signs}
        named = partners
        if world.ids is not None:
            named, nodes = world.ids[partners], world.ids[world.nodes]
        u, more = coupling.several_by_node(  # line 5
            tape, t, named, d=world.d, q=self.q, rule=rule, nodes=nodes, **several
        )
        return EdgeLocalDraw(u, partners, more=more)

    def step(self, t: int, state: State, draw: EdgeLocalDraw, channel: Channel) -> Step:
        x, m, c, u, partners = state.x, state.m, self.correction_of(state), draw.u, draw.partners
        active = partners != channel.nodes
        everyone = bool(active.all())
        asked = None if everyone else active
        slopes = yield self.query(x, draw, asked)  # line 7
        v = self.scale(state, slopes, channel, asked, partners)
        x_S, m_S = u.restrict(x), self.blend(u, m, self.estimate(draw, slopes, v))
        y_S = self.move(t, u, x_S, m_S, c)  # line 8
        mixed = channel.mix_pairs(y_S, partners, u, held=x_S)  # lines 9 and 10
        if not everyone:
            mixed, y_S = np.where(active[..., None], (mixed, y_S), x_S)
            m_S = m_S if m is None else np.where(active[..., None], m_S, u.restrict(m))
        return self.state_of(self.finish(u, x, c, y_S, mixed, channel), self.keep(u, m, m_S), v, c)
