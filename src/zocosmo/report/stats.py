"""Paired comparison of methods: differences by seed, with an interval."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from zocosmo.core.tape import Tape
from zocosmo.errors import check_known
from zocosmo.report.budget import GREATER_IS_BETTER, cell, check_metric

LEVEL = 0.95
RESAMPLES = 10_000


class Interval(NamedTuple):
    difference: float  # mean of a − b over shared seeds
    low: float
    high: float
    pairs: int
    wins: int  # pairs in which a is strictly better


def paired_interval(a: Mapping[str, float], b: Mapping[str, float], *, greater: bool = False) -> Interval:
    """Mean of a − b with its 95 % percentile bootstrap interval over shared seeds.

    Less is better unless `greater`. With one pair the bounds are nan.

    >>> paired_interval({"1": 2.0, "2": 3.0}, {"1": 1.0, "2": 2.0})
    Interval(difference=1.0, low=1.0, high=1.0, pairs=2, wins=0)
    """
    differences = np.array([a[seed] - b[seed] for seed in a if seed in b], np.float64)
    wins = int((differences > 0).sum() if greater else (differences < 0).sum())
    low, high = bounds(differences)
    if low == high:  # all equal: do not let the mean round
        return Interval(low, low, high, len(differences), wins)
    mean = float(differences.mean()) if len(differences) else math.nan
    return Interval(mean, low, high, len(differences), wins)


def bounds(differences: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> tuple[float, float]:
    """Both ends of the interval; nan if resampling is impossible."""
    if len(differences) < 2 or not np.isfinite(differences).all():
        return math.nan, math.nan
    if differences.min() == differences.max():
        return float(differences[0]), float(differences[0])
    from scipy.stats import bootstrap  # type: ignore[import-untyped, unused-ignore]

    seed = int(Tape("paired interval").coins("bootstrap").words(1)[0])  # the same interval every time
    interval = bootstrap(
        (differences,),
        np.mean,
        n_resamples=RESAMPLES,
        vectorized=True,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(interval.low), float(interval.high)


def contrasts(
    log: pd.DataFrame, budget: float | None, baseline_method: str, metric: str, *, relative: bool = False
) -> pd.DataFrame:
    """Every method minus the baseline, by problem and graph, over seeds on which neither diverged."""
    check_metric(log, metric)
    check_known("baseline method", baseline_method, list(log["method"].unique()))
    rows = []
    for labels, group in log.groupby(["problem", "graph"], sort=False, observed=True):
        baseline = cell(group[group["method"] == baseline_method], budget, metric, relative)
        for method, part in group.groupby("method", sort=False, observed=True):
            if method == baseline_method:
                continue
            ours = cell(part, budget, metric, relative)
            interval = paired_interval(ours.values, baseline.values, greater=metric in GREATER_IS_BETTER)
            rows.append(
                {
                    **dict(zip(["problem", "graph"], labels, strict=True)),
                    "method": method,
                    "baseline": baseline_method,
                    **interval._asdict(),
                    "unpaired": len(ours.values.keys() ^ baseline.values.keys()),
                    "diverged": ours.diverged,
                    "baseline_diverged": baseline.diverged,
                }
            )
    return pd.DataFrame(rows)
