"""MEERKAT: seed–scalar rounds on one sparse support that is chosen once (Ran et al. 2026)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction, check_size
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import Draw, Method, Rounds, Step, Values, World
from zocosmo.methods.compressors import top_q
from zocosmo.methods.server import average, check_participants, participants
from zocosmo.oracle import Query


class MeerkatState(NamedTuple):
    x: Values  # (…, n, d) states, alike where they start alike
    support: NDArray[np.int64]  # (…, 1, q) the only coordinates that move; 0…q−1 until they are chosen


@dataclass(frozen=True, eq=False)
class MeerkatDraw(Draw):
    active: NDArray[np.bool_] | None  # (…, n) who takes part; None: all


@dataclass(frozen=True, kw_only=True)
class Meerkat(Method):
    """MEERKAT: round 0 chooses q coordinates for good, and all others move on them along shared normals

        t = 0:  g = mean_k mean_i s_ik u_k   over C dense sign vectors u_k;   S = Top_q(g²);   x stays
        t > 0:  y_i ← y_i − η s_ik z_k       k = 1…K at home, from y_i = x, z_k ~ N(0, P_S)
                x⁺ = x − η Σ_k mean_i(s_ik) z_k

    Scalars go up from those who take part, their averages down to all: models never part. The authors
    calibrate by gradients on public data; queries alone allow two-query estimates, and signs, since u_j² = 1
    adds no noise of its own. Stopping nodes early along their virtual paths (MEERKAT-VP) is left out.
    """

    kind: ClassVar[str] = "meerkat"
    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar", "values")
    server: ClassVar[bool] = True

    q: int
    calibration: int = 64
    local_steps: int = 1
    participants: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("q", self.q, 1)
        check_whole("calibration", self.calibration, 1)
        check_whole("local_steps", self.local_steps, 1)
        check_whole("participants", self.participants)

    def check(self, world: World) -> None:
        check_size(world.d, self.q)
        check_participants(self.participants, world.graph.n)

    def init(self, x: Values) -> MeerkatState:
        return MeerkatState(x, np.broadcast_to(np.arange(self.q), (*x.shape[:-2], 1, self.q)).copy())

    def size(self, t: int, d: int) -> int:
        later = self.local_steps * self.q
        return later if t else later + self.calibration * d  # more than any other, so round 0 is drawn alone

    def model(self, state: MeerkatState) -> Values:
        """Any node's: they are alike."""
        return np.asarray(state.x[..., 0, :], np.float64)

    def draw(self, world: World, tape: Tape, t: Rounds) -> MeerkatDraw:
        active = participants(tape, t, world.graph.n, self.participants)
        tape, t = tape[..., None, None], np.asarray(t)[..., None, None]
        if t.max() == 0:
            signs = tape.coins("calibration", t, np.arange(self.calibration)[:, None]).signs(world.d)
            return MeerkatDraw(Direction(np.arange(world.d), world.d, signs), active)
        z = normals(tape, "normal", t, np.arange(self.local_steps)[:, None], size=self.q)
        return MeerkatDraw(Direction(np.arange(self.q), world.d, z), active)  # the state knows where they lie

    def step(self, t: int, state: MeerkatState, draw: MeerkatDraw, channel: Channel) -> Step:
        if t == 0:
            return (yield from self._calibrate(state, draw, channel))
        x, support = state
        K, eta = self.local_steps, self.eta_at(t)
        z = [Direction(support, draw.u.d, draw.one(k).signs) for k in range(K)]
        y, slopes = x, []
        for k in range(K):
            slopes.append((yield Query(y, (z[k],), self.mu, draw.active)))
            if k + 1 < K:  # the last one would be thrown away
                y = along(y, z[k], eta * slopes[k])
        told = channel.up(np.concatenate(slopes, axis=-1), draw.active, price="values", of=K)
        s = channel.down(average(told, draw.active), of=K)
        for k in range(K):
            x = along(x, z[k], eta * s[..., k, None])
        return MeerkatState(x, support)

    def _calibrate(self, state: MeerkatState, draw: MeerkatDraw, channel: Channel) -> Step:
        """Round 0: slopes along C dense directions up, from all that take part; q coordinates down, once."""
        C = self.calibration
        slopes = yield Query(state.x, tuple(draw.one(k) for k in range(C)), self.mu, draw.active)
        told = channel.up(slopes, draw.active, of=C)
        s = average(told, draw.active)
        g = np.zeros_like(state.x[..., :1, :])
        for k in range(C):
            g += s[..., k, None] * draw.one(k).signs
        support, _ = top_q(g / C, self.q)
        channel.charge(self.q, up=False, price="coordinates")
        return MeerkatState(state.x, support)


def along(x: Values, u: Direction, by: Values) -> Values:
    """x − by · u, as a new array"""
    moved: Values = u.put(x, u.restrict(x) - by * u.signs.astype(x.dtype, copy=False))
    return moved
