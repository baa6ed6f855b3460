"""A claim of the paper, our result, and the computed verdict.

    within     |difference| ≤ the printed std, or ≤ 2 standard errors of the difference; constants by digits
    ordering   an ordering holds, paired by seed: the 95 % interval is on the claimed side of 0;
               or a figure is off, but the ordering it supports holds
    no         neither
    not run    something it needs is missing, such as a model

Diverged runs are counted and left out of every mean.
"""

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from zocosmo.report.budget import Cell
from zocosmo.report.stats import paired_interval

WITHIN, ORDERING, NO, NOT_RUN = VERDICTS = ("within", "ordering", "no", "not run")
SCALES: dict[str, int | Fraction] = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "%": Fraction(1, 100)}


class Printed(NamedTuple):
    """A figure as printed: mean ± std over seeds."""

    mean: float
    std: float = math.nan
    seeds: int = 5

    def __str__(self) -> str:
        return f"{self.mean:g}" if math.isnan(self.std) else f"{self.mean:g} ± {self.std:g}"


class Claim(NamedTuple):
    """One line of the verdict board."""

    words: str
    paper: str  # as printed
    ours: float
    verdict: str
    std: float = math.nan
    seeds: int = 0
    diverged: int = 0
    low: float = math.nan  # of the 95 % interval of a paired difference, if there is one
    high: float = math.nan
    note: str = ""


def figure(
    words: str,
    printed: Printed,
    values: Mapping[str, float],
    *,
    diverged: int = 0,
    ordered: bool = False,
    note: str = "",
) -> Claim:
    """Our mean over seeds against a printed one. `ordered`: whether the ordering it supports holds."""
    count = len(values)
    mean = math.fsum(values.values()) / count if count else math.nan
    squares = math.fsum((value - mean) ** 2 for value in values.values())
    spread = math.sqrt(squares / (count - 1)) if count > 1 else math.nan
    off = abs(mean - printed.mean)
    both = (printed.std, printed.seeds), (spread, count)
    error = math.sqrt(sum(s * s / n for s, n in both if n and s == s))
    near = off <= printed.std or off <= 2 * error
    verdict = WITHIN if near else ORDERING if ordered else NO
    return Claim(words, str(printed), mean, verdict, spread, count, diverged, note=note)


def order(
    words: str, paper: str, better: Mapping[str, float], worse: Mapping[str, float], *, diverged: int = 0
) -> Claim:
    """That one method ends below another, paired by seed; `ours` is the mean difference."""
    at = paired_interval(better, worse)
    verdict = ORDERING if at.high < 0 else NO
    note = f"{at.wins} of {at.pairs} pairs"
    return Claim(words, paper, at.difference, verdict, math.nan, at.pairs, diverged, at.low, at.high, note)


def ends_below(words: str, paper: str, lower: Cell, higher: Cell) -> Claim:
    """That one cell ends below another, by seed."""
    lost = lower.diverged + higher.diverged
    return order(words, paper, lower.values, higher.values, diverged=lost)


def differences(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    """a − b for each seed that both have."""
    return {seed: a[seed] - b[seed] for seed in a if seed in b}


def below(words: str, limit: str, values: Mapping[str, float]) -> Claim:
    """That a mean stays below a printed limit.

    >>> below("a gap", "0.004", {"1": 0.001, "2": 0.003}).verdict, below("a gap", "0.004", {"1": 0.1}).verdict
    ('within', 'no')
    """
    claim = figure(words, Printed(float(limit)), values)._replace(paper=f"below {limit}")
    if claim.ours < float(limit):
        return claim._replace(verdict=WITHIN)
    if claim.verdict == WITHIN:
        return claim._replace(note="above it by less than 2 standard errors")
    return claim


def constant(words: str, printed: str, value: Fraction | float, paper: str = "", note: str = "") -> Claim:
    """A number that rounds to the printed digits, such as 262.1K, or not; `paper` replaces them as text."""
    verdict = WITHIN if rounds_to(value, printed) else NO
    return Claim(words, paper or printed, float(value), verdict, note=note)


def rounds_to(value: Fraction | float, printed: str) -> bool:
    """Whether a value rounds to the printed number; halves may round either way.

    >>> rounds_to(Fraction(262144), "262.1K"), rounds_to(31.94e3, "3.19e4"), rounds_to(80_740_352, "80.6M")
    (True, True, False)
    """
    found = re.fullmatch(r"\s*(-?\d+(?:\.(\d+))?)(?:e(-?\d+))?\s*([KMG%]?)\s*", printed.replace(",", ""))
    if found is None:
        raise ValueError(f"{printed!r} is not a printed number; write it as 262.1K, 40.7% or 3.19e4")
    digits, decimals, power, scale = found.groups()
    unit = Fraction(10) ** int(power or 0) * SCALES[scale]
    half = Fraction(1, 2 * 10 ** len(decimals or "")) * unit
    return bool(abs(Fraction(value) - Fraction(digits) * unit) <= half)


def unknown(words: str, paper: str, note: str) -> Claim:
    """A claim that cannot be checked here."""
    return Claim(words, paper, math.nan, NOT_RUN, note=note)
