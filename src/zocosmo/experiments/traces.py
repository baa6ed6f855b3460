"""What a study writes into its trace: the plan in short, then rows of batches as they come."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.graphs.graph import Graph
from zocosmo.methods.base import Method, World
from zocosmo.sim.engine import Simulation
from zocosmo.trace import MOST_DRAWN, Trace, TraceFile


def about_plan(plan: Plan, job: str) -> dict[str, Any]:
    """The fields of a study's first line."""
    first = {trial.labels[1]: trial for trial in reversed(plan.trials)}
    return {
        "job": job,
        "name": plan.name,
        "rounds": plan.last,
        "node_rounds": plan.node_rounds,
        "budgets": list(plan.budgets),
        "problem": plan.config["problem"]["kind"],
        "trials": [[*trial.labels, str(trial.seed), int(dict(trial.graph)["n"])] for trial in plan.trials],
        "talk": {trial.labels[2]: talk(trial.method) for trial in reversed(plan.trials)},
        "graphs": {label: drawn(trial.graph_of()) for label, trial in first.items()},
    }


def drawn(graph: Graph) -> dict[str, Any]:
    """Nodes and edges; a graph that is too large to draw has no edges."""
    edges = [list(edge) for edge in graph.edges] if graph.n <= MOST_DRAWN else []
    return {"n": graph.n, "edges": edges}


def talk(method: Method) -> str:
    """Who exchanges values in a round: everyone with a server, pairs of a matching, or all neighbours."""
    if method.server:
        return "server"
    return "pairs" if method.is_paired else "neighbours"


def pairs_of(method: Method, world: World, seed: Any, t: int) -> list[list[int]] | None:
    """The pairs of a round; None where a method has none, or the graph is too large to draw."""
    if not method.is_paired or world.graph.n > MOST_DRAWN:
        return None
    return world.pairs(Tape(seed), method.matching_of(t, world.d))


class BatchTrace:
    """The lines of one batch; does nothing without a file."""

    def __init__(self, file: TraceFile | None, number: int, trials: Sequence[Trial], sim: Simulation) -> None:
        self._trace = None if file is None else Trace(file)
        self._number, self._trials, self._sim = number, trials, sim
        self._run, self._world = sim.runs[0], sim.runs[0].world
        self._written = -1  # the round of the last row that was written
        self.note = ""

    def rows(self, columns: Mapping[str, NDArray[Any]], *, last: bool = False) -> None:
        """The newest checkpoint, if it is time for a line; the last one in any case."""
        trace = self._trace
        if trace is None or not columns or self._sim.t == self._written:
            return
        if last or trace.is_due("rows"):
            trace.is_due("beat")  # rows are a sign of life too
            self._written = self._sim.t
            listed = {name: column.tolist() for name, column in columns.items()}
            trace.write("rows", **self._where(), columns=listed)

    def beat(self) -> None:
        """A sign of life between checkpoints."""
        if self._trace is not None and self._trace.is_due("beat"):
            self._trace.write("beat", **self._where())

    def close(self) -> None:
        if self._trace is not None:
            self._trace.close()

    def _where(self) -> dict[str, Any]:
        """How far the batch is, and the pairs of its first trial in the round before."""
        t, run = self._sim.t, self._run
        pairs = pairs_of(run.method, self._world, run.seed, max(t - 1, 0))
        where = {"batch": self._number, "trial": self._trials[0].number, "round": t}
        where["done"] = t * len(self._trials) * self._sim.problem.n
        return {**where, **({} if pairs is None else {"pairs": pairs}), "note": self.note}
