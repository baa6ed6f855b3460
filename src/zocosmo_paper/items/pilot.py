"""The pilot, rerun: which step is best on seed 0, and what that step does on other seeds."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from zocosmo.report.budget import cell
from zocosmo_paper.claim import FIGURE, Claim, check, constant, together
from zocosmo_paper.item import Evidence, Findings, Item, Table
from zocosmo_paper.items.counts import setting_claims
from zocosmo_paper.items.rosenbrock import CHOICES

PILOT, LATER = "tab-appendix-hyperparams", "tab-appendix-hyperparams-later"
NAMES = {"cosmo": "ZO-COSMO", "com_dszo": "Com-DSZO"}
GRAPHS = ("ring", "erdos_renyi", "grid")
STEPS = ("0.0008", "0.0012", "0.0016", "0.002", "0.0025", "0.003")
CHOSEN, LARGEST = "2.5e-3", "0.003"
BUDGETS = {"0.1": 100_000, "0.3": 300_000}

Ends = Mapping[tuple[str, str, str, str], float]  # by method, graph, budget and step; inf if it diverged


def ends_of(log: Any) -> dict[tuple[str, str, str, str], float]:
    found = {}
    for (method, graph), step in product(product(NAMES, GRAPHS), STEPS):
        part = log[(log["method"] == f"{method} eta={step}") & (log["graph"] == graph)]
        for budget, bits in BUDGETS.items():
            ours = cell(part, bits, "objective")
            found[method, graph, budget, step] = ours.mean if ours.values else math.inf
    return found


def best(ends: Ends, method: str, graphs: Sequence[str], budget: str) -> str:
    """The step with the least mean objective over some graphs; ties go to the smaller one."""
    totals = {step: sum(ends[method, graph, budget, step] for graph in graphs) for step in STEPS}
    return min(STEPS, key=lambda step: totals[step])


def chosen(ends: Ends, method: str, graphs: Sequence[str], budget: str) -> Claim:
    step = best(ends, method, graphs, budget)
    where = "mean over the three graphs" if len(graphs) > 1 else graphs[0]
    words = f"{NAMES[method]}: best step on seed 0 at {budget} Mbit, {where}"
    least, ours = (
        sum(ends[method, g, budget, s] for g in graphs) / len(graphs) for s in (f"{float(CHOSEN):g}", step)
    )
    claim = constant(
        words, CHOSEN, float(step), "2.5e-3, chosen on seed 0", f"{ours:.4g} against {least:.4g}"
    )
    return claim._replace(kind=FIGURE, seeds=0)


def find(evidence: Evidence) -> Findings:
    ends = ends_of(evidence.logs[PILOT])
    words = "best step on seed 0 at 0.1 Mbit, mean over the three graphs"
    both = [chosen(ends, method, GRAPHS, "0.1") for method in NAMES]
    claims = together(words, both[0].paper, both, FIGURE)
    for method, budget in product(NAMES, BUDGETS):
        single = [chosen(ends, method, (graph,), budget) for graph in GRAPHS]
        claims += map(check, single if budget == "0.1" else [chosen(ends, method, GRAPHS, budget), *single])
    claims += [check(claim) for claim in lost(evidence.logs[LATER])]
    return Findings([*claims, *setting_claims()], [_table(ends)])


def lost(log: Any) -> list[Claim]:
    """How many runs with the largest step diverge on other seeds."""
    found = []
    for method, graph in product(NAMES, GRAPHS):
        part = log[(log["method"].str.startswith(method)) & (log["graph"] == graph)]
        ours = cell(part, None, "objective")
        runs = len(ours.values) + ours.diverged
        words = f"{NAMES[method]}, {graph}: runs with the step {LARGEST} that diverge on other seeds"
        claim = constant(words, "0", ours.diverged, "2.5e-3 was chosen", f"of {runs}")
        found.append(claim._replace(seeds=runs, diverged=ours.diverged))
    return found


def _table(ends: Ends) -> Table:
    rows = []
    for (method, graph), budget in product(product(NAMES, GRAPHS), BUDGETS):
        values = [ends[method, graph, budget, step] for step in STEPS]
        shown = [f"{value:.4g}" if math.isfinite(value) else "diverged" for value in values]
        rows.append([NAMES[method], graph, budget, *shown])
    columns = ("method", "graph", "Mbit", *STEPS)
    notes = "Seed 0 only. The paper chose 0.0025; what it compared is not printed."
    return Table(PILOT, "Rosenbrock objective on seed 0 by step", columns, rows, notes)


ITEMS: Sequence[Item] = [
    Item(
        "pilot",
        "The pilot that chose the step",
        ("tab:appendix_hyperparams",),
        "Of six steps, 2.5e-3 was chosen on seed 0; seeds 1 to 5 are reported.",
        find,
        (PILOT, LATER),
        {
            **{name: CHOICES[name] for name in ("initial point", "node shifts", "momentum")},
            "criterion": "least objective at 0.1 Mbit, the budget of the table; at 0.3 Mbit beside",
        },
        fixed=(PILOT,),
    )
]
