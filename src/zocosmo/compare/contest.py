"""A comparison has one contest per problem: a pilot, choices from it, studies of the chosen settings."""

from collections.abc import Callable, Mapping, Sequence
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

    def pilot(self, seeds: Sequence[Seed]) -> Plan:
        """Every setting of every method."""
        entries = [(c.number, c.entry(s, c.name(s))) for c in self.candidates for s in c.grid]
        return self._plan(entries, seeds, "pilot")

    def final(self, chosen: Sequence[Chosen], seeds: Sequence[Seed]) -> Plan:
        """Each method with its chosen setting, under its own label."""
        kept = [(c.candidate, c.setting) for c in chosen if c.setting is not None]
        return self._plan([(c.number, c.entry(s, c.label)) for c, s in kept], seeds, "final")

    def check_metrics(self, check: Callable[..., Any], plan: Plan) -> None:
        """Refuse metrics unknown to `check`, with their lines in the file."""
        at(self.config, ("problems", self.name, "metric"), check, plan, self.metric)
        at(self.config, ("tune", "by"), check, plan, self.chosen_by)

    def _plan(self, entries: Sequence[tuple[int, dict[str, Any]]], seeds: Sequence[Seed], part: str) -> Plan:
        data = {**self.base, "methods": [entry for _, entry in entries], "seeds": list(seeds)}
        lines = self.config.lines
        sources: dict[Where, Where] = {(key,): (key,) for key in self.base if (key,) in lines}
        sources |= {(key,): (key, self.name) for key in self.base if (key, self.name) in lines}
        sources |= {("problem",): ("problems", self.name), ("graphs", 0): ("graph",)}
        sources |= {("methods", k): ("methods", number) for k, (number, _) in enumerate(entries)}
        return read_plan(Derived(self.config, data, sources), f"{self.title}, {part}")


@dataclass(frozen=True)
class Comparison:
    """What a config file asks for: `pilot_seeds` are for tuning only, `seeds` for results only."""

    name: str
    contests: tuple[Contest, ...]
    seeds: tuple[Seed, ...]
    pilot_seeds: tuple[Seed, ...]
    settings: int


class Limit(NamedTuple):
    """Where methods are compared: at a number of bits or queries per node."""

    what: str
    most: float

    @property
    def name(self) -> str:
        return f"{self.most:,.0f} {self.what}"

    def log(self, rows: "pd.DataFrame") -> "pd.DataFrame":
        """The rows, with the limited quantity in the column `bits`."""
        return rows if self.what == "bits" else rows.assign(bits=rows["queries"] / rows["n"])


def limits(contest: Contest) -> list[Limit]:
    found = [Limit("bits", bits) for bits in contest.budgets]
    return found if contest.queries is None else [*found, Limit("queries", contest.queries)]


def tuned_at(contest: Contest) -> list[Limit]:
    """Where settings are chosen: at the largest budget, and again for equal queries."""
    return limits(contest)[len(contest.budgets) - 1 :]
