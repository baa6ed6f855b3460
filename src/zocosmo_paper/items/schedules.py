"""Which coordinates are visited: by the balanced schedule, and by uniform supports over a long run.

Everything is drawn from the tape, at the paper's LoRA size: d = 2,523,136 and q = 8192.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.balanced import balanced_support
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import ring
from zocosmo.graphs.matching import Alternating
from zocosmo.theory import coverage
from zocosmo_paper.claim import (
    FIGURE,
    NO,
    WITHIN,
    Claim,
    Printed,
    check,
    constant,
    figure,
    rounds_to,
    std_of,
    together,
)
from zocosmo_paper.item import Evidence, Findings, Item, Table

LORA, Q = 2_523_136, 8192
SEEDS = 5
LONG, SHORT = 1540, 100  # rounds of the long study and of the others

# The balanced schedule   [eq:balanced_schedule, eq:max_balanced_gap]

SIZES = {(LORA, Q): 2, (128, 16): 200, (20, 3): 200, (1000, 7): 20}  # (d, q) → epochs; two have q ∤ d


class Epochs(NamedTuple):
    """Visits over several epochs of a balanced schedule."""

    missed: int  # coordinates not visited in an epoch, summed over epochs
    twice: int  # visits beyond the first within an epoch
    longest: int  # rounds between two visits to a coordinate
    mean: Fraction  # over all coordinates and pairs of epochs


def watch_epochs(d: int, q: int, epochs: int) -> Epochs:
    """Draw every round of seed 1 and record the visits to every coordinate."""
    length = coverage.epoch_length(d, q)
    missed = twice = longest = total = pairs = 0
    before: NDArray[np.int64] | None = None
    for epoch in range(epochs):
        at, visits = np.full(d, -1, np.int64), np.zeros(d, np.int64)
        for t in range(epoch * length, (epoch + 1) * length):
            index = balanced_support(Tape(1), t, d=d, q=q).index
            at[index] = t
            visits[index] += 1
        missed += int((visits == 0).sum())
        twice += int(np.maximum(visits - 1, 0).sum())
        if before is not None:
            gaps = at - before
            longest, total, pairs = max(longest, int(gaps.max())), total + int(gaps.sum()), pairs + d
        before = at
    return Epochs(missed, twice, longest, Fraction(total, pairs))


def find_balanced(evidence: Evidence) -> Findings:
    claims: list[Claim] = []  # of the paper's formulas; it prints none of these numbers
    lines = []
    for (d, q), epochs in SIZES.items():
        found, K = watch_epochs(d, q, epochs), coverage.epoch_length(d, q)
        bound, where = coverage.max_balanced_gap(d, q), f"d = {d:,}, q = {q:,}"
        claims += [
            constant(f"{where}: coordinates that an epoch misses", "0", found.missed),
            constant(f"{where}: second visits within an epoch", "0", found.twice),
            _gap(f"{where}: longest gap over {epochs} epochs", bound, found.longest),
            constant(f"{where}: mean rounds between visits", str(K), found.mean, f"K = {K}"),
        ]
        counts = [f"{d:,}", f"{q:,}", *map(str, (K, epochs, found.missed, found.twice))]
        lines.append([*counts, f"{bound} / {found.longest}", f"{K} / {float(found.mean):g}"])
    columns = ["d", "q", "K", "epochs", "missed", "twice", "longest gap, 2K − 1 / ours", "mean gap, K / ours"]
    notes = "Every coordinate of every epoch, drawn by the tape of seed 1."
    table = Table("balanced-schedule", "Balanced public schedule", columns, lines, notes)
    return Findings([check(claim) for claim in claims], [table])


def _gap(words: str, bound: int, longest: int) -> Claim:
    """At most 2K − 1; the note says whether these draws attain it."""
    verdict = WITHIN if longest <= bound else NO
    note = "a bound, attained by these draws" if longest == bound else "a bound, not attained by these draws"
    return Claim(words, f"≤ 2K − 1 = {bound}", longest, verdict, note=note)


# Coverage and exposure   [eq:coordinate_exposure_v24, appendix:qwen_long_correlation]

PRINTED = "99.33–99.34%"
STUDY = {"d": 32, "q": 4, "T": 1600}  # the quadratic mechanism study


class Visits(NamedTuple):
    """Share of coordinates visited by node 0 of a ring of four, by seed."""

    short: dict[str, float]
    long: dict[str, float]


def watch_node(coupling: str, seeds: int) -> Visits:
    """G and S share one support per round; with I node 0 uses that of its edge, which alternates."""
    short, long = {}, {}
    for seed in range(1, seeds + 1):
        tape, seen = Tape(seed), np.zeros(LORA, bool)
        partners = Alternating(ring(4)).partners(tape, np.arange(LONG))[:, 0].tolist()
        for t, partner in enumerate(partners):
            edge = (0, partner) if coupling == "I" else ()
            seen[draw_support(tape, t, *edge, d=LORA, q=Q).index] = True
            if t + 1 == SHORT:
                short[str(seed)] = float(seen.mean())
        long[str(seed)] = float(seen.mean())
    return Visits(short, long)


def find_coverage(evidence: Evidence) -> Findings:
    arms = {"G and S": "G", "I": "I"}
    found = {arm: watch_node(coupling, evidence.seeds or SEEDS) for arm, coupling in arms.items()}
    drawn = together(
        "coverage drawn, mean over seeds", PRINTED, [_share(*arm) for arm in found.items()], FIGURE
    )
    rest = chain.from_iterable(_drawn(*arm) for arm in found.items())
    return Findings([*_exact(), *drawn, *rest], [_coverage_table(found)])


def _exact() -> list[Claim]:
    """Closed forms."""
    short, share = (coverage.expected_coverage_float(LORA, Q, T) for T in (SHORT, LONG))
    return [
        constant("d/q of the LoRA studies", "308", coverage.waiting_time(LORA, Q)),
        constant("exposure after 1540 rounds", "5", coverage.exposure(LORA, Q, LONG)),
        constant("exposure after 100 rounds", "0.325", coverage.exposure(LORA, Q, SHORT)),
        constant("exposure of the quadratic study", "200", coverage.exposure(**STUDY)),
        constant("chance of a visit in 100 rounds", "0.278", short),
        constant("queries of a node in 1540 rounds", "3080", 2 * LONG),
        check(_in_range("expected coverage after 1540 rounds", share)),
    ]


def _share(arm: str, visits: Visits) -> Claim:
    """Drawn coverage: the mean over seeds against the paper's range."""
    claim = _in_range(f"{arm}: coverage drawn, mean over seeds", _mean(visits.long))
    law = coverage.expected_coverage_float(LORA, Q, LONG)
    return claim._replace(std=std_of(visits.long.values()), seeds=len(visits.long), exact=law)


