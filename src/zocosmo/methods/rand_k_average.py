"""Rand-k on two workers, as in the paper's Qwen tables: averaged sparse updates."""

from dataclasses import dataclass
from typing import ClassVar

from zocosmo.channel import Channel
from zocosmo.core.tape import Tape
from zocosmo.methods.averaging import check_complete, move_by_mean
from zocosmo.methods.base import Rounds, SharedDraw, Sparse, State, Step, World, shared_directions
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, kw_only=True)
class RandKAverage(Sparse):
    """Rand-k with averaged updates: each node draws its own support, all nodes apply all updates

        h_i = P_i m_i⁺
        x⁺  = x − (η/N) Σ_j h_j

    Nodes that start equal stay bit-identical, though supports and momenta differ; `rand_k` mixes states where
    supports meet, and is another operator. Codec `indexed` sends the coordinates; with `values` receivers get
    them from the tape. Same trajectory. Complete graphs only.
    """

    kind: ClassVar[str] = "rand_k_average"
    codecs: ClassVar[tuple[str, ...]] = ("indexed", "values", "plain", "delta", "entropy")
    on_supports: ClassVar[bool] = False  # it changes the supports of all nodes

    def check(self, world: World) -> None:
        super().check(world)
        check_complete(self.kind, world)

    def draw(self, world: World, tape: Tape, t: Rounds) -> SharedDraw:
        return shared_directions(world, tape, t, self.q)

    def step(self, t: int, state: State, draw: SharedDraw, channel: Channel) -> Step:
        (x, m), u = state, draw.u
        slope = yield Query(x, (u,), self.mu)
        m_S = self.blend(u, m, estimate(u, slope))
        h = channel.everyone(m_S, u, draw.everyone, over="links")
        move_by_mean(x, h, draw.everyone, self.eta_at(t))
        return State(x, self.keep(u, m, m_S))
