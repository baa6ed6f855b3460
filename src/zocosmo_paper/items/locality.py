"""Support locality on rings: who shares a support, and what a megabit buys.

Objectives are F(x̄_T) / F(x̄_0) at the last logged round within 1 Mbit per node. Diverged runs are counted.
"""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from zocosmo.report.budget import Cell, cell
from zocosmo.report.curves import curve, draw, styles
from zocosmo.report.figures import new_panels, save_figure
from zocosmo_paper.claim import (
    CONSTANT,
    FIGURE,
    ORDERING,
    Claim,
    Printed,
    check,
    close,
    constant,
    ends_below,
    figure,
    frequency,
    together,
    unknown,
)
from zocosmo_paper.item import Evidence, Findings, Item, Picture, Table
from zocosmo_paper.items.panels import draw_means

MEGABIT = 1_000_000  # per node
LOCALITY, MATCHING = "tab-appendix-support-locality", "tab-matching-synthetic-v19"
LOCAL = GLOBAL, EDGE, FLOOD = "global support", "edge-local support", "seed–scalar flood"
SAME = ALL, COMMON, OWN = "all-neighbour, common", "matching, common", "matching, edge-local"


class RingCell(NamedTuple):
    """A cell as printed: mean, std, and the rounds in parentheses, if any."""

    mean: str
    std: str
    rounds: int = 0

    @property
    def number(self) -> Printed:
        return Printed(float(self.mean), float(self.std))

    def __str__(self) -> str:
        return f"{self.mean} ± {self.std}" + (f" ({self.rounds})" if self.rounds else "")


def read_cell(text: str) -> RingCell:
    """A cell from its text.

    >>> read_cell("0.0625 ± 0.0017 (970)")
    RingCell(mean='0.0625', std='0.0017', rounds=970)
    """
    mean, std, *rounds = re.findall(r"[\d.]+", text)
    return RingCell(mean, std, *map(int, rounds))


def read_rows(methods: Sequence[str], text: str) -> dict[int, dict[str, RingCell]]:
    """Cells by N and method, from a line for each N with / between its cells."""
    lines = (line.split(maxsplit=1) for line in text.strip().splitlines())
    return {int(n): dict(zip(methods, map(read_cell, cells.split("/")), strict=True)) for n, cells in lines}


RINGS = read_rows(  # tab:appendix_support_locality
    LOCAL,
    """
    8  0.0625 ± 0.0017 (970) / 0.0530 ± 0.0013 (1950) / 0.0558 ± 0.0007 (1480)
    16 0.0643 ± 0.0003 (970) / 0.0546 ± 0.0017 (1950) / 0.0692 ± 0.0016 (690)
    32 0.0650 ± 0.0010 (970) / 0.0554 ± 0.0006 (1950) / 0.0971 ± 0.0012 (330)
    64 0.0649 ± 0.0010 (970) / 0.0552 ± 0.0004 (1950) / 0.1593 ± 0.0021 (160)
    """,
)
OPEN = {"markerfacecolor": "none"}  # marks of the paper's cells
ROUND_BITS = {
    GLOBAL: "1024",
    EDGE: "512",
    FLOOD: "672",
}  # per node, measured at N = 8; a flood's: (N − 1)(64 + 32)
MATCHED = {4: {OWN: read_cell("0.0466 ± 0.0017")}} | read_rows(  # tab:matching_synthetic_v19
    SAME,
    """
    8  0.0626 ± 0.0017 / 0.0520 ± 0.0013 / 0.0529 ± 0.0013
    16 0.0644 ± 0.0003 / 0.0543 ± 0.0015 / 0.0545 ± 0.0017
    """,
)
UNSTABLE = {ALL: "(1.18 ± 2.63)e86", COMMON: "(7.61 ± 17.01)e106"}  # rest of N = 4, all seeds in the mean
BEST = "edge-local support is best at every tested N"
LOST, SEEDS = 1, 5  # "unstable on one of five seeds"

Cells = Mapping[tuple[int, str], Cell]
Rows = Mapping[int, Mapping[str, RingCell | str]]


