"""The best method for each problem and budget, and whether ours differ from it significantly."""

import math
from collections.abc import Mapping, Sequence

from zocosmo.compare.contest import Limit, limits
from zocosmo.compare.tables import OURS, ContestResult, word
from zocosmo.methods import METHODS
from zocosmo.report.budget import GREATER_IS_BETTER, Cell, cell
from zocosmo.report.stats import paired_interval
from zocosmo.report.tables import NOTHING, Grid

Ranks = dict[str, int]  # ties share the better rank


def winners_grid(results: Sequence[ContestResult]) -> Grid:
    """One row per problem and limit: the best, the best without a server, and ours against the best."""
    kinds = {c.candidate.label: c.candidate.kind for result in results for c in result.chosen}
    ours = [label for label, kind in kinds.items() if kind in OURS]
    rows = []
    for result in results:
        for limit in limits(result.contest):
            metric, found = result.contest.metric, competing(result, limit)
            ranks = ranked(found, metric)
            free = ranked({k: v for k, v in found.items() if not METHODS[kinds[k]].server}, metric)
            stands = [standing(found, ranks, label, metric) for label in ours]
            texts = [" = ".join(first(ranks)) or NOTHING, " = ".join(first(free)) or NOTHING, *stands]
            rows.append((f"{result.contest.name}, {limit.name}", [word(text) for text in texts]))
    note = "Rank, then the mean difference from the best [95 % paired bootstrap interval over seeds]; "
    note += "within: the interval holds 0. Methods that send nothing, or lost a run, do not compete."
    return Grid(["best", "without a server", *ours], rows, note, "problem and budget per node")


def competing(result: ContestResult, limit: Limit) -> dict[str, Cell]:
    """Cells of all methods that send something."""
    groups = limit.log(result.at(limit).rows).groupby("method", sort=False, observed=True)
    return {
        str(method): cell(part, limit.most, result.contest.metric)
        for method, part in groups
        if method not in result.silent
    }


def ranked(found: Mapping[str, Cell], metric: str) -> Ranks:
    """Ranks of the methods without diverged runs."""
    sign = -1.0 if metric in GREATER_IS_BETTER else 1.0
    scores = {
        label: sign * cell.mean
        for label, cell in found.items()
        if not cell.diverged and math.isfinite(cell.mean)
    }
    return {label: 1 + sum(other < score for other in scores.values()) for label, score in scores.items()}


def first(ranks: Ranks) -> list[str]:
    return [label for label, rank in ranks.items() if rank == 1]


def standing(found: Mapping[str, Cell], ranks: Ranks, label: str, metric: str) -> str:
    """One of our methods against the best."""
    if label not in ranks:
        return NOTHING
    rank = f"{ranks[label]}/{len(ranks)}"
    if ranks[label] == 1:
        return f"{rank} best"
    best = found[first(ranks)[0]]
    between = paired_interval(found[label].values, best.values, greater=metric in GREATER_IS_BETTER)
    if math.isnan(between.low):
        return f"{rank} {between.difference:+.3g} (too few seeds)"
    verdict = "within" if between.low <= 0 <= between.high else "behind"
    return f"{rank} {between.difference:+.3g} [{between.low:+.3g}, {between.high:+.3g}] {verdict}"
