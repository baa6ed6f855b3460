"""Quadratics with minimum 0: heterogeneous curvatures and linear terms, and noise, each set separately."""

import math
import threading
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError, check_whole
from zocosmo.oracle import Mask, Problem, Values
from zocosmo.problems.draws import Array, Scratch, normals, private
from zocosmo.problems.nodes import check_nodes

BLOCK = 2**16  # normals of noise drawn at once, for as many rounds as fit
MOST_BLOCKS = 128  # cached for other batches: 64 MiB


class Quadratic(Problem):
    """F_i(x) = ½ xᵀH_i x + b_iᵀx with diagonal H_i; queries add ε_iᵀx, ε_i ~ N(0, σ² I/d)

    The b_i and the deviations of the H_i sum to zero over nodes, so F(x) = ½ Σ_j h_j x_j² and F* = 0.
    """

    def __init__(self, half: Array, b: Array, sigma: Array | float, noise: "Noise | None") -> None:
        self.half, self.b, self.sigma, self.noise = half, b, sigma, noise  # half = H_i / 2
        self.n, self.d = b.shape[-2:]
        self._scratch = Scratch()

    @property
    def x0(self) -> Array:
        return np.full((*self.b.shape[:-2], self.d), self.d**-0.5)

    def local(self, x: Values) -> Array:
        return self._value(x, self.b)

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Array:
        if self.noise is None:
            return self._value(x, self.b)
        linear = self._scratch("linear", self.b.shape)
        if self._scratch.t != t:
            self._scratch.t = -1  # invalid until it is complete
            self.noise.at(t, linear)
            linear *= self.sigma
            linear += self.b
            self._scratch.t = t
        return self._value(x, linear)

    def _value(self, x: Values, b: Array) -> Array:
        x = np.ascontiguousarray(x)  # the last bits of sums depend on the layout
        shape = np.broadcast_shapes(x.shape, b.shape)
        slope = np.multiply(self.half, x, out=self._scratch("slope", shape))
        slope += b
        slope *= x
        value: Array = slope.sum(axis=-1)  # einsum would sum a single row of 10,000 in another order
        return value

    def at(self, nodes: Sequence[int]) -> Self:
        some = check_nodes(nodes, self.n)
        half, b = self.half.take(some, axis=-2), self.b.take(some, axis=-2)
        return type(self)(half, b, self.sigma, self.noise and self.noise.of(some))

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        sigma = np.array([p.sigma for p in problems])[:, None, None]
        half, b = (np.stack(list(arrays)) for arrays in zip(*((p.half, p.b) for p in problems), strict=True))
        return cls(half, b, sigma, Noise.shared([p.noise for p in problems]))


class Noise:
    """Standard normals of a round divided by √d, shape (…, nodes, d); trials of one seed share them."""

    def __init__(self, tape: Tape, nodes: Sequence[int], d: int, which: Sequence[int] = ()) -> None:
        self.tape, self.nodes, self.d, self.which = tape, tuple(nodes), d, tuple(which)
        self._which = np.array(which) if which else None  # the seed of each trial
        self._key = tape.keys.tobytes(), tape.shape, np.array(nodes).tobytes(), d
        self._rounds = max(1, BLOCK // (max(1, math.prod(tape.shape)) * len(nodes) * d))

    def of(self, rows: Sequence[int]) -> "Noise":
        """The noise of some of its nodes, with the same coins."""
        return Noise(self.tape, [self.nodes[row] for row in rows], self.d, self.which)

    @classmethod
    def shared(cls, noises: Sequence["Noise | None"]) -> "Noise | None":
        """One noise for many trials; a trial without noise has σ = 0, so its draws do not matter."""
        some = [noise for noise in noises if noise is not None]
        if not some:
            return None
        if len({noise.nodes for noise in some}) != 1:
            found = [f"{noise.nodes[0]}…{noise.nodes[-1]}" for noise in some]
            raise InputError(f"only problems of the same nodes can be stacked, got nodes {', '.join(found)}")
        keys = [(noise or some[0]).tape.keys.tobytes() for noise in noises]
        place = {key: k for k, key in enumerate(dict.fromkeys(keys))}
        return cls(Tape.stack(list(place)), some[0].nodes, some[0].d, [place[key] for key in keys])

    def at(self, t: int, out: Array) -> None:
        """Write the noise of round t to `out`."""
        now = self._block(t - t % self._rounds)[t % self._rounds]
        if self._which is None:
            out[...] = now
        else:
            now.take(self._which, axis=0, out=out, mode="clip")  # "raise" would make a copy

    def _block(self, first: int) -> Array:
        """Rounds from `first` on; small blocks are cached, since trials of one seed are in many batches."""
        key = *self._key, first
        block = _drawn.get(key)
        if block is None:
            block = self._draw(first + np.arange(self._rounds))
            if block.size <= BLOCK:
                with _drawing:
                    _drawn[key] = block
                    while len(_drawn) > MOST_BLOCKS:
                        del _drawn[next(iter(_drawn))]
        return block

    def _draw(self, rounds: NDArray[np.int64]) -> Array:
        ids = rounds.reshape(-1, *(1,) * len(self.tape.shape), 1), np.array(self.nodes)
        drawn = normals(self.tape[..., None], "noise", *ids, size=self.d)
        drawn *= self.d**-0.5
        return drawn


_drawn: dict[tuple[Any, ...], Array] = {}
_drawing = threading.Lock()


def quadratic(
    n: int,
    seed: Seed,
    *,
    d: int,
    kappa: float = 4.0,
    omega: float = 0.0,
    zeta: float = 0.0,
    sigma: float = 0.0,
) -> Quadratic:
    """Quadratics over n nodes: curvatures from 1 to kappa, spread omega; linear terms zeta; noise sigma.

    H_i = diag(h_j (1 + ω R_ij)),  h = geomspace(1, κ, d),  Σ_i R_i = 0,  max |R| = 1
    mean_i ‖b_i‖² = ζ²,  Σ_i b_i = 0
    """
    d, n = check_whole("d", d, 1), check_whole("n", n, 1)
    if not (kappa > 0 and 0 <= omega < 1 and zeta >= 0 and sigma >= 0):
        raise InputError(
            "a quadratic needs kappa > 0, 0 ≤ omega < 1, zeta ≥ 0 and sigma ≥ 0; "
            f"got kappa = {kappa}, omega = {omega}, zeta = {zeta}, sigma = {sigma}"
        )
    tape, nodes = private(seed), np.arange(n)
    R, b = (normals(tape, label, nodes, size=d) for label in ("curvature", "linear"))
    R, b = R - R.mean(axis=0), b - b.mean(axis=0)  # zero for one node
    if n > 1:
        R /= np.abs(R).max()
        b *= zeta / np.sqrt((b * b).sum(axis=-1).mean())
    half = 0.5 * np.geomspace(1.0, kappa, d) * (1.0 + omega * R)
    return Quadratic(half, b, sigma, Noise(tape, range(n), d) if sigma else None)