def at_a_megabit(log: Any) -> dict[tuple[int, str], Cell]:
    """The cell of every ring and method."""
    groups = log.groupby(["n", "method"], sort=False, observed=True)
    return {(int(n), str(m)): cell(part, MEGABIT, "objective", relative=True) for (n, m), part in groups}


# tab:appendix_support_locality, fig:appendix_support_locality


def find_locality(evidence: Evidence) -> Findings:
    log = evidence.logs[LOCALITY]
    found = at_a_megabit(log)
    orders = {(n, other): _below(found, n, EDGE, other, BEST) for n in RINGS for other in (GLOBAL, FLOOD)}
    claims: list[Claim] = []
    for n, row in RINGS.items():
        holds = all(orders[n, other].verdict == ORDERING for other in (GLOBAL, FLOOD))
        held = f"{EDGE} ends lowest at N = {n}" if holds else ""
        claims += [_figure(n, method, row, found[n, method], held=held) for method in row]
    for method in LOCAL:
        claims += _all_rounds(method, found)
    claims += together(f"{EDGE} ends lowest at every N", BEST, list(orders.values()))
    claims.append(check(_below(found, 8, FLOOD, GLOBAL, "table order; the text says competitive")))
    claims += _costs(log)
    title = "Relative objective at 1 Mbit per node; completed logged rounds in parentheses"
    notes = "Mean ± std over seeds. Diverged runs are in no mean; which seeds diverge is luck of the tape."
    table = _table(LOCALITY, title, RINGS, found, notes, rounds=True)
    return Findings(claims, [table], [_picture(log, found)])


def _figure(n: int, method: str, row: Mapping[str, RingCell], ours: Cell, *, held: str) -> Claim:
    entry, others = row[method], {name: cell.number.mean for name, cell in row.items() if name != method}
    off = f"{100 * (ours.mean / entry.number.mean - 1):+.1f} % off".replace("-", "−")
    note = off if ours.values else "all runs diverged"
    words = f"N = {n}, {method}: relative objective at 1 Mbit"
    how: dict[str, Any] = {"diverged": ours.diverged, "held": held, "note": note, "rivals": others}
    claim = figure(words, entry.number, ours.values, **how)
    return claim._replace(paper=f"{entry.mean} ± {entry.std}")


def _all_rounds(method: str, found: Cells) -> list[Claim]:
    """Cells that are printed alike at every N are counted once."""
    parts = [_rounds(n, method, row[method].rounds, found[n, method]) for n, row in RINGS.items()]
    if len({part.paper for part in parts}) > 1:
        return parts
    return together(f"every N, {method}: logged rounds at 1 Mbit", parts[0].paper, parts, CONSTANT)


def _rounds(n: int, method: str, printed: int, ours: Cell) -> Claim:
    words = f"N = {n}, {method}: logged rounds at 1 Mbit"
    if ours.rounds is None:
        return unknown(words, str(printed), "all runs diverged")
    least, most = ours.rounds
    note = "" if least == most else f"{least} to {most} by seed"
    return constant(words, str(printed), Fraction(least + most, 2), note=note)


def _below(found: Cells, n: int, better: str, worse: str, paper: str = "lower") -> Claim:
    return ends_below(f"N = {n}: {better} ends below {worse}", paper, found[n, better], found[n, worse])


