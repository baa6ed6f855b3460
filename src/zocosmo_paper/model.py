"""Claims about a language model: checked if a model is given, else `not run`.

Printed figures are for Qwen2-7B and are compared with that model only; orderings are checked with any model.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from zocosmo.report.budget import cell
from zocosmo_paper.board import ours_text
from zocosmo_paper.claim import Claim, Printed, figure, order, unknown
from zocosmo_paper.item import Evidence, Findings, Item, Table

QWEN = "Qwen/Qwen2-7B"
D = 2_523_136  # rank 8 on its query and value projections
PERCENT = "accuracy"  # printed in per cent; more is better


class At(NamedTuple):
    """Where to read a number in a study's logs: at a budget, at a round, or at the end."""

    graph: str
    method: str
    metric: str = PERCENT
    bits: int | None = None
    round: int | None = None
    config: int = 0

    def values(self, logs: Sequence[Any]) -> tuple[dict[str, float], int]:
        """Values by seed in the paper's units, and the number of diverged runs; empty if the log has none."""
        log = logs[self.config]
        part = log[(log["graph"] == self.graph) & (log["method"] == self.method)]
        if self.round is not None:
            part = part[part["round"] == self.round]
        if not len(part):
            return {}, 0
        found = cell(part, self.bits, "disagreement" if self.metric == "rms" else self.metric)
        return {seed: self._in_units(value) for seed, value in found.values.items()}, found.diverged

    def _in_units(self, value: float) -> float:
        if self.metric == "rms":
            return math.sqrt(value / D)
        return 100 * value if self.metric == PERCENT else value

    @property
    def missing(self) -> str:
        place = "" if self.round is None else f"round {self.round} of "
        return f"the log has no {place}{self.method} on {self.graph}"


class Mean(NamedTuple):
    """A printed mean ± std."""

    words: str
    mean: float
    std: float
    at: At
    seeds: int = 5

    @property
    def paper(self) -> str:
        return str(self.printed)

    @property
    def printed(self) -> Printed:
        return Printed(self.mean, self.std, self.seeds)

    @property
    def places(self) -> tuple[At, ...]:
        return (self.at,)

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        if model != QWEN:
            return unknown(self.words, self.paper, f"printed for {QWEN}; this is {model}")
        found, lost = self.at.values(logs)
        if not found:
            return unknown(self.words, self.paper, self.at.missing)
        return figure(self.words, self.printed, found, diverged=lost)


class Order(NamedTuple):
    """That one number is better than another: more accuracy, less of any other metric."""

    words: str
    paper: str
    better: At
    worse: At

    @property
    def places(self) -> tuple[At, ...]:
        return self.better, self.worse

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        found = [at.values(logs) for at in self.places]
        for at, (values, _) in zip(self.places, found, strict=True):
            if not values:
                return unknown(self.words, self.paper, at.missing)
        sign = -1 if self.better.metric == PERCENT else 1  # for `order`, less is better
        a, b = ({seed: sign * value for seed, value in values.items()} for values, _ in found)
        return order(self.words, self.paper, a, b, diverged=sum(lost for _, lost in found))


class ModelStudy(NamedTuple):
    """The claims of a table or figure, its configs, and the command that runs them."""

    name: str
    title: str
    labels: tuple[str, ...]
    claimed: str
    claims: tuple[Mean | Order, ...]
    configs: tuple[str, ...] = ()
    ours: Mapping[str, str] = {}
    command: str = ""  # if not one that runs configs

    def item(self) -> Item:
        configs = tuple(f"model/{name}" for name in self.configs)
        command = self.command or f"zocosmo run configs/{configs[0]}.yaml --set problem.model=NAME"
        found = partial(find, self, command)
        return Item(self.name, self.title, self.labels, self.claimed, found, configs, self.ours, "a model")


def find(study: ModelStudy, command: str, evidence: Evidence) -> Findings:
    """All claims of a study, with a table if anything was run."""
    if not evidence.logs:
        return Findings([unknown(each.words, each.paper, f"run: {command}") for each in study.claims])
    logs = list(evidence.logs.values())
    claims = [each.judge(logs, evidence.model) for each in study.claims]
    rows = [(claim.words, claim.paper, ours_text(claim), claim.verdict) for claim in claims]
    columns = ("claim", "paper, Qwen2-7B", f"ours, {evidence.model}", "verdict")
    return Findings(claims, [Table(study.name, study.title, columns, rows)])
