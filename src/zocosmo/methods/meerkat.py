"""MEERKAT: seed–scalar rounds on one fixed sparse support (Ran et al. 2026)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import COUNT, Compressed, Rounds, Step, Values, World
from zocosmo.methods.compressors import top_q
from zocosmo.methods.server import ActiveDraw, Federated, average, participants
from zocosmo.oracle import Query


class MeerkatState(NamedTuple):
    x: Values  # (…, n, d) states, equal if they start equal
    support: NDArray[np.int64]  # (…, 1, q) the coordinates that move; 0…q−1 until round 0 chooses them


@dataclass(frozen=True, kw_only=True)
class Meerkat(Federated, Compressed):
    """MEERKAT: round 0 chooses q coordinates; later rounds move on them along shared Gaussian directions

        t = 0:  g = mean_k mean_i s_ik u_k   over C dense sign vectors u_k;   S = Top_q(g²);   x stays
        t > 0:  y_i ← y_i − η s_ik z_k       k = 1…K local steps, from y_i = x, z_k ~ N(0, P_S)
                x⁺ = x − η Σ_k mean_i(s_ik) z_k

    Participants send scalars up; their averages go down to all nodes, so models stay equal. The authors
    calibrate with gradients on public data; here two-query estimates replace them, along signs, as u_j² = 1
    adds no noise. Early stopping of nodes (MEERKAT-VP) is not implemented.
    """

    kind: ClassVar[str] = "meerkat"
    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar", "values")
    limits: ClassVar = {"calibration": COUNT, "local_steps": COUNT}

    calibration: int = 64
    local_steps: int = 1
    participants: int = 0

    def init(self, x: Values) -> MeerkatState:
        return MeerkatState(x, np.broadcast_to(np.arange(self.q), (*x.shape[:-2], 1, self.q)).copy())

    def size(self, t: int, d: int) -> int:
        later = self.local_steps * self.q
        return later if t else later + self.calibration * d  # differs, so round 0 is drawn separately

    def draw(self, world: World, tape: Tape, t: Rounds) -> ActiveDraw:
        active = participants(tape, t, world.graph.n, self.participants)
        tape, t = tape[..., None, None], np.asarray(t)[..., None, None]
        if t.max() == 0:
            signs = tape.coins("calibration", t, np.arange(self.calibration)[:, None]).signs(world.d)
            return ActiveDraw(Direction(np.arange(world.d), world.d, signs), active)
        z = normals(tape, "normal", t, np.arange(self.local_steps)[:, None], size=self.q)
        return ActiveDraw(Direction(np.arange(self.q), world.d, z), active)  # the state has the support

    def step(self, t: int, state: MeerkatState, draw: ActiveDraw, channel: Channel) -> Step:
        if t == 0:
            return (yield from self._calibrate(state, draw, channel))
        x, support = state
        K, eta = self.local_steps, self.eta_at(t)
        z = [Direction(support, draw.u.d, draw.one(k).entries) for k in range(K)]
        y, slopes = x, []
        for k in range(K):
            slopes.append((yield Query(y, (z[k],), self.mu, draw.active)))
            if k + 1 < K:  # the last local state is not used
                y = along(y, z[k], eta * slopes[k])
        told = channel.up(np.concatenate(slopes, axis=-1), draw.active, price="values", of=K)
        s = channel.down(average(told, draw.active), of=K)
        for k in range(K):
            x = along(x, z[k], eta * s[..., k, None])
        return MeerkatState(x, support)

    def _calibrate(self, state: MeerkatState, draw: ActiveDraw, channel: Channel) -> Step:
        """Round 0: participants send slopes along C dense directions; the server sends q coordinates once."""
        C = self.calibration
        slopes = yield Query(state.x, tuple(draw.one(k) for k in range(C)), self.mu, draw.active)
        told = channel.up(slopes, draw.active, of=C)
        s = average(told, draw.active)
        g = np.zeros_like(state.x[..., :1, :])
        for k in range(C):
            g += s[..., k, None] * draw.one(k).entries
        support, _ = top_q(g / C, self.q)
        channel.charge(self.q, up=False, price="coordinates")
        return MeerkatState(state.x, support)


def along(x: Values, u: Direction, by: Values) -> Values:
    """x − by · u, as a new array"""
    moved: Values = u.put(x, u.restrict(x) - by * u.entries.astype(x.dtype, copy=False))
    return moved
