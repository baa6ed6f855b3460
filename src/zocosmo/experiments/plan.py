"""Plans: a config file read into trials, each method × graph × seed, and checked before any work starts."""

import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from zocosmo.core.tape import Seed
from zocosmo.core.wires import WIRES, check_wire
from zocosmo.entries import Table
from zocosmo.errors import InputError, among, check_whole
from zocosmo.experiments.config import Config, Where, at, check_fields, check_keys, choices, own_parts
from zocosmo.experiments.labels import described, labels_of
from zocosmo.experiments.losses import check_losses, check_lost_peer, read_lost
from zocosmo.experiments.subspace import SUBSPACE, SUBSPACE_SIZE, read_sizes
from zocosmo.experiments.until import Until
from zocosmo.graphs.graph import GRAPHS, Graph, by_edges
from zocosmo.graphs.listed import KEYS as LISTED_KEYS
from zocosmo.graphs.listed import Listing, settle
from zocosmo.graphs.matching import SCHEDULES
from zocosmo.log import fingerprint
from zocosmo.methods import DECAYS, METHODS, Method, World
from zocosmo.methods.base import SPELT, as_fields
from zocosmo.oracle import Problem
from zocosmo.problems import PROBLEMS
from zocosmo.problems.subspace import in_subspace
from zocosmo.rounds.guard import Guard
from zocosmo.sim.engine import Run
from zocosmo.terms.events import Record
from zocosmo.traffic import Link

MOST_SEEDS = 100_000  # in one range
MOST_NODES = 100_000
LARGE, MOST_BUILT = 2**16, 4096  # problems with more numbers in their states are not cached; cache size

OWN_GRAPHS = Table({**GRAPHS, "edges": by_edges}, GRAPHS.group, GRAPHS.check)

Spec = tuple[tuple[str, Any], ...]  # a mapping as a hashable key
Fields = dict[str, tuple[Any, Any]]  # name → type and default; ... where it is required

_built: dict[tuple[Spec, int, Seed], Problem] = {}

DECAY: Fields = {"decay": (dict[str, Any], {"kind": "constant"})}
KEYS = {
    "problem": (dict[str, Any], ...),
    "graphs": (list[dict[str, Any]], ...),
    "methods": (list[dict[str, Any]], ...),
    "seeds": (list[int | str], ...),
    "rounds": (int, ...),
    "budgets": (list[int], []),
    "log_every": (int | None, None),
    "checkpoints": (list[int], []),
    "wire": (Literal[tuple(WIRES)], "nominal_f32"),
    "dtype": (Literal["float64", "float32"], "float64"),
    "diverged_above": (float, 1e12),
    "guard": (dict[str, float] | None, None),
    "until": (dict[str, int] | None, None),
    "on_lost_peer": (str, "stop"),
    "lost": (list[list[int]], []),
}


@dataclass(frozen=True)
class Trial:
    """One method × problem × graph × seed, as plain data; `run` builds it."""

    number: int
    problem: Spec
    graph: Spec
    method: Method
    seed: Seed
    labels: tuple[str, str, str]  # problem, graph, method

    @property
    def path(self) -> tuple[Any, ...]:
        """What decides a trajectory: all of a trial but its codec."""
        return self.problem, self.graph, dataclasses.replace(self.method, codec=""), self.seed

    def graph_of(self) -> Graph:
        return build_graph(self.graph, self.seed)

    def run(self) -> Run:
        graph, schedule = self.graph_of(), dict(self.graph)["schedule"]
        return Run(self.method, graph, build_problem(self.problem, graph.n, self.seed), self.seed, schedule)


@dataclass(frozen=True)
class Plan:
    """What a config file asks for."""

    name: str
    trials: tuple[Trial, ...]
    rounds: int
    log_every: int
    checkpoints: tuple[int, ...]  # rounds to measure after, in place of every `log_every`
    budgets: tuple[int, ...]
    wire: str
    dtype: str
    diverged_above: float
    guard: Guard | None
    until: Until | None  # where runs of the simulator end early
    lost: Mapping[int, Sequence[Link]]  # by round: messages, sender and receiver, that do not arrive
    config: Mapping[str, Any]  # resolved: what goes into the header of the log
    record: Record | None = None  # of a network that ran this plan, to be replayed

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.config)

    @property
    def last(self) -> int:
        """The round of the last checkpoint; later rounds are not run."""
        return self.due[-1]

    @cached_property
    def due(self) -> Sequence[int]:
        """Rounds after which everything is measured, the start included."""
        return (0, *self.checkpoints) if self.checkpoints else range(0, self.rounds + 1, self.log_every)

    @property
    def node_rounds(self) -> int:
        """Rounds of all nodes in all trials: the whole that progress is measured against."""
        return self.last * sum(int(dict(trial.graph)["n"]) for trial in self.trials)

    def is_due(self, t: int) -> bool:
        return t in self.due


