"""What `minimize` writes for those who watch, beside its journal: NAME.trace.jsonl for NAME.journal."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from zocosmo.core.tape import Seed, Tape
from zocosmo.methods.base import World
from zocosmo.trace import MOST_DRAWN, Trace, TraceFile

if TYPE_CHECKING:
    from zocosmo.blackbox.optimizer import Optimizer

SUFFIX = ".trace.jsonl"


def trace_of(journal: Path) -> Path:
    """The trace of a journal."""
    return journal.with_name(journal.stem + SUFFIX)


class RunTrace:
    """Rows of a run's log, and the pairs of its rounds, in a trace that is deleted with the journal."""

    def __init__(self, journal: Path, world: World, seed: Seed, **about: Any) -> None:
        self._path, self._tape = trace_of(journal), Tape(seed)
        n, edges = world.graph.n, [list(edge) for edge in world.graph.edges]
        self._trace = Trace(TraceFile.begin(self._path))
        graph = {"n": n, "edges": edges if n <= MOST_DRAWN else []}
        self._trace.start(job="minimize", name=journal.stem, **graph, **about)

    def row(self, run: "Optimizer", queries: int, *, last: bool = False) -> None:
        """The newest round, if it is time for a line."""
        if not (last or self._trace.is_due("rows")):
            return
        row = {"round": run.t, "bits": run.bits_per_node, "queries": queries}
        row |= {"query_loss": run.query_loss, "disagreement": run.disagreement}
        columns = {name: [value] for name, value in {"trial": 0, **row}.items()}
        pairs = {}
        if run.method.is_paired and run.graph.n <= MOST_DRAWN:
            matching = run.method.matching_of(max(run.t - 1, 0), run.world.d)
            pairs = {"pairs": run.world.pairs(self._tape, matching)}
        talk = "server" if run.method.server else "pairs" if pairs else "neighbours"
        self._trace.write("rows", trial=0, round=run.t, talk=talk, **pairs, columns=columns)

    def end(self, how: str, text: str = "") -> None:
        self._trace.write("end", how=how, text=text[:500])

    def close(self, *, keep: bool) -> None:
        self._trace.close()
        if not keep:
            self._path.unlink(missing_ok=True)
