"""Rosenbrock with ten nodes: what a budget buys with values alone, with indices, and with Com-DSZO.

The cost of a round depends on the number of links, so on random graphs a cell depends on the mean degree,
which the paper does not print. Its Erdős–Rényi cells are compared over seeds whose graph has a degree that
the cells imply, and also over the first seeds, with any degree. No graph is redrawn.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from zocosmo.report.budget import Cell, cell, selected
from zocosmo.report.curves import figure as draw_curves
from zocosmo_paper.claim import (
    CHECK,
    FIGURE,
    ORDERING,
    WITHIN,
    Claim,
    Printed,
    below,
    check,
    constant,
    differences,
    ends_below,
    figure,
    order,
    repeated,
    together,
    unknown,
)
from zocosmo_paper.item import Evidence, Findings, Item, Picture, Table

MAIN, DRAWN = "tab-synthetic-ablation", "tab-synthetic-ablation-erdos-renyi"
COSMO, INDEXED, COM_DSZO = METHODS = ("ZO-COSMO", "same updates with indices", "Com-DSZO")
RING, RANDOM, GRID = COLUMNS = ("ring", "Erdős–Rényi", "grid")
ANY = "Erdős–Rényi, any degree"
TENTH, THREE_TENTHS = 100_000, 300_000  # bits per node
VALUE_BITS = 32
PAPER_SEEDS = 5
DEGREES = ("3.4", "3.8")  # mean degrees that the printed Erdős–Rényi cells imply
PRINTED = {  # tab:synthetic_ablation
    COSMO: {RING: "0.083 ± 0.006", RANDOM: "0.119 ± 0.011", GRID: "0.093 ± 0.006"},
    INDEXED: {RING: "0.088 ± 0.006", RANDOM: "0.136 ± 0.015", GRID: "0.103 ± 0.006"},
    COM_DSZO: {RING: "0.097 ± 0.007", RANDOM: "0.171 ± 0.018", GRID: "0.115 ± 0.007"},
}
START = ("initial point", "node shifts")  # fitted, as are the next two
BETA = "momentum 0 (the text says 0.9)"
GRAPHS = f"random graphs of mean degree {DEGREES[0]}–{DEGREES[1]}"
GAP = "0.004"  # at 0.3 Mbit on the Erdős–Rényi graph

Cells = Mapping[tuple[str, str], Cell]  # by column and method


class Draws(NamedTuple):
    """Seeds of a study on random graphs, with the mean degree of each graph."""

    degrees: Mapping[str, Fraction]
    first: list[str]  # the first five, or as many as given
    inside: list[str]  # the first five whose degree is in the range, or all of them


def read(text: str, seeds: int = PAPER_SEEDS) -> Printed:
    """A cell as printed: mean ± std."""
    mean, std = text.split(" ± ")
    return Printed(float(mean), float(std), seeds)


def draws_of(log: Any, method: str, span: tuple[str, str], asked: int | None) -> Draws:
    """Mean degrees from the ledger: a node sends one value of 32 bits on each link in each round."""
    rows = log[(log["method"] == method) & (log["round"] > 0)].groupby("seed", sort=False).first()
    found = {
        str(row.Index): Fraction(int(row.value_bits), int(row.round) * int(row.n) * VALUE_BITS)
        for row in rows.itertuples()
    }
    low, high = map(Fraction, span)
    count = PAPER_SEEDS if asked is None else asked
    inside = [seed for seed, degree in found.items() if low <= degree <= high]
    return Draws(found, list(found)[:count], inside[:count])


def of_seeds(log: Any, seeds: Iterable[str]) -> Any:
    return log[log["seed"].isin(list(seeds))]


def cell_claim(
    words: str,
    paper: str,
    ours: Cell,
    *,
    held: str = "",
    others: Mapping[str, str] = MappingProxyType({}),
) -> Claim:
    """A printed cell against ours, with the printed cells of other methods in the same place.

    `not run` if no graph of these seeds has the degree.
    """
    if not ours.values and not ours.diverged:
        return unknown(words, paper, "no graph of these seeds has such a mean degree; ask for more seeds")
    rivals = {name: read(text).mean for name, text in others.items()}
    claim = figure(words, read(paper), ours.values, diverged=ours.diverged, held=held, rivals=rivals)
    return claim._replace(paper=paper)


def shown(ours: Cell) -> str:
    """Our cell in the paper's layout, with completed rounds.

    >>> shown(Cell(0.0841, 0.00623, {"1": 0.0841, "2": 0.0841}, 1, (820, 910)))
    '0.084 ± 0.006 (820–910), 1 diverged'
    """
    if not ours.values:
        return "–" + (f" {ours.diverged} diverged" if ours.diverged else "")
    rounds = "–".join(map(str, dict.fromkeys(ours.rounds or (0,))))
    lost = f", {ours.diverged} diverged" if ours.diverged else ""
    return f"{_spread(ours.mean, ours.std, 3)} ({rounds}){lost}"


def _spread(mean: float, std: float, digits: int) -> str:
    if math.isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}")


def degrees_text(draws: Draws, span: tuple[str, str]) -> str:
    def listed(seeds: Sequence[str]) -> str:
        return ", ".join(f"{seed} ({float(draws.degrees[seed]):g})" for seed in seeds) or "none"

    return (
        f"Seeds and mean degrees of their graphs, {span[0]}–{span[1]}: {listed(draws.inside)}; "
        f"any degree: {listed(draws.first)}."
    )


# tab:synthetic_ablation, fig:comm_efficiency


def columns_of(evidence: Evidence) -> tuple[dict[str, Any], Draws]:
    """Logs by column of the table; the one with any degree is last."""
    fixed, drawn = evidence.logs[MAIN], evidence.logs[DRAWN]
    draws = draws_of(drawn, COSMO, DEGREES, evidence.seeds)
    return {
        RING: fixed[fixed["graph"] == "ring"],
        RANDOM: of_seeds(drawn, draws.inside),
        GRID: fixed[fixed["graph"] == "grid"],
        ANY: of_seeds(drawn, draws.first),
    }, draws


def cells_of(logs: Mapping[str, Any], bits: int) -> dict[tuple[str, str], Cell]:
    return {
        (column, method): cell(log[log["method"] == method], bits, "objective")
        for (column, log), method in product(logs.items(), METHODS)
    }


def find_table(evidence: Evidence) -> Findings:
    logs, draws = columns_of(evidence)
    found = cells_of(logs, TENTH)
    orders = {}
    for column, other in product(COLUMNS, (INDEXED, COM_DSZO)):
        if (ours := found[column, COSMO]).values:
            words = f"{column}: {COSMO} ends below {other} at 0.1 Mbit"
            orders[column, other] = ends_below(words, "lower", ours, found[column, other])
    claims = [_cell(found, column, method, orders) for method, column in product(METHODS, COLUMNS)]
    free = [cell_claim("", PRINTED[method][RANDOM], found[ANY, method]) for method in METHODS]
    words = "Erdős–Rényi cells that are within where any connected graph counts, as the text has it"
    hits = sum(claim.verdict == WITHIN for claim in free)
    claims.append(check(constant(words, str(len(METHODS)), hits, f"{len(METHODS)}, if it were so")))
    words = f"the indexed control ({INDEXED}) beats {COM_DSZO}, mean over the three graphs"
    control = pooled(words, "table order on all three", pairs(found, INDEXED, (COM_DSZO,)))
    control = _on(ANY, control)
    lowest = _all_pairs(found)
    parts = [repeated(claim, lowest.words) for claim in orders.values()]
    claims += [lowest, *parts, control, *_gains(logs)]
    tables = [_table(found, draws), _order_table(found)]
    return Findings(claims, tables, [_picture(logs, draws, found)])


def _cell(found: Cells, column: str, method: str, orders: Mapping[tuple[str, str], Claim]) -> Claim:
    """A cell; the ordering it supports is ZO-COSMO below it, or for ZO-COSMO itself, below both."""
    rivals = (INDEXED, COM_DSZO) if method == COSMO else (method,)
    holds = all((column, rival) in orders and orders[column, rival].verdict == ORDERING for rival in rivals)
    held = f"{COSMO} ends below {' and '.join(rivals)}, {column}" if holds else ""
    words = f"{column}, {method}: objective at 0.1 Mbit"
    others = {name: PRINTED[name][column] for name in METHODS if name != method}
    claim = cell_claim(words, PRINTED[method][column], found[column, method], held=held, others=others)
    return _on(column, claim, momentum=method != COM_DSZO)


def _on(column: str, claim: Claim, *, momentum: bool = True) -> Claim:
    """What was fitted: graphs in the Erdős–Rényi column alone, momentum for methods that have it."""
    return claim._replace(fitted=", ".join([*START, *[BETA] * momentum, *[GRAPHS] * (column == RANDOM)]))


def pairs(found: Cells, better: str, worse: Sequence[str]) -> list[dict[str, float]]:
    """By column and seed: one method minus the best of the others."""
    return [
        {
            seed: value - min(found[column, other].values[seed] for other in worse)
            for seed, value in found[column, better].values.items()
            if all(seed in found[column, other].values for other in worse)
        }
        for column in (RING, ANY, GRID)
    ]


def by_seed(differences: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean over graphs for each seed; graphs of one seed share its tape and are not independent."""
    return {
        seed: fmean(each[seed] for each in differences)
        for seed in differences[0]
        if all(seed in each for each in differences)
    }


