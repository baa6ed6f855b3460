"""One log from the folders of members: the log that the simulator writes for the same events."""

from pathlib import Path

import numpy as np

from zocosmo.core.payload import Bits
from zocosmo.experiments.folder import Folder
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import LogRows, make_frame, state_name
from zocosmo.experiments.states import STATES, write_states
from zocosmo.log import Log, make_header
from zocosmo.net.store import NodeFolder
from zocosmo.rounds.checkpoint import Bill
from zocosmo.sim.engine import Simulation
from zocosmo.terms.events import Record


def gather(plan: Plan, record: Record, out: Path) -> list[int]:
    """Write log and states; gives the members whose folders are missing, and writes nothing then."""
    trial = plan.trials[0]
    sim = Simulation(
        [trial.run()],
        codecs=[trial.method.codec],
        wire=plan.wire,
        dtype=plan.dtype,
        bound=plan.diverged_above,
    )
    n = sim.problem.n
    rows = LogRows([trial], [0], n)
    for t in plan.due:
        found = [NodeFolder(out, i).load(t) for i in range(n)]
        missing = [i for i, each in enumerate(found) if each is None]
        if missing:
            return missing
        x = np.stack([each["x"] for each in found])[None]
        counted = np.stack([each["counts"] for each in found])
        totals, kinds = counted.sum(axis=0), 1 + len(Bits._fields)
        tally = dict(zip(("failures", "repairs", "wide"), totals[kinds:, None]))
        bill = Bill(totals[:1], {trial.method.codec: totals[None, 1:kinds]}, tally=tally)
        sim.t = t
        sim.state = sim.state._replace(x=x.astype(plan.dtype))
        measured = sim.problem.measure(sim.state.x, lambda: sim.method.model(sim.state))
        rows.take(sim.judge(measured, bill))
    folder = Folder(out, make_header(plan.config, plan.fingerprint))
    with folder.opened(resume=True, replace_old=False):
        write_states(out / STATES, {state_name(trial): x[0]})
        folder.finish(Log(make_frame(plan, [rows.columns()]), folder.header))
    return []
