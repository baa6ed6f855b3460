"""DeComFL: only scalars are sent, and nodes replay the rounds that they missed (Li et al. 2025)."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.normals import normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import COUNT, Draw, Rounds, Step, Values, World
from zocosmo.methods.compressors import weighted_sum
from zocosmo.methods.server import ActiveDraw, Federated, Mask, average, participants
from zocosmo.oracle import Query


class DeComFLState(NamedTuple):
    x: Values  # (…, n, d) the model of each node, as of the start of round `last`
    w: Values  # (…, 1, d) the server's model
    last: NDArray[np.int64]  # (…, n) the round in which a node last took part
    history: Values  # (…, h, KP) averaged scalars of the h rounds that some node still needs
    rates: Values  # (…, h, 1) η/P of these rounds


@dataclass(frozen=True, eq=False)
class DeComFLDraw(ActiveDraw):
    earlier: "Callable[[int], DeComFLDraw] | None" = None  # the draw of a missed round

    def with_past(self, earlier: Callable[[int], Any]) -> "DeComFLDraw":
        return replace(self, earlier=earlier)


@dataclass(frozen=True, kw_only=True)
class DeComFL(Federated):
    """DeComFL: scalars up, averaged scalars down; nodes replay the rounds they missed (Li et al. 2025)

        x_i ← x_i − (η_τ/P) Σ_p s̄_τkp z_τkp   for τ from last_i to t − 1, k = 1…K
        s_ikp = slope of f_i along z_tkp at y_ik,   y_i1 = x_i,   y_i,k+1 = y_ik − (η_t/P) Σ_p s_ikp z_tkp
        s̄_t   = mean of s_i over participants;   w⁺ = w − (η_t/P) Σ_kp s̄_tkp z_tkp

    All nodes share the Gaussians z; y is discarded, and x_i after replay equals w to the bit. A missed round
    costs a message of KP averages. Under seed_scalar each comes with its seed, and round t adds KP seeds;
    nodes never send seeds. Under values the tape gives all seeds.
    """

    kind: ClassVar[str] = "decomfl"
    codecs: ClassVar[tuple[str, ...]] = ("seed_scalar", "values")
    limits: ClassVar = {"perturbations": COUNT, "local_steps": COUNT}
    histories: ClassVar[tuple[str, ...]] = ("history", "rates")

    perturbations: int = 1
    local_steps: int = 1
    participants: int = 0

    @property
    def scalars(self) -> int:
        """KP: the scalars of a node in a round."""
        return self.local_steps * self.perturbations

    def init(self, x: Values) -> DeComFLState:
        lead, n = x.shape[:-2], x.shape[-2]
        history, rates = (np.zeros((*lead, 0, size), x.dtype) for size in (self.scalars, 1))
        return DeComFLState(x, x[..., :1, :].copy(), np.zeros((*lead, n), np.int64), history, rates)

    def size(self, t: int, d: int) -> int:
        return self.scalars * d

    def model(self, state: DeComFLState) -> Values:
        return np.asarray(state.w[..., 0, :], np.float64)

    def draw(self, world: World, tape: Tape, t: Rounds) -> DeComFLDraw:
        t = np.asarray(t)
        ids = t[..., None, None], np.arange(self.scalars)[:, None]
        z = normals(tape[..., None, None], "normal", *ids, size=world.d)
        taking = participants(tape, t, world.graph.n, self.participants)
        return DeComFLDraw(Direction(np.arange(world.d), world.d, z), taking)

    def step(self, t: int, state: DeComFLState, draw: DeComFLDraw, channel: Channel) -> Step:
        state = state._replace(x=state.x.copy())  # the caller may still checkpoint the old one
        x, w, last, history, rates = state
        active = np.ones(last.shape, bool) if draw.active is None else draw.active
        self._catch_up(t, state, draw, active, channel)
        channel.charge(self.scalars, active, up=False, price="seeds", only="seed_scalar")  # of this round
        rate = np.full_like(w[..., :1], self.eta_at(t) / self.perturbations)
        own = yield from self._local(x, rate, draw)
        heard = channel.up(own, draw.active, price="values", of=self.scalars)
        mean = channel.as_read(average(heard, draw.active))  # the server uses what nodes read
        w = self._apply(w, rate, mean, directions_of(draw, x)[..., None, :, :])
        last = np.where(active, t, last)
        lacking = slice(int(last.min()) - t - 1, None)
        history = np.concatenate([history, mean], axis=-2)[..., lacking, :]
        rates = np.concatenate([rates, rate], axis=-2)[..., lacking, :]
        return DeComFLState(x, w, last, history, rates)

    def _catch_up(
        self, t: int, state: DeComFLState, draw: DeComFLDraw, active: Mask, channel: Channel
    ) -> None:
        """Bring participants to the server's model, round by round; x changes in place."""
        x, _, last, history, rates = state
        for tau in range(t - history.shape[-2], t):
            late = active & (last <= tau)
            if not late.any():
                continue
            mean = channel.down(history[..., tau - t, None, :], late, of=self.scalars)
            assert draw.earlier is not None
            z = directions_of(draw.earlier(tau), x)
            rows = np.nonzero(late)
            run = rows[:-1]
            x[rows] = self._apply(x[rows], rates[..., tau - t, :][run], mean[..., 0, :][run], z[run])

    def _local(self, y: Values, rate: Values, draw: DeComFLDraw) -> Generator[Query, Values, Values]:
        """The slopes of K local steps from y, (…, n, KP); the local states are discarded."""
        z, own = directions_of(draw, y)[..., None, :, :], np.empty((*y.shape[:-1], self.scalars), y.dtype)
        for k, now in enumerate(self._steps):
            directions = tuple(draw.one(j) for j in range(now.start, now.stop))
            own[..., now] = yield Query(y, directions, self.mu, draw.active)
            if k + 1 < self.local_steps:
                y = y - rate * weighted_sum(own[..., now], z[..., now, :])
        return own

    def _apply(self, y: Values, rate: Values, scalars: Values, z: Values) -> Values:
        """All K steps of a round with averaged scalars, at the server and in a replay."""
        for now in self._steps:
            y = y - rate * weighted_sum(scalars[..., now], z[..., now, :])
        return y

    @property
    def _steps(self) -> list[slice]:
        """The P of KP scalars that belong to each local step."""
        return [slice(k, k + self.perturbations) for k in range(0, self.scalars, self.perturbations)]


def directions_of(draw: Draw, x: Values) -> Values:
    """The directions of a round in the type of x, (…, KP, d)."""
    return draw.u.entries[..., 0, :].astype(x.dtype, copy=False)
