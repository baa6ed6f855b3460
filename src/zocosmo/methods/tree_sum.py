"""Scalars summed over a spanning tree: DeComFL without a server, at a few bits a scalar."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.channel import Channel
from zocosmo.core.noise import dither
from zocosmo.core.price import MOST_RESIDUE_BITS
from zocosmo.core.support import Direction, draw_signs
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_whole
from zocosmo.methods.base import COUNT, Draw, Method, Rounds, Step, Values, World
from zocosmo.methods.compressors import folded, weighted_sum
from zocosmo.oracle import Query
from zocosmo.traffic import tree_stages

FLOAT_BITS = 32  # `bits` of scalars that cross as values of the wire
KEEP = 0.9  # of the mean square of totals, from round to round
REACH = 4.0  # root mean squares of a total that are read right
LEAST = 2.0**-60  # a scale


class TreeSumState(NamedTuple):
    x: Values  # (…, n, d), alike where nodes start alike
    square: Values  # (…, 1, 1) running mean square of totals, which every node knows


@dataclass(frozen=True, eq=False)
class TreeSumDraw(Draw):
    """`u` holds the P directions, (…, P, 1, d)."""

    dither: NDArray[np.float64]  # (…, n, P) r_ip of all nodes


def check_bits(what: str, bits: int) -> None:
    """Raise InputError unless scalars may cross in so many bits."""
    if bits != FLOAT_BITS:
        try:
            check_whole(what, bits, 2, MOST_RESIDUE_BITS)
        except InputError as error:
            raise InputError(f"{error}; {FLOAT_BITS} sends values of the wire") from None


@dataclass(frozen=True, kw_only=True)
class TreeSum(Method):
    """Scalars summed over a spanning tree: all nodes ask along the same P directions and stay alike

        s_ip = slope of f_i along z_p at x
        k_ip = ⌊s_ip/Δ + r_ip⌋                 K_p ≡ Σ_i k_ip  modulo 2^b
        T_p  = Δ (K_p + N/2 − Σ_i r_ip)        the copy of K_p with T_p in [−2^(b−1) Δ, 2^(b−1) Δ)
        x⁺   = x − (η/NP) Σ_p T_p z_p

    Every node sends the sum of its subtree to its parent in the breadth-first tree of node 0, and the root's
    sums come down again: b bits a direction on every link of the tree, since sums wrap. Only the total has to
    fit, however much the nodes differ. r is public dither, so T_p − Σ_i s_ip is a sum of N independent
    uniforms of ±Δ/2 if it fits, whatever the slopes are. Δ is a power of two that all nodes
    compute from earlier totals: 2^(b−1) Δ is at least 4 root mean squares. A total that is larger comes out
    wrong, at every node alike, and widens Δ. Round 0 sends values of the wire, B bits each in ⌈B/b⌉ words;
    with b = 32 every round sends values.
    """

    kind: ClassVar[str] = "tree_sum"
    codecs: ClassVar[tuple[str, ...]] = ("residues5",)  # those of `bits`
    limits: ClassVar = {
        "perturbations": COUNT,
        "bits": check_bits,
        "sides": partial(check_whole, least=1, most=2),
    }

    perturbations: int = 1
    bits: int = 5
    sides: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "codecs", (f"residues{self.bits}" if self.wraps else "scalars",))
        super().__post_init__()

    @property
    def wraps(self) -> bool:
        """Whether integers cross, and not values of the wire."""
        return self.bits != FLOAT_BITS

    def init(self, x: Values) -> TreeSumState:
        return TreeSumState(x, np.zeros((*x.shape[:-2], 1, 1)))

    def size(self, t: int, d: int) -> int:
        return self.perturbations * d

    def stages(self, world: World) -> int:
        return tree_stages(world.graph)

    @property
    def is_one_sided(self) -> bool:
        return self.sides == 1

    def draw(self, world: World, tape: Tape, t: Rounds) -> TreeSumDraw:
        t, P, d = np.asarray(t)[..., None], self.perturbations, world.d
        z = draw_signs(tape[..., None, None], t[..., None], np.arange(P)[:, None], q=d)
        r = dither(tape[..., None], "tree dither", t, np.arange(world.graph.n), size=P)
        return TreeSumDraw(Direction(np.arange(d), d, z), r)

    def step(self, t: int, state: TreeSumState, draw: TreeSumDraw, channel: Channel) -> Step:
        (x, square), P = state, self.perturbations
        s = yield Query(x, tuple(draw.one(p) for p in range(P)), self.mu, sides=self.sides)
        n, scale = channel.n, scale_of(square, self.bits) if self.wraps and t else np.zeros_like(square)
        if self.wraps and t:
            total = self._wrapped(s, scale, draw.dither, channel)
        else:
            total = channel.sum_values(s, words=self.bits if self.wraps else 0)
        z = draw.u.entries.swapaxes(-3, -2)
        x -= (self.eta_at(t) / (n * P)) * weighted_sum(total.astype(x.dtype, copy=False), z)
        seen = mean_square(total, n * scale * scale / 12)
        return TreeSumState(x, KEEP * square + (1 - KEEP) * seen if t else seen)

    def _wrapped(self, s: Values, scale: Values, r: Values, channel: Channel) -> Values:
        """T of every direction, (…, 1, P), from integers of b bits."""
        total = channel.sum_residues(np.floor(s / scale + r[..., channel.nodes, :]), self.bits)
        offset = r.shape[-2] / 2 - r.sum(axis=-2, keepdims=True)
        return scale * folded(total + offset, self.bits)


def scale_of(square: Values, bits: int) -> Values:
    """Δ: the least power of two, from `LEAST` on, with 2^(b−1) Δ above `REACH` root mean squares.

    >>> scale_of(np.array([1.0, 0.9]), 5).tolist()
    [0.5, 0.25]
    """
    _, exponent = np.frexp(REACH * np.sqrt(square))
    scale = np.ldexp(1.0, exponent - (bits - 1))
    return np.where(square > 0, np.maximum(scale, LEAST), LEAST)


def mean_square(total: Values, noise: Values) -> Values:
    """mean_p T_p² less what dither adds to it, but at least a quarter of it: (…, 1, 1) of (…, 1, P)."""
    square = np.zeros((*total.shape[:-1], 1))
    for p in range(total.shape[-1]):
        one = total[..., p : p + 1].astype(np.float64)
        square += one * one
    square /= total.shape[-1]
    debiased: Values = np.maximum(square - noise, square / 4)
    return debiased