def pooled(words: str, paper: str, differences: Sequence[Mapping[str, float]]) -> Claim:
    """An ordering over several columns; the interval resamples seeds."""
    means = by_seed(differences)
    claim = order(words, paper, means, dict.fromkeys(means, 0.0))
    wins = sum(value < 0 for each in differences for value in each.values())
    return claim._replace(note=f"{wins} of {sum(map(len, differences))} pairs")


def _all_pairs(found: Cells) -> Claim:
    """`within` if lowest in every pair; else the verdict on the average. `ours` counts pairs."""
    differences = pairs(found, COSMO, (INDEXED, COM_DSZO))
    words = f"{COSMO} is the lowest of the three in every pair of seed and graph"
    claim = pooled(words, "15 of 15", differences)
    wins = [value < 0 for each in differences for value in each.values()]
    ends = ", ".join(f"{end:+.2g}".replace("-", "−") for end in (claim.low, claim.high))
    difference = f"{claim.ours:+.2g}".replace("-", "−")
    note = f"{sum(wins)} of {len(wins)}; mean difference to the better of the others {difference} [{ends}]"
    if claim.verdict == ORDERING and not all(wins):
        note += "; in order only: lowest on average"
    claim = _on(ANY, claim)._replace(
        ours=float(sum(wins)), std=math.nan, low=math.nan, high=math.nan, note=note
    )
    return claim._replace(kind=FIGURE, verdict=WITHIN if all(wins) else claim.verdict)


