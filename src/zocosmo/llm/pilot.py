"""Short runs that choose η, trained on some training examples and scored on others."""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_whole
from zocosmo.graphs.graph import Graph
from zocosmo.llm.batches import Examples
from zocosmo.llm.problem import LanguageModel
from zocosmo.llm.quiet import Say, silent
from zocosmo.llm.subject import Subject
from zocosmo.methods.base import Method
from zocosmo.methods.decay import Constant
from zocosmo.oracle import Problem
from zocosmo.problems.draws import private, uniforms
from zocosmo.problems.subspace import in_subspace
from zocosmo.sim.engine import Run, Simulation

MOST = 9  # pilots
ROUNDS = {"cuda": 60, "cpu": 12}
ROWS = {"cuda": 256, "cpu": 64}  # held out for scoring
TURNS = 3.0  # visits, in units of 1/(1 − β), after which momentum has built up
CLEAR = 2.0  # standard errors that make a gain significant

Array = NDArray[np.float64]


class Pilot(NamedTuple):
    """A short run at one η, and the loss on held-out examples before and after."""

    eta: float
    before: float  # mean loss at the start
    after: float  # of the network average, after the last round
    norm: float  # ‖x̄‖ at the end over ‖x0‖
    error: float = 0.0  # standard error of before − after, over the examples
    losses: tuple[float, ...] = ()  # of each example, after

    @property
    def diverged(self) -> bool:
        """Not finite, or a loss above 1.5 times the first."""
        if not (math.isfinite(self.after) and math.isfinite(self.norm)):
            return True
        return self.after > 1.5 * self.before

    @property
    def gain(self) -> float:
        return self.before - self.after


class Trials:
    """Pilots of one method: separate simulations with the same seed, examples and start.

    `rows` training examples are held out for scoring; the nodes share the others. In float32, runs of
    different η cannot share a simulation (see `batch_key`), so they run one after the other.

    A pilot has no decay, and no momentum if it is short: until a coordinate has been visited a few times
    1/(1 − β), momentum shrinks its steps by up to 1 − β, and a short pilot would pick an η that is too large
    by as much. Instead η is found without momentum and divided by the share of the estimates that momentum
    applies in `planned` rounds, so that x moves as far in total.
    """

    def __init__(
        self,
        subject: Subject,
        method: Method,
        graph: Graph,
        *,
        planned: int,
        schedule: str = "auto",
        seed: Seed = 0,
        rounds: int | None = None,
        rows: int | None = None,
        subspace: int | None = None,
    ) -> None:
        self.planned = check_whole("planned rounds", planned, 1)
        device = subject.backbone.device.type
        self.rounds = check_whole("rounds of a pilot", rounds or ROUNDS.get(device, ROUNDS["cuda"]), 1)
        self.held, self.subject = set_aside(subject, rows or ROWS.get(device, ROWS["cuda"]), seed)
        self.method = plain(method, self.rounds, subject.d)
        self.dropped = method.settings.get("beta", 0.0) - self.method.settings.get("beta", 0.0)
        self.share = applied(self.dropped, self.planned * method.size(0, subject.d) / subject.d)
        self.graph, self.schedule, self.seed, self.subspace = graph, schedule, seed, subspace
        self.before = losses_of(subject, subject.x0, self.held)

    def run(self, eta: float) -> Pilot:
        """Run the method at this η."""
        problem: Problem = LanguageModel.build(self.subject, self.graph.n, self.seed)
        if self.subspace is not None:
            problem = in_subspace(problem, self.subspace, self.seed)
        method = replace(self.method, eta=eta)
        sim = Simulation([Run(method, self.graph, problem, self.seed, self.schedule)], dtype=np.float32)
        for _ in range(self.rounds):
            sim.round()
        with np.errstate(all="ignore"):
            centre = sim.states()[0].mean(axis=0, dtype=np.float64).astype(np.float32)
            start, end = (float(np.linalg.norm(x.astype(np.float64))) for x in (self.subject.x0, centre))
        known = math.isfinite(end)
        losses = losses_of(self.subject, centre, self.held) if known else np.full(len(self.held), np.nan)
        before, after = float(self.before.mean()), float(losses.mean())
        error = float((losses - self.before).std()) / math.sqrt(len(losses))
        return Pilot(eta, before, after, end / start if start else end, error, tuple(losses.tolist()))

    def words(self) -> str:
        """How the pilots were run."""
        said = f"pilots: {self.rounds} rounds, scored on {len(self.held)} held-out training examples"
        return f"{said}; without momentum, which needs more rounds to build up" if self.dropped else said

    def around(self, eta: float, *, most: int = MOST, say: Say = silent) -> list[Pilot]:
        """Pilots at η · 2^k, ascending: η is quartered until one does not diverge, then doubled or halved
        until the best has a neighbour on either side, with at most `most` pilots.
        """
        if not (math.isfinite(eta) and eta > 0):
            raise InputError(f"the first eta of the pilots must be finite and above 0, got {eta}")
        found: dict[int, Pilot] = {}

        def run(k: int) -> None:
            found[k] = pilot = self.run(eta * 2.0**k)
            say(f"pilot at eta = {pilot.eta:.3g}: loss {pilot.before:.4f} → {pilot.after:.4f}")

        run(0)
        while found[min(found)].diverged and len(found) < most:
            run(min(found) - 2)
        while len(found) < most:
            best = min(found, key=lambda k: (found[k].diverged, _rank(found[k])))
            missing = [k for k in (best + 1, best - 1) if k not in found]
            if not missing:
                break
            run(missing[0])
        return [found[k] for k in sorted(found)]


