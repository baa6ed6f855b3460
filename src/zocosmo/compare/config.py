"""Reads comparisons from YAML; errors name the line, and every pilot is checked before anything runs."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from zocosmo.compare.contest import Candidate, Comparison, Contest
from zocosmo.compare.grid import candidates, check_mu, wrong
from zocosmo.core.tape import Seed
from zocosmo.errors import check_whole
from zocosmo.experiments.config import Config, Where, at, check_fields, check_keys, own_parts, place
from zocosmo.experiments.plan import KEYS as PLAN_KEYS
from zocosmo.experiments.plan import own_wire, spread_seeds

BY_PROBLEM: dict[str, tuple[Any, Any]] = {  # one value for all problems, or a mapping by problem
    "rounds": (int, ...),
    "log_every": (int | None, None),
    "budgets": (list[int], ...),
    "queries": (int | None, None),
    "most_queries": (int | None, None),
    "mu": (float | None, None),
    "growth": (float | None, None),
    "seeds": (list[int | str], ...),
}
AS_IN_PLANS = ("checkpoints", "wire", "dtype", "diverged_above", "guard")
KEYS: dict[str, tuple[Any, Any]] = {
    "problems": (dict[str, dict[str, Any]], ...),
    "graph": (dict[str, Any] | None, None),
    "graphs": (dict[str, dict[str, Any]] | None, None),
    "methods": (list[dict[str, Any]], ...),
    "tune": (dict[str, Any], ...),
    **{key: (Any, default) for key, (_, default) in BY_PROBLEM.items()},
    **{key: PLAN_KEYS[key] for key in AS_IN_PLANS},
}
TUNE_KEYS: dict[str, tuple[Any, Any]] = {
    "seeds": (Any, ...),
    "settings": (int, ...),
    "eta": (Any, ...),
    "by": (str | None, None),  # the metric that chooses; None: the problem's
    "at": (Literal["largest", "each"], "largest"),  # budgets at which settings are chosen
}
MOST_SETTINGS = 10_000


def load_comparison(path: Path, overrides: Sequence[str] | None = None) -> Comparison:
    """Read and check a config file with `overrides` applied."""
    config = Config.load(path)
    for text in overrides or ():
        config.override(text)
    return read_comparison(config, path.stem)


def read_comparison(config: Config, name: str) -> Comparison:
    """The comparison of a config, or a ConfigError with file and line."""
    given = check_keys(config, (), own_parts(config), KEYS)
    top = check_fields(config, (), given, KEYS | own_wire(given))
    for key in ("problems", "methods"):
        if not top[key]:
            raise config.fail((key,), f"{key} is empty; list at least one")
    tune = _tune(config, top["tune"])
    contests = tuple(
        _contest(config, name, top, tune, problem, graph)
        for problem in top["problems"]
        for graph in graph_names(config, top)
    )
    for contest in contests:
        contest.pilot(contest.pilot_seeds)
    return Comparison(name, contests, tune["settings"])


def _tune(config: Config, given: dict[str, Any]) -> dict[str, Any]:
    where: Where = ("tune",)
    tune = check_fields(config, where, check_keys(config, where, given, TUNE_KEYS), TUNE_KEYS)
    at(config, (*where, "settings"), check_whole, "tune.settings", tune["settings"], 1, MOST_SETTINGS)
    return tune


def _seeds(config: Config, where: Where, given: Any, problem: str, names: Sequence[str]) -> list[Seed]:
    """The seeds for one problem, ranges written out."""
    own = by_problem(config, where, given, list[int | str], problem, names)
    if not own:
        raise config.fail(where, f"{place(where)} is empty; list at least one")
    found: list[Seed] = at(config, where, spread_seeds, own)
    return found


def _refuse_shared(config: Config, pilot: Sequence[Seed], seeds: Sequence[Seed]) -> None:
    both = [seed for seed in pilot if str(seed) in set(map(str, seeds))]
    if both:
        reason = f"seed {both[0]!s} is also a seed of the study; tune on others, such as 101, 102"
        raise config.fail(("tune", "seeds"), reason)


def graph_names(config: Config, top: Mapping[str, Any]) -> list[str]:
    """The names of the graphs; one graph has no name."""
    if (top["graph"] is None) == (not top["graphs"]):
        raise config.fail(
            ("graphs",), "give one graph, or graphs by name: graphs: {ring: {kind: ring, n: 8}}"
        )
    if top["graph"] is not None:
        refuse_lists(config, ("graph",), top["graph"])
        return [""]
    for name, spec in top["graphs"].items():
        _check_name(config, ("graphs", name), "graphs", name)
        refuse_lists(config, ("graphs", name), spec)
    return list(top["graphs"])


def _contest(
    config: Config, name: str, top: Mapping[str, Any], tune: dict[str, Any], problem: str, graph: str
) -> Contest:
    where: Where = ("problems", problem)
    names, spec = list(top["problems"]), dict(top["problems"][problem])
    _check_name(config, where, "problems", problem)
    refuse_lists(config, where, spec)
    metric = spec.pop("metric", "objective")
    check_fields(config, where, {"metric": metric}, {"metric": (str, ...)})
    seeds = _seeds(config, ("seeds",), top["seeds"], problem, names)
    pilot = _seeds(config, ("tune", "seeds"), tune["seeds"], problem, names)
    _refuse_shared(config, pilot, seeds)
    keys = [key for key in BY_PROBLEM if key != "seeds"]
    own = {key: by_problem(config, (key,), top[key], BY_PROBLEM[key][0], problem, names) for key in keys}
    _check_limits(config, problem, own)
    budgets, queries, most, mu, growth = (
        own.pop(key) for key in ("budgets", "queries", "most_queries", "mu", "growth")
    )
    etas = by_problem(config, ("tune", "eta"), tune["eta"], list[float], problem, names)
    settings = tune["settings"]
    found = tuple(candidates(config, top["methods"], problem, names, mu=mu, eta=etas, settings=settings))
    _check_labels(config, problem, found)
    given = {key: value for key, value in own.items() if value is not None}
    passed = {key: top[key] for key in AS_IN_PLANS if (key,) in config.lines}
    drawn = top["graphs"][graph] if graph else top["graph"]
    base = {"problem": spec, "graphs": [drawn], "budgets": sorted(set(budgets)), **given, **passed}
    if growth is not None:
        check_growth(config, problem, growth)
        exact = [] if queries is None else [queries // 2]
        base["checkpoints"] = growing(growth, given["rounds"], exact)
    if most is not None:
        base["until"] = {"bits": max(budgets), "queries": queries or 0, "most": most}
    called = f"{problem} on {graph}" if graph else problem
    return Contest(
        name=called,
        metric=metric,
        chosen_by=tune["by"] or metric,
        budgets=tuple(base["budgets"]),
        queries=queries,
        candidates=found,
        config=config,
        base=base,
        title=f"{name}: {called}",
        problem=problem,
        graph=graph,
        most_queries=most,
        each=tune["at"] == "each",
        seeds=tuple(seeds),
        pilot_seeds=tuple(pilot),
    )


def _check_name(config: Config, where: Where, what: str, name: str) -> None:
    if not name or not all(c.isalnum() or c in "-_ " for c in name):
        raise config.fail(where, f"names of {what} may have letters, digits, - and _, got {name!r}")


def _check_limits(config: Config, problem: str, own: Mapping[str, Any]) -> None:
    """Refuse budgets, queries and mu that are missing or no numbers above 0."""
    if not own["budgets"]:
        reason = f"budgets of {problem} are empty; give at least one, in bits per node"
        raise config.fail(("budgets", problem), reason)
    counts = [("budgets", bits) for bits in own["budgets"]]
    for key, number in (*counts, ("queries", own["queries"]), ("most_queries", own["most_queries"])):
        if number is not None:
            at(config, (key, problem), check_whole, f"{key} of {problem}", number, 1)
    most, queries = own["most_queries"], own["queries"] or 0
    if most is not None and most < queries:
        reason = f"most_queries of {problem} = {most} is below its queries = {queries}; raise it"
        raise config.fail(("most_queries", problem), reason)
    if own["mu"] is not None:
        check_mu(config, problem, own["mu"])


def check_growth(config: Config, problem: str, growth: float) -> None:
    """Refuse a growth that is 1 or less, and one beside log_every or checkpoints."""
    if not growth > 1:
        raise config.fail(("growth", problem), f"growth must be above 1, such as 1.02; got {growth}")
    for key in ("log_every", "checkpoints"):
        if (key,) in config.lines:
            raise config.fail(("growth",), f"growth replaces {key}; leave one of them out")


def growing(growth: float, rounds: int, besides: Sequence[int] = ()) -> list[int]:
    """Checkpoints whose distance grows in proportion to the round, from every round on.

    >>> growing(1.5, 20, besides=[8])
    [1, 2, 3, 4, 6, 8, 9, 13, 19, 20]
    """
    found, t = {t for t in besides if 1 <= t <= rounds}, 0
    while t < rounds:
        t = min(max(t + 1, math.floor(t * growth)), rounds)
        found.add(t)
    return sorted(found)


def by_problem(
    config: Config, where: Where, given: Any, kind: Any, problem: str, names: Sequence[str]
) -> Any:
    """The value for one problem: the common one, or its own from a mapping with all problems."""
    if isinstance(given, dict):
        check_keys(config, where, given, names)
        return check_fields(config, where, given, dict.fromkeys(names, (kind, ...)))[problem]
    key = str(where[-1])
    return check_fields(config, where[:-1], {key: given}, {key: (kind, ...)})[key]


def refuse_lists(config: Config, where: Where, given: Mapping[str, Any]) -> None:
    """Refuse lists where a plan would expand them."""
    for key, value in given.items():
        if isinstance(value, list):
            reason = f"is a list, {value}; give one value (a method tunes under tune)"
            raise wrong(config, (*where, key), reason)


def _check_labels(config: Config, problem: str, found: Sequence[Candidate]) -> None:
    seen: set[str] = set()
    for candidate in found:
        if candidate.label in seen:
            reason = f"two methods on {problem} are both called {candidate.label!r}; give one a label"
            raise config.fail(("methods", candidate.number), reason)
        seen.add(candidate.label)
    if not found:
        raise config.fail(("methods",), f"no method is left for {problem}; change only:")