def load_plan(
    path: Path, seeds: Sequence[Seed] | None = None, overrides: Sequence[str] | None = None
) -> Plan:
    """Read and check a config file. `seeds` replace its own; each of `overrides` is a change such as
    problem.model=smollm2."""
    config = Config.load(path)
    for text in overrides or ():
        config.override(text)
    return read_plan(config, path.stem, seeds)


def read_plan(config: Config, name: str, seeds: Sequence[Seed] | None = None) -> Plan:
    """The plan of a config, or a ConfigError with file and line."""
    given = check_keys(config, (), own_parts(config), KEYS)
    top = check_fields(config, (), given, KEYS | own_wire(given))
    top["seeds"] = list(top["seeds"] if seeds is None else seeds)
    _check_top(config, top)
    settled = {key: top[key] for key in ("rounds", "log_every", "wire", "dtype", "diverged_above")}
    check_lost_peer(config, top.pop("on_lost_peer"))
    settled["lost"] = read_lost(config, top["lost"])
    if not settled["lost"]:
        del top["lost"]
    settled["checkpoints"] = tuple(top["checkpoints"])
    del top["log_every" if settled["checkpoints"] else "checkpoints"]  # the log keeps the one in use
    for key, kind in (("guard", Guard), ("until", Until)):
        settled[key] = _optional(config, top, key, kind)
    trials = tuple(_trials(config, top))
    if settled["lost"]:
        for method in {trial.method for trial in trials}:
            check_losses(config, method, settled)
    return Plan(name=name, trials=trials, budgets=tuple(top["budgets"]), config=top, **settled)


def own_wire(given: Mapping[str, Any]) -> Fields:
    """The field of a wire that is not built in: any name that can be found."""
    name = given.get("wire")
    return {"wire": (str, ...)} if isinstance(name, str) and name not in list(WIRES) and name in WIRES else {}


def _optional(config: Config, top: dict[str, Any], key: str, kind: Callable[..., Any]) -> Any:
    """What a mapping describes, or None where there is none; the log keeps it only if it is given."""
    given = top.pop(key)
    if given is None:
        return None
    parameters = _parameters(kind)
    check_keys(config, (key,), given, parameters)
    found = at(config, (key,), kind, **check_fields(config, (key,), given, parameters))
    top[key] = dataclasses.asdict(found)
    return found


def _check_top(config: Config, top: dict[str, Any]) -> None:
    """Checks beyond types."""
    for key in ("graphs", "methods", "seeds"):
        if not top[key]:
            raise config.fail((key,), f"{key} is empty; list at least one")
    top["seeds"] = at(config, ("seeds",), spread_seeds, top["seeds"])
    at(config, ("rounds",), check_whole, "rounds", top["rounds"], 1)
    if top["checkpoints"]:
        _check_checkpoints(config, top)
    if top["log_every"] is None:
        top["log_every"] = min(10, top["rounds"])
    at(config, ("log_every",), check_whole, "log_every", top["log_every"], 1, top["rounds"])
    at(config, ("budgets",), check_whole, "a budget in bits", min(top["budgets"], default=0))
    if not top["diverged_above"] > 0:
        raise config.fail(("diverged_above",), f"diverged_above must be above 0, got {top['diverged_above']}")
    at(config, ("wire",), check_wire, top["wire"], top["dtype"])


def _check_checkpoints(config: Config, top: dict[str, Any]) -> None:
    given, rounds = top["checkpoints"], top["rounds"]
    if top["log_every"] is not None:
        raise config.fail(("checkpoints",), "checkpoints replace log_every; leave one of them out")
    if given[0] < 1 or given[-1] > rounds or any(b <= a for a, b in itertools.pairwise(given)):
        raise config.fail(("checkpoints",), f"checkpoints ascend from 1 to rounds = {rounds}, got {given}")


