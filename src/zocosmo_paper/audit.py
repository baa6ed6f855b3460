"""The placement audit: a trajectory must not depend on where its backbone is, nor on evaluation."""

import copy
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.errors import InputError, check_whole
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.llm.forwards import Forwards
from zocosmo.llm.problem import LanguageModel
from zocosmo.llm.subject import Subject
from zocosmo.oracle import Problem, Query
from zocosmo.sim import Checkpoint, Run, Simulation

COPIES = 2  # of the backbone
FEWEST = 2  # rounds, so that there is one between the ends

Values = NDArray[Any]
Index = NDArray[np.int64]
Heard = dict[tuple[int, int, int], float]  # by round, node, and 0 for x + μu, 1 for x − μu


class RecordedForwards(Forwards):
    """Forwards that record all their answers."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.heard: Heard = {}

    def ask(self, adapters: torch.Tensor, t: int, rows: Index, times: int = 1) -> torch.Tensor:
        found, nodes = super().ask(adapters, t, rows, times), self.sampler.nodes
        of = len(found) // max(1, times * len(rows))  # directions with rows of their own
        for k, value in enumerate(found.tolist()):
            row, side = k // of % len(rows), k // (of * len(rows))
            node = int(nodes[int(rows[row]) % len(nodes)])
            self.heard[t, node, side * of + k % of] = value
        return found


class Told(LanguageModel):
    """A language model whose answers are recorded."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.forwards: RecordedForwards = RecordedForwards(
            self.subject, self.sampler, self.record.shape, self.forwards.size
        )

    @property
    def heard(self) -> Heard:
        return self.forwards.heard


class Placed(Problem):
    """Nodes in groups, each group with its own subject, as in separate processes."""

    def __init__(self, groups: Sequence[Told], nodes: Sequence[Index]) -> None:
        self.groups, self.nodes = groups, nodes
        self.n, self.d = sum(map(len, nodes)), groups[0].d

    @classmethod
    def alternating(cls, whole: Told, subjects: Sequence[Subject]) -> Self:
        """Node i uses subject i mod the number of subjects."""
        nodes = [np.arange(k, whole.n, len(subjects)) for k in range(len(subjects))]
        groups = [
            Told(subject, [whole.nodes[i] for i in mine], whole.parts, whole.tape)
            for subject, mine in zip(subjects, nodes, strict=True)
        ]
        return cls(groups, nodes)

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        (only,) = problems
        return cls([type(group).stack([group]) for group in only.groups], only.nodes)

    @property
    def heard(self) -> Heard:
        return {key: value for group in self.groups for key, value in group.heard.items()}

    @property
    def x0(self) -> Values:
        return self.groups[0].x0

    def __call__(self, x: Values, t: int, *, active: Any = None) -> Values:
        losses = np.zeros(x.shape[:-1])
        for group, nodes in zip(self.groups, self.nodes, strict=True):
            some = None if active is None else active[..., nodes]
            losses[..., nodes] = group(np.ascontiguousarray(x[..., nodes, :]), t, active=some)
        return losses

    def slopes(self, query: Query, t: int) -> Values:
        slopes = np.zeros((*query.x.shape[:-1], len(query.directions)), query.x.dtype)
        for group, nodes in zip(self.groups, self.nodes, strict=True):
            mine = self._share(query, nodes)
            if mine.active is None or mine.active.any():
                slopes[..., nodes, :] = group.slopes(mine, t)
        return slopes

    def local(self, x: Values) -> Values:
        return self._merged(lambda group, nodes: {"local": group.local(x[..., nodes, :])})["local"]

    def measures(self, x: Values) -> dict[str, Values]:
        return self._merged(lambda group, nodes: group.measures(x[..., nodes, :]))

    def report(self, centre: Values) -> dict[str, Values]:
        return self.groups[0].report(centre)

    def at(self, nodes: Sequence[int]) -> Self:
        raise InputError("these nodes are in groups already; take the problem they come from")

    def _share(self, query: Query, nodes: Index) -> Query:
        """The query of some nodes."""

        def pick(rows: Values) -> Values:
            return rows[..., nodes, :] if rows.ndim > 1 and rows.shape[-2] == self.n else rows

        directions = tuple(u.pick(pick) for u in query.directions)
        active = None if query.active is None else query.active[..., nodes]
        x = np.ascontiguousarray(query.x[..., nodes, :])
        return Query(x, directions, query.mu, active, query.sides)

    def _merged(self, ask: Callable[[Told, Index], dict[str, Values]]) -> dict[str, Values]:
        parts = [ask(group, nodes) for group, nodes in zip(self.groups, self.nodes, strict=True)]
        order = np.argsort(np.concatenate(self.nodes))
        return {
            name: np.ascontiguousarray(np.concatenate([part[name] for part in parts], axis=-1)[..., order])
            for name in parts[0]
        }


