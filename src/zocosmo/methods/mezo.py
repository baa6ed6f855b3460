"""MeZO: forward passes alone, along Gaussian directions (Malladi et al. 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Method, Rounds, State, Step, World
from zocosmo.oracle import TwoQuery, estimate


@dataclass(frozen=True, kw_only=True)
class Alone(Method):
    """A method of single nodes: each goes its own way, sends nothing and waits for nobody."""

    codecs: ClassVar[tuple[str, ...]] = ("values",)  # of messages that are never sent

    def stages(self, world: World) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class Mezo(Alone):
    """MeZO: each node for itself, along a dense Gaussian of its own

        s  = [f(x + μz) − f(x − μz)] / 2μ,   z ~ N(0, I)
        x⁺ = x − η s z

    z comes from the tape, so the scalars s and the seed are the whole run; n nodes are n runs.
    """

    kind: ClassVar[str] = "mezo"

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return own_normals(world, tape, t)

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, z = state.x, draw.u
        s = yield TwoQuery(x, z, self.mu)
        x -= self.eta_at(t) * estimate(z, s)
        return State(x)


def own_normals(world: World, tape: Tape, t: Rounds, *, everyone: bool = False) -> Draw:
    """A dense Gaussian for each node, ids (t, i). With `everyone`, those of nodes elsewhere too."""
    nodes = np.arange(world.graph.n) if everyone else world.nodes
    z = normals(tape[..., None], "normal", np.asarray(t)[..., None], nodes, size=world.d)
    u = Direction(np.arange(world.d), world.d, z)
    if not everyone or world.is_whole:
        return Draw(u, everyone=u if everyone else None)
    return Draw(Direction(u.index, world.d, z[..., world.nodes, :]), everyone=u)
