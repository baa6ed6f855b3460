"""SeedFlood: seeds and scalars flooded over the graph (Kim and Lee 2026)."""

from dataclasses import dataclass
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Method, Rounds, State, Step, World
from zocosmo.methods.flood import added_up, diameter
from zocosmo.methods.mezo import own_normals
from zocosmo.oracle import TwoQuery


@dataclass(frozen=True, kw_only=True)
class Flooding(Method):
    """A method whose scalars are passed on by all who hear them, until everyone has everyone's."""

    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar",)

    def stages(self, world: World) -> int:
        return diameter(world.graph)


@dataclass(frozen=True, kw_only=True)
class SeedFlood(Flooding):
    """SeedFlood: every node applies every node's update, rebuilt from its seed

        x⁺ = x − (η/N) Σ_j s_j z_j,   z_j ~ N(0, I)

    Nodes that start alike stay alike to the bit. What is heard twice is paid twice; `flood` pays the least
    that any flood can cost. A round ends when all have all, so no update comes late: the graph's width is
    paid in time.
    """

    kind: ClassVar[str] = "seedflood"

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return own_normals(world, tape, t, everyone=True)

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, u = state.x, draw.u
        slope = yield TwoQuery(x, u, self.mu)
        s = channel.pass_on(slope)
        assert draw.everyone is not None
        x -= (self.eta_at(t) / s.shape[-2]) * added_up(s, draw.everyone)[..., None, :]
        return State(x)
