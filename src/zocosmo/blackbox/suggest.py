"""Which μ, η and q to begin with, from a few queries around the start; every choice says its reason."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.blackbox.functions import UserOracle, as_oracle, as_start
from zocosmo.channel import WIRES
from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.support import Direction, draw_direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError, OracleError, check_known, check_whole
from zocosmo.oracle import Oracle, Values

FAR = 2**63  # ids of the probes' directions: rounds that no run reaches
RATIO, LEVELS = 8.0, 7  # the grid of μ: reach, reach/8, …, reach/8⁶
REACH = 0.25  # the largest μ, as a share of max |x0|
LINEAR = 1e4  # reaches that a best step must exceed for a loss to be called linear
TRUST = 0.01  # of max |x0|: how far a coordinate may move in a round where no curvature is seen
MOST_DECIMALS = 9

Array = NDArray[np.float64]


class Suggestion(NamedTuple):
    """Where to begin, what was seen, and why. `str` gives it as text."""

    mu: float
    eta: float
    q: int
    noise: float  # standard deviation of an answer when the same is asked again, or its rounding
    slope: float  # root mean square of uᵀ∇f
    curvature: float  # the largest |uᵀHu|; 0.0 where none is seen
    signal_to_noise: float  # of one two-query slope at μ
    queries: int  # that it cost, all nodes together
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        head = f"mu = {self.mu:.3g}, eta = {self.eta:.3g}, q = {self.q}   ({self.queries} queries)"
        return "\n".join([head, *(f"  {reason}" for reason in self.reasons)])


def suggest(
    fun: Any,
    x0: ArrayLike,
    *,
    n: int = 1,
    q: int | None = None,
    seed: Seed = 0,
    probes: int = 8,
    wire: str = "f32",
    reach: float | None = None,
    **options: Any,
) -> Suggestion:
    """Probe f_i at x0 along `probes` public directions u of q coordinates, at μ from `reach` down.

    μ minimises noise/(√2 μ) + truncation. Noise is what the same query varies by, or the rounding of its
    answers; truncation is how far slopes at μ and at the next smaller μ are apart.

    η = ½ · q/(d c) with c the largest curvature uᵀHu met. A round moves by η(d/q)s along u, s = uᵀ∇f:

        f(x − η(d/q) s u) ≈ f − η(d/q) s² + ½ (η(d/q) s)² c,   least at η(d/q) = 1/c

    and half of that leaves room for curvature that no probe met. Where f is linear as far as one can see, η
    moves each coordinate by 1 % of max |x0| in a typical round instead.

    Probes move every coordinate of u by up to `reach` (a quarter of max |x0|, or 0.25 at zero): set it where
    that is too far for what the loss is measured on. Options are those of `Functions`, and `vectorized`.
    """
    oracle, start = as_oracle(fun, n, **options), as_start(x0, n)
    d, scale = start.shape[-1], float(np.abs(start).max()) or 1.0
    reasons = [] if q is not None else [q_reason(d, wire)]
    q = suggest_q(d, wire) if q is None else check_whole("q", q, 1, d)
    reach = REACH * scale if reach is None else reach
    if not 0 < reach < math.inf:
        raise InputError(f"reach is the largest mu to probe and lies above 0, got {reach}")
    us = [draw_direction(Tape(seed), FAR + k, d=d, q=q) for k in range(check_whole("probes", probes, 2))]
    seen = _Probes(oracle, start, us, reach)
    mu, slope, ratio = seen.best_mu(reasons)
    curvature = seen.largest_curvature()
    if curvature * LINEAR * reach > slope:
        eta = 0.5 * q / (d * curvature)
        reasons.append(f"eta = {eta:.3g}: ½ q/(d c), where c = {curvature:.3g} is the largest curvature met")
    else:
        typical = math.hypot(slope, seen.slope_noise(mu)) or 1.0
        eta = TRUST * scale * q / (d * typical)
        reasons.append(
            f"eta = {eta:.3g}: linear as far as seen, so a coordinate moves by {TRUST * scale:.3g}"
        )
    return Suggestion(mu, eta, q, seen.noise, slope, curvature, ratio, seen.queries, tuple(reasons))


def suggest_only_q(eta: float, mu: float, d: int, wire: str) -> Suggestion:
    """q alone, where eta and mu are given: no query is needed."""
    q, unknown = suggest_q(d, wire), math.nan
    return Suggestion(mu, eta, q, unknown, unknown, unknown, unknown, 0, (q_reason(d, wire),))


def suggest_q(d: int, wire: str = "f32") -> int:
    """The smallest q whose message is mostly values, 10 × its frame, but at most d/8 and at least 1.

    E‖ĝ‖² does not depend on q, bits do; below that size, frames and not values are what a link carries.

    >>> suggest_q(1_000_000), suggest_q(1_000_000, "f64"), suggest_q(64), suggest_q(3)
    (80, 40, 8, 1)
    """
    check_known("wire", wire, WIRES)
    return max(1, min(d // 8, -(-10 * FRAME_BITS.total // WIRES[wire].charged.bits)))


def q_reason(d: int, wire: str) -> str:
    q, bits = suggest_q(d, wire), WIRES[wire].charged.bits
    if q * bits >= 10 * FRAME_BITS.total:
        return f"q = {q}: {q * bits} bits of values, 10 × the frame of a message; more would not lower E‖ĝ‖²"
    return f"q = {q}: an eighth of d = {d} or 1, so that messages stay sparse"


class _Probes:
    """f at x0, asked again and again; and f(x0 ± μu), by level of μ, probe and node."""

    def __init__(self, oracle: Oracle, x: Values, us: Sequence[Direction], reach: float) -> None:
        self.oracle, self.x, self.queries = oracle, x, 0
        self.centre = np.stack([self._ask(x, t, "probe at x0") for t in range(len(us))])
        again = np.stack([self.centre[0], *(self._ask(x, 0, "probe at x0") for _ in us[1:])])
        self.mu, self.plus, self.minus, self.skipped = self._sides(
            us, [reach / RATIO**k for k in range(LEVELS)]
        )
        spread = self._spread(again)
        answers = np.concatenate([each.reshape(-1) for each in (again, self.centre, self.plus, self.minus)])
        self.rounding = resolution(answers)
        self.noise = max(spread, self.rounding)

    def _spread(self, again: Array) -> float:
        """Noise of one answer, from repeats and from the two smallest μ, where slopes differ by noise alone.

        One such difference has variance σ²/2μ² + σ²/2μ'²; both estimates are weighed by their sizes.
        """
        repeats, total = len(again) - 1, float(again.var(axis=0, ddof=1).mean())
        if len(self.mu) < 2:
            return math.sqrt(total)
        unit = float((0.5 / self.mu[-2:] ** 2).sum())
        differ = float((np.diff(self.slopes[-2:], axis=0) ** 2).mean()) / unit
        return math.sqrt((repeats * total + len(again) * differ) / (repeats + len(again)))

    @property
    def slopes(self) -> Array:
        """By level, probe and node."""
        slopes: Array = (self.plus - self.minus) / (2 * self.mu[:, None, None])
        return slopes

    def _ask(self, x: Values, t: int, where: str) -> Array:
        self.queries += len(x)
        oracle = self.oracle
        answers = oracle.ask(x, t, where) if isinstance(oracle, UserOracle) else oracle(x, t)
        return np.asarray(answers, np.float64)

    def _sides(self, us: Sequence[Direction], mus: list[float]) -> tuple[Array, Array, Array, list[float]]:
        """Levels whose answers are all finite; a large μ may leave where f is defined."""
        kept: list[float] = []
        skipped: list[float] = []
        sides: list[Array] = []
        for mu in mus:
            try:
                pairs = [self._pair(u, t, mu) for t, u in enumerate(us)]
                if not np.isfinite(pairs).all():
                    raise OracleError(f"some losses are not finite at x0 ± {mu:.3g} u; lower reach")
            except OracleError:
                if kept or mu == mus[-1]:
                    raise
                skipped.append(mu)
                continue
            kept.append(mu)
            sides.append(np.stack(pairs, axis=1))  # (2, probes, n)
        plus, minus = np.stack(sides, axis=1)
        return np.array(kept), plus, minus, skipped

    def _pair(self, u: Direction, t: int, mu: float) -> Array:
        plus = self._ask(u.shift(self.x, mu), t, f"probe x0 + {mu:.3g} u")
        return np.stack([plus, self._ask(u.shift(self.x, -mu), t, f"probe x0 − {mu:.3g} u")])

    def slope_noise(self, mu: Any) -> Any:
        """Of [f(x + μu) − f(x − μu)] / 2μ: two answers, each with the noise of one."""
        return self.noise / (math.sqrt(2) * mu)

    def best_mu(self, reasons: list[str]) -> tuple[float, float, float]:
        """μ, the typical slope there, and how that compares with the noise in one slope.

        Noise is taken out of the mean square of m slopes, and with it one standard deviation √(2/m) of what
        m slopes of pure noise would show: it is better to doubt a weak signal than to see one in noise.
        """
        slopes, noise = self.slopes, self.slope_noise(self.mu)
        k = best_level(slopes, noise)
        square = float((slopes[k] ** 2).mean()) - noise[k] ** 2 * (1 + math.sqrt(2 / slopes[k].size))
        slope = math.sqrt(max(square, 0.0))
        ratio = slope / noise[k] if noise[k] else math.inf if slope else 0.0
        why = "rounding of the answers" if self.noise == self.rounding else "spread of like answers"
        reasons.append(
            f"mu = {self.mu[k]:.3g}: least noise/μ + truncation; noise {self.noise:.2g}, the {why}"
        )
        if self.skipped:
            reasons.append(f"mu from {self.skipped[-1]:.3g} on leaves where the loss is finite")
        if ratio < 1:
            reasons.append(
                f"hopeless: slopes of {slope:.2g} drown in noise of {noise[k]:.2g} even at the best mu; "
                "average several measurements, raise reach, or start elsewhere"
            )
        return float(self.mu[k]), slope, ratio

    def largest_curvature(self) -> float:
        """|uᵀHu| by second differences, over probes and nodes; 0.0 where it is no more than their error."""
        second = (self.plus - 2 * self.centre + self.minus) / self.mu[:, None, None] ** 2
        noise = math.sqrt(6) * self.noise / self.mu**2  # variances 1 + 4 + 1
        k = best_level(second, noise)
        largest = float(np.abs(second[k]).max())
        return largest if largest > 4 * noise[k] else 0.0


def best_level(estimates: Array, noise: Array) -> int:
    """Where noise + truncation is least: estimates (levels, …) at falling μ, noise (levels,) of each.

    Truncation falls as μ², so what an estimate differs by from the next is nearly all of its own; the noise
    of both is taken out first. The last level is charged as the one before it, an overestimate.
    """
    apart = np.median(np.diff(estimates, axis=0).reshape(len(noise) - 1, -1) ** 2, axis=1)
    square = np.maximum(apart - noise[:-1] ** 2 - noise[1:] ** 2, 0.0)
    truncation = np.sqrt(np.append(square, square[-1:]))
    return int(np.argmin(noise + truncation))


def resolution(answers: Array) -> float:
    """How finely answers are told apart: ε |f|, more for float32, or half the last decimal that is printed.

    >>> resolution(np.array([1.25, 3.5])) > 1e-3, resolution(np.array([1 / 3, 2.0])) < 1e-15
    (True, True)
    """
    size = float(np.abs(answers).max())
    single = bool((answers.astype(np.float32) == answers).all())
    finest = float(np.finfo(np.float32 if single else np.float64).eps) * size
    for decimals in range(MOST_DECIMALS + 1):
        if (np.abs(np.round(answers, decimals) - answers) <= np.finfo(np.float64).eps * size).all():
            return max(finest, 0.5 * 10.0**-decimals)
    return finest
