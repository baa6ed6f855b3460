"""Moniqua: states modulo a range, read against the receiver's own (Lu and De Sa 2020)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.noise import dither
from zocosmo.core.price import MOST_RESIDUE_BITS
from zocosmo.core.tape import Tape
from zocosmo.errors import check_whole
from zocosmo.methods.base import (
    Draw,
    Method,
    Rounds,
    State,
    Step,
    Values,
    World,
    check_number,
    own_directions,
)
from zocosmo.methods.compressors import folded
from zocosmo.oracle import Query, estimate


@dataclass(frozen=True, eq=False)
class MoniquaDraw(Draw):
    dither: NDArray[np.float64]  # (…, 1, d) r, the same for all nodes


@dataclass(frozen=True, kw_only=True)
class Moniqua(Method):
    """Moniqua: gossip of dense states in b bits a coordinate, whatever they are (Lu and De Sa 2020)

        k_i   = ⌊x_i/Δ + r⌋,   Δ = B/2^b,   B = 2θ/(1 − 2δ),   δ = 2^−(b+1)
        x̂_i   = Δ (k_i − r + ½)
        x̂_j|i = the copy of x̂_j + B ℤ that is nearest to x_i
        x_i⁺  = x_i + γ Σ_j w_ij (x̂_j|i − x̂_i) − η ĝ_i

    Each node estimates ĝ at x along its own dense direction. k_i modulo 2^b crosses, and no further vector is
    kept. Rounding is to the nearest point of a grid that public dither r shifts alike for all nodes, so those
    that agree stay as they are. A copy is right while |x_i − x_j| ≤ θ in every coordinate; beyond that it is
    read wrong without notice. γ < 1 is the authors' slack matrix, γW + (1 − γ)I, which one or two bits need.
    """

    kind: ClassVar[str] = "moniqua"
    codecs: ClassVar[tuple[str, ...]] = ("residues2",)
    limits: ClassVar = {
        "bits": partial(check_whole, least=1, most=MOST_RESIDUE_BITS),
        "theta": partial(check_number, least=0, open_below=True),
        "gamma": partial(check_number, least=0, most=1),
    }

    theta: float = 1.0  # θ, a bound on |x_i − x_j|∞
    gamma: float = 1.0
    bits: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "codecs", (f"residues{self.bits}",))
        super().__post_init__()

    def draw(self, world: World, tape: Tape, t: Rounds) -> MoniquaDraw:
        r = dither(tape[..., None], "moniqua", np.asarray(t)[..., None], size=world.d)
        return MoniquaDraw(own_directions(world, tape, t, world.d).u, r)

    def step(self, t: int, state: State, draw: MoniquaDraw, channel: Channel) -> Step:
        x = state.x
        slope = yield Query(x, (draw.u,), self.mu)
        g = estimate(draw.u, slope)
        scale = 2 * self.theta / (2.0**self.bits - 1)  # Δ
        at = x / scale + draw.dither
        k = np.floor(at)
        moved = differences(k, at - 0.5, self.bits, channel)
        x += ((self.gamma * scale) * moved).astype(x.dtype)
        x -= self.eta_at(t) * g
        return State(x)


def differences(k: Values, at: Values, bits: int, channel: Channel) -> Values:
    """Σ_j w_ij (k_j|i − k_i), peers in ascending order; k_j|i is the copy of k_j + 2^b ℤ nearest to at_i."""
    rows, mine = k.reshape(-1, k.shape[-1]), at.reshape(-1, at.shape[-1])
    out = np.zeros_like(rows)
    for slot, theirs in channel.hear_residues(k, bits):
        here = mine[slot.rows]
        copies = np.round(here + folded(theirs - here, bits))
        out[slot.rows] += slot.weight * (copies - rows[slot.rows])
    return out.reshape(k.shape)
