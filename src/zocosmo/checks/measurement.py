"""One row of the table: what theory predicts, what was measured, and the verdict.

A sampled row agrees if |z| < 4, with z from the variance of its own sample. A true row fails that test one
time in 16,000, so at most one in 100 tables of 160 true rows has a false alarm (Bonferroni). A row about many
numbers, such as every coordinate, shows the worst of them, with z reduced by the same argument. An exact row
agrees if both sides are equal, and shows ==.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_Z = 4.0
ROUNDING = 1e-10  # relative rounding error of sums of some thousand floats

AGREES, DISAGREES, ABSENT = "agrees", "disagrees", "not applicable"


class Measurement(NamedTuple):
    """What theory predicts, what was measured, and how they compare."""

    formula: str
    label: str  # of the paper
    setting: str
    verdict: str
    predicted: float | None = None
    measured: float | None = None
    low: float | None = None  # of a 95 % interval
    high: float | None = None
    z: float | None = None
    sign: str = ""  # "==" and "≤" for rows that are not sampled
    note: str = ""


class About(NamedTuple):
    """The first three columns of a row."""

    formula: str
    label: str
    setting: str

    def equal(self, predicted: Any, measured: Any, note: str = "") -> Measurement:
        """Two numbers that must be exactly equal."""
        verdict = AGREES if predicted == measured else DISAGREES
        return Measurement(*self, verdict, float(predicted), float(measured), sign="==", note=note)

    def at_most(self, bound: float, measured: float, note: str = "") -> Measurement:
        """A number that must not be above a bound."""
        verdict = AGREES if measured <= bound else DISAGREES
        return Measurement(*self, verdict, float(bound), float(measured), sign="≤", note=note)

    def sampled(
        self, predicted: Any, values: ArrayLike, note: str = "", *, floor: float = 0.0
    ) -> Measurement:
        """A mean over draws; one prediction, or one for each draw.

        Means that differ by no more than `floor` count as equal: rounding of what should be 0.
        """
        sample, expected = np.asarray(values, float), np.asarray(predicted, float)
        mean, about = float(sample.mean()), float(expected.mean())
        with np.errstate(invalid="ignore"):  # diverged runs have no finite standard error
            error = float((sample - expected).std(ddof=1)) / math.sqrt(len(sample))
        return self._judged(about, mean, error, note=note, floor=floor)

    def worst(
        self, predicted: ArrayLike, measured: ArrayLike, errors: ArrayLike, note: str = ""
    ) -> Measurement:
        """Many numbers, each with its standard error: the one furthest off, judged as one of many."""
        sides = np.broadcast_arrays(*(np.asarray(each, float) for each in (predicted, measured, errors)))
        p, m, s = (np.ravel(each) for each in sides)
        at = int(np.argmax(np.abs(m - p) / np.where(s > 0, s, 1e-300)))
        return self._judged(float(p[at]), float(m[at]), float(s[at]), many=len(p), note=note)

    def says(self, verdict: str, predicted: float | None, measured: float | None, note: str) -> Measurement:
        """A row that only informs."""
        return Measurement(*self, verdict, predicted, measured, note=note)

    def absent(self, why: str) -> Measurement:
        return Measurement(*self, ABSENT, note=why)

    def _judged(
        self, predicted: float, measured: float, error: float, *, many: int = 1, note: str, floor: float = 0.0
    ) -> Measurement:
        if not error > max(floor, ROUNDING * max(abs(predicted), abs(measured))):  # all draws are equal
            same = math.isclose(predicted, measured, rel_tol=ROUNDING, abs_tol=max(floor, 1e-300))
            verdict = AGREES if same else DISAGREES
            return Measurement(*self, verdict, predicted, measured, sign="==", note=note)
        z, wide = among((measured - predicted) / error, many), -NormalDist().inv_cdf(0.025 / many)
        verdict = AGREES if abs(z) < MOST_Z else DISAGREES
        low, high = measured - wide * error, measured + wide * error
        return Measurement(*self, verdict, predicted, measured, low, high, z, note=note)


def among(z: float, many: int) -> float:
    """The z at which a single number is as unlikely as the worst of `many` at z, by Bonferroni.

    >>> round(among(4.0, 1), 6), round(among(4.0, 100), 2), among(1.0, 100)
    (4.0, 2.73, 0.0)
    """
    if many == 1 or abs(z) > 30:  # beyond 30 the probability underflows
        return z
    chance = min(1.0, many * math.erfc(abs(z) / math.sqrt(2)))
    return math.copysign(-NormalDist().inv_cdf(chance / 2), z) if 0 < chance < 1 else 0.0


def share_errors(p: ArrayLike, draws: int) -> NDArray[Any]:
    """Standard errors of frequencies in independent draws with probabilities p."""
    chance = np.asarray(p, float)
    errors: NDArray[Any] = np.sqrt(chance * (1 - chance) / draws)
    return errors
