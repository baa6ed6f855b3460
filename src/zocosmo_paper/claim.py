"""A claim of the paper, our result, and the computed verdict.

    within     |difference| ≤ the printed std, or ≤ 2 standard errors of the difference; constants by digits
    ordering   an ordering holds, paired by seed: the 95 % interval is on the claimed side of 0;
               or a figure is off, but the ordering it supports holds
    no         neither
    not run    something it needs is missing, such as a model

Where the paper prints a std, ours counts in a standard error up to that std and no further. Diverged runs are
counted and left out of every mean.

Kinds. The paper prints `constant`, `figure` and `ordering` (which also means "close", "at every state" and
the like); only these are counted. A `statement` is a theorem, proposition or lemma. A `check` is ours: the
paper prints no such value.
"""

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from zocosmo.report.budget import Cell
from zocosmo.report.stats import paired_interval

WITHIN, ORDERING, NO, NOT_RUN = VERDICTS = ("within", "ordering", "no", "not run")
KINDS = CONSTANT, FIGURE, RELATION, STATEMENT, CHECK = (
    "constant",
    "figure",
    "ordering",
    "statement",
    "check",
)
COUNTED = (CONSTANT, FIGURE, RELATION)  # what the paper prints
LEVEL = 0.05  # of the exact test
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
    kind: str = FIGURE
    exact: float = math.nan  # the expectation that `ours` estimates, where it is known


def figure(
    words: str,
    printed: Printed,
    values: Mapping[str, float],
    *,
    diverged: int = 0,
    ordered: bool = False,
    note: str = "",
) -> Claim:
    """Our mean over seeds against a printed one. `ordered`: whether the ordering it supports holds.

    Our std never widens the tolerance where the paper prints one.
    """
    count = len(values)
    mean = math.fsum(values.values()) / count if count else math.nan
    spread = std_of(values.values())
    off = abs(mean - printed.mean)
    ours = spread if math.isnan(printed.std) else min(spread, printed.std)
    both = (printed.std, printed.seeds), (ours, count)
    error = math.sqrt(sum(s * s / n for s, n in both if n and s == s))
    near = off <= printed.std or off <= 2 * error
    verdict = WITHIN if near else ORDERING if ordered else NO
    return Claim(words, str(printed), mean, verdict, spread, count, diverged, note=note)


def order(
    words: str,
    paper: str,
    better: Mapping[str, float],
    worse: Mapping[str, float],
    *,
    diverged: int = 0,
    of: int = 0,
) -> Claim:
    """That one method ends below another, paired by seed; `ours` is the mean difference.

    `of` is the number of seeds: if some lost a run, the note says how many pairs are left.
    """
    at = paired_interval(better, worse)
    verdict = ORDERING if at.high < 0 else NO
    left = f"; rests on {at.pairs} of {of} seeds, the others lost a run" if at.pairs < of else ""
    note = f"{at.wins} of {at.pairs} pairs{left}"
    spread = std_of(differences(better, worse).values())
    claim = Claim(words, paper, at.difference, verdict, spread, at.pairs, diverged, at.low, at.high, note)
    return claim._replace(kind=RELATION)


def std_of(values: Iterable[float]) -> float:
    """The sample standard deviation; nan of fewer than two."""
    found = list(values)
    if len(found) < 2:
        return math.nan
    mean = math.fsum(found) / len(found)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in found) / (len(found) - 1))


def ends_below(words: str, paper: str, lower: Cell, higher: Cell) -> Claim:
    """That one cell ends below another, by seed."""
    lost = lower.diverged + higher.diverged
    of = max(len(each.values) + each.diverged for each in (lower, higher))
    return order(words, paper, lower.values, higher.values, diverged=lost, of=of)


def differences(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
    """a − b for each seed that both have."""
    return {seed: a[seed] - b[seed] for seed in a if seed in b}


def below(words: str, limit: str, values: Mapping[str, float]) -> Claim:
    """That a mean is below a printed limit, without allowance.

    >>> below("a gap", "0.004", {"1": 0.001, "2": 0.003}).verdict, below("a gap", "0.004", {"1": 0.1}).verdict
    ('within', 'no')
    """
    claim = figure(words, Printed(float(limit)), values)._replace(paper=f"below {limit}")
    return claim._replace(verdict=WITHIN if claim.ours < float(limit) else NO)


def frequency(words: str, printed: tuple[int, int], ours: tuple[int, int], note: str = "") -> Claim:
    """How many of how many runs: `within` unless Fisher's exact test tells the two shares apart at 5 %.

    >>> [frequency("", (1, 5), (k, 5)).verdict for k in (0, 3, 5)]
    ['within', 'within', 'no']
    """
    chance = fisher(printed, ours)
    verdict = WITHIN if chance >= LEVEL else NO
    refused = [k for k in range(ours[1] + 1) if fisher(printed, (k, ours[1])) < LEVEL]
    limits = f"{refused[0]} or more" if refused else "no count"
    said = f"{ours[0]} of {ours[1]}; Fisher's exact test gives p = {chance:.2g} and would refuse {limits}"
    share, paper = ours[0] / ours[1] if ours[1] else math.nan, f"{printed[0]} of {printed[1]}"
    return Claim(words, paper, share, verdict, seeds=ours[1], diverged=0, note=f"{said}; {note}".rstrip("; "))


def fisher(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Two-sided p of Fisher's exact test that two shares, each k of n, are of one law.

    >>> fisher((1, 5), (1, 5)), round(fisher((1, 5), (5, 5)), 4)
    (1.0, 0.0476)
    """
    (k, n), (_, m), hits = a, b, a[0] + b[0]
    ways = {j: math.comb(n, j) * math.comb(m, hits - j) for j in range(max(0, hits - m), min(n, hits) + 1)}
    return sum(way for way in ways.values() if way <= ways[k]) / sum(ways.values())


def constant(words: str, printed: str, value: Fraction | float, paper: str = "", note: str = "") -> Claim:
    """A number that rounds to the printed digits, such as 262.1K, or not; `paper` replaces them as text."""
    verdict = WITHIN if rounds_to(value, printed) else NO
    return Claim(words, paper or printed, float(value), verdict, note=note, kind=CONSTANT)


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


def unknown(words: str, paper: str, note: str, kind: str = FIGURE) -> Claim:
    """A claim that cannot be checked here."""
    return Claim(words, paper, math.nan, NOT_RUN, note=note, kind=kind)


def check(claim: Claim) -> Claim:
    """A check of our own: shown apart, and not counted."""
    return claim._replace(kind=CHECK)


def relation(claim: Claim) -> Claim:
    """What the paper says in words: close, identical, at every state."""
    return claim._replace(kind=RELATION)
