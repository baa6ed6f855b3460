"""Probes of a loss: answers around a point at several μ, and their resolution."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zocosmo.blackbox.functions import UserOracle
from zocosmo.core.balanced import balanced_support, epoch_length
from zocosmo.core.support import Direction, draw_direction
from zocosmo.core.tape import Tape
from zocosmo.core.values import BF16, F16, F32
from zocosmo.errors import OracleError
from zocosmo.oracle import Oracle, Values

FAR = 2**63  # first round id of the probes' directions, which no run reaches
RATIO = 8.0  # the grid of μ: reach, reach/8, …
MOST_BLOCKS = 32  # most supports used to cover all coordinates
MOST_DECIMALS = 9

Array = NDArray[np.float64]


class Asker:
    """Queries an oracle and counts."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.queries = oracle, 0

    def __call__(self, x: Values, t: int, where: str) -> Array:
        self.queries += len(x)
        oracle = self.oracle
        answers = oracle.ask(x, t, where) if isinstance(oracle, UserOracle) else oracle(x, t)
        if not np.isfinite(answers).all():
            raise OracleError(f"{where}: some losses are not finite; lower reach, or start elsewhere")
        return np.asarray(answers, np.float64)

    def survived(self, error: OracleError) -> None:
        """The survey goes on without this probe."""
        if isinstance(self.oracle, UserOracle):
            self.oracle.survived(error)


class Probes:
    """f at one point, and f(x ± μu) by level of μ, probe and node; probe k is a query of round k."""

    def __init__(self, ask: Asker, x: Values, us: Sequence[Direction], mus: list[float], name: str) -> None:
        self.ask, self.x, self.us, self.name = ask, x, us, name
        self.centre = np.stack([ask(x, t, f"probe at {name}") for t in range(len(us))])
        self.skipped: list[float] = []
        sides: dict[float, Array] = {}
        for mu in mus:
            try:
                pairs = [self.pair(u, t, mu) for t, u in enumerate(us)]
            except OracleError as error:  # a large μ may leave the domain of f
                if sides or mu == mus[-1]:
                    raise
                ask.survived(error)
                self.skipped.append(mu)
            else:
                sides[mu] = np.stack(pairs, axis=1)  # (2, probes, n)
        self.mu = np.array(list(sides))
        self.plus, self.minus = np.stack(list(sides.values()), axis=1)
        self.slopes: Array = (self.plus - self.minus) / (2 * self.mu[:, None, None])
        self.second: Array = (self.plus - 2 * self.centre + self.minus) / self.mu[:, None, None] ** 2

    def pair(self, u: Direction, t: int, mu: float) -> Array:
        plus = self.ask(u.shift(self.x, mu), t, f"probe {self.name} + {mu:.3g} u")
        return np.stack([plus, self.ask(u.shift(self.x, -mu), t, f"probe {self.name} − {mu:.3g} u")])

    def curvature(self, u: Direction, k: int, mu: float) -> float:
        """The largest |uᵀHu| over the nodes, for a further u; queries of round k mod probes."""
        t = k % len(self.us)
        plus, minus = self.pair(u, t, mu)
        return float(np.abs((plus - 2 * self.centre[t] + minus) / mu**2).max())

    def answers(self) -> Array:
        return np.concatenate([each.reshape(-1) for each in (self.centre, self.plus, self.minus)])


def covering(tape: Tape, d: int, q: int, least: int) -> list[Direction]:
    """At least `least` directions that cover all d coordinates; just `least` if that takes more than 32."""
    length = epoch_length(d, q)
    first = -(-FAR // length) * length  # an epoch begins here
    count = max(least, length) if length <= MOST_BLOCKS else least
    return [draw_direction(tape, first + k, d=d, q=q, rule=balanced_support) for k in range(count)]


def halves(u: Direction) -> list[Direction]:
    cut = -(-u.q // 2)
    return [Direction(u.index[part], u.d, u.signs[part]) for part in (slice(cut), slice(cut, None))]


def levels(reach: float, count: int) -> list[float]:
    return [reach / RATIO**k for k in range(count)]


def truncation(estimates: Array, noise: Array) -> Array:
    """Truncation error of estimates (levels, …) at falling μ, given the noise (levels,) of each.

    Truncation falls as μ², so the difference to the next level is nearly all of it. The most that rounding
    contributes, √2 times the noise of both, is subtracted first. Differences are averaged as squares, since
    few probes may see any. An exact zero is below resolution. The last level has the error of its neighbour.
    """
    if len(noise) < 2:
        return np.zeros(len(noise))
    differ = np.where(estimates[1:] == 0, 0.0, np.diff(estimates, axis=0))
    apart = (differ.reshape(len(noise) - 1, -1) ** 2).mean(axis=1)
    square = np.maximum(apart - 2 * (noise[:-1] + noise[1:]) ** 2, 0.0)
    off: Array = np.sqrt(np.append(square, square[-1:]))
    return off


def resolution(answers: Array, *, stepped: bool = False) -> float:
    """Resolution of answers: ε |f| of the narrowest type they fit, half a decimal, or half their grid.

    If they are known to be `stepped`, half of the smallest step, whether steps are even or not.

    >>> resolution(np.array([1.25, 3.5])) > 1e-3, resolution(np.array([1 / 3, 2.0])) < 1e-15
    (True, True)
    """
    size, exact = float(np.abs(answers).max()), float(np.finfo(np.float64).eps)
    finest = exact * size
    fractions = np.unique(np.frexp(answers)[0]).size
    for narrow, eps in ((BF16, 2.0**-8), (F16, 2.0**-11), (F32, 2.0**-23)):
        enough = fractions > 4 or narrow is F32  # a few round numbers fit any type
        if enough and (narrow.round(answers) == answers).all():
            finest = eps * size
            break
    for decimals in range(MOST_DECIMALS + 1):
        if (np.abs(np.round(answers, decimals) - answers) <= exact * size).all():
            finest = max(finest, 0.5 * 10.0**-decimals)
            break
    return max(finest, 0.5 * _grid(answers, stepped))


def _grid(answers: Array, stepped: bool) -> float:
    """The step whose multiples separate all answers; 0.0 if there is none."""
    values = np.unique(answers)
    if values.size < (2 if stepped else 3):  # two values are multiples of anything
        return 0.0
    least = float(np.diff(values).min())
    counts = (values - values[0]) / least
    whole = np.abs(counts - np.round(counts)) < 1e-3
    return least if stepped or (counts[-1] < 1e6 and whole.all()) else 0.0
