"""Jobs that only write: the traces of a study, of processes, as real ones do, at a pace that tests choose."""

import json
from pathlib import Path

from zocosmo.experiments.plan import load_plan
from zocosmo.trace import Trace, TraceFile

SMALL = """\
problem: {kind: quadratic, d: 8, zeta: 1.0}
graphs: [{kind: ring, n: 4}]
methods:
  - {kind: edge_local, q: 2, eta: 0.01, mu: 1.0e-3}
  - {kind: cosmo, q: 2, eta: 0.01, mu: 1.0e-3}
seeds: [1, 2]
rounds: 60
log_every: 5
"""


def small(tmp_path, text=SMALL):
    path = Path(tmp_path) / "small.yaml"
    path.write_text(text)
    return load_plan(path)


class Writer:
    """The trace of a study of some trials of one method each, on a ring of four."""

    def __init__(self, folder, trials=2, rounds=100, name="study.jsonl", **about):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plan.json").write_text(json.dumps({"config": {}}))
        self.folder, self.trials = folder, trials
        self.trace = Trace(TraceFile.begin(folder / ".trace" / name))
        listed = [["bowl", "ring", f"method {k}", "1", 4] for k in range(trials)]
        ring = {"ring": {"n": 4, "edges": [[0, 1], [0, 3], [1, 2], [2, 3]]}}
        study = {"name": folder.name, "rounds": rounds, "node_rounds": rounds * 4 * trials, "trials": listed}
        talk = {"talk": {f"method {k}": "pairs" for k in range(trials)}}
        self.trace.start(**{"job": "run", **study, **talk, "graphs": ring, **about})

    def row(self, t, value=None, **more):
        """A row of every trial after round t."""
        numbers = list(range(self.trials))
        columns = {
            "trial": numbers,
            "round": [t] * self.trials,
            "bits": [64.0 * t] * self.trials,
            "queries": [8 * t] * self.trials,
            "objective": [value or (k + 1) / (t + 1) for k in numbers],
            "diverged": [False] * self.trials,
            **{name: [value] * self.trials for name, value in more.items()},
        }
        pairs = [[0, 1], [2, 3]] if t % 2 else [[0, 3], [1, 2]]
        where = {"batch": 0, "trial": 0, "round": t, "done": 4 * t * self.trials}
        self.trace.write("rows", **where, pairs=pairs, columns=columns)


def node_line(rank, t, **more):
    """What a process writes about itself."""
    about = {"rank": rank, "nodes": [rank], "trial": 0, "round": t, "state": "computes", "waited": 0.5}
    return {**about, "waited_for": {}, "messages": t, "bytes": 96 * t, **more}


def network(folder, world=4):
    """Four processes: the writers of their traces."""
    first = Writer(folder, trials=1, name="rank-000.jsonl", job="launch", rank=0, world=world)
    others = []
    for rank in range(1, world):
        trace = Trace(TraceFile.begin(folder / ".trace" / f"rank-{rank:03d}.jsonl"))
        trace.start(job="launch", rank=rank, world=world)
        others.append(trace)
    return first, [first.trace, *others]