def _costs(log: Any) -> list[Claim]:
    """Bits and stages of a round, from the ledger over whole runs."""
    last = log.groupby(["n", "method"], sort=False, observed=True).tail(1)
    each = {(row.n, row.method): row for row in last.itertuples()}
    claims = [
        constant(f"{m}: bits per node and round on an even ring", bits, each[8, m].bits / each[8, m].round)
        for m, bits in ROUND_BITS.items()
    ]
    flood = f"{FLOOD}: bits per node and round at N = 8"
    claims[-1] = check(claims[-1]._replace(words=flood, paper=f"(N − 1)(64 + 32) = {ROUND_BITS[FLOOD]}"))
    for n in RINGS:  # "four" at N = 8 is printed, "N/2" is a formula
        stages = each[n, FLOOD].stages / each[n, FLOOD].round
        words, paper = f"N = {n}: stages in turn of a flood", "four" if n == 8 else f"N/2 = {n // 2}"
        claim = constant(words, str(n // 2), stages, paper)
        claims.append(claim if n == 8 else check(claim))
    return claims


def shown(ours: Cell, *, rounds: bool = True) -> str:
    """Our cell in the paper's layout.

    >>> shown(Cell(0.06056, 0.00218, {"1": 0.06056}, 1, (970, 970)))
    '0.0606 ± 0.0022 (970), 1 diverged'
    """
    spread = "" if math.isnan(ours.std) else f" ± {ours.std:.4f}"
    text = f"{ours.mean:.4f}{spread}" if ours.values else "–"
    if rounds and ours.rounds is not None:
        text += f" ({ours.rounds[0]})"
    return text + (f", {ours.diverged} diverged" if ours.diverged else "")


def _table(name: str, title: str, printed: Rows, found: Cells, notes: str, *, rounds: bool) -> Table:
    """A row for each N: every method's cell, the paper's and ours."""
    methods = list(printed[8])
    rows = [
        [str(n), *(text for m in methods for text in (str(row[m]), shown(found[n, m], rounds=rounds)))]
        for n, row in printed.items()
    ]
    columns = ["N", *(f"{m}, {who}" for m in methods for who in ("paper", "ours"))]
    return Table(name, title, columns, rows, notes)


def _picture(log: Any, found: Cells) -> Picture:
    lines = [
        f"N = {n}: " + ", ".join(f"{m} {shown(found[n, m])} (paper {row[m]})" for m in row)
        for n, row in RINGS.items()
    ]
    text = (
        "Three panels on rings, for three methods. First, the relative objective at 1 Mbit per node against "
        "N, with bars of one standard deviation, the paper's cells as open marks. Second, the rounds that "
        "1 Mbit pays. Third, the relative objective against bits at N = 64, runs that diverge left out from "
        "there on. " + "; ".join(lines) + "."
    )

    def draw_all(to: Path) -> None:
        canvas, (first, second, third) = new_panels(to, (10.5, 3.6), 3, 3)
        looks = styles(LOCAL)
        for method, look in looks.items():
            draw_means(first, [found[n, method] for n in RINGS], color=look["color"])
            printed = [RINGS[n][method].number.mean for n in RINGS]
            first.plot(range(len(RINGS)), printed, "o", color=look["color"], **OPEN, markersize=9)
            rounds = [(found[n, method].rounds or (math.nan,))[0] for n in RINGS]
            second.plot(range(len(RINGS)), rounds, marker="o", **look)
        _over_bits(third, log, looks)
        for axes, name in ((first, "relative objective at 1 Mbit"), (second, "logged rounds at 1 Mbit")):
            axes.set(xlabel="nodes N", ylabel=name, xticks=range(len(RINGS)), xticklabels=list(RINGS))
        handles = [second.plot([], [], **look)[0] for look in looks.values()]
        handles.append(first.plot([], [], "o", color="#555555", **OPEN)[0])
        canvas.legend(handles, [*looks, "paper"], loc="outside lower center", ncols=4, frameon=False)
        save_figure(canvas, to, dpi=160)

    title = "One hop against graph-wide dissemination"
    return Picture("fig-appendix-support-locality", title, text, draw_all)


def _over_bits(axes: Any, log: Any, looks: Mapping[str, dict[str, Any]]) -> None:
    part = log[log["n"] == max(RINGS)]
    start = part.groupby("trial")["objective"].transform("first")
    part = part.assign(objective=part["objective"] / start)
    part = part[part["bits"] <= MEGABIT]
    lines = {method: curve(part[part["method"] == method], "objective") for method in looks}
    draw(axes, lines, dict(looks), "bits", 1e6, linear=False)
    axes.set(xlabel="Mbit per node", ylabel=f"relative objective, N = {max(RINGS)}")


# tab:matching_synthetic_v19


def find_matching(evidence: Evidence) -> Findings:
    found = at_a_megabit(evidence.logs[MATCHING])
    gain = "the scheduling gain; table order"
    faster = [_below(found, n, method, ALL, gain) for n in (8, 16) for method in (COMMON, OWN)]
    holds = {n: all(c.verdict == ORDERING for c in faster if f"N = {n}:" in c.words) for n in (8, 16)}
    claims = [
        _again(n, method, _figure(n, method, row, found[n, method], held=_gain(n) if holds.get(n) else ""))
        for n, row in MATCHED.items()
        for method in row
    ]
    lost = [_lost(found[4, method], method) for method in (ALL, COMMON)]
    words = "N = 4, common supports: share of runs that diverge"
    claims += together(words, lost[0].paper, lost, FIGURE)
    claims += together("both matchings end below all-neighbour, common: N = 8 and 16", gain, faster)
    words = "N = 8 and 16: matching, common and matching, edge-local are close"
    claims += together(words, "their objectives are close", [_close(found, n) for n in (8, 16)])
    title = "Same matching, at 1 Mbit per node: F(x̄_T) / F(x̄_0)"
    notes = (
        "Mean ± std over seeds. The paper averages diverged runs; ours end at an objective of 1e12 and are "
        "counted."
    )
    printed: Rows = {**MATCHED, 4: {**UNSTABLE, **MATCHED[4]}}
    return Findings(claims, [_table(MATCHING, title, printed, found, notes, rounds=False)])


def _gain(n: int) -> str:
    return f"both matchings end below all-neighbour at N = {n}"


def _again(n: int, method: str, claim: Claim) -> Claim:
    """The other table prints these operators too, each from runs of its own, one last digit apart."""
    other = {ALL: GLOBAL, OWN: EDGE}.get(method)
    if n not in RINGS or other is None:
        return claim
    return claim._replace(note=f"{claim.note}; support-locality prints {RINGS[n][other].mean} for {other}")


def _lost(ours: Cell, method: str) -> Claim:
    """The share of diverged runs, by an exact test. Which seed diverges is not compared."""
    cause = f"printed as {UNSTABLE[method]}, the mean of {SEEDS} with one that diverged; ours is in no mean"
    runs = len(ours.values) + ours.diverged
    words = f"N = 4, {method}: share of runs that diverge"
    claim = frequency(words, (LOST, SEEDS), (ours.diverged, runs), cause)
    return claim._replace(diverged=ours.diverged)


def _close(found: Cells, n: int) -> Claim:
    """Common and own supports on the same matching: apart by at most the larger printed std."""
    limit = max(MATCHED[n][method].number.std for method in (COMMON, OWN))
    words = f"N = {n}: {COMMON} minus {OWN} (close)"
    claim = close(words, "close", found[n, COMMON], found[n, OWN], limit)
    return claim._replace(note=f"{claim.note}; the limit is the larger of the two printed std")


START = {
    "initial point": "all coordinates −1, every node, every seed: others miss the printed ratios",
    "node shifts": "Gaussian of std 0.3 per node and coordinate: uniform ones land far below",
}
FITTED = tuple(START)
CHOICES = {
    **START,
    "momentum": "β = 0, as the appendix says for these two studies",
    "logging": "every 10 rounds: 970, 1950, 1480, 690, 330 and 160 are all multiples",
    "divergence": "a run ends once its objective passes 1e12; this start and η sit on the stability edge",
    "seeds": "1 to 5; the paper's are not given",
}
ITEMS: Sequence[Item] = [
    Item(
        "support-locality",
        "Support locality on rings",
        (
            "tab:appendix_support_locality",
            "fig:appendix_support_locality",
            "appendix:support_locality_experiment",
        ),
        "At 1 Mbit per node, edge-local support ends lowest on rings of 8 to 64 nodes: it completes twice "
        "the rounds of global support, and a flood of seeds and scalars ever fewer as the ring grows.",
        find_locality,
        (LOCALITY,),
        CHOICES,
        FITTED,
        draws=True,
    ),
    Item(
        "same-matching",
        "Same-matching support control",
        ("tab:matching_synthetic_v19",),
        "With the matching held fixed, one common support does about as well as a support for each edge: the "
        "gain over all neighbours is one of scheduling. At N = 4 common supports can diverge.",
        find_matching,
        (MATCHING,),
        CHOICES,
        FITTED,
    ),
]
