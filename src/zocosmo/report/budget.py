"""Cells from logs: the state of every run when a budget is spent   [alg:fixed_budget_table]

A log is a frame with one row per trial and checkpoint, sorted by trial and round, from round 0 on. `bits` is
the cumulative payload per node. A diverged run ends with a row marked `diverged`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from zocosmo.errors import InputError, check_known

LABELS = ["problem", "graph", "method"]
NEEDED = ["trial", *LABELS, "seed", "round", "bits", "diverged"]
GREATER_IS_BETTER = frozenset({"accuracy", "f1"})


class Cell(NamedTuple):
    """One entry of a table. Diverged runs are counted and left out of all other fields."""

    mean: float
    std: float  # ddof = 1, so nan for one seed
    values: dict[str, float]  # by seed
    diverged: int
    rounds: tuple[int, int] | None  # least and most completed rounds behind the values
    ended: int = 0  # runs that ended before the budget was spent


def at_budget(log: pd.DataFrame, bits: float) -> "pd.Series[Any] | None":
    """The last checkpoint of one trial within the budget   [eq:fixed_budget_selector]

        ℓ* = max{ℓ : b_ℓ ≤ B}

    None when the first checkpoint already costs more: the run is left out, never extrapolated.
    """
    paid = int((log["bits"] <= bits).sum())  # bits never decrease, so these are the first rows
    return log.iloc[paid - 1] if paid else None


def cell(log: pd.DataFrame, bits: float | None, metric: str, relative: bool = False) -> Cell:
    """Mean and std over the seeds of one problem, graph and method   [eq:fixed_budget_mean_std]

    Without `bits`, each run is read at its last row: equal rounds. `relative` divides by the metric at
    round 0 of the same run.
    """
    check_metric(log, metric)
    groups = log[LABELS].drop_duplicates()
    if len(groups) > 1:
        raise InputError(
            f"a cell has one problem, graph and method, got {len(groups)} combinations; call cells"
        )
    picked = list(selected(log, bits))
    kept = [(run, row) for run, row in picked if not row["diverged"]]
    values = {
        row["seed"]: float(row[metric]) / (at_start(run, metric) if relative else 1.0) for run, row in kept
    }
    ends = [int(row["round"]) for _, row in kept]
    numbers = pd.Series(list(values.values()), dtype="float64")
    spread = float(numbers.std(ddof=1, skipna=False)) if len(numbers) > 1 else float("nan")
    rounds = (min(ends), max(ends)) if ends else None
    ended = 0 if bits is None else sum(is_over(run, bits) for run, _ in kept)
    return Cell(float(numbers.mean(skipna=False)), spread, values, len(picked) - len(kept), rounds, ended)


def cells(
    log: pd.DataFrame, budgets: Sequence[float | None], *, metric: str = "objective", relative: bool = False
) -> pd.DataFrame:
    """One row per problem, graph, method and budget, in order of first appearance; budget None is nan."""
    check_metric(log, metric)
    for bits in budgets:
        if bits is not None and not bits >= 0:
            raise InputError(f"a budget is 0 bits per node or more, got {bits}; None means the last round")
    rows = []
    for labels, group in log.groupby(LABELS, sort=False, observed=True):
        for bits in budgets:
            entry = cell(group, bits, metric, relative)
            least, most = entry.rounds or (pd.NA, pd.NA)
            rows.append(
                {
                    **dict(zip(LABELS, labels, strict=True)),
                    "metric": metric,
                    "relative": relative,
                    "budget": float("nan") if bits is None else float(bits),
                    "mean": entry.mean,
                    "std": entry.std,
                    "seeds": len(entry.values),
                    "diverged": entry.diverged,
                    "rounds_min": least,
                    "rounds_max": most,
                    "ended": entry.ended,
                }
            )
    frame = pd.DataFrame(rows)
    return frame.astype({"rounds_min": "Int64", "rounds_max": "Int64"}) if rows else frame


def selected(log: pd.DataFrame, bits: float | None) -> "Iterator[tuple[pd.DataFrame, pd.Series[Any]]]":
    """Each run of a cell with its row at the budget, if there is one."""
    seeds = set()
    for run in runs(log):
        row = run.iloc[-1] if bits is None else at_budget(run, bits)
        if row is None:
            continue
        if row["seed"] in seeds:
            raise InputError(f"seed {row['seed']} has two trials in a cell; give them different labels")
        seeds.add(row["seed"])
        yield run, row


def runs(log: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The log of each trial, after a check that its rows are in order."""
    for trial, run in log.groupby("trial", sort=False):
        rounds = run["round"]
        if not (rounds.is_monotonic_increasing and rounds.is_unique and run["bits"].is_monotonic_increasing):
            raise InputError(
                f"rounds or bits of trial {trial} do not increase; sort the log by trial and round"
            )
        yield run


def is_over(run: pd.DataFrame, bits: float) -> bool:
    """Whether a run ended although another checkpoint would have fitted into the budget."""
    spent = run["bits"].to_numpy()
    return bool(2 * spent[-1] - spent[-2] <= bits) if len(spent) > 1 else False


def at_start(run: pd.DataFrame, metric: str) -> float:
    """The metric at round 0, which must not be 0."""
    first, trial = run.iloc[0], run["trial"].iloc[0]
    if first["round"] != 0:
        raise InputError(f"trial {trial} starts at round {first['round']}; a relative value needs round 0")
    if first[metric] == 0:
        raise InputError(f"{metric} of trial {trial} is 0 at round 0; use absolute values")
    return float(first[metric])


def check_metric(log: pd.DataFrame, metric: str) -> None:
    """Refuse a frame that is not a log, or a metric it does not have."""
    missing = [name for name in NEEDED if name not in log.columns]
    if missing:
        raise InputError(f"a log needs the columns {', '.join(NEEDED)}; this one lacks {', '.join(missing)}")
    numeric = log.select_dtypes("number").columns
    check_known("metric", metric, [name for name in numeric if name not in NEEDED])