def _drawn(arm: str, visits: Visits) -> Iterator[Claim]:
    """Drawn coverage against its law, and after fewer rounds."""
    spread = coverage.coverage_deviation(LORA, Q, LONG)
    law = Printed(coverage.expected_coverage_float(LORA, Q, LONG), spread, len(visits.long))
    against = figure(f"{arm}: coverage drawn, against its law", law, visits.long)
    yield check(against._replace(paper=f"{100 * law.mean:.4f} ± {100 * spread:.4f}% (exact)"))
    yield check(constant(f"{arm}: coverage drawn after 100 rounds", "0.278", _mean(visits.short)))


def _mean(shares: dict[str, float]) -> float:
    return float(np.mean(list(shares.values())))


def _in_range(words: str, share: float) -> Claim:
    """Whether a share rounds to one of the two printed ends."""
    low, high = PRINTED.removesuffix("%").split("–")
    fits = rounds_to(share, f"{low}%") or rounds_to(share, f"{high}%")
    return Claim(words, PRINTED, share, WITHIN if fits else NO)


def _coverage_table(found: dict[str, Visits]) -> Table:
    law = [f"{100 * coverage.expected_coverage_float(LORA, Q, T):.4f}" for T in (SHORT, LONG)]
    lines = [["exact law", law[0], law[1], "–", "–"]]
    for arm, visits in found.items():
        ends = [f"{100 * pick(visits.long.values()):.4f}" for pick in (min, max)]
        lines.append([arm, *(f"{100 * _mean(part):.4f}" for part in visits), *ends])
    return Table(
        "coverage",
        "Coordinates that a node visited, % of d = 2,523,136",
        ["supports", "T = 100", "T = 1540", "least, T = 1540", "most, T = 1540"],
        lines,
        f"Printed: {PRINTED} at T = 1540, exposure 5; 27.8 % at T = 100. Means over seeds, and their range.",
    )


ITEMS: Sequence[Item] = [
    Item(
        "balanced-schedule",
        "Balanced public schedule",
        ("eq:balanced_schedule", "eq:max_balanced_gap"),
        "An epoch of K = ⌈d/q⌉ rounds visits every coordinate once; two visits are at most 2K − 1 rounds "
        "apart, and K on average.",
        find_balanced,
        ours={"sizes": "LoRA's over two epochs, and three small ones over many, of which two have q ∤ d"},
    ),
    Item(
        "coverage",
        "Coverage and exposure",
        ("eq:coordinate_exposure_v24", "appendix:qwen_long_correlation"),
        "After 1540 rounds a coordinate was visited 5 times on average, and 99.33–99.34 % at least once.",
        find_coverage,
        ours={
            "whose coverage": "node 0's of the ring of four; every node's has the same law",
            "seeds": "1 to 5; the paper's are not given",
        },
    ),
]