def _gains(logs: Mapping[str, Any]) -> list[Claim]:
    """Additional rounds that 0.1 Mbit buys without indices: least and most over graphs.

    A constant of the graph and of the log: without logging it is 5/32 of the rounds on every graph.
    """
    gains: dict[str, tuple[Fraction, str]] = {}
    for column in COLUMNS:
        log = logs[column]
        with_values, with_indices = (
            {row["seed"]: int(row["round"]) for _, row in selected(log[log["method"] == method], TENTH)}
            for method in (COSMO, INDEXED)
        )
        ratios = [Fraction(with_values[seed], with_indices[seed]) - 1 for seed in with_values]
        if ratios:
            rounds = [sum(each.values()) / len(each) for each in (with_values, with_indices)]
            counts = " against ".join(f"{count:g}" for count in rounds)
            gains[column] = sum(ratios, Fraction()) / len(ratios), f"{column}: {counts} logged rounds"
    return [_gain(gains, *end) for end in (("least", "15%", min), ("most", "17%", max))] if gains else []


def _gain(gains: Mapping[str, tuple[Fraction, str]], name: str, printed: str, end: Any) -> Claim:
    share, where = end(gains.values())
    words = f"more rounds at 0.1 Mbit without indices, the {name} of three graphs"
    artefact = "an artefact of logging every 10 rounds, without which it is 15.6 % on every graph"
    return constant(words, printed, share, note=f"{where}; {artefact}")


