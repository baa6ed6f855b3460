"""ZO-COSMO with directions of each node's own: all nodes hear all slopes over a spanning tree."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from zocosmo.channel import Channel
from zocosmo.core.signs import Signs, draw_sign_vectors, first_and_more, most_directions
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.core.wires import WIRES
from zocosmo.errors import InputError, check_known
from zocosmo.methods.base import RULES, Draw, Rounds, Rule, Ruled, Step, Values, World
from zocosmo.methods.several import Scaled, Sides, StepRule, running_mean
from zocosmo.traffic import tree_stages


@dataclass(frozen=True, eq=False)
class TreeGatherDraw(Draw):
    everyone: Direction  # the first direction of node 0
    rest: Values | None  # (…, N K − 1, 1, q): all others, node after node


@dataclass(frozen=True, kw_only=True)
class TreeGather(Scaled, Ruled):
    """ZO-COSMO with N K directions in a round: K of each node's own, on a support that all nodes share

        x⁺ = x − η (d/q) (1/NK) Σ_i Σ_k s_ik ε_ik   on S

    s_ik is what node i found along its direction ε_ik, on its own sample. All nodes rebuild all directions
    and hear all slopes, so those that start alike stay alike. N K numbers cross each link of node 0's
    breadth-first tree, up and down; on the way up those of nodes that are not below are zeros.

    `tree_mean` has K directions that all nodes share, and sends K numbers. A slope there is a mean over
    nodes: fewer directions, with less noise in each. Directions of their own are better as long as slopes are
    larger than their noise, and for nodes with data of one kind: differences of nodes do not cancel in them.

    With normalised steps x⁺ = x − (η/√(qNK)) Σ (s_ik/√v) ε_ik. v is a running mean of squared slopes, which
    all nodes know.
    """

    kind: ClassVar[str] = "tree_gather"
    codecs: ClassVar[tuple[str, ...]] = ("scalars",)
    on_supports: ClassVar[bool] = True
    limits: ClassVar = {
        "step_rule": lambda _, value: check_known("step", value, ("plain", "normalised")),  # v costs nothing
    }

    rule: Rule = "uniform"
    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    step_rule: StepRule = "plain"

    def wire_for(self, wire: str, dtype: DTypeLike) -> str:
        name = super().wire_for(wire, dtype)
        if WIRES[name].dithered:
            raise InputError(f"wire {name} makes noise of zeros, of which tree_gather sends many; use f16")
        return name

    def stages(self, world: World) -> int:
        return tree_stages(world.graph)

    def draw(self, world: World, tape: Tape, t: Rounds) -> TreeGatherDraw:
        tape, t = tape[..., None], np.asarray(t)[..., None]
        support = RULES[self.rule](tape, t, d=world.d, q=self.q)
        q, n = support.q, world.graph.n
        K = most_directions(self.signs, self.directions, q)
        vectors = draw_sign_vectors(tape, t, np.arange(n), q=q, directions=K, signs=self.signs)
        first, more = first_and_more(vectors[..., world.nodes, :, :])
        whole, rest = first_and_more(vectors.reshape(*vectors.shape[:-3], 1, n * K, q))
        u, everyone = (Direction.unchecked(support.index, world.d, entries) for entries in (first, whole))
        return TreeGatherDraw(u, everyone, rest, more=more)

    def step(self, t: int, state: Any, draw: TreeGatherDraw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slopes = yield self.query(x, draw)
        K = slopes.shape[-1]
        told = np.zeros((*slopes.shape[:-1], channel.n, K), slopes.dtype)
        told[..., np.arange(slopes.shape[-2]), channel.nodes, :] = slopes
        heard = channel.sum_values(told.reshape(*slopes.shape[:-1], -1))
        v = running_mean(state.v, heard) if self.is_scaled else None
        g = self.estimate(Draw(draw.everyone, more=draw.rest), heard, v)
        return self.state_of(u.put(x, u.restrict(x) - self.eta_at(t) * g, out=x), None, v)
