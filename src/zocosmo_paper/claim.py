"""A claim of the paper, our result, and the computed verdict.

    within     |difference| ≤ the printed std, or ≤ 2 standard errors of the difference; constants by digits;
               "close" if the 95 % interval shows it
    ordering   an ordering holds, paired by seed: the 95 % interval is on the claimed side of 0;
               or a figure is off, but the ordering it supports holds
    no         neither
    not run    something it needs is missing, such as a model

Where the paper prints a std, ours counts in a standard error up to that std and no further: it can narrow the
tolerance that the printed one gives, and never widen it. Diverged runs are counted and left out of every
mean. Intervals are Student's, over the seeds of a pair.

Kinds. The paper prints `constant`, `figure` and `ordering` (which also means "close", "at every state" and
the like); only these are counted. A sentence about several settings, or a number that is printed for several,
is one line, which holds if all its parts do. A `statement` is a theorem, proposition or lemma. A `check` is
ours: the paper prints no such value, or it is a part of a line that is counted.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import NamedTuple

from zocosmo.report.budget import Cell
from zocosmo_paper.interval import student_interval

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
TWICE = 2.0  # a factor below it is close, one above it is much or large
COVERS = "the tolerance also covers"  # in the note of a figure that cannot be told from another's
WIDE = 0.25  # of a printed mean: a tolerance beyond it is told
SCALES: dict[str, int | Fraction] = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "%": Fraction(1, 100)}


class Printed(NamedTuple):
    """A figure as printed: mean ± std over seeds; `text` keeps its digits."""

    mean: float
    std: float = math.nan
    seeds: int = 5
    text: str = ""

    def __str__(self) -> str:
        if self.text or math.isnan(self.std):
            return self.text or f"{self.mean:g}"
        places = decimals(self.mean, self.std)
        return f"{self.mean:.{places}f} ± {self.std:.{places}f}"


def decimals(*numbers: float) -> int:
    """The most decimals that any of some numbers has: of a mean and its std, which a table rounds alike.

    >>> decimals(65.4, 3.57), decimals(0.00192, 5e-05)
    (2, 5)
    """
    exponents = [Decimal(repr(number)).as_tuple().exponent for number in numbers if math.isfinite(number)]
    return max(0, *(-exponent for exponent in exponents if isinstance(exponent, int)))


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
    tolerance: float = math.nan  # how far a figure may be off
    fitted: str = ""  # settings it rests on that were chosen because printed numbers come out


def figure(
    words: str,
    printed: Printed,
    values: Mapping[str, float],
    *,
    diverged: int = 0,
    held: str = "",
    note: str = "",
    rivals: Mapping[str, float] = MappingProxyType({}),
    half: float = 0.0,
) -> Claim:
    """Our mean over seeds against a printed one. `held` names the ordering it supports, if that holds.

    Our std never widens the tolerance where the paper prints one. `rivals` are printed means of other methods
    in the same place: the note names those that the tolerance covers, from which the verdict cannot tell it.
    `half` is half a unit of the last printed digit, for a figure without a std: what rounds to it agrees.
    """
    count = len(values)
    mean = math.fsum(values.values()) / count if count else math.nan
    spread = std_of(values.values())
    off = abs(mean - printed.mean)
    ours = spread if math.isnan(printed.std) else min(spread, printed.std)
    both = (printed.std, printed.seeds), (ours, count)
    error = math.sqrt(sum(s * s / n for s, n in both if n and s == s))
    tolerance = max(2 * error, half, 0.0 if math.isnan(printed.std) else printed.std)
    verdict = WITHIN if off <= tolerance else ORDERING if held else NO
    covered = [f"{name} ({at:g})" for name, at in rivals.items() if abs(at - printed.mean) <= tolerance]
    weak = f"{COVERS} {', '.join(covered)}: does not tell them apart" if covered else ""
    wide = tolerance > WIDE * abs(printed.mean) > 0
    share = f"the tolerance is {100 * tolerance / abs(printed.mean):.0f} % of the print" if wide else ""
    only = f"in order only: {held}" if verdict == ORDERING else ""
    said = "; ".join(part for part in (note, only, weak, share) if part)
    return Claim(words, str(printed), mean, verdict, spread, count, diverged, note=said, tolerance=tolerance)


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
    at = student_interval(better, worse)
    verdict = ORDERING if at.high < 0 else NO
    left = f"; rests on {at.pairs} of {of} seeds, the others lost a run" if at.pairs < of else ""
    note = f"{at.wins} of {at.pairs} pairs{left}"
    spread = std_of(differences(better, worse).values())
    claim = Claim(words, paper, at.difference, verdict, spread, at.pairs, diverged, at.low, at.high, note)
    return claim._replace(kind=RELATION)


def much_below(words: str, paper: str, lower: Cell, higher: Cell) -> Claim:
    """That one cell ends below half of another, by seed; `ours` is the mean of log₁₀(2 · lower / higher).

    Logs, since the higher one may have a heavy tail. The means must be more than a factor of 2 apart as well,
    by the interval of 2 · lower − higher: what the paper prints are means.
    """
    ratios = {
        s: math.log10(TWICE * v / higher.values[s]) for s, v in lower.values.items() if s in higher.values
    }
    lost = lower.diverged + higher.diverged
    claim = order(words, paper, ratios, dict.fromkeys(ratios, 0.0), diverged=lost)
    twice = {seed: TWICE * value for seed, value in lower.values.items()}
    at = student_interval(twice, higher.values)
    means = f"twice the lower less the higher {at.difference:.3g} [{at.low:.3g}, {at.high:.3g}]"
    means = means.replace("-", "−")
    note = (
        f"{claim.note}; {lower.mean:.3g} and {higher.mean:.3g}; much: by log ratio and {means}, both below 0"
    )
    return claim._replace(verdict=claim.verdict if at.high < 0 else NO, note=note)


def close(words: str, paper: str, a: Cell, b: Cell, limit: float | None = None) -> Claim:
    """That two means are close: `within` if the 95 % interval shows it. `ours` is a − b.

    Close means less than a factor of 2 apart, or at most `limit` apart. Shown: the whole intervals of a − 2b
    and b − 2a, or of |a − b| − limit, lie below 0. An interval that holds both is `no`, as for orderings.
    """
    if limit is None:
        gaps = [_gap(a.values, b.values, TWICE), _gap(b.values, a.values, TWICE)]
        means = f"{a.mean:.3g} ± {a.std:.2g} and {b.mean:.3g} ± {b.std:.2g}, a ratio of {a.mean / b.mean:.2f}"
        meant = f"less than a factor of {TWICE:g} apart ({means})"
    else:
        at = student_interval(a.values, b.values)
        gaps = [(at.low - limit, at.high - limit), (-at.high - limit, -at.low - limit)]
        meant = f"apart by at most {limit:g}"
    refused, shown = any(low >= 0 for low, _ in gaps), all(high < 0 for _, high in gaps)
    state = (
        "refused" if refused else "shown" if shown else "neither shown nor refused: the interval holds both"
    )
    claim = ends_below(words, paper, a, b)
    return claim._replace(verdict=WITHIN if shown else NO, note=f"close: {meant}: {state}")


def _gap(a: Mapping[str, float], b: Mapping[str, float], times: float) -> tuple[float, float]:
    """The interval of a − times · b."""
    at = student_interval(a, {seed: times * value for seed, value in b.items()})
    return at.low, at.high


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
    return claim._replace(verdict=WITHIN if claim.ours < float(limit) else NO, tolerance=math.nan)


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


def repeated(claim: Claim, where: str) -> Claim:
    """A number that is printed again: shown, and counted only once, elsewhere."""
    note = f"counted once, as {where}"
    return check(claim._replace(note=f"{claim.note}; {note}" if claim.note else note))


def together(words: str, paper: str, parts: Sequence[Claim], kind: str = RELATION) -> list[Claim]:
    """One sentence, or one number, about several settings: it holds if all parts do, and is counted once.

    Its numbers are those of the weakest part. The parts follow as checks.
    """
    weak = max(parts, key=_strain)
    off = [part for part in parts if part.verdict == NO]
    verdict = max((part.verdict for part in parts), key=(WITHIN, ORDERING, NOT_RUN, NO).index)
    held = f"{len(parts) - len(off)} of {len(parts)} parts hold"
    note = f"{held}; numbers of {'one that does not' if off else 'the weakest'}, {weak.words}"
    whole = weak._replace(words=words, paper=paper, verdict=verdict, kind=kind)
    lost = max(part.diverged for part in parts)
    whole = whole._replace(note=f"{note}; {weak.note}" if weak.note else note, diverged=lost)
    return [whole, *(repeated(part, words) for part in parts)]


def _strain(part: Claim) -> tuple[bool, float]:
    """How near a part is to failing: the upper end of an order in units of its mean, else the farther end."""
    if math.isnan(part.high):
        return part.verdict == NO, -math.inf
    if part.verdict == ORDERING and part.ours:
        return False, part.high / abs(part.ours)
    return part.verdict == NO, max(abs(part.low), abs(part.high))


def relation(claim: Claim) -> Claim:
    """What the paper says in words: close, identical, at every state."""
    return claim._replace(kind=RELATION)
