"""Terms: a run that stops by itself, and retunes as it goes.

Rounds come in terms of a few sweeps over the coordinates. After each term F is measured at the average. A
term that made F worse is undone and repeated with shorter steps. One that made it better is prolonged: the
nodes go on along the way that the average went, as long as F falls. Then a poll along every coordinate says
what is still to be gained, and gives scale, step size and μ of the next term.

The run has converged when two estimates of what is left are at most tol of what was gained, or the noise of
F: the promise of the poll (Newton steps along single coordinates), and the tail of the gains, a geometric
series with the factor by which promises fall from term to term. A coordinate that was left behind fails the
first, a slow valley the second. It has stagnated when shorter and shorter steps gain nothing although the
poll promises more, or when F does not answer.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zocosmo.blackbox.optimizer import Optimizer
from zocosmo.blackbox.place import Place
from zocosmo.blackbox.poll import Poll, Poller, Tuned, tune
from zocosmo.core.tape import Tape
from zocosmo.errors import OracleError
from zocosmo.oracle import Values

Array = NDArray[np.float64]

SWEEPS = 4.0  # in the first term
GROWTH, LONGEST = 1.25, 32.0  # of the terms, in sweeps
FARTHER = 4.0  # how much longer steps may get from term to term
SPAN = 3  # terms from which a trend is read
STALLS = 6  # terms without a gain that end a run
SHORTER = 0.25  # the share of the step that is kept after a term that was undone


@dataclass(eq=False)
class Terms:
    """The terms of one run; `close` ends one and says whether the run ends."""

    poller: Poller
    tol: float
    unit: Array  # of each coordinate, in x
    tunes: bool  # whether step size, μ and scale follow the polls
    tape: Tape
    q: int
    poll: Poll  # at the start
    x: Array  # the average then
    bold: float = 1.0
    farther: float = 1.0
    sweeps: float = SWEEPS
    stalls: int = 0
    several: float = 1.0  # how much coordinates of a support interact
    gains: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = self.value = self.poll.value
        self.promises = [self.poll.promise]
        self.until = 0
        self.states: Values | None = None  # of the nodes when the term began

    # Beginning a term

    def begin(self, run: Optimizer) -> None:
        """Retune, and say when the term ends."""
        if self.tunes:
            assert run.place is not None
            scale, eta, mu, _ = self.tuned(run.place)
            run.retune(eta=eta, mu=mu, scale=scale)
        self.states = run.x
        epoch = -(-len(self.x) // self.q)
        self.until = run.t + max(1, math.ceil(self.sweeps * epoch))

    def tuned(self, place: Place) -> Tuned:
        """Scale, step size and μ for where the run is."""
        return tune(
            self.poll,
            place,
            self.unit * self.farther,
            noise=self.poller.noise,
            x=self.x,
            q=self.q,
            several=self.several,
            bold=self.bold,
            least=max(self.target, self.tol * self.poll.promise),
        )

    @property
    def floor(self) -> float:
        """Differences of F below this are noise: 4 standard deviations of a difference."""
        return 4 * math.sqrt(2) * self.poller.noise.mean

    # Ending it

    def is_lost(self, run: Optimizer) -> bool:
        """Whether the term is worth no further round: F rises above all that it has been."""
        most = self.value + 10 * self.poll.promise + abs(self.first - self.value) + 20 * self.floor
        bend = 2 * run.method.mu**2 * self.q
        return not run.is_finite() or not run.query_loss <= most + bend

    def close(self, run: Optimizer) -> str:
        """Judge the term and begin the next: "" to go on, or how the run ends."""
        x = run.mean
        now = self._beyond(x, run.t)
        if self.tunes and not now <= self.value + self.floor:
            self.undo(run)
        else:
            x, now = self._farther(run, x, now)
            self._take(run, x, now)
            if end := self.judge():
                return end
            self.begin(run)
        return "stuck" if self.stalls >= STALLS else ""

    def undo(self, run: Optimizer) -> None:
        """Go back to where the term began, and begin again with shorter steps."""
        assert self.states is not None
        run.move(self.states)
        self.bold, self.stalls, self.sweeps = self.bold * SHORTER, self.stalls + 1, SWEEPS
        self.begin(run)
        if self.stalls >= STALLS:
            self.until = run.t  # nothing helps

    def _farther(self, run: Optimizer, x: Array, now: float) -> tuple[Array, float]:
        """Go on the way of this term while F falls."""
        place, far, way = self.poller.place, 1.0, x - self.x
        start = run.x if self.tunes else None
        while start is not None and self.value - now > self.floor and math.isfinite(far):
            beyond = np.clip(x + far * way, place.lo, place.hi)
            value = self._beyond(beyond, run.t)
            if not value < now - self.floor:
                break
            run.move(np.clip(run.x + (beyond - run.mean), place.lo, place.hi))
            x, now, far = beyond, value, 2 * far
        return x, now

    def _beyond(self, x: Array, t: int) -> float:
        """F at a point that may be outside of its domain."""
        try:
            return float(self.poller.value(x, t).mean()) if np.isfinite(x).all() else math.inf
        except OracleError as error:
            self.poller.ask.survived(error)
            return math.inf

    def _take(self, run: Optimizer, x: Array, now: float) -> None:
        """Poll here, and note the gain."""
        self.gains.append(self.value - now)
        self.poll, self.x, self.value = self.poller(x, run.t), x, now
        self.promises.append(self.poll.promise)
        if self.tunes:
            self.several = self.poller.interaction(self.poll, x, self.tape, self.q, run.t)
        if self.gains[-1] <= self.target < self.poll.promise:
            self.stalls, self.bold = self.stalls + 1, self.bold / 2
        else:
            self.stalls, self.bold = 0, min(1.0, 2 * self.bold)
            self.farther *= FARTHER
        self.sweeps = min(self.sweeps * GROWTH, LONGEST)

    # Whether it is over

    @property
    def target(self) -> float:
        """What is left to gain may be this much: tol of what was gained, or the noise."""
        return max(self.tol * (self.first - self.value), self.floor)

    @property
    def tail(self) -> float:
        """What is still to come by a geometric series: g r/(1 − r), g the largest of the last gains and r the
        factor by which the promise of the polls fell from term to term, over three of them. The first poll
        does not count: a descent into a valley says nothing of the way along it. Before there are three, a
        term must have gained less than a hundredth of the target."""
        last = max(self.gains[-SPAN:], default=0.0)
        if last <= self.floor:
            return 0.0
        if len(self.promises) < SPAN + 2:
            return 0.0 if self.gains[-1] <= 0.01 * self.target else math.inf
        before = self.promises[-1 - SPAN]
        ratio = (self.promises[-1] / before) ** (1 / SPAN) if before > 0 else 0.0
        return last * ratio / (1 - ratio) if ratio < 1 else math.inf

    def judge(self) -> str:
        """ "" to go on; converged, flat (F does not answer to some coordinates), noise, or stuck."""
        free = self.poller.place.free
        if self.poll.flat[free].all():
            return "flat"
        if max(self.poll.promise, self.tail) > self.target:
            return ""
        if self.poll.flat[free].any():
            return "flat"
        gained = self.first - self.value
        if gained > self.floor:
            return "converged" if self.floor <= max(0.01, self.tol) * gained else "noise"
        return "converged" if (self.poll.curved > 0)[free].all() else "stuck"
