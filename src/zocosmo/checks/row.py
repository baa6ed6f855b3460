"""One line of the table: what theory says, what was measured, and a verdict that is computed.

A sampled row agrees where |z| < 4, z from the variance of its own sample. A true row misses that one time in
16,000, so a table of 160 true rows calls one of them false at most once in 100 tables (Bonferroni). A row
about many numbers at once, such as every coordinate, shows the worst of them, with z made smaller by the same
argument. An exact row agrees where both sides are equal, and says ==.
"""

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

MOST_Z = 4.0
ROUNDING = 1e-10  # relative; what sums of some thousand floats may differ by
WIDE = NormalDist().inv_cdf(0.975)

AGREES, DISAGREES, ABSENT = "agrees", "disagrees", "not applicable"


class Row(NamedTuple):
    """What theory predicts, what was measured, and how they compare."""

    formula: str
    label: str  # where it stands in the paper
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
    """What a row is about: its first three columns."""

    formula: str
    label: str
    setting: str

    def equal(self, predicted: Any, measured: Any, note: str = "") -> Row:
        """Two numbers that must be the same, to the last digit."""
        verdict = AGREES if predicted == measured else DISAGREES
        return Row(*self, verdict, float(predicted), float(measured), sign="==", note=note)

    def at_most(self, bound: float, measured: float, note: str = "") -> Row:
        """A number that must not be above a bound."""
        verdict = AGREES if measured <= bound else DISAGREES
        return Row(*self, verdict, float(bound), float(measured), sign="≤", note=note)

    def sampled(self, predicted: Any, values: ArrayLike, note: str = "", *, floor: float = 0.0) -> Row:
        """A mean over draws; one prediction, or one for each draw where more is known of it.

        Two means that differ by no more than `floor` are the same: rounding of what should be 0.
        """
        sample, expected = np.asarray(values, float), np.asarray(predicted, float)
        mean, about = float(sample.mean()), float(expected.mean())
        with np.errstate(invalid="ignore"):  # runs that diverged make no error that could be trusted
            error = float((sample - expected).std(ddof=1)) / math.sqrt(len(sample))
        return self._judged(about, mean, error, note=note, floor=floor)

    def worst(self, predicted: ArrayLike, measured: ArrayLike, errors: ArrayLike, note: str = "") -> Row:
        """Many numbers, each with its standard error: the one that is furthest off, judged as one of many."""
        sides = np.broadcast_arrays(*(np.asarray(each, float) for each in (predicted, measured, errors)))
        p, m, s = (np.ravel(each) for each in sides)
        at = int(np.argmax(np.abs(m - p) / np.where(s > 0, s, 1e-300)))
        return self._judged(float(p[at]), float(m[at]), float(s[at]), many=len(p), note=note)

    def says(self, verdict: str, predicted: float | None, measured: float | None, note: str) -> Row:
        """A row that informs: nothing in it could be false."""
        return Row(*self, verdict, predicted, measured, note=note)

    def absent(self, why: str) -> Row:
        return Row(*self, ABSENT, note=why)

    def _judged(
        self, predicted: float, measured: float, error: float, *, many: int = 1, note: str, floor: float = 0.0
    ) -> Row:
        if not error > max(floor, ROUNDING * max(abs(predicted), abs(measured))):  # every draw gave the same
            same = math.isclose(predicted, measured, rel_tol=ROUNDING, abs_tol=max(floor, 1e-300))
            return Row(*self, AGREES if same else DISAGREES, predicted, measured, sign="==", note=note)
        z, wide = among((measured - predicted) / error, many), -NormalDist().inv_cdf(0.025 / many)
        verdict = AGREES if abs(z) < MOST_Z else DISAGREES
        low, high = measured - wide * error, measured + wide * error
        return Row(*self, verdict, predicted, measured, low, high, z, note=note)


def among(z: float, many: int) -> float:
    """The z that one number would need to be as surprising as the worst of `many` at z, by Bonferroni.

    >>> round(among(4.0, 1), 6), round(among(4.0, 100), 2), among(1.0, 100)
    (4.0, 2.73, 0.0)
    """
    if many == 1 or abs(z) > 30:  # beyond that its probability has no digits left
        return z
    chance = min(1.0, many * math.erfc(abs(z) / math.sqrt(2)))
    return math.copysign(-NormalDist().inv_cdf(chance / 2), z) if 0 < chance < 1 else 0.0


def share_errors(p: ArrayLike, draws: int) -> NDArray[Any]:
    """Standard errors of shares of independent draws whose probabilities are p."""
    chance = np.asarray(p, float)
    errors: NDArray[Any] = np.sqrt(chance * (1 - chance) / draws)
    return errors
