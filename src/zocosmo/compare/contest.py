"""A comparison has one contest per problem: a pilot, choices from it, studies of the chosen settings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from zocosmo.compare.derived import Derived
from zocosmo.core.tape import Seed
from zocosmo.experiments.config import Config, Where, at
from zocosmo.experiments.plan import Plan, read_plan

if TYPE_CHECKING:
    import pandas as pd

Setting = dict[str, Any]  # tuned values: eta, and what an entry adds


class Candidate(NamedTuple):
    """An entry of `methods`, on one problem."""

    label: str
    kind: str
    number: int  # position of the entry in the file
    fixed: Mapping[str, Any]
    grid: tuple[Setting, ...]
    etas: tuple[float, ...]  # ascending
    family: str = ""  # entries of one family are one line of the picture

    def entry(self, setting: Setting, label: str) -> dict[str, Any]:
        """The entry as written in a plan."""
        return {"kind": self.kind, **self.fixed, **setting, "label": label}

    def name(self, setting: Setting) -> str:
        """A unique label for a setting in the pilot's log."""
        return f"{self.label} {told(setting)}"


class Chosen(NamedTuple):
    """The pilot's choice for one candidate; no setting if all diverged."""

    candidate: Candidate
    setting: Setting | None
    mean: float  # of the metric, over the pilot's seeds
    lost: int  # number of settings that diverged on some seed
    edge: bool  # whether eta is the smallest or the largest tried


def told(given: Mapping[str, Any]) -> str:
    """Parameters on one line.

    >>> told({"eta": 0.1, "decay": {"kind": "drop", "at": 50}})
    'eta=0.1 decay=drop(at=50)'
    """
    return " ".join(f"{key}={_short(value)}" for key, value in given.items())


def _short(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    rest = ", ".join(f"{key}={each}" for key, each in value.items() if key != "kind")
    return f"{value.get('kind', '')}({rest})" if rest else str(value.get("kind", ""))


@dataclass(frozen=True)
class Contest:
    """One problem, and what is compared on it."""

    name: str
    metric: str
    chosen_by: str  # the metric by which the pilot chooses settings
    budgets: tuple[int, ...]  # ascending
    queries: int | None
    candidates: tuple[Candidate, ...]
    config: Config
    base: Mapping[str, Any]  # of both plans, without methods and seeds
    title: str
    problem: str  # its name in the file
    seeds: tuple[Seed, ...]  # for results only
    pilot_seeds: tuple[Seed, ...]  # for tuning only
    graph: str = ""  # its name among several
    most_queries: int | None = None  # a run that has asked so many of each node ends
    each: bool = False  # whether settings are chosen at every limit, or at the largest budget and for queries

    def pilot(self, seeds: Sequence[Seed]) -> Plan:
        """Every setting of every method."""
        entries = [(c.number, c.entry(s, c.name(s))) for c in self.candidates for s in c.grid]
        return self._plan(entries, seeds, "pilot")

    def final(self, chosen: Sequence[Chosen], seeds: Sequence[Seed]) -> Plan:
        """Each method with its chosen setting, under its own label."""
        kept = [(c.candidate, c.setting) for c in chosen if c.setting is not None]
        return self._plan([(c.number, c.entry(s, c.label)) for c, s in kept], seeds, "final")

    def studied(self, choices: Iterable[Sequence[Chosen]], seeds: Sequence[Seed]) -> Plan:
        """Every setting that was chosen at some limit, once, under its name in the pilot."""
        kept = [(c.candidate, c.setting) for chosen in choices for c in chosen if c.setting is not None]
        entries = {c.name(s): (c.number, c.entry(s, c.name(s))) for c, s in kept}
        order = [c.name(s) for c in self.candidates for s in c.grid]
        return self._plan([entries[name] for name in order if name in entries], seeds, "final")

    def check_metrics(self, check: Callable[..., Any], plan: Plan) -> None:
        """Refuse metrics unknown to `check`, with their lines in the file."""
        at(self.config, ("problems", self.problem, "metric"), check, plan, self.metric)
        at(self.config, ("tune", "by"), check, plan, self.chosen_by)

    def _plan(self, entries: Sequence[tuple[int, dict[str, Any]]], seeds: Sequence[Seed], part: str) -> Plan:
        data = {**self.base, "methods": [entry for _, entry in entries], "seeds": list(seeds)}
        lines = self.config.lines
        sources: dict[Where, Where] = {(key,): (key,) for key in self.base if (key,) in lines}
        sources |= {(key,): (key, self.problem) for key in self.base if (key, self.problem) in lines}
        graph: Where = ("graphs", self.graph) if self.graph else ("graph",)
        sources |= {("problem",): ("problems", self.problem), ("graphs", 0): graph}
        sources |= {("methods", k): ("methods", number) for k, (number, _) in enumerate(entries)}
        return read_plan(Derived(self.config, data, sources), f"{self.title}, {part}")


@dataclass(frozen=True)
class Comparison:
    """What a config file asks for."""

    name: str
    contests: tuple[Contest, ...]
    settings: int

    @property
    def pilot_seeds(self) -> tuple[Seed, ...]:
        """Those of the first problem."""
        return self.contests[0].pilot_seeds


class Limit(NamedTuple):
    """Where methods are compared: at a number of bits or queries per node.

    With `within`, runs are read where they have asked no more than so many queries either.
    """

    what: str
    most: float
    within: float | None = None

    @property
    def name(self) -> str:
        beside = "" if self.within is None else f" within {self.within:,.0f} queries"
        return f"{self.most:,.0f} {self.what}{beside}"

    def log(self, rows: "pd.DataFrame") -> "pd.DataFrame":
        """The rows that may be read, with the limited quantity in the column `bits`."""
        if self.what == "queries":
            return rows.assign(bits=rows["queries"] / rows["n"])
        return rows if self.within is None else rows[rows["queries"] <= self.within * rows["n"]]


def limits(contest: Contest) -> list[Limit]:
    """Bits, then queries."""
    found = [Limit("bits", bits) for bits in contest.budgets]
    return found if contest.queries is None else [*found, Limit("queries", contest.queries)]


def joint_limits(contest: Contest) -> list[Limit]:
    """Bits within the limit of queries, where runs may ask more than that."""
    if contest.queries is None or contest.most_queries is None:
        return []
    return [Limit("bits", bits, contest.queries) for bits in contest.budgets]


def tuned_at(contest: Contest) -> dict[str, Limit]:
    """Where settings are chosen, by name: at every limit, or at the largest budget and for queries."""
    if contest.each:
        return {limit.name: limit for limit in [*limits(contest), *joint_limits(contest)]}
    return {limit.what: limit for limit in limits(contest)[len(contest.budgets) - 1 :]}