def spread_seeds(given: Sequence[Seed]) -> list[Seed]:
    """A list of seeds in which ranges such as 1-40 are written out.

    >>> spread_seeds([7, "1-3"])
    [7, 1, 2, 3]
    """
    out: list[Seed] = []
    for seed in given:
        span = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", seed) if isinstance(seed, str) else None
        if span is None:
            out.append(seed)
            continue
        first, last = int(span[1]), int(span[2])
        if not first <= last < first + MOST_SEEDS:
            raise InputError(f"seeds {span[0]} must ascend and span at most {MOST_SEEDS:,}")
        out += range(first, last + 1)
    if len(set(map(str, out))) != len(out):
        raise InputError("seeds must differ from each other")
    return out


def _trials(config: Config, top: Mapping[str, Any]) -> Iterator[Trial]:
    """All combinations, in the order of the file; each is built once to check it."""
    graphs = [spec for k, each in enumerate(top["graphs"]) for spec in _graphs(config, ("graphs", k), each)]
    methods = [
        each for k, given in enumerate(top["methods"]) for each in _methods(config, ("methods", k), given)
    ]
    settings = [
        (where, method, problem, named)
        for where, method, changes, named in methods
        for problem in _problems(config, (*where, "problem"), top["problem"], changes)
    ]
    graph_names = labels_of([dict(spec) for _, spec in graphs])
    problem_names = labels_of([dict(problem) for _, _, problem, _ in settings])
    method_names = labels_of([described(method) for _, method, _, _ in settings])
    names = [
        (problem_name, named or method_name)
        for (*_, named), problem_name, method_name in zip(settings, problem_names, method_names, strict=True)
    ]
    _check_apart(config, [where for where, *_ in settings], names)
    _check_apart(config, [where for where, _ in graphs], graph_names)
    number, large = 0, dict[tuple[Spec, int], Problem]()  # large problems are built once
    admitted: set[tuple[Spec, int]] = set()
    for (where, method, problem, _), (problem_name, method_name) in zip(settings, names, strict=True):
        for (graph_where, spec), graph_name in zip(graphs, graph_names, strict=True):
            for seed in top["seeds"]:
                trial = Trial(number, problem, spec, method, seed, (problem_name, graph_name, method_name))
                graph = at(config, graph_where, trial.graph_of)
                key = problem, graph.n
                built = large.get(key) or at(config, ("problem",), build_problem, *key, seed)
                if key not in admitted:
                    _admit(config, built, [each for each in settings if each[2] == problem])
                    admitted.add(key)
                if graph.n * built.size > LARGE:
                    large[key] = built
                schedule = at(config, (*graph_where, "schedule"), settle, graph, dict(spec)["schedule"])
                at(config, where, method.check, World(graph, built.d, schedule))
                at(config, where, method.wire_for, top["wire"], top["dtype"])
                number += 1
                yield trial


def _admit(config: Config, problem: Problem, settings: Sequence[tuple[Where, Method, Spec, str]]) -> None:
    """Refuse methods whose queries a problem cannot answer."""
    for where, method, *_ in settings:
        at(config, where, problem.admit, method)


def _check_apart(config: Config, places: Sequence[Where], names: Sequence[Any]) -> None:
    """Refuse two entries of one name: a table would merge their rows."""
    seen: dict[Any, Where] = {}
    for where, name in zip(places, names, strict=True):
        if name in seen:
            shown = name if isinstance(name, str) else name[-1]
            raise config.fail(where, f"two entries are called {shown!r}; change one or give it a label")
        seen[name] = where


def _graphs(config: Config, where: Where, given: Any) -> Iterator[tuple[Where, Spec]]:
    by_name: Fields = {"schedule": (Literal[("auto", *SCHEDULES)], "auto")}
    builder, fields = _pick(config, where, given, "graph", OWN_GRAPHS, by_name)
    if "seed" in fields:
        fields["seed"] = (int | str | None, None)  # None: a graph for each seed of the study
    for chosen in choices(config, where, given):
        named: Fields = {}
        if isinstance(chosen.get("schedule"), dict):  # listed: {matchings: […], weights: […]}
            listed, place = chosen.pop("schedule"), (*where, "schedule")
            check_keys(config, place, listed, LISTED_KEYS)
            named["schedule"] = Listing, at(config, place, Listing.read, listed)
        spec = check_fields(config, where, chosen, {**fields, **named})
        if builder is by_edges:
            spec["n"] = at(config, where, by_edges, spec["edges"], spec["n"]).n
        at(config, (*where, "n"), check_whole, "n", spec["n"], 1, MOST_NODES)
        yield where, tuple(spec.items())


def graph_entry(spec: Spec) -> dict[str, Any]:
    """The graph of a trial as a config entry."""
    entry = dict(spec)
    if isinstance(entry["schedule"], Listing):
        entry["schedule"] = entry["schedule"].plain()
    return entry