def _table(found: Cells, draws: Draws) -> Table:
    inside = f"{RANDOM}, ours, mean degree {DEGREES[0]}–{DEGREES[1]}"
    columns = ["ring, paper", "ring, ours", f"{RANDOM}, paper", inside, "ours, any degree"]
    rows = []
    for method, row in PRINTED.items():
        cells = [row[RING], shown(found[RING, method]), row[RANDOM], shown(found[RANDOM, method])]
        cells += [shown(found[ANY, method]), row[GRID], shown(found[GRID, method])]
        rows.append([method, *cells])
    notes = (
        "Mean ± std over seeds, completed rounds in parentheses. The paper does not print the degrees of its "
        f"random graphs; its cells imply about {DEGREES[0]}–{DEGREES[1]}. {degrees_text(draws, DEGREES)}"
    )
    title = "Rosenbrock objective at 0.1 Mbit per node, q = 1"
    return Table(MAIN, title, ["method", *columns, "grid, paper", "grid, ours"], rows, notes)


def _order_table(found: Cells) -> Table:
    rows = []
    for (better, worse), column in product(combinations(METHODS, 2), (*COLUMNS, ANY)):
        what = f"{better} − {worse}"
        claim = ends_below(what, "", found[column, better], found[column, worse])
        ends = (claim.ours, claim.low, claim.high)
        numbers = ["–" if math.isnan(x) else f"{x:+.4f}".replace("-", "−") for x in ends]
        rows.append([what, column, *numbers, claim.note.removesuffix(" pairs"), claim.verdict])
    columns = ["difference", "graph", "mean", "low", "high", "wins", "verdict"]
    notes = "Seed by seed, with 95 % intervals by Student's t; a verdict of ordering needs all of it below 0."
    return Table(f"{MAIN}-orderings", "Differences at 0.1 Mbit per node", columns, rows, notes)


def _picture(logs: Mapping[str, Any], draws: Draws, early: Cells) -> Picture:
    import pandas as pd

    kept = {column: log.assign(graph=column) for column, log in logs.items() if column != ANY and len(log)}
    log = pd.concat(list(kept.values()), ignore_index=True)
    lines = []
    for name, found in (("0.1", early), ("0.3", cells_of(kept, THREE_TENTHS))):
        lines += [f"{g}, {m} at {name} Mbit {shown(found[g, m])}" for g in kept for m in METHODS]
    text = (
        "One panel for each graph: the objective at the network average, on a log scale, against bits per "
        "node for three methods, with bands of one standard deviation and marks at 0.1 and 0.3 Mbit. "
        f"{'; '.join(lines)}. {degrees_text(draws, DEGREES)}"
    )

    def draw(to: Path) -> None:
        draw_curves(log, to, budgets=(TENTH, THREE_TENTHS))

    return Picture("fig-comm-efficiency", "Objective against bits per node", text, draw)


# sec:exp, the gap at 0.3 Mbit