def choose_eta(pilots: Sequence[Pilot]) -> tuple[float, tuple[str, ...]]:
    """η from pilots in ascending order of η, and the reasons.

    This is the η one below that of the lowest loss, even if it gained much less: curvature grows as adapters
    leave their start, so short runs favour steps too long for long runs.
    """
    fine = [k for k, pilot in enumerate(pilots) if not pilot.diverged]
    if not fine:
        return pilots[0].eta, (f"eta = {pilots[0].eta:.3g}: all pilots diverged; this is the smallest tried",)
    k = min(fine, key=lambda k: pilots[k].after)
    best = pilots[k]
    if best.gain <= 0:
        low = pilots[fine[0]]
        return low.eta, (
            f"eta = {low.eta:.3g}: no pilot lowered the loss ({best.before:.4f} → {best.after:.4f} at best), "
            "so the smallest tried; use more rounds or a larger batch to tell more",
        )
    said = f"pilots: eta = {best.eta:.3g} lowers the loss most, {best.before:.4f} → {best.after:.4f}"
    if best.gain < CLEAR * best.error:
        said += f", which may be chance (± {best.error:.2g}); use more rounds to tell more"
    if k == 0 or pilots[k - 1].diverged:
        return best.eta, (said, f"eta = {best.eta:.3g}: the smallest tried")
    low = pilots[k - 1]
    return low.eta, (
        said,
        f"eta = {low.eta:.3g}: one notch lower, for long runs; {low.gain / best.gain:.0%} of the gain",
    )


def applied(beta: float, visits: float) -> float:
    """The share of a coordinate's estimates that momentum has applied after some visits.

    m ← β m + (1 − β) g at each visit, and x moves by m: after visit K, a share 1 − β^(K − j + 1) of the
    estimate of visit j is in x. The mean over j is 1 − β (1 − β^K)/(K (1 − β)): 1 − β after one visit,
    tending to 1. Fewer visits than one count as one, since a coordinate that moved was visited.

    >>> applied(0.5, 1), applied(0.5, 2), applied(0.0, 7)
    (0.5, 0.625, 1.0)
    >>> [round(applied(0.9, rounds * 8192 / 460_800), 3) for rounds in (400, 770, 1540)]
    [0.333, 0.498, 0.69]
    """
    if not 0 <= beta < 1 or not visits >= 0:
        raise InputError(f"momentum needs 0 ≤ beta < 1 and visits ≥ 0, got {beta} and {visits}")
    visits = max(visits, 1.0)
    return 1.0 - beta * (1.0 - math.pow(beta, visits)) / (visits * (1.0 - beta))


def plain(method: Method, rounds: int, d: int) -> Method:
    """The method as a pilot runs it: constant step, and momentum only if the pilot is long enough."""
    changes: dict[str, Any] = {"decay": Constant()}
    beta = method.settings.get("beta", 0.0)
    if beta and rounds * method.size(0, d) / d < TURNS / (1.0 - beta):
        changes["beta"] = 0.0
    return replace(method, **changes)


def set_aside(subject: Subject, rows: int, seed: Seed) -> tuple[Examples, Subject]:
    """Training examples for scoring, at most a quarter, and the subject without them."""
    size = len(subject.train)
    rows = min(rows, size // 4)
    if rows < 1:
        raise InputError(f"pilots hold out examples and need at least 4 training rows, got {size}")
    order = np.argsort(uniforms(private(seed), "pilot", size=size), kind="stable")
    _ = subject.backbone, subject.x0, subject.words  # make them here, so that the copy shares them
    rest = copy.copy(subject)
    rest.__dict__["train"] = take(subject.train, np.sort(order[rows:]))
    return take(subject.train, np.sort(order[:rows])), rest


def take(examples: Examples, rows: NDArray[np.int64]) -> Examples:
    """Some of the examples."""
    part = copy.copy(examples)
    part.lengths, part.labels = examples.lengths[rows], examples.labels[rows]
    part.tokens = examples.tokens[rows]
    return part


def losses_of(subject: Subject, adapter: NDArray[np.float32], examples: Examples) -> Array:
    """The loss of every example under one adapter, in the examples' order."""
    backbone, each = subject.backbone, subject.setting.eval_batch
    x = torch.from_numpy(np.ascontiguousarray(adapter, np.float32)[None]).to(backbone.device)
    found = np.empty(len(examples))
    for rows, batch in examples.by_length(each, backbone.device):
        found[rows] = backbone.losses(x, batch)[0].cpu().numpy()
    return found


def _rank(pilot: Pilot) -> float:
    return pilot.after if math.isfinite(pilot.after) else math.inf
