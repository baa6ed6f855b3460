"""Measured costs of a method: waits, memory, bits, queries; whether it has a server and equal states."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zocosmo.errors import check_known
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.sim.engine import Simulation

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = 10  # in which states are measured; some methods store more over time


class Footprint(NamedTuple):
    """Numbers stored between rounds, over d; and whether nodes have different x after some round.

    The log does not have the latter: it measures from a server's model, and equal nodes may all be a step
    behind it.
    """

    node: float
    public: float  # by the server, or as a public record
    apart: bool


class Traits(NamedTuple):
    method: str
    server: bool
    kept: Footprint
    waits: float  # per round, in sequence
    bits: float  # per node and round, as are the next three
    up: float  # nan without a server
    down: float
    queries: float


def measure_traits(plan: Plan, rows: "pd.DataFrame") -> list[Traits]:
    """Traits of a plan's methods, from its log and from a few rounds of its first seed."""
    first: dict[str, Trial] = {}
    for trial in plan.trials:
        first.setdefault(trial.labels[2], trial)
    parts = {str(method): part for method, part in rows.groupby("method", sort=False, observed=True)}
    return [
        from_log(parts[label], trial.method.server, watch(start(plan, trial), min(ROUNDS, plan.last)))
        for label, trial in first.items()
    ]


def from_log(part: "pd.DataFrame", server: bool, kept: Footprint) -> Traits:
    """Averages over all rounds of the trial that got furthest."""
    last = part.iloc[int(part["round"].to_numpy().argmax())]
    rounds, n = max(int(last["round"]), 1), int(last["n"])
    waits, bits = (float(last[column]) / rounds for column in ("stages", "bits"))
    up, down = (
        float(last[column]) / n / rounds if server else float("nan") for column in ("up_bits", "down_bits")
    )
    queries = float(last["queries"]) / n / rounds
    return Traits(str(last["method"]), server, kept, waits, bits, up, down, queries)


def start(plan: Plan, trial: Trial) -> Simulation:
    """A single trial, with the settings of the plan."""
    codecs = [trial.method.codec]
    return Simulation([trial.run()], codecs=codecs, wire=plan.wire, dtype=plan.dtype, guard=plan.guard)


def watch(simulation: Simulation, rounds: int) -> Footprint:
    """The most stored after any round.

    A field belongs to nodes if its shape says so in every round: a growing record may have n rows once.
    """
    n, d = simulation.problem.n, simulation.problem.d
    seen, apart = [shapes_of(simulation)], False
    for _ in range(rounds):
        simulation.round()
        seen.append(shapes_of(simulation))
        if n > 1:
            x = np.asarray(simulation.state.x)
            apart |= bool((x != x[:, :1]).any())
    own = {name for name in seen[0] if all(name in now and numbers(now[name], n, d)[0] for now in seen)}
    sizes = [{name: int(np.prod(shape)) for name, shape in now.items()} for now in seen[1:]]
    node = max(sum(size for name, size in now.items() if name in own) for now in sizes)
    public = max(sum(size for name, size in now.items() if name not in own) for now in sizes)
    return Footprint(node / n / d, public / d, apart)


def shapes_of(simulation: Simulation) -> dict[str, tuple[int, ...]]:
    """Shapes of what a state holds, by field."""
    fields = simulation.state._asdict()
    return {name: np.shape(part) for name, part in fields.items() if part is not None}


def numbers(shape: Sequence[int], n: int, d: int) -> tuple[int, int]:
    """How many numbers of a field belong to nodes, and how many do not.

    A field (run, …, n, ·) has a row for each node, and so has (run, n) unless it is a vector of d = n.
    """
    own = (len(shape) > 2 and n in (shape[1], shape[-2])) or (len(shape) == 2 and shape[1] == n != d)
    size = int(np.prod(shape))
    return (size, 0) if own else (0, size)


def check_measured(plan: Plan, *metrics: str) -> None:
    """Refuse metrics that the problem of a plan does not have."""
    if set(metrics) <= {"objective", "local", "disagreement"}:
        return
    now = start(plan, plan.trials[0]).checkpoint()
    for metric in metrics:
        check_known("metric", metric, ["objective", "local", "disagreement", *now.extra])