def find_gap(evidence: Evidence) -> Findings:
    drawn = evidence.logs[DRAWN]
    draws = draws_of(drawn, COSMO, DEGREES, evidence.seeds)
    spans = {RANDOM: draws.inside, ANY: draws.first}
    claims: list[Claim] = []
    rows = []
    for span, seeds in spans.items():
        part = {RANDOM: of_seeds(drawn, seeds)}
        early, late = cells_of(part, TENTH), cells_of(part, THREE_TENTHS)
        rows.append([span, COSMO, *(shown(each[RANDOM, COSMO]) for each in (early, late)), "", ""])
        for other in (INDEXED, COM_DSZO):
            found = _gap(span, other, early, late)
            claims += found if span == RANDOM else map(check, found)
            cells = [shown(each[RANDOM, other]) for each in (early, late)]
            rows.append([span, other, *cells, f"below {GAP}", _spread(found[0].ours, found[0].std, 4)])
    columns = ["graphs", "method", "ours, 0.1 Mbit", "ours, 0.3 Mbit", "gap, paper", "gap at 0.3 Mbit, ours"]
    table = Table(
        "sec-exp-gap",
        "Rosenbrock objective on Erdős–Rényi graphs, and what methods end above ZO-COSMO",
        columns,
        rows,
        f"Mean ± std over seeds, completed rounds in parentheses. {degrees_text(draws, DEGREES)}",
    )
    said, ours = ([claim for claim in claims if (claim.kind == CHECK) is own] for own in (False, True))
    words = f"{RANDOM}: what the two other methods end above {COSMO} shrinks, and is below {GAP} at 0.3 Mbit"
    return Findings([*together(words, f"the gap shrinks below {GAP}", said), *ours], [table])


def _gap(span: str, other: str, *found: Cells) -> list[Claim]:
    """The final objective of a method minus that of ZO-COSMO, by seed, at both budgets."""
    early, late = (differences(each[RANDOM, other].values, each[RANDOM, COSMO].values) for each in found)
    words = f"{span}: {other} minus {COSMO} at 0.3 Mbit"
    less = f"{span}: {other} minus {COSMO} is less at 0.3 Mbit than at 0.1 Mbit"
    if not late:
        return [unknown(words, f"below {GAP}", "no graph of these seeds has such a mean degree")]
    return [below(words, GAP, late), order(less, "shrinks", late, early)]


CHOICES = {
    "initial point": "all coordinates −1, every node, every seed: others miss the printed cells or diverge",
    "node shifts": "Gaussian per node and coordinate; uniform ones land far below the printed objectives",
    "momentum": "β = 0, fitted: the text's default is 0.9, with which the printed cells do not come out",
    "logging": "every 10 rounds",
    "grid": "ten nodes as 2 × 5",
    "random graphs": "the paper gives no degrees, which decide these cells, but the printed ones imply some. "
    "Ours are over the first five seeds, counted from 1, whose own connected graph lies in that range; "
    "nothing is drawn again. The cells of the first seeds, whatever their degree, stand beside. Five "
    "seeds are few: --seeds 40 takes all of them whose graph lies in the range",
}
FITTED = (*START, BETA, GRAPHS)
ITEMS: Sequence[Item] = [
    Item(
        "rosenbrock",
        "Rosenbrock at 0.1 Mbit per node",
        ("tab:synthetic_ablation", "fig:comm_efficiency"),
        "With ten nodes and one coordinate a round, leaving the indices out buys 15–17 % more rounds, and "
        "ZO-COSMO ends lowest of three methods in all 15 pairs of seed and graph.",
        find_table,
        (MAIN, DRAWN),
        CHOICES,
        FITTED,
        draws=True,
    ),
    Item(
        "gap-0.3",
        "The gap at 0.3 Mbit",
        ("sec:exp",),
        "At 0.3 Mbit per node the methods have nearly converged: on the Erdős–Rényi graph the gap is below "
        "0.004.",
        find_gap,
        (DRAWN,),
        CHOICES,
        FITTED,
    ),
]
