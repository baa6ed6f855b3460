"""All methods at each limit: ranks, intervals against the best, what was spent, and who wins."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from zocosmo.compare.contest import Chosen, Limit, joint_limits, limits, told
from zocosmo.compare.standing import Standing
from zocosmo.compare.tables import DIGITS, OURS, START, ContestResult, completed, counted, plain_std, word
from zocosmo.compare.winners import Ranks, first, ranked
from zocosmo.methods import METHODS
from zocosmo.report.budget import GREATER_IS_BETTER, Cell, cell, selected
from zocosmo.report.stats import paired_interval
from zocosmo.report.tables import NOTHING, Digits, Grid, GridEntry, rounded

if TYPE_CHECKING:
    import pandas as pd

Standings = list[tuple[Limit, list[Standing]]]


def all_standings(result: ContestResult) -> Standings:
    """The methods at every limit of a problem, the best first, those without a rank last."""
    among = [*limits(result.contest), *joint_limits(result.contest)]
    return [(limit, sorted(standings(result, limit), key=_order)) for limit in among]


def _order(each: Standing) -> tuple[bool, int]:
    return each.rank is None, each.rank or 0


def standings(result: ContestResult, limit: Limit) -> Iterator[Standing]:
    """The methods at one limit, in the order of the file; those without a setting are left out."""
    final, metric = result.at(limit), result.contest.metric
    groups = limit.log(final.rows).groupby("method", sort=False, observed=True)
    parts = {str(method): part for method, part in groups}
    found = {method: cell(part, limit.most, metric) for method, part in parts.items()}
    ranks = ranked({k: v for k, v in found.items() if k not in result.silent}, metric)
    for chosen in final.chosen:
        label = chosen.candidate.label
        if label in found and found[label].rounds is not None:
            yield _standing(result, limit, chosen, parts[label], found, ranks)


def _standing(
    result: ContestResult,
    limit: Limit,
    chosen: Chosen,
    part: "pd.DataFrame",
    found: Mapping[str, Cell],
    ranks: Ranks,
) -> Standing:
    metric, (label, kind, *_) = result.contest.metric, chosen.candidate
    here, rank = found[label], ranks.get(label)
    against = None
    if rank is not None and rank > 1:
        best = found[first(ranks)[0]]
        against = paired_interval(here.values, best.values, greater=metric in GREATER_IS_BETTER)
    return Standing(
        problem=result.contest.name,
        metric=metric,
        limit=limit,
        method=label,
        family=chosen.candidate.family or label,
        ours=kind in OURS,
        server=METHODS[kind].server,
        setting=told(chosen.setting or {}),
        pilot=chosen.mean,
        mean=here.mean,
        std=here.std,
        diverged=here.diverged,
        ended=bool(here.ended),
        rank=rank,
        against=against,
        rounds=here.rounds or (0, 0),
        **spent(part, limit.most, result.batch),
    )


def spent(part: "pd.DataFrame", most: float, batch: int | None) -> dict[str, Any]:
    """Bits, queries and examples per node behind a cell, means over its runs.

    A log without the column `examples` has as many for each query as the problem's batch.
    """
    rows = [row for _, row in selected(part, most) if not row["diverged"]]
    queries = sum(row["queries"] / row["n"] for row in rows) / len(rows)
    bits = sum((row["value_bits"] + row["index_bits"] + row["control_bits"]) / row["n"] for row in rows)
    examples = None if batch is None else queries * batch
    if "examples" in part.columns:
        examples = sum(row["examples"] / row["n"] for row in rows) / len(rows)
    return {"bits": bits / len(rows), "queries": queries, "examples": examples}


def standing_row(each: Standing) -> dict[str, Any]:
    """One row of budgets.csv."""
    low_high = (None, None, None) if each.against is None else each.against[:3]
    named = dict(zip(("minus_best", "low", "high"), low_high, strict=True))
    limit = {"equal": each.limit.what, "most": each.limit.most, "within": each.limit.within}
    least, most = each.rounds
    rest = {k: v for k, v in each._asdict().items() if k not in ("limit", "against", "rounds")}
    return {**limit, **rest, **named, "verdict": each.word, "rounds_min": least, "rounds_max": most}


def standings_grid(found: Sequence[Standing]) -> Grid:
    """The methods at one limit."""
    with_examples = any(each.examples is not None for each in found)
    header = ["mean ± std", "minus the best's [95 %]", "", "rounds", "bits", "queries"]
    header += ["examples"] * with_examples
    rows = []
    for each in found:
        counts = [counted(each.bits), counted(each.queries)]
        counts += [NOTHING if each.examples is None else counted(each.examples)] * with_examples
        about = {"seeds": 1, "rounds_min": each.rounds[0], "rounds_max": each.rounds[1]}
        texts = [difference(each), each.word, completed(about), *counts]
        rows.append((f"{each.rank or NOTHING} {each.method}", [value(each), *map(word, texts)]))
    metric = found[0].metric
    better = "greater is better" if metric in GREATER_IS_BETTER else "less is better"
    note = (
        f"{found[0].problem}, {found[0].limit.name} per node: {metric}, {better}; settings as chosen there. "
    )
    note += (
        "Paired bootstrap intervals over seeds; within: the interval holds 0. Bits, queries and examples are "
    )
    note += f"those spent per node. {START} not one round fits: the start."
    return Grid(header, rows, note, "rank and method")


def value(each: Standing) -> GridEntry:
    notes = "†" * each.ended + START * each.at_start + f" ({each.diverged} diverged)" * bool(each.diverged)
    return GridEntry(
        rounded(each.mean, plain_std(each.mean, each.std), DIGITS), each.rank == 1, notes.strip()
    )


def difference(each: Standing) -> str:
    if each.against is None:
        return NOTHING
    return f"{each.against.difference:+.3g} [{each.against.low:+.3g}, {each.against.high:+.3g}]"


def best_of(found: Sequence[Standing]) -> Standing | None:
    return next((each for each in found if each.rank == 1), None)


def foremost(found: Iterable[Standing]) -> Standing | None:
    """The one with the best pilot mean, so that no choice is made on the study's seeds."""
    fine = [each for each in found if each.rank is not None]
    if not fine:
        return None
    sign = -1.0 if fine[0].metric in GREATER_IS_BETTER else 1.0
    return min(fine, key=lambda each: sign * each.pilot)


