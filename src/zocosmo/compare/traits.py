"""What a method asks of its nodes, measured: waits, memory, bits, queries, a server, states of their own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zocosmo.errors import check_known
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.sim.engine import Simulation

if TYPE_CHECKING:
    import pandas as pd

ROUNDS = 10  # that states are watched for; some methods keep more as rounds go by


class Footprint(NamedTuple):
    """Numbers kept from round to round, over d; and whether nodes hold different x after some round.

    A log cannot say the latter: it measures from a server's model, and nodes that are alike may all be a step
    behind it.
    """

    node: float
    public: float  # by the server, or by everyone alike
    apart: bool


class Traits(NamedTuple):
    method: str
    server: bool
    kept: Footprint
    waits: float  # per round, one after the other
    bits: float  # per node and round, as all that follow
    up: float  # nan without a server
    down: float
    queries: float


def measure_traits(plan: Plan, rows: "pd.DataFrame") -> list[Traits]:
    """Traits of the methods of a plan, from its log and from a few rounds of its first seed."""
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
    up, down = (
        float(last[column]) / n / rounds if server else float("nan") for column in ("up_bits", "down_bits")
    )
    return Traits(
        str(last["method"]),
        server,
        kept,
        float(last["stages"]) / rounds,
        float(last["bits"]) / rounds,
        up,
        down,
        float(last["queries"]) / n / rounds,
    )


def start(plan: Plan, trial: Trial) -> Simulation:
    """A trial alone, as the plan would run it."""
    codecs = [trial.method.codec]
    return Simulation([trial.run()], codecs=codecs, wire=plan.wire, dtype=plan.dtype, guard=plan.guard)


def watch(simulation: Simulation, rounds: int) -> Footprint:
    """The most that is kept after any of some rounds.

    A field is the nodes' if it looks so at all times: a record that grows may have n rows once.
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
    """How many numbers of a field are the nodes', and how many are not.

    A field (run, …, n, ·) has a row for each node, and so has (run, n) unless it is a vector of d = n.
    """
    own = (len(shape) > 2 and n in (shape[1], shape[-2])) or (len(shape) == 2 and shape[1] == n != d)
    size = int(np.prod(shape))
    return (size, 0) if own else (0, size)


def check_measured(plan: Plan, *metrics: str) -> None:
    """Refuse metrics that the problem of a plan does not have, before anything is run."""
    if set(metrics) <= {"objective", "local", "disagreement"}:
        return
    now = start(plan, plan.trials[0]).checkpoint()
    for metric in metrics:
        check_known("metric", metric, ["objective", "local", "disagreement", *now.extra])
