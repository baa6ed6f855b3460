"""The residual left by unequal curvatures, at every logged state."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import run_plan
from zocosmo.sim import Checkpoint, Run, Simulation
from zocosmo_paper.claim import Claim, check, constant, relation
from zocosmo_paper.item import Evidence, Findings, Item, Table
from zocosmo_paper.items.studies import COUPLINGS, GRAPHS, Array
from zocosmo_paper.plans import load_config

CONFIG = "eq-curvature-residual-v23"
ROUNDING = 1e-12  # relative tolerance of identities in float64


class Residual(NamedTuple):
    """Arrays over runs."""

    r2: Array  # ‖r_X‖²
    bound: Array  # δ_H² 𝒟
    identity: Array  # ‖ā − ∇F(x̄) − r_X‖ over the size of what is summed


def residual(H: Array, b: Array, x: Array) -> Residual:
    """r_X = mean_i (H_i − H)(x_i − x̄) of states (…, n, d) and diagonal H_i   [eq:curvature_residual_v23]"""
    mean_H, centre = H.mean(axis=-2, keepdims=True), x.mean(axis=-2, keepdims=True)
    off, apart = H - mean_H, x - centre
    r = (off * apart).mean(axis=-2)
    delta2 = (np.abs(off).max(axis=-1) ** 2).mean(axis=-1)
    slopes = H * x + b
    left = slopes.mean(axis=-2) - (mean_H * centre)[..., 0, :] - b.mean(axis=-2) - r
    size = np.sqrt((slopes**2).sum(axis=-1).mean(axis=-1))
    spread = (apart**2).sum(axis=-1).mean(axis=-1)
    return Residual((r**2).sum(axis=-1), delta2 * spread, np.sqrt((left**2).sum(axis=-1)) / size)


class Audit:
    """Computes the residual of every batch at every checkpoint, and records it by trial."""

    def __init__(self, plan: Plan) -> None:
        self._numbers = {_key(trial.run()): trial.number for trial in plan.trials}
        self._parts: list[pd.DataFrame] = []

    def __call__(self, sim: Simulation, now: Checkpoint) -> None:
        problem: Any = sim.problem
        found = residual(2 * problem.half, problem.b, sim.states())
        numbers = [self._numbers[_key(run)] for run in sim.runs]
        seen = pd.DataFrame({"trial": numbers, "objective": now.objective, **found._asdict()})
        self._parts.append(seen[now.alive].assign(round=now.round))

    def rows(self) -> pd.DataFrame:
        return pd.concat(self._parts).sort_values(["trial", "round"], kind="stable", ignore_index=True)


def _key(run: Run) -> tuple[Any, ...]:
    """What distinguishes the runs of a plan; the linear terms of a problem depend on zeta."""
    problem: Any = run.problem
    return run.seed, run.graph, run.method, problem.sigma, problem.b.tobytes()


def find(evidence: Evidence) -> Findings:
    """Rerun the plan in one process, with access to its states, which the log lacks."""
    log, plan = evidence.logs[CONFIG], load_config(CONFIG, evidence.seeds)
    audit = Audit(plan)
    run_plan(plan, watch=audit)
    seen = audit.rows()
    return Findings(claims(log, seen), [table(log, seen)])


def claims(log: pd.DataFrame, seen: pd.DataFrame) -> list[Claim]:
    state = ["trial", "round", "objective"]
    logged = log[state].merge(seen[state], how="inner", on=state)
    share = (seen["r2"] / seen["bound"].where(seen["bound"] > 0)).max()
    note = f"the largest share of the bound that is used is {share:.3g}"
    looked = "logged states that were looked at"
    exact = "the measured residual satisfied the bound at every logged state"
    above = f"of {len(seen):,} states, those above the bound"
    unequal = "states at which the mean slope is not that of the average plus the residual"
    wrong, largest = int((seen["identity"] > ROUNDING).sum()), seen["identity"].max()
    return [
        check(constant(looked, f"{len(log)}", len(logged), "all that are logged", "same F to the last bit")),
        relation(constant(above, "0", int((~holds(seen)).sum()), exact, note)),
        check(constant(unequal, "0", wrong, note=f"largest relative difference {largest:.2g}")),
    ]


def holds(seen: pd.DataFrame) -> "pd.Series[bool]":
    """‖r_X‖² ≤ δ_H² 𝒟, up to rounding."""
    kept: pd.Series[bool] = seen["r2"] <= seen["bound"] * (1 + ROUNDING)
    return kept


def table(log: pd.DataFrame, seen: pd.DataFrame) -> Table:
    """The largest ratio of residual to bound, by graph, problem and coupling."""
    labels = log.drop_duplicates("trial").set_index("trial")[["graph", "problem", "method"]]
    both = seen.join(labels, on="trial")
    both["share"] = both["r2"] / both["bound"].where(both["bound"] > 0)
    both["coupling"] = both["method"].str.extract(r"coupling=(\w)", expand=False)
    columns = ("graph", "problem", "states", "above the bound", *(f"largest share, {c}" for c in COUPLINGS))
    title = "Curvature residual against its bound, at every logged state"
    notes = "share: residual squared over its bound."
    return Table("curvature-residual", title, columns, list(_rows(both)), notes)


def _rows(both: pd.DataFrame) -> Iterable[list[str]]:
    for graph in GRAPHS:
        for problem, part in both[both["graph"].str.startswith(graph)].groupby("problem", sort=False):
            largest = [part.loc[part["coupling"] == c, "share"].max() for c in COUPLINGS]
            above = int((~holds(part)).sum())
            yield [graph, str(problem), str(len(part)), str(above), *(f"{share:.3g}" for share in largest)]


ITEMS = [
    Item(
        name="curvature-residual",
        title="What unequal curvatures leave: the residual at every logged state",
        labels=("eq:curvature_residual_v23", "prop:curvature_v23"),
        claimed="The mean slope is that at the average plus a residual that disagreement bounds.",
        find=find,
        configs=(CONFIG,),
        ours={
            "runs": "the 768 of the extended study with omega 0.6; with equal curvatures the residual is 0",
            "states": "the plan is run twice: for the log, and watched; both give the same F to the last bit",
        },
    )
]