def ours_of(found: Sequence[Standing]) -> Standing | None:
    """Ours, the one that the pilot prefers."""
    return foremost(each for each in found if each.ours)


def verdicts_grid(results: Sequence[ContestResult]) -> Grid:
    """One row per problem and limit: the best, the best without a server, and ours against the best."""
    rows = []
    for result in results:
        for limit, found in result.standings:
            best, ours = best_of(found), ours_of(found)
            free = next((each for each in found if each.rank is not None and not each.server), None)
            texts = [named(best), named(free), named(ours)]
            texts += [NOTHING, NOTHING] if ours is None else [difference(ours), ours.word]
            rows.append((f"{result.contest.name}, {limit.name}", [word(text) for text in texts]))
    note = (
        "Ours: the entry that the pilot prefers there. Mean difference from the best [95 % paired bootstrap "
        "interval over seeds]; within: the interval holds 0. Methods that send nothing, or lost a run, do "
        "not compete."
    )
    header = ["best", "without a server", "ours", "minus the best's", ""]
    return Grid(header, rows, note, "problem and budget per node")


def named(each: Standing | None) -> str:
    return NOTHING if each is None else f"{each.method} {each.mean:.3g}"


def summary_grid(results: Sequence[ContestResult]) -> Grid:
    """All of it on one screen: a row per problem, one more within the queries, a column per limit."""
    among = dict.fromkeys(limit for r in results for limit, _ in r.standings if limit.within is None)
    columns = sorted(among, key=lambda limit: (limit.what != "bits", limit.most))
    rows = []
    for result in results:
        found = dict(result.standings)
        rows.append((result.contest.name, [winner(found.get(limit, [])) for limit in columns]))
        if joint := [limit for limit in found if limit.within is not None]:
            inside = [limit._replace(within=joint[0].within) for limit in columns]
            name = f"{result.contest.name}, ≤ {joint[0].within:,.0f} queries"
            rows.append((name, [winner(found.get(limit, [])) for limit in inside]))
    note = "Who wins. Bold: one of ours. In brackets, where it is another: the one of ours that the pilot "
    note += "preferred, inside or outside the winner's 95 % paired interval. Every method with the best of "
    note += "its settings on pilot seeds, chosen anew in each cell, at the last checkpoint within the limit."
    return Grid([limit.name for limit in columns], rows, note, "problem")


def winner(found: Sequence[Standing]) -> GridEntry:
    best, ours = best_of(found), ours_of(found)
    if best is None:
        return word(NOTHING)
    if ours is None:
        return word(named(best))
    where = {"within": ", inside", "behind": ", outside"}.get(ours.word, "")
    other = "" if ours.word == "best" else f"({named(ours)}{where})"
    return GridEntry(Digits(named(best), "", 0), best.ours, other)


def sentences(result: ContestResult) -> Iterator[str]:
    """Who wins, and whether ours is inside the best's interval: a line for bits, one within the queries."""
    kinds = {
        "": [s for s in result.standings if s[0].what == "bits" and s[0].within is None],
        f" within {result.contest.queries or 0:,} queries": [s for s in result.standings if s[0].within],
        " at equal queries": [s for s in result.standings if s[0].what == "queries"],
    }
    for kind, found in kinds.items():
        if found:
            yield f"{result.contest.name}{kind}: {'; '.join(clauses(found))}."


def clauses(found: Standings) -> Iterator[str]:
    """The limits with one verdict and one winner, together."""
    groups: dict[str, list[Limit]] = {}
    for limit, some in found:
        best, ours = best_of(some), ours_of(some)
        if best is None:
            says = "nobody came through"
        elif ours is None:
            says = f"{best.method} wins and ours has no result"
        elif ours.word == "best":
            says = f"ours wins ({ours.method})"
        else:
            where = {"within": "inside", "behind": "outside"}.get(ours.word, "without an interval for")
            says = f"{best.method} wins and ours ({ours.method}) is {where} its interval"
            if best.ours:
                says = f"ours wins ({best.method}; the pilot preferred {ours.method}, {where} its interval)"
        groups.setdefault(says, []).append(limit)
    for says, some_limits in groups.items():
        numbers = [f"{limit.most:,.0f}" for limit in some_limits]
        yield f"{says} at {', '.join(numbers)} {some_limits[0].what}"
