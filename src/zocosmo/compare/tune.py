"""The rule that chooses a setting from the pilot's log, the same for every method."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from zocosmo.compare.contest import Candidate, Chosen, Contest, Limit, told
from zocosmo.report.budget import GREATER_IS_BETTER, cell

if TYPE_CHECKING:
    import pandas as pd


def choose_all(rows: "pd.DataFrame", contest: Contest, limit: Limit) -> list[Chosen]:
    """The choice for each candidate at one limit."""
    groups = limit.log(rows).groupby("method", sort=False, observed=True)
    parts = {str(method): part for method, part in groups}
    return [choose(parts, candidate, limit.most, contest.chosen_by) for candidate in contest.candidates]


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

    All settings are equal at round 0, so if the budget allows no other checkpoint, the next one is used.
    """
    if part["diverged"].any():
        return math.nan
    moved = part[part["round"] > 0].groupby("trial")["bits"].min()
    return cell(part, max(bits, float(moved.max())) if len(moved) else bits, metric).mean


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
