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
NEEDS = "a model"
PERCENT = ("accuracy",)  # printed in per cent; more is better


class At(NamedTuple):
    """Where to read a number in a study's logs: at a budget, at a round, or at the end."""

    graph: str
    method: str
    metric: str = "accuracy"
    bits: int | None = None
    round: int | None = None
    config: int = 0


class Mean(NamedTuple):
    """A printed mean ± std."""

    words: str
    mean: float
    std: float
    at: At
    seeds: int = 5

    @property
    def printed(self) -> Printed:
        return Printed(self.mean, self.std, self.seeds)


class Order(NamedTuple):
    """That one number is better than another: more accuracy, less of any other metric."""

    words: str
    paper: str
    better: At
    worse: At


class ModelStudy(NamedTuple):
    """The claims of a table or figure, its configs, and the command that runs them."""

    name: str
    title: str
    labels: tuple[str, ...]
    claimed: str
    configs: tuple[str, ...]
    numbers: tuple[Mean, ...] = ()
    orders: tuple[Order, ...] = ()
    command: str = ""  # if not one that runs configs
    ours: Mapping[str, str] = {}

    def item(self) -> Item:
        configs = tuple(f"model/{name}" for name in self.configs)
        run = f"zocosmo run configs/model/{self.configs[0]}.yaml" if self.configs else ""
        found = partial(find, self, self.command or f"{run} --set problem.model=NAME")
        return Item(
            self.name, self.title, self.labels, self.claimed, found, configs, dict(self.ours), needs=NEEDS
        )


def find(study: ModelStudy, command: str, evidence: Evidence) -> Findings:
    """All claims of a study, with a table if anything was run."""
    if not evidence.logs:
        note = f"run: {command}"
        claims = [unknown(number.words, str(number.printed), note) for number in study.numbers]
        return Findings([*claims, *(unknown(each.words, each.paper, note) for each in study.orders)])
    logs = [evidence.logs[f"model/{name}"] for name in study.configs]
    claims = [_number(number, logs, evidence.model) for number in study.numbers]
    claims += [_order(each, logs) for each in study.orders]
    rows = [(claim.words, claim.paper, ours_text(claim), claim.verdict) for claim in claims]
    columns = ("claim", "paper, Qwen2-7B", f"ours, {evidence.model}", "verdict")
    return Findings(claims, [Table(study.name, study.title, columns, rows)])


def _number(number: Mean, logs: Sequence[Any], model: str) -> Claim:
    if model != QWEN:
        return unknown(number.words, str(number.printed), f"printed for {QWEN}; this is {model}")
    found, lost = values(number.at, logs)
    if not found:
        return unknown(number.words, str(number.printed), _missing(number.at))
    return figure(number.words, number.printed, found, diverged=lost)


def _order(claim: Order, logs: Sequence[Any]) -> Claim:
    better, lost = values(claim.better, logs)
    worse, lost_too = values(claim.worse, logs)
    if not better or not worse:
        return unknown(claim.words, claim.paper, _missing(claim.worse if better else claim.better))
    sign = -1 if claim.better.metric in PERCENT else 1  # for `order`, less is better
    a, b = ({seed: sign * value for seed, value in each.items()} for each in (better, worse))
    return order(claim.words, claim.paper, a, b, diverged=lost + lost_too)


def values(at: At, logs: Sequence[Any]) -> tuple[dict[str, float], int]:
    """Values by seed in the paper's units, and the number of diverged runs; empty if the log has none."""
    log = logs[at.config]
    part = log[(log["graph"] == at.graph) & (log["method"] == at.method)]
    if at.round is not None:
        part = part[part["round"] == at.round]
    if not len(part):
        return {}, 0
    found = cell(part, at.bits, "disagreement" if at.metric == "rms" else at.metric)
    return {seed: _in_units(at.metric, value) for seed, value in found.values.items()}, found.diverged


def _in_units(metric: str, value: float) -> float:
    if metric == "rms":
        return math.sqrt(value / D)
    return 100 * value if metric in PERCENT else value


def _missing(at: At) -> str:
    place = "" if at.round is None else f"round {at.round} of "
    return f"the log has no {place}{at.method} on {at.graph}"
