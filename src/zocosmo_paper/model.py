"""Claims about a language model: checked if a model is given, else `not run`.

Printed figures are for Qwen2-7B and are compared with that model only; orderings are checked with any model.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from zocosmo.report.budget import cell
from zocosmo.report.curves import figure as draw_curves
from zocosmo.report.stats import paired_interval
from zocosmo_paper.another import another_model
from zocosmo_paper.board import ours_text
from zocosmo_paper.claim import (
    CHECK,
    FIGURE,
    NO,
    RELATION,
    WITHIN,
    Claim,
    Printed,
    decimals,
    differences,
    figure,
    order,
    relation,
    together,
    unknown,
)
from zocosmo_paper.item import Evidence, Findings, Item, Picture, Table

QWEN = "Qwen/Qwen2-7B"
D = 2_523_136  # rank 8 on its query and value projections
PERCENT = "accuracy"  # printed in per cent; more is better
OURS = {  # of every study
    "loss of the queries": "over the vocabulary: the printed ones are too large for a choice of two labels",
    "seeds, prompts, start of the adapters": "ours, since none is printed",
}


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
    """A printed mean ± std. `again` says where it is counted, if it is printed twice."""

    words: str
    mean: float
    std: float
    at: At
    seeds: int = 5
    again: str = ""

    @property
    def kind(self) -> str:
        return CHECK if self.again else FIGURE

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


class Span(NamedTuple):
    """A mean between two printed ends, which several settings share; `within` if it rounds to one between."""

    words: str
    low: str  # as printed
    high: str
    at: At

    @property
    def kind(self) -> str:
        return FIGURE

    @property
    def paper(self) -> str:
        return f"{self.low}–{self.high}"

    @property
    def places(self) -> tuple[At, ...]:
        return (self.at,)

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        if model != QWEN:
            return unknown(self.words, self.paper, f"printed for {QWEN}; this is {model}")
        found, lost = self.at.values(logs)
        if not found:
            return unknown(self.words, self.paper, self.at.missing)
        ends = float(self.low), float(self.high)
        claim = figure(self.words, Printed(ends[0]), found, diverged=lost)
        fits = ends[0] <= round(claim.ours, decimals(*ends)) <= ends[1]
        return claim._replace(paper=self.paper, verdict=WITHIN if fits else NO, tolerance=math.nan)


class Gap(NamedTuple):
    """A printed mean difference, paired by seed, with its interval if one is printed.

    `within` if ours lies in the printed interval; without one, up to 2 standard errors of ours apart.
    """

    words: str
    mean: float
    low: float
    high: float
    more: At
    less: At

    @property
    def kind(self) -> str:
        return FIGURE

    @property
    def paper(self) -> str:
        places = max(2, decimals(self.mean, self.low, self.high))  # points have two
        ends = "" if math.isnan(self.low) else f" [{self.low:.{places}f}, {self.high:.{places}f}]"
        return f"{self.mean:+.{places}f}{ends}".replace("-", "−")

    @property
    def places(self) -> tuple[At, ...]:
        return self.more, self.less

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        if model != QWEN:
            return unknown(self.words, self.paper, f"printed for {QWEN}; this is {model}")
        (more, _), (less, _) = found = [at.values(logs) for at in self.places]
        for at, (values, _) in zip(self.places, found, strict=True):
            if not values:
                return unknown(self.words, self.paper, at.missing)
        claim = figure(self.words, Printed(self.mean), differences(more, less))
        span = paired_interval(more, less)
        claim = claim._replace(paper=self.paper, low=span.low, high=span.high)
        if math.isnan(self.low):
            return claim
        return claim._replace(verdict=WITHIN if self.low <= claim.ours <= self.high else NO)


class Open(NamedTuple):
    """That the paired interval of a difference contains 0, with any model."""

    words: str
    paper: str
    one: At
    other: At

    @property
    def kind(self) -> str:
        return RELATION

    @property
    def places(self) -> tuple[At, ...]:
        return self.one, self.other

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        (one, _), (other, _) = (at.values(logs) for at in self.places)
        if not one or not other:
            missing = (self.other if one else self.one).missing
            return unknown(self.words, self.paper, missing, RELATION)
        at = paired_interval(one, other)
        verdict = WITHIN if at.low <= 0 <= at.high else NO
        claim = Claim(
            self.words, self.paper, at.difference, verdict, seeds=at.pairs, low=at.low, high=at.high
        )
        return relation(claim)


class Same(NamedTuple):
    """That two numbers are equal in every seed, with any model."""

    words: str
    paper: str
    one: At
    other: At

    @property
    def kind(self) -> str:
        return RELATION

    @property
    def places(self) -> tuple[At, ...]:
        return self.one, self.other

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        (one, _), (other, _) = (at.values(logs) for at in self.places)
        if not one or not other:
            missing = (self.other if one else self.one).missing
            return unknown(self.words, self.paper, missing, RELATION)
        off = max(map(abs, differences(one, other).values()), default=math.nan)
        return relation(Claim(self.words, self.paper, off, WITHIN if off == 0 else NO, seeds=len(one)))


class Order(NamedTuple):
    """That one number is better than another: more accuracy, less of any other metric."""

    words: str
    paper: str
    better: At
    worse: At

    @property
    def kind(self) -> str:
        return RELATION

    @property
    def places(self) -> tuple[At, ...]:
        return self.better, self.worse

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        found = [at.values(logs) for at in self.places]
        for at, (values, _) in zip(self.places, found, strict=True):
            if not values:
                return unknown(self.words, self.paper, at.missing, RELATION)
        sign = -1 if self.better.metric == PERCENT else 1  # for `order`, less is better
        a, b = ({seed: sign * value for seed, value in values.items()} for values, _ in found)
        return order(self.words, self.paper, a, b, diverged=sum(lost for _, lost in found))


class Every(NamedTuple):
    """One sentence, or one number, about several settings: it holds if all its parts do."""

    words: str
    paper: str
    parts: tuple[Span | Order | Open | Same, ...]
    by_construction: bool = False  # then it is not counted

    @property
    def kind(self) -> str:
        return CHECK if self.by_construction else self.parts[0].kind

    @property
    def places(self) -> tuple[At, ...]:
        return tuple(at for part in self.parts for at in part.places)

    def judge(self, logs: Sequence[Any], model: str) -> Claim:
        parts = [part.judge(logs, model) for part in self.parts]
        return together(self.words, self.paper, parts, self.kind)[0]


Said = Mean | Span | Gap | Order | Open | Same | Every


class ModelStudy(NamedTuple):
    """The claims of a table or figure, its configs, and the command that runs them."""

    name: str
    title: str
    labels: tuple[str, ...]
    claimed: str
    claims: tuple[Said, ...]
    configs: tuple[str, ...] = ()
    ours: Mapping[str, str] = {}
    command: str = ""  # if not one that runs configs
    unsaid: str = ""  # what the paper does not print, without which nothing can be run

    def item(self) -> Item:
        configs = tuple(f"model/{name}" for name in self.configs)
        command = self.command
        if configs and not command:
            command = f"zocosmo run configs/{configs[0]}.yaml --set problem.model=NAME"
        found = partial(find, self, command)
        about = self.name, self.title, self.labels, self.claimed
        return Item(*about, found, configs, self.ours, needs="a model", draws=True)


def find(study: ModelStudy, command: str, evidence: Evidence) -> Findings:
    """All claims of a study, with a table and a figure if anything was run."""
    if not evidence.logs:
        return Findings([_not_run(study, each, command) for each in study.claims])
    logs = list(evidence.logs.values())
    claims = [each.judge(logs, evidence.model)._replace(kind=each.kind) for each in study.claims]
    rows = [(claim.words, claim.paper, ours_text(claim), claim.verdict) for claim in claims]
    columns = ("claim", "paper, Qwen2-7B", f"ours, {evidence.model}", "verdict")
    return Findings(claims, [Table(study.name, study.title, columns, rows)], _pictures(study, logs, rows))


def _not_run(study: ModelStudy, each: Said, command: str) -> Claim:
    """What to run, what it needs, and what a small model says of the same ordering."""
    first = f"no command: {study.unsaid}" if study.unsaid else f"run: {command}"
    notes = [first, "needs the weights of Qwen2-7B and the data of the task"]
    notes += another_model(study.name, each.words)
    notes += [f"counted once, as {each.again}"] if isinstance(each, Mean) and each.again else []
    notes += ["holds by construction"] if isinstance(each, Every) and each.by_construction else []
    return unknown(each.words, each.paper, "; ".join(notes), each.kind)


def _pictures(study: ModelStudy, logs: Sequence[Any], rows: Sequence[Sequence[str]]) -> list[Picture]:
    """Accuracy against bits per node, one for each config."""
    said = "; ".join(f"{words}: paper {paper}, ours {ours}" for words, paper, ours, _ in rows)
    found = []
    for k, log in enumerate(logs):
        if PERCENT in log:
            text = f"Accuracy against bits per node, mean and one standard deviation over seeds. {said}."
            draw = partial(draw_curves, log, x="bits", metric=PERCENT, budgets=[])
            found.append(Picture(f"{study.name}-{k + 1}", study.title, text, draw))
    return found