def _problems(config: Config, where: Where, given: dict[str, Any], changes: dict[str, Any]) -> Iterator[Spec]:
    """The study's problem with the changes of one method, written at `where`."""
    _, fields = _pick(config, ("problem",), given, "problem", PROBLEMS, SUBSPACE)
    check_keys(config, where, changes, fields)
    del fields["subspace"]
    if changes.get("kind", given["kind"]) != given["kind"]:
        raise config.fail((*where, "kind"), "a method may change parameters of the problem, not its kind")
    where = where if changes else ("problem",)
    for chosen in choices(config, where, {**given, **changes}):
        sizes = list(read_sizes(config, (*where, "subspace"), chosen.pop("subspace", None)))
        spec = tuple(check_fields(config, where, chosen, fields).items())
        yield from (spec if size is None else (*spec, (SUBSPACE_SIZE, size)) for size in sizes)


def _methods(config: Config, where: Where, given: Any) -> Iterator[tuple[Where, Method, dict[str, Any], str]]:
    more = {**DECAY, "label": (str, ""), "problem": (dict[str, Any], {})}
    kind, fields = _pick(config, where, given, "method", METHODS, more)
    for chosen in choices(config, where, given):
        checked = check_fields(config, where, chosen, fields)
        checked["decay"] = _decay(config, (*where, "decay"), checked["decay"])
        named, changes, codec, _ = (checked.pop(key) for key in ("label", "problem", "codec", "kind"))
        checked["codec"] = "" if codec == "all" else codec
        method = at(config, where, kind, **as_fields(checked))
        for each in method.codecs if codec == "all" else (method.codec,):
            yield where, dataclasses.replace(method, codec=each), changes, named


def method_fields(kind: type[Method]) -> Fields:
    """Parameters of a method: name → type and default."""
    return _parameters(kind) | DECAY


def _decay(config: Config, where: Where, given: dict[str, Any]) -> Any:
    kind, fields = _pick(config, where, given, "decay", DECAYS)
    checked = check_fields(config, where, given, fields)
    del checked["kind"]
    return at(config, where, kind, **checked)


def _pick(
    config: Config, where: Where, given: Any, what: str, table: Mapping[str, Any], more: Fields | None = None
) -> tuple[Any, Fields]:
    """The entry of the table that a mapping selects by its `kind`, and the only fields that it may set:
    the parameters of that entry, and `more`."""
    if not isinstance(given, dict) or "kind" not in given:
        raise config.fail(where, f"a {what} is a mapping with a kind: {', '.join(table)}; got {given!r}")
    kind = given["kind"]
    if not isinstance(kind, str) or kind not in table:
        raise config.fail((*where, "kind"), f"unknown {what} {kind!r}; choose from {among(kind, table)}")
    builder = at(config, (*where, "kind"), table.__getitem__, kind)
    fields = {**_parameters(builder), "kind": (str, ...), **(more or {})}
    check_keys(config, where, given, fields)
    return builder, fields


def _parameters(builder: Callable[..., Any]) -> Fields:
    """Parameters that a config may set: name → type and default. `n` and `seed` of a problem are not set."""
    hidden = ("n", "seed") if builder in PROBLEMS.values() else ()
    given = [p for p in inspect.signature(builder, eval_str=True).parameters.values() if p.name not in hidden]
    return {
        SPELT.get(p.name, p.name): (
            Any if p.annotation is p.empty else p.annotation,
            ... if p.default is p.empty else p.default,
        )
        for p in given
    }


@lru_cache(maxsize=4096)
def build_graph(spec: Spec, seed: Seed) -> Graph:
    """The graph of a trial; a random graph without a seed takes the trial's."""
    options = dict(spec)
    kind, _ = options.pop("kind"), options.pop("schedule")
    if "seed" in options and options["seed"] is None:
        options["seed"] = seed
    return OWN_GRAPHS[kind](**options)


def build_problem(spec: Spec, n: int, seed: Seed) -> Problem:
    """The problem of a trial: trials with the same seed get the same data. Small problems are cached."""
    key = spec, n, seed
    if key not in _built:
        options = dict(spec)
        size: int | None = options.pop(SUBSPACE_SIZE, None)
        problem: Problem = PROBLEMS[options.pop("kind")](n, seed, **options)
        if size is not None:
            problem = in_subspace(problem, size, seed)
        if n * problem.size > LARGE:
            return problem
        if len(_built) >= MOST_BUILT:
            _built.clear()
        _built[key] = problem
    return _built[key]
