"""Paired differences by seed, with Student's interval.

The percentile bootstrap of `zocosmo.report.stats` is too short on five or eight pairs: of normal differences
it covers the mean in 84 % and 88 % of studies, where 95 % are asked for.
"""

import math
from collections.abc import Mapping

from zocosmo.report.stats import LEVEL, Interval


def student_interval(a: Mapping[str, float], b: Mapping[str, float]) -> Interval:
    """Mean of a − b over shared seeds with its 95 % interval by Student's t; less is better.

    With one pair, or if a difference is not finite, the bounds are nan.

    >>> at = student_interval({"1": 1.0, "2": 2.0, "3": 3.0}, {"1": 2.0, "2": 3.5, "3": 5.0})
    >>> at.difference, round(at.low, 3), round(at.high, 3), at.wins
    (-1.5, -2.742, -0.258, 3)
    """
    apart = [a[seed] - b[seed] for seed in a if seed in b]
    wins, count = sum(each < 0 for each in apart), len(apart)
    if not count:
        return Interval(math.nan, math.nan, math.nan, 0, 0)
    if count > 1 and min(apart) == max(apart):  # do not let the mean round
        return Interval(apart[0], apart[0], apart[0], count, wins)
    mean = math.fsum(apart) / count
    half = half_width(apart, mean)
    return Interval(mean, mean - half, mean + half, count, wins)


def half_width(values: list[float], mean: float) -> float:
    """t · s / √n; nan for fewer than two values."""
    from scipy.stats import t  # type: ignore[import-untyped, unused-ignore]

    count = len(values)
    if count < 2:
        return math.nan
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return float(t.ppf((1 + LEVEL) / 2, count - 1)) * math.sqrt(variance / count)
