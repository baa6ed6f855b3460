"""The rule that chooses a setting from the pilot's log, the same for every method."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from zocosmo.compare.contest import Candidate, Chosen, Contest, Limit, told
from zocosmo.report.budget import GREATER_IS_BETTER

if TYPE_CHECKING:
    import pandas as pd

Choices = dict[str, list[Chosen]]  # by name of the limit, one for each candidate


def choose_all(rows: "pd.DataFrame", contest: Contest, limits: Mapping[str, Limit]) -> Choices:
    """The choice for each candidate at each limit, by the limit's name."""
    parts = {str(method): part for method, part in rows.groupby("method", sort=False, observed=True)}
    lost = {method for method, part in parts.items() if part["diverged"].any()}  # wherever it was

    def at(limit: Limit) -> list[Chosen]:
        logs = {method: part if method in lost else limit.log(part) for method, part in parts.items()}
        return [choose(logs, candidate, limit.most, contest.chosen_by) for candidate in contest.candidates]

    return {name: at(limit) for name, limit in limits.items()}


def choose(parts: "dict[str, pd.DataFrame]", candidate: Candidate, bits: float, metric: str) -> Chosen:
    """The setting with the best mean over the pilot's seeds at the last checkpoint within `bits`.

    Settings that diverged on any seed are excluded. Ties go to the smaller eta, then to the first.
    """
    means = [score(parts[candidate.name(setting)], bits, metric) for setting in candidate.grid]
    sign = -1.0 if metric in GREATER_IS_BETTER else 1.0
    fine = [k for k, mean in enumerate(means) if math.isfinite(mean)]
    lost = len(means) - len(fine)
    if not fine:
        return Chosen(candidate, None, math.nan, lost, False)
    best = min(fine, key=lambda k: (sign * means[k], candidate.grid[k]["eta"], k))
    setting, etas = candidate.grid[best], candidate.etas
    edge = len(etas) > 1 and setting["eta"] in (etas[0], etas[-1])
    return Chosen(candidate, setting, means[best], lost, edge)


def score(part: "pd.DataFrame", bits: float, metric: str) -> float:
    """The mean of one setting; nan if a run diverged, even after the budget was spent.

    All settings are equal at round 0, so if the budget allows no other checkpoint, the next one is used. Rows
    are sorted by trial and round, as in a log.
    """
    import pandas as pd

    if part["diverged"].any():
        return math.nan
    trial, spent, rounds = (part[name].to_numpy() for name in ("trial", "bits", "round"))
    ends = np.flatnonzero(np.diff(trial)) + 1
    runs = [slice(a, b) for a, b in pairwise([0, *ends.tolist(), len(trial)])]
    moved = [spent[run][rounds[run] > 0] for run in runs]
    enough = max([bits, *(float(later[0]) for later in moved if len(later))])
    paid = [(run, int(np.searchsorted(spent[run], enough, side="right"))) for run in runs]
    values = part[metric].to_numpy()[[run.start + count - 1 for run, count in paid if count]]
    return float(pd.Series(values, dtype="float64").mean(skipna=False))


def settings_rows(
    problem: str, metric: str, choices: Sequence[tuple[str, Chosen]]
) -> Iterator[dict[str, object]]:
    """The choices as rows of a file."""
    for what, (candidate, setting, mean, lost, edge) in choices:
        rest = {key: value for key, value in (setting or {}).items() if key != "eta"}
        yield {
            "problem": problem,
            "method": candidate.label,
            "kind": candidate.kind,
            "equal": what,
            "eta": "" if setting is None else setting["eta"],
            "tuned besides": told(rest),
            "edge": "‡" if edge else "",
            "metric": metric,
            "pilot mean": "" if setting is None else mean,
            "settings": len(candidate.grid),
            "diverged": lost,
            "fixed": told(candidate.fixed),
        }
