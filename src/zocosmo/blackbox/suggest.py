"""Suggest μ, η and q from a few queries around the start, with a reason for each."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from zocosmo.blackbox import probes as probing
from zocosmo.blackbox.directions import DirectionChoice, choose, power_of_two, stiffest_alone
from zocosmo.blackbox.functions import as_oracle, as_start, count_nodes
from zocosmo.blackbox.place import Placed, are_alike, as_place, sizes
from zocosmo.blackbox.probes import Array, Asker, Probes, levels, truncation
from zocosmo.core.frame import FRAME_BITS
from zocosmo.core.signs import Signs
from zocosmo.core.support import Direction, draw_signs
from zocosmo.core.tape import Seed, Tape
from zocosmo.core.wires import WIRES
from zocosmo.errors import InputError, OracleError, check_known, check_whole
from zocosmo.methods.several import Sides
from zocosmo.oracle import Values

LEVELS, LEVELS_OFF = 7, 3  # of μ, each an eighth of the one before; fewer off x0
REACH = 0.25  # the largest μ, as a share of max |x0|
TRUST = 0.5  # move of a coordinate in a round, in reaches, if no curvature is seen
STEADY = 100.0  # largest first move of a coordinate, in reaches, if curvature is constant
QUIET = 1e-3  # noise, as a share of the slope, that is not worth a larger μ
KEPT = 4  # stiffest blocks of coordinates that are halved further
COARSE = "mod8"  # the wire where none is named: the queries of f64, and far fewer bits
CLEAR = 4.0  # standard deviations of noise above which a curvature counts


class Suggestion(NamedTuple):
    """Suggested parameters, what they are based on, and why; `str` gives it as text."""

    mu: float
    eta: float
    q: int
    noise: float  # standard deviation of repeated answers, or their rounding
    slope: float  # root mean square of uᵀ∇f
    curvature: float  # the largest |uᵀHu|; 0.0 if none is seen
    signal_to_noise: float  # of one two-query slope at μ
    queries: int  # spent by all nodes together
    reasons: tuple[str, ...]
    directions: int = 1
    signs: Signs = "independent"
    sides: Sides = 2
    wire: str = "f64"

    def __str__(self) -> str:
        head = f"mu = {self.mu:.3g}, eta = {self.eta:.3g}, q = {self.q}"
        if self.directions > 1:
            side = "one side" if self.sides == 1 else "two sides"
            head += f", {self.directions} {self.signs} directions from {side}"
        head += "" if self.wire == "f64" else f", wire {self.wire}"
        head += f"   ({self.queries} queries)"
        return "\n".join([head, *(f"  {reason}" for reason in self.reasons)])


def suggest(
    fun: Any,
    x0: ArrayLike,
    *,
    n: int | None = None,
    q: int | None = None,
    seed: Seed = 0,
    probes: int = 8,
    wire: str | None = None,
    reach: ArrayLike | None = None,
    directions: int | str | None = None,
    bounds: Any = None,
    scale: ArrayLike | None = None,
    **options: Any,
) -> Suggestion:
    """Probe f_i at x0 and at a point half a reach downhill, along public directions u of q coordinates.

    μ minimises noise/(√2 μ) + truncation, both estimated at the two points. It is then lowered as long as
    noise stays below a thousandth of the slope: that much noise is harmless, and truncation, which may be
    larger elsewhere, falls as μ².

    η = ½ · q/(d c), c the largest curvature uᵀHu seen. A round moves by a s along u, a = η(d/q), s = uᵀ∇f.
    On a convex quadratic the loss above its minimum is ‖y‖²/2 with y = H^½ (x − x*), and a round maps y to
    (I − a v vᵀ) y with v = H^½ u: it never grows if a uᵀHu ≤ 2, in any order of supports. a = 1/2c satisfies
    this unless some support is four times as stiff as the stiffest seen. To miss none, the probes cover all
    coordinates. If that takes more than 32 probes, wide blocks cover them, and the stiffest are halved down
    to q coordinates: uᵀHu of a block includes the diagonal of H on all of it.

    A typical first step moves a coordinate no further than where curvature, changing as fast as it was seen
    to, would double, and by 100 reaches at most. If no curvature is seen, η moves it by half a reach: for a c
    of 4 deviations of its noise, 4√6 σ/reach², a c is then 3.5/signal_to_noise.

    Probes move all coordinates by the same μ, up to `reach` (default: a quarter of max |x0|, or 0.25 at zero;
    with one reach for each coordinate, the smallest): lower it if the loss cannot be evaluated that far away.
    Options are those of `Functions`, and `vectorized`. Where coordinates of x0 differ by more than a factor
    of 4 in size, the default is a quarter of the smallest. No probe leaves `bounds`; with those or a `scale`
    all numbers are those of z = x/scale, the scale being a quarter of the box where none is given.

    With directions = "auto", the default where q is left out too, several orthogonal directions share a
    support if η may grow with them by more than the queries do, and c is then what their step meets: see
    `choose`. q is then a power of two. Where nothing of this was named the wire is mod8, 8 bits a value.
    """
    n = count_nodes(fun, x0, None, n)
    oracle, start = as_oracle(fun, n, **options), as_start(x0, n)
    far = as_reach(reach, start)
    if bounds is not None or scale is not None:
        place = as_place(bounds, scale, start, by_itself=True)
        far = REACH if reach is None else as_reach(np.asarray(reach) / place.scale, start)
        oracle, start = Placed(oracle, place, n), place.well_inside(place.to_z(start), far)
    d = start.shape[-1]
    if directions is None:
        directions = "auto" if q is None else 1
    if wire is None:
        wire = COARSE if n > 1 and q is None and directions == "auto" else "f64"
    check_known("wire", wire, WIRES)
    auto, free = directions == "auto", q is None
    if not auto:
        check_whole("directions", directions, 1, 1)  # type: ignore[arg-type]
    q = first_q(d, wire, auto) if q is None else check_whole("q", q, 1, d)
    reasons = [q_reason(d, wire, q)] if free else []
    tape, probes = Tape(seed), check_whole("probes", probes, 2)
    with np.errstate(all="ignore"):
        survey = _Survey(Asker(oracle), start, tape, q, probes, far)
        mu, slope, ratio = survey.best_mu(reasons)
        curvature, length = survey.stiffness(reasons)
        several = DirectionChoice(1, 2, curvature, "")
        if auto:
            several = survey.directions(mu, slope, curvature)
            curvature = several.curvature
            reasons.append(several.reason)
        typical = (math.hypot(slope, float(survey.slope_noise(mu))) or 1.0) / math.sqrt(several.directions)
        eta = 0.5 * q / (d * curvature) if curvature else math.inf
        if eta * d * typical <= length * q:
            reasons.append(f"eta = {eta:.3g}: ½ q/(d c) for the largest curvature seen, c = {curvature:.3g}")
        else:
            eta = length * q / (d * typical)
            seen = f"curvature {curvature:.3g} would allow more" if curvature else "no curvature was seen"
            reasons.append(f"eta = {eta:.3g}: {seen}, but a coordinate moves by {length:.3g} at first")
    _check_range(survey.size, (eta, mu, survey.noise, slope, curvature))
    found = Suggestion(mu, eta, q, survey.noise, slope, curvature, ratio, survey.ask.queries, tuple(reasons))
    signs: Signs = "orthogonal" if several.directions > 1 else "independent"
    return found._replace(directions=several.directions, signs=signs, sides=several.sides, wire=wire)


def first_q(d: int, wire: str, auto: bool) -> int:
    """The suggested q; a power of two for several directions, and then that of 64 bits a value, since every
    coordinate of a support may cost a query."""
    return power_of_two(suggest_q(d)) if auto else suggest_q(d, wire)


def suggest_only_q(eta: float, mu: float, d: int, wire: str) -> Suggestion:
    """A suggestion of q alone, without queries."""
    q, unknown = suggest_q(d, wire), math.nan
    return Suggestion(mu, eta, q, unknown, unknown, unknown, unknown, 0, (q_reason(d, wire, q),))


def suggest_q(d: int, wire: str = "f64") -> int:
    """The smallest q whose message is mostly values, 10 × its frame, but at most d/8 and at least 1.

    E‖ĝ‖² does not depend on q, and smaller messages would be mostly frame.

    >>> suggest_q(1_000_000), suggest_q(1_000_000, "f32"), suggest_q(64), suggest_q(3)
    (40, 80, 8, 1)
    """
    check_known("wire", wire, WIRES)
    return max(1, min(d // 8, -(-10 * FRAME_BITS.total // WIRES[wire].charged.bits)))


def q_reason(d: int, wire: str, q: int) -> str:
    bits = WIRES[wire].charged.bits
    if q * bits >= 10 * FRAME_BITS.total:
        return f"q = {q}: {q * bits} bits of values, 10 × the frame of a message; more would not lower E‖ĝ‖²"
    return f"q = {q}: an eighth of d = {d} or 1, so that messages stay sparse"


def wire_reason(wire: str) -> str:
    bits = WIRES[wire].charged.bits
    return f"wire = {wire}: {bits} bits of each value, which the receiver reads against its own"


def as_reach(reach: ArrayLike | None, start: Values) -> float:
    """The largest μ to probe, from one number, or from one for each coordinate."""
    if reach is None:
        each = sizes(start)
        return REACH * (float(np.abs(start).max()) or 1.0 if are_alike(each) else float(each.min()))
    try:
        given = np.asarray(reach, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"reach must be a number, or one for each coordinate; got {reach!r:.80}") from None
    if given.shape not in ((), start.shape[-1:]):
        raise InputError(f"reach must be one number or {start.shape[-1]}, got shape {given.shape}")
    if not ((given > 0) & (given < math.inf)).all():
        raise InputError(f"reach, the largest mu to probe, must be above 0, got {reach!r:.80}")
    return float(given.min())


class _Survey:
    """Probes at x0 and half a reach downhill, their noise, and the parameters that follow."""

    def __init__(self, ask: Asker, x: Values, tape: Tape, q: int, probes: int, reach: float) -> None:
        self.ask, d = ask, x.shape[-1]
        self.us = probing.covering(tape, d, q, probes)
        self.blocks = (
            probing.covering(tape, d, -(-d // probing.MOST_BLOCKS), 0) if len(self.us) * q < d else []
        )
        near = self.us[:probes]
        self.here = Probes(ask, x, near, levels(reach, LEVELS), "x0")
        self.reach = float(self.here.mu[0])  # the largest μ at which the loss is finite
        again = np.stack([self.here.centre[0], *(ask(x, 0, "probe at x0") for _ in near[1:])])
        self.there = self._off(x, tape, near)
        answers = self.here.answers()
        slopes = self.here.slopes
        stepped = bool(((slopes == 0) & (slopes[0] != 0)).any())  # the same answer on both sides
        self.size, self.rounding = float(np.abs(answers).max()), probing.resolution(answers, stepped=stepped)
        self.noise = max(self._spread(again), self.rounding)
        self.seen: list[tuple[float, Direction]] = []  # curvatures at x0, of supports of q or fewer
        self.second_mu = self.second_noise = 0.0

    def _off(self, x: Values, tape: Tape, us: Sequence[Direction]) -> Probes | None:
        """Probes half a reach downhill, where derivatives that happen to vanish at x0 do not.

        Uphill is the sign of Σ s u, or a random sign where no slope is seen. μ is at most half the reach, so
        that probes stay within it. None if the loss is not finite there.
        """
        level = np.abs(self.here.slopes).sum(axis=(1, 2)).argmax()  # coarse answers are equal at small μ
        uphill = np.zeros_like(x)
        for u, slope in zip(us, self.here.slopes[level], strict=True):
            uphill[..., u.index] += slope[:, None] * u.signs
        either = draw_signs(tape, probing.FAR, q=x.shape[-1])
        half = 0.5 * self.reach
        off = x - half * np.where(uphill == 0, either, np.sign(uphill))
        try:
            return Probes(self.ask, off, us, levels(half, LEVELS_OFF), "off x0")
        except OracleError as error:
            self.ask.survived(error)
            return None

    def _spread(self, again: Array) -> float:
        """Noise of one answer, from repeats and from the two smallest μ, where only noise changes slopes.

        A difference of slopes has variance σ²/2μ² + σ²/2μ'²; the two estimates are weighted by sample size.
        """
        repeats, total, mu = len(again) - 1, float(again.var(axis=0, ddof=1).mean()), self.here.mu
        if len(mu) < 2:
            return math.sqrt(total)
        unit = float((0.5 / mu[-2:] ** 2).sum())
        differ = float((np.diff(self.here.slopes[-2:], axis=0) ** 2).mean()) / unit
        return math.sqrt((repeats * total + len(again) * differ) / (repeats + len(again)))

    def slope_noise(self, mu: Any) -> Any:
        """Of [f(x + μu) − f(x − μu)] / 2μ: two answers, each with the noise of one."""
        return self.noise / (math.sqrt(2) * mu)

    def best_mu(self, reasons: list[str]) -> tuple[float, float, float]:
        """μ, the typical slope there, and its ratio to the noise of one slope.

        From the mean square of m slopes we subtract that of pure noise plus one standard deviation, √(2/m),
        so that noise is not mistaken for a weak signal.
        """
        mu, slopes, noise = self.here.mu, self.here.slopes, self.slope_noise(self.here.mu)
        error = truncation(slopes, noise)
        if self.there is not None:  # its μ is half as large, so this is a lower bound at level k
            beyond = truncation(self.there.slopes, self.slope_noise(self.there.mu))[: len(mu)]
            error[: len(beyond)] = np.maximum(error[: len(beyond)], beyond)
        k = int(np.argmin(noise + error))
        square = (slopes**2).mean(axis=(1, 2)) - noise**2 * (1 + math.sqrt(2 / slopes[0].size))
        shown = np.sqrt(np.maximum(square, 0.0))
        quiet = np.flatnonzero(noise <= QUIET * shown[k])
        best = max(k, int(quiet[-1])) if quiet.size else k
        why = "rounding of the answers" if self.noise == self.rounding else "spread of like answers"
        what = "least with noise below 0.1 % of the slope" if best > k else "least noise/μ + truncation"
        reasons.append(f"mu = {mu[best]:.3g}: {what}; noise {self.noise:.2g}, the {why}")
        if self.here.skipped:
            reasons.append(f"from mu = {self.here.skipped[-1]:.3g} on the loss is not finite")
        slope = float(shown[best])
        ratio = slope / float(noise[best]) if noise[best] else math.inf if slope else 0.0
        if ratio < 1:
            reasons.append(
                f"hopeless: slopes are {slope:.2g} and their noise {noise[best]:.2g}, even at the best mu; "
                "average several measurements, raise reach, or start elsewhere"
            )
        return float(mu[best]), slope, ratio

    def stiffness(self, reasons: list[str]) -> tuple[float, float]:
        """The largest |uᵀHu|, 0.0 if within its error, and the longest first move of a coordinate."""
        k, noise = self._level(self.here)
        near, mu = np.abs(self.here.second[k]), float(self.here.mu[k])
        self.seen = list(zip(near.max(axis=1).tolist(), self.here.us, strict=True))
        others = self.us[len(self.here.us) :]
        self.seen += [(self.here.curvature(u, t, mu), u) for t, u in enumerate(others)]
        self.seen += self._halved(mu)
        self.second_mu, self.second_noise = mu, noise
        largest = max(c for c, _ in self.seen)
        largest = largest if largest > CLEAR * noise else 0.0
        change = 0.0
        if self.there is not None:
            k_off, noise_off = self._level(self.there)
            off = np.abs(self.there.second[k_off])
            if off.max() > CLEAR * noise_off:
                largest = max(largest, float(off.max()))
                change = max(float(np.abs(off - near).max()) - 3 * math.hypot(noise, noise_off), 0.0)
        else:
            reasons.append("half a reach downhill the loss is not finite: steps start small")
            change = largest
        if not largest:
            return 0.0, TRUST * self.reach
        doubles = largest / (2 * max(change, noise) or math.ulp(0.0))
        return largest, self.reach * min(max(doubles, TRUST), STEADY)

    def _level(self, probes: Probes) -> tuple[int, float]:
        """The level with the best second differences, and their noise: variances 1 + 4 + 1."""
        noise = math.sqrt(6) * self.noise / probes.mu**2
        k = int(np.argmin(noise + truncation(probes.second, noise)))
        return k, float(noise[k])

    def directions(self, mu: float, slope: float, curvature: float) -> DirectionChoice:
        """Directions and sides for a step that must respect this curvature; asks for more curvatures if there
        is one."""
        q, together, count = self.us[0].q, max(c for c, _ in self.seen), itertools.count()
        alone = together
        if curvature and q > 1:
            noise = CLEAR * self.second_noise
            alone = stiffest_alone(
                lambda u: self.here.curvature(u, next(count), self.second_mu), self.seen, noise
            )
            alone *= curvature / together if together else 1.0  # it may be stiffer half a reach downhill
        quiet = self.noise == self.rounding
        return choose(q, quiet=quiet, mu=mu, slope=slope, together=curvature, alone=alone)

    def _halved(self, mu: float) -> list[tuple[float, Direction]]:
        """Curvatures on supports of q or fewer, found by halving the stiffest blocks of all coordinates."""
        blocks, found, q = self.blocks, list[tuple[float, Direction]](), self.us[0].q
        while blocks:
            curved = [self.here.curvature(u, k, mu) for k, u in enumerate(blocks)]
            found += [(c, u) for c, u in zip(curved, blocks, strict=True) if u.q <= q]
            stiffest = [blocks[k] for k in np.argsort(curved)[::-1].tolist() if blocks[k].q > q]
            blocks = [half for u in stiffest[:KEPT] for half in probing.halves(u)]
        return found


def _check_range(size: float, found: Sequence[float]) -> None:
    """Refuse losses so large or small that their differences or squares overflow or vanish."""
    if all(map(math.isfinite, found)) and found[0] > 0 and (size == 0 or size > 1e-150):
        return
    raise OracleError(
        f"losses of about {size:.3g} at x0 leave the range of floats when squared; "
        "multiply the loss by a constant, or give eta and mu"
    )
