"""MeZO: two forward passes along a Gaussian direction (Malladi et al. 2023)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, Method, Rounds, State, Step, World
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class Alone(Method):
    """A method of single nodes, which send nothing."""

    codecs: ClassVar[tuple[str, ...]] = ("values",)  # required, but never charged

    def stages(self, world: World) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class Mezo(Alone):
    """MeZO: each node by itself, along its own dense Gaussian direction

        s  = [f(x + μz) − f(x − μz)] / 2μ,   z ~ N(0, I)
        x⁺ = x − η s z

    z comes from the tape, so the seed and the scalars s determine the run; n nodes are n runs.
    """

    kind: ClassVar[str] = "mezo"

    def draw(self, world: World, tape: Tape, t: Rounds) -> Draw:
        return Draw(own_normals(world, tape, t))

    def step(self, t: int, state: State, draw: Draw, channel: Channel) -> Step:
        x, z = state.x, draw.u
        s = yield Query(x, (z,), self.mu)
        x -= self.eta_at(t) * estimate(z, s)
        return State(x)


def own_normals(world: World, tape: Tape, t: Rounds, nodes: NDArray[np.int64] | None = None) -> Direction:
    """A dense Gaussian for each of `nodes`, ids (t, i); by default the nodes in this process."""
    whose = world.nodes if nodes is None else nodes
    z = normals(tape[..., None], "normal", np.asarray(t)[..., None], whose, size=world.d)
    return Direction(np.arange(world.d), world.d, z)