class Trajectory(NamedTuple):
    """What is compared: answers, final states and measures."""

    heard: Heard
    states: str  # fingerprint of adapters and momentum at the end
    measured: dict[str, bytes]  # by round and name


class PlacementVerdict(NamedTuple):
    """A trajectory compared with the one on a single copy."""

    graph: str
    method: str
    seed: str
    run: str
    queries: int
    queries_differ: int
    states: str
    states_differ: bool
    measures_differ: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        return not (self.queries_differ or self.states_differ or self.measures_differ)


def audit(plan: Plan, *, rounds: int = 10) -> Iterator[PlacementVerdict]:
    """Run each trajectory of a plan on one copy of the backbone, on two copies between which nodes alternate,
    once more on one copy, and with an additional evaluation half-way."""
    last = min(check_whole("rounds", rounds, FEWEST), plan.rounds)
    check_whole("rounds", last, FEWEST)
    if plan.guard is not None:
        raise InputError("a guard acts on evaluations, so one more may change the run; remove guard")
    twins: dict[int, Subject] = {}
    paths: dict[Any, Trial] = {}
    for trial in plan.trials:
        paths.setdefault(trial.path, trial)
    for trial in paths.values():
        run, told = trial.run(), told_of(trial)
        twin = twins.setdefault(id(told.subject), copied(told.subject))
        one = play(plan, replace(run, problem=told), last)
        placed: Any = Placed.alternating(told, [told.subject, twin])
        yield compare(trial, "one copy", one, one)
        yield compare(trial, f"{COPIES} copies", one, play(plan, replace(run, problem=placed), last))
        yield compare(trial, "again", one, play(plan, replace(run, problem=told), last))
        half = last // 2
        more = play(plan, replace(run, problem=told), last, half)
        yield compare(trial, f"measured at {half}", one, more)


def told_of(trial: Trial) -> Told:
    """The problem of a trial, recording its answers; refuse what cannot be audited."""
    problem: Any = trial.run().problem
    if type(problem) is not LanguageModel:
        what = f"an audit needs adapters of a language model, got {trial.labels[0]}"
        raise InputError(f"{what}; use problem kind llm")
    if problem.subject.setting.queries != "one_by_one":
        raise InputError("rounding in fused forwards depends on the batch; set problem.queries=one_by_one")
    if problem.n < COPIES:
        raise InputError(f"{COPIES} copies need at least as many nodes, got {problem.n}; use a larger graph")
    return Told(problem.subject, problem.nodes, problem.parts, problem.tape)


def copied(subject: Subject) -> Subject:
    """The same subject, which loads its own copy of the weights."""
    twin = copy.copy(subject)
    twin.__dict__.pop("backbone", None)
    return twin


def play(plan: Plan, run: Run, last: int, look: int | None = None) -> Trajectory:
    """Run to the end; keep the measures of both ends, and also evaluate at round `look`."""
    sim = Simulation([run], wire=plan.wire, dtype=plan.dtype, bound=plan.diverged_above)
    measured: dict[str, bytes] = {}
    for t in range(last + 1):
        if t in (0, last):
            measured |= _bytes(sim.checkpoint())
        elif t == look:
            sim.checkpoint()
        if t < last:
            sim.round()
    digest = hashlib.blake2b(digest_size=8)
    for name, array in sorted(sim.arrays().items()):
        if name.startswith("state."):
            digest.update(np.ascontiguousarray(array).tobytes())
    heard: Heard = sim.problem.heard  # type: ignore[attr-defined]
    return Trajectory(heard, digest.hexdigest(), measured)


def compare(trial: Trial, run: str, one: Trajectory, other: Trajectory) -> PlacementVerdict:
    """Compare bit patterns: −0.0 differs from 0.0, and nan equals nan."""
    keys = one.heard.keys() | other.heard.keys()
    heard = [[_exact(each.heard.get(key)) for key in keys] for each in (one, other)]
    names = one.measured.keys() | other.measured.keys()
    return PlacementVerdict(
        *trial.labels[1:],
        str(trial.seed),
        run,
        len(other.heard),
        sum(a != b for a, b in zip(*heard, strict=True)),
        other.states,
        one.states != other.states,
        tuple(sorted(name for name in names if one.measured.get(name) != other.measured.get(name))),
    )


def _exact(value: float | None) -> str:
    return "" if value is None else np.float64(value).tobytes().hex()


def _bytes(now: Checkpoint) -> dict[str, bytes]:
    rest = {"objective": now.objective, "local": now.local, "disagreement": now.disagreement, **now.extra}
    rest |= {"queries": now.queries, **{f"bits {codec}": counts for codec, counts in now.bits.items()}}
    return {f"{name} at {now.round}": np.ascontiguousarray(each).tobytes() for name, each in rest.items()}
