"""A poll: F at a point and at two more points along every coordinate, all inside the bounds.

It tells how steep and how curved F is along each coordinate, what a step along each could still gain, and
which coordinates F does not answer to. From that follow the scale, the step size and μ of the next rounds,
and whether a run may say that it has converged.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.blackbox import probes as probing
from zocosmo.blackbox.place import Place, powers_of_two
from zocosmo.blackbox.probes import Asker
from zocosmo.core.tape import Tape
from zocosmo.errors import OracleError
from zocosmo.oracle import Values

Array = NDArray[np.float64]

FIRST = 1 / 64  # the shift of the first poll, in units of a coordinate
WIDEN = 8.0  # a shift that shows no curvature is widened by this
REACH = 0.25  # the widest shift, in units
CLEAR = 8.0  # standard deviations of noise above which a second difference counts
LEAST = 2.0**-30  # the narrowest shift, as a share of the first
REPEATS = 4  # answers at one point that show the noise
ALONG = 8  # directions that show the curvature of several coordinates at once


class Noise(NamedTuple):
    """The noise of answers: of one node, and of their mean over the nodes."""

    one: float
    mean: float
    quiet: bool  # answers repeat


def measure_noise(ask: Asker, x: Values, t: int) -> Noise:
    """From repeated answers at one point, and from their rounding."""
    n = len(x)
    again = np.stack([ask(x, t, f"check of the noise, {k}") for k in range(REPEATS)])
    spread = math.sqrt(float(again.var(axis=0, ddof=1).mean()))
    rounding = float(np.finfo(float).eps) * float(np.abs(again).max())
    one = max(spread, rounding)
    return Noise(one, one / math.sqrt(n), spread <= rounding)


class Poll(NamedTuple):
    """What F does along every coordinate, in units of x."""

    value: float  # F here
    slope: Array  # (d,) of F
    curved: Array  # (d,) of F
    steepest: Array  # (d,) the largest |slope| of a node
    stiffest: Array  # (d,) the largest |curvature| of a node
    gain: Array  # (d,) what a step along one coordinate gains, by its parabola or by the points themselves
    flat: NDArray[np.bool_]  # (d,) all three points have the same F, at the widest shift
    bend: Array  # (d,) second differences, not divided by the square of the shift
    shift: Array  # (d,) that was used

    @property
    def promise(self) -> float:
        """The gains of all coordinates together."""
        return float(self.gain.sum())


class Poller:
    """Polls the losses of n nodes around a common point; asks at x."""

    def __init__(self, ask: Asker, n: int, place: Place, unit: Array, noise: Noise) -> None:
        self.ask, self.n, self.place, self.noise = ask, n, place, noise
        width = np.where(place.free, place.hi - place.lo, 1.0)
        self.most = np.minimum(REACH * unit, width / 8)
        self.shift = np.minimum(FIRST * unit, self.most)
        self.first = self.shift.copy()

    def value(self, x: Array, t: int) -> Values:
        """f_i of every node at one point."""
        return self.ask(np.broadcast_to(x, (self.n, len(x))), t, "check at the average")

    def __call__(self, x: Array, t: int) -> Poll:
        here = self.value(x, t)
        rows = np.zeros((3, len(x), self.n))  # slope, second difference · h², and the best of the points
        for j in np.flatnonzero(self.place.free).tolist():
            rows[:, j] = self._along(x, here, j, t)
        h, sure = self.shift, CLEAR * math.sqrt(6) * self.noise.mean
        value, slope = float(here.mean()), rows[0].mean(axis=1)
        bend, best = rows[1].mean(axis=1), rows[2].mean(axis=1)
        flat = self.place.free & (np.abs(rows[0]).max(axis=1) * h <= sure) & (np.abs(bend) <= sure)
        curved = bend / h**2
        gain = np.maximum(self._parabola(x, slope, curved, sure / h**2), value - best)
        gain = np.where(flat | ~self.place.free, 0.0, gain)
        stiff = np.abs(rows[1]).max(axis=1) / h**2
        return Poll(value, slope, curved, np.abs(rows[0]).max(axis=1), stiff, gain, flat, bend, h.copy())

    def _along(self, x: Array, here: Values, j: int, t: int) -> Values:
        """Slope, second difference and the better point of coordinate j. Its shift grows until F bends, and
        shrinks where F is not defined so far away."""
        while True:
            h = self.shift[j]
            try:
                found, seen = self._three(x, here, j, t)
            except OracleError as error:
                if h < self.first[j] * LEAST:
                    raise
                self.ask.survived(error)
                self.shift[j] = self.most[j] = h / WIDEN
                continue
            if seen or h >= self.most[j]:
                return found
            self.shift[j] = min(h * WIDEN, self.most[j])

    def _three(self, x: Array, here: Values, j: int, t: int) -> tuple[Values, bool]:
        """What F does at two points beside x, and whether it bends."""
        h = self.shift[j]
        first, second = self._offsets(x[j], h, j)
        a, b = (self._at(x, j, offset * h, t) for offset in (first, second))
        if first == -second:
            slope, bend = (a - b) / (2 * h), a - 2 * here + b
        else:  # both on one side: here, one step and two
            slope, bend = first * (4 * a - 3 * here - b) / (2 * h), here - 2 * a + b
        seen = bool(np.abs(bend).max() > CLEAR * math.sqrt(6) * self.noise.one)
        return np.stack([slope, bend, a if a.mean() < b.mean() else b]), seen

    def _offsets(self, xj: float, h: float, j: int) -> tuple[int, int]:
        if xj + h > self.place.hi[j]:
            return -1, -2
        return (1, 2) if xj - h < self.place.lo[j] else (1, -1)

    def _at(self, x: Array, j: int, by: float, t: int) -> Values:
        point = x.copy()
        point[j] = np.clip(x[j] + by, self.place.lo[j], self.place.hi[j])
        return self.ask(np.broadcast_to(point, (self.n, len(x))), t, f"check of coordinate {j}")

    def interaction(self, poll: Poll, x: Array, tape: Tape, q: int, t: int) -> float:
        """How much more F bends along q coordinates at once than along each of them: 1 if they do not
        interact.

        The largest ratio over a few directions, each shifted as far as the poll shifted its coordinates. It
        is a lower bound on the largest eigenvalue of the curvature on a support in units of its diagonal.
        """
        largest = 1.0
        for u in probing.covering(tape, len(x), q, ALONG)[: ALONG if q > 1 else 0]:
            move = np.zeros_like(x)
            move[u.index] = u.signs * poll.shift[u.index]
            ends = [np.clip(x + sign * move, self.place.lo, self.place.hi) for sign in (1, -1)]
            a, b = (self.ask(np.broadcast_to(e, (self.n, len(x))), t, "check of a direction") for e in ends)
            alone = float(np.abs(poll.bend[u.index]).sum())
            both = abs(float((a + b).mean()) - 2 * poll.value)
            largest = max(largest, both / alone if alone > CLEAR * self.noise.mean else 1.0)
        return largest

    def _parabola(self, x: Array, slope: Array, curved: Array, sure: Array) -> Array:
        """The gain of the best step along each coordinate, within the bounds, where F curves upwards."""
        bends = np.where(curved > sure, curved, np.inf)
        to = np.clip(x - slope / bends, self.place.lo, self.place.hi) - x
        return np.where(curved > sure, -(slope * to + 0.5 * curved * to**2), 0.0)


class Tuned(NamedTuple):
    """Numbers for the next rounds."""

    scale: Array
    eta: float
    mu: float
    curvature: float  # the largest that a step meets, in units of z


def tune(
    poll: Poll,
    place: Place,
    longest: Array,
    *,
    q: int,
    several: float,
    bold: float,
    least: float,
    noise: Noise,
    x: Array,
) -> Tuned:
    """Scales that make F equally curved along all coordinates, and the step and μ that suit them.

    In z = x/s with s = h^(−1/2), h the curvature of a coordinate, or its slope over the longest step that it
    may take if that is more, every curvature is 1 up to the rounding of s to a power of two. A step of a = η
    d/q = bold/c along each coordinate, c the largest curvature, is then at most the step to the bottom of its
    parabola. `several` is the curvature along directions of q coordinates over q, 1 if they do not interact.

    μ is a share of the distance left, 2^−7 √(2 P/d) for a promise P, but at least 2 √σ: at unit curvature the
    noise of a slope is then 0.35 √σ, which costs 0.06 σ of F along a coordinate. `least` keeps μ from growing
    above what a bias of μ/2 in each coordinate may cost, √(least/d).
    """
    stiff = np.maximum(poll.stiffest, poll.steepest / longest)
    known = stiff > 0
    stiff = np.where(known, stiff, (stiff * longest**2).max() / longest**2)
    scale = np.where(stiff > 0, powers_of_two(1 / np.sqrt(np.where(stiff > 0, stiff, 1.0))), place.scale)
    d, free = len(scale), place.free
    c = float((stiff * scale**2)[free & (stiff > 0)].max(initial=0.5)) * max(several, 1.0)
    distance = math.sqrt(2 * max(poll.promise, 0.0) / d)
    mu = max(2 * math.sqrt(noise.one), min(distance / 128, math.sqrt(least / d)))
    mu = max(mu, float((np.abs(x) / scale).max()) * 2.0**-36) or float((longest / scale).min()) * 2.0**-10
    lo, hi = place.lo / scale, place.hi / scale
    room = float(np.where(free, hi - lo, np.inf).min())
    mu = min(mu, room / 8, float((longest / scale).min()) / 4)
    return Tuned(scale, bold * q / (d * c), mu, c)
