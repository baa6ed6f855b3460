"""Larger supports at fixed budgets, one step size for all: ZO-COSMO against indexed Rand-k."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zocosmo.report.budget import Cell, cell
from zocosmo_paper.claim import (
    ORDERING,
    WITHIN,
    Claim,
    check,
    constant,
    differences,
    ends_below,
    order,
    repeated,
    together,
)
from zocosmo_paper.item import Evidence, Findings, Item, Table
from zocosmo_paper.items.rosenbrock import (
    BETA,
    CHOICES,
    START,
    Draws,
    cell_claim,
    degrees_text,
    draws_of,
    of_seeds,
    pooled,
    read,
    shown,
)

SWEEP = "tab-rosen-q-sensitivity"
COSMO, RAND_K = METHODS = ("cosmo", "rand_k")
NAMES = {COSMO: "ZO-COSMO", RAND_K: "indexed Rand-k"}
DEGREES = ("3.0", "3.6")  # mean degrees implied by the printed cells
BUDGETS = {"0.3": 300_000, "1": 1_000_000, "3": 3_000_000}  # Mbit and bits per node
TABLE = """
1     0.131 ± 0.018 /  0.145 ± 0.017   0.119 ± 0.009 /  0.113 ± 0.006   0.119 ± 0.009 / 0.113 ± 0.006
2     0.632 ± 0.314 /  0.866 ± 0.384   0.121 ± 0.011 /  0.113 ± 0.008   0.121 ± 0.011 / 0.113 ± 0.008
4     7.283 ± 0.322 /  8.054 ± 0.540   0.172 ± 0.023 /  0.192 ± 0.023   0.121 ± 0.009 / 0.115 ± 0.009
8    13.971 ± 0.306 / 14.689 ± 0.569   1.630 ± 0.594 /  2.679 ± 0.947   0.124 ± 0.012 / 0.122 ± 0.015
16   22.680 ± 3.168 / 23.303 ± 0.827   9.385 ± 0.857 / 10.234 ± 0.643   0.288 ± 0.058 / 0.401 ± 0.131
"""  # tab:rosen_q_sensitivity: a row for each q, a column for each budget, ZO-COSMO / indexed Rand-k
PRINTED = {
    int(q): dict(zip(BUDGETS, zip(cells[::2], cells[1::2], strict=True), strict=True))
    for q, *cells in (re.split(r"\s*/\s*|\s{2,}", line) for line in TABLE.strip().splitlines())
}
SATURATED = (1, 2)  # q whose runs "approach saturation" at the larger budgets
OVER = ((1, "3"), (2, "3"))  # q and budget whose printed cells are those of 1 Mbit
CLEARER = "at q = 8 and q = 16 the fixed-budget gap is clearer"
LARGE = (8, 16)  # q at which "the fixed-budget gap is clearer"

Key = tuple[int, str, str]  # q, budget, method
Cells = Mapping[Key, Cell]


def cells_of(log: Any) -> dict[Key, Cell]:
    parts = {str(method): part for method, part in log.groupby("method", sort=False, observed=True)}
    none = log.iloc[:0]
    return {
        (q, budget, method): cell(parts.get(f"{method} q={q}", none), bits, "objective")
        for q in PRINTED
        for budget, bits in BUDGETS.items()
        for method in METHODS
    }


def find(evidence: Evidence) -> Findings:
    log = evidence.logs[SWEEP]
    draws = draws_of(log, f"{COSMO} q=1", DEGREES, evidence.seeds)
    inside, free = cells_of(of_seeds(log, draws.inside)), cells_of(of_seeds(log, draws.first))
    orders = {(q, b): _as_printed(inside, q, b) for q in PRINTED for b in BUDGETS} if draws.inside else {}
    claims = [_once(key[0], key[1], _cell(inside, key, held=_held(orders, key))) for key in inside]
    hits = sum(_cell(free, key).verdict == WITHIN for key in free)
    words = "cells that are within where any connected graph counts, as the text has it"
    claims.append(check(constant(words, str(len(free)), hits, f"{len(free)}, if it were so")))
    at_the_end = [gaps(free, q, "3") for q in SATURATED]  # with any degree: it does not matter by then
    words = "Rand-k is better at saturation: mean over q = 1 and q = 2 at 3 Mbit"
    judged = [_counted(q, b, _beside(claim, q, b, inside)) for (q, b), claim in orders.items()]
    claims += [*judged, check(pooled(words, "lower for both", at_the_end))]
    if draws.inside:
        claims += _clearer(inside)
    return Findings(claims, [_table(inside, free, draws)])


def _clearer(found: Cells) -> list[Claim]:
    """That Rand-k ends further above ZO-COSMO for large q than for small q."""
    parts = [
        order(
            f"the gap at 1 Mbit is larger for q = {large} than for q = {small}",
            CLEARER,
            gaps(found, small, "1"),
            gaps(found, large, "1"),
        )
        for large in LARGE
        for small in SATURATED
    ]
    return together("the gap at 1 Mbit is larger for q = 8 and 16 than for q = 1 and 2", CLEARER, parts)


def _held(orders: Mapping[tuple[int, str], Claim], key: Key) -> str:
    """The printed order of a cell and its neighbour, if it counts and holds."""
    claim = orders.get(key[:2])
    counts = claim is not None and far_apart(*key[:2]) and claim.verdict == ORDERING
    return claim.words if claim is not None and counts else ""


def far_apart(q: int, budget: str) -> bool:
    """Whether two neighbouring cells are printed at least the larger std apart; the text orders none."""
    cells = [read(text) for text in PRINTED[q][budget]]
    return abs(cells[0].mean - cells[1].mean) >= max(each.std for each in cells)


def _once(q: int, budget: str, claim: Claim) -> Claim:
    """Where all rounds are over at 1 Mbit, 3 Mbit show the same runs and the same print: counted once."""
    return repeated(claim, "that at 1 Mbit: all 3,000 rounds are over") if (q, budget) in OVER else claim


def _counted(q: int, budget: str, claim: Claim) -> Claim:
    """An order that is neither said nor printed a std apart is a check of ours."""
    return claim if far_apart(q, budget) else check(claim)


def _beside(claim: Claim, q: int, budget: str, found: Cells) -> Claim:
    """The printed difference, and that the order leans on a Rand-k that ends above its print."""
    cells = [read(text) for text in PRINTED[q][budget]]
    cosmo, rand = (each.mean for each in cells)
    apart, spread = abs(cosmo - rand), max(each.std for each in cells)
    printed = f"printed difference −{apart:.3f}"
    printed += "" if far_apart(q, budget) else f", less than the printed std {spread:g}: not counted"
    keys = [key for key in found if key[2] == RAND_K]
    above = sum(found[key].mean > read(PRINTED[key[0]][key[1]][1]).mean for key in keys)
    lean = f"rests on a Rand-k above its print in {above} of {len(keys)} cells, which helps ZO-COSMO"
    notes = [claim.note, printed, *([lean] if cosmo < rand else []), "graph assumed: Erdős–Rényi"]
    return claim._replace(note="; ".join(notes))


def _cell(found: Cells, key: Key, *, held: str = "") -> Claim:
    q, budget, method = key
    words = f"q = {q}, {NAMES[method]}: objective at {budget} Mbit"
    texts = dict(zip(METHODS, PRINTED[q][budget], strict=True))
    others = {NAMES[name]: text for name, text in texts.items() if name != method}
    return cell_claim(words, texts[method], found[key], held=held, others=others)


def _as_printed(found: Cells, q: int, budget: str) -> Claim:
    """The ordering of two neighbouring cells as printed."""
    means = dict(zip(METHODS, (read(text).mean for text in PRINTED[q][budget]), strict=True))
    better, worse = sorted(METHODS, key=lambda method: means[method])
    words = f"q = {q}: {NAMES[better]} ends below {NAMES[worse]} at {budget} Mbit"
    return ends_below(words, "table order", found[q, budget, better], found[q, budget, worse])


def gaps(found: Cells, q: int, budget: str) -> dict[str, float]:
    """Rand-k minus ZO-COSMO, by seed."""
    return differences(found[q, budget, RAND_K].values, found[q, budget, COSMO].values)


def _table(inside: Cells, free: Cells, draws: Draws) -> Table:
    columns = [
        f"{budget} Mbit, {who}"
        for budget in BUDGETS
        for who in ("paper", f"ours, mean degree {DEGREES[0]}–{DEGREES[1]}", "ours, any degree")
    ]
    rows = []
    for q, row in PRINTED.items():
        cells = []
        for budget in BUDGETS:
            cells.append(" / ".join(row[budget]))
            cells += [" / ".join(shown(each[q, budget, m]) for m in METHODS) for each in (inside, free)]
        rows.append([str(q), *cells])
    about = "ZO-COSMO / indexed Rand-k: mean ± std over seeds, completed rounds in parentheses."
    notes = f"{about} {degrees_text(draws, DEGREES)}"
    return Table(SWEEP, "Rosenbrock objective by support size and budget", ["q", *columns], rows, notes)


ITEMS: Sequence[Item] = [
    Item(
        "q-sensitivity",
        "Rosenbrock with larger supports",
        ("tab:rosen_q_sensitivity",),
        "With one step size for all, ZO-COSMO ends below indexed Rand-k wherever rounds are scarce, the more "
        "so for larger supports; where both have run long, Rand-k is printed a little lower.",
        find,
        (SWEEP,),
        {**CHOICES, "graph": "Erdős–Rényi, p = 0.4: the table names none, and the printed cells fit it"},
        (*START, BETA, "graph Erdős–Rényi", f"random graphs of mean degree {DEGREES[0]}–{DEGREES[1]}"),
    )
]
