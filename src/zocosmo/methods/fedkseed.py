"""FedKSeed: a model as K sums along K fixed directions (Qin et al., ICML 2024)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.normals import Array, normals
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import COUNT, Rounds, Step, Values, World
from zocosmo.methods.compressors import weighted_sum
from zocosmo.methods.server import ActiveDraw, Federated, participants
from zocosmo.oracle import Query

MOST_TABLES = 4  # of candidates, cached between batches


class FedKSeedState(NamedTuple):
    x: Values  # (…, n, d) where each node's last local step ended
    x0: Values  # (…, n, d) the common start
    walk: Values  # (…, 1, d) Σ_j a_j z_j, with a as nodes read it
    a: Values  # (…, 1, K) the sums that the server keeps


@dataclass(frozen=True, eq=False)
class FedKSeedDraw(ActiveDraw):
    """`u` holds the K candidates, (…, K, 1, d)."""

    choice: NDArray[np.int64]  # (…, n, τ) the candidate of each local step


@dataclass(frozen=True, kw_only=True)
class FedKSeed(Federated):
    """FedKSeed: K candidate directions for the whole run; the model is the sum of steps along each

        y_i ← x0 − Σ_j a_j z_j,  z_j ~ N(0, I), j < K    K scalars down to each participant
        y_i ← y_i − η s z_c                              τ times, c uniform in [K] per node and step
        a_c⁺ = a_c + (η/M) Σ s                           τ pairs (c, s) up from each of M nodes

    The sums include η, so that it may decay; all nodes have equal weight. A candidate that is drawn twice is
    sent as two pairs. Candidates of unequal probability (FedKSeed-Pro) are not implemented.
    """

    kind: ClassVar[str] = "fedkseed"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "plain")
    limits: ClassVar = {"candidates": COUNT}

    candidates: int = 64
    local_steps: int = 1
    participants: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("local_steps of fedkseed (at most its candidates)", self.local_steps, 1, self.candidates)

    def init(self, x: Values) -> FedKSeedState:
        a = np.zeros((*x.shape[:-2], 1, self.candidates), x.dtype)
        return FedKSeedState(x, x.copy(), np.zeros_like(x[..., :1, :]), a)

    def model(self, state: FedKSeedState) -> Values:
        return np.asarray(state.x0[..., 0, :] - state.walk[..., 0, :], np.float64)

    def draw(self, world: World, tape: Tape, t: Rounds) -> FedKSeedDraw:
        K, active = self.candidates, participants(tape, t, world.graph.n, self.participants)
        words = tape[..., None].coins("choice", np.asarray(t)[..., None], world.nodes).words(self.local_steps)
        choice = (words % np.uint64(K)).astype(np.int64)  # bias of at most K / 2^64
        z = table(tape.keys.tobytes(), K, world.d).reshape(*tape.shape, K, 1, world.d)
        return FedKSeedDraw(Direction(np.arange(world.d), world.d, z), active, choice)

    def step(self, t: int, state: FedKSeedState, draw: FedKSeedDraw, channel: Channel) -> Step:
        (x, x0, walk, a), active, choice = state, draw.active, draw.choice
        K, M, eta, slopes = self.candidates, self.participants or x.shape[-2], self.eta_at(t), []
        channel.charge(K, active, up=False, price="values", of=K)  # a: nodes rebuild the walk from it
        x = x0 - walk if active is None else np.where(active[..., None], x0 - walk, x)
        for k in range(self.local_steps):
            u = chosen(draw.u, choice[..., k])
            slope = yield Query(x, (u,), self.mu, active)
            slopes.append(slope if active is None else np.where(active[..., None], slope, 0))
            x = x - eta * slopes[k] * u.entries
        told = channel.up(np.concatenate(slopes, axis=-1), active, of=K)
        a = a + eta * (by_candidate(told, choice, K) / M)
        walk = weighted_sum(channel.as_read(a), draw.u.entries.swapaxes(-3, -2))
        return FedKSeedState(x, x0, walk, a)


@lru_cache(maxsize=MOST_TABLES)
def table(keys: bytes, K: int, d: int) -> Array:
    """The candidates of all these tapes, (tapes, K, d), fixed for the whole run."""
    tapes = Tape.of_keys(np.frombuffer(keys, np.uint8).reshape(-1, 1, 32))
    z = normals(tapes, "candidate", np.arange(K), size=d)
    z.setflags(write=False)
    return z


def chosen(candidates: Direction, choice: NDArray[np.int64]) -> Direction:
    """The candidate z_c of each node, (…, n, d), by its `choice` c, (…, n)."""
    where = choice[..., None]
    return candidates.pick(
        lambda rows: rows if rows.ndim == 1 else np.take_along_axis(rows[..., 0, :], where, axis=-2)
    )


def by_candidate(slopes: Values, choice: NDArray[np.int64], K: int) -> Values:
    """Sums of slopes (…, n, τ) by candidate, (…, 1, K), added in ascending order of nodes, then steps."""
    lead = slopes.shape[:-2]
    total = np.zeros((math.prod(lead), K), slopes.dtype)
    rows = np.arange(len(total))[:, None]
    np.add.at(total, (rows, choice.reshape(len(total), -1)), slopes.reshape(len(total), -1))
    return total.reshape(*lead, 1, K)
