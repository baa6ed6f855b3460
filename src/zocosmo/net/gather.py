"""One log from the folders of members: what `zocosmo run --events` writes for the same record."""

from pathlib import Path
from typing import Any

import numpy as np

from zocosmo.core.payload import Bits
from zocosmo.experiments.events import living_simulation, with_events
from zocosmo.experiments.folder import Folder
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import LogRows, make_frame, state_name
from zocosmo.experiments.states import STATES, write_states
from zocosmo.log import Log, make_header
from zocosmo.net.store import Counts, NodeFolder, read_bill
from zocosmo.rounds.checkpoint import Bill
from zocosmo.sim.living import LivingSimulation
from zocosmo.terms.book import LEDGER, Book, write_ledger
from zocosmo.terms.events import Dead, Record
from zocosmo.terms.members import Term
from zocosmo.terms.shared import Shared


def gather(plan: Plan, record: Record, out: Path) -> str:
    """Write log, states and ledger; why not, if that cannot be.

    What a member had when it died is known to nobody: then only a replay of the record has the whole log.
    """
    dead = sorted(event.node for event in record.events if isinstance(event, Dead))
    if dead:
        return f"member {dead[0]} died with its part of the log"
    followed = with_events(plan, record)
    sim = living_simulation(followed, followed.trials)
    members = sorted({member.id for term in sim.terms for member in term.members})
    missing = [each for each in members if NodeFolder(out, each).load_last() is None]
    if missing:
        return f"the folder of member {missing[0]} is not in {out}"
    rows, x = LogRows(followed.trials, [0], sim.terms[0].topology.founders.n), np.empty(0)
    for t in plan.due:
        term = next(each for each in reversed(sim.terms) if each.start < t or each.number == 0)
        x = _measure(followed, sim, term, t, out, rows, members)
    _write(followed, sim, out, rows, x)
    return ""


def _measure(
    plan: Plan, sim: LivingSimulation, term: Term, t: int, out: Path, rows: LogRows, members: list[int]
) -> Any:
    """Add the rows of a checkpoint; gives the states of the members of that term."""
    kept = [NodeFolder(out, each).load(t) for each in term.ids.tolist()]
    x = np.stack([each["x"] for each in kept if each is not None])[None].astype(plan.dtype)
    spent = [counts for each in members if (counts := NodeFolder(out, each).counts_at(t)) is not None]
    totals: Counts = np.sum(spent, axis=0)
    names, kinds = list(sim.channel.tally()), 1 + len(Bits._fields)
    tally = dict(zip(names, totals[kinds:, None], strict=True))
    bill = Bill(totals[:1], {sim.channel.codecs[0]: totals[None, 1:kinds]}, tally=tally)
    sim.t, sim.state = t, sim.state._replace(x=x)
    sim.stages = np.array([sim.method.stages(term.world(sim.runs[0].problem.d))])
    problem = Shared(sim.runs[0].problem, term.shares)
    rows.take(sim.judge(problem.measure(x, lambda: sim.method.model(sim.state)), bill))
    return problem.vectors(x)[0]


def _write(plan: Plan, sim: LivingSimulation, out: Path, rows: LogRows, x: Any) -> None:
    trial, book = plan.trials[0], Book()
    whole: dict[tuple[int, int], Counts] = {}
    for each in sorted({member.id for term in sim.terms for member in term.members}):
        whole |= read_bill(NodeFolder(out, each).path)
    book.keys = np.array([i << 32 | j for i, j in sorted(whole)], np.int64)
    book.counts = np.array([whole[link] for link in sorted(whole)], np.int64).reshape(-1, len(Bits._fields))
    folder = Folder(out, make_header(plan.config, plan.fingerprint))
    with folder.opened(resume=True, replace_old=False):
        name = state_name(trial)
        write_states(out / STATES, {name: x, f"{name}.members": sim.terms[-1].ids})
        write_ledger(out / LEDGER, book)
        folder.finish(Log(make_frame(plan, [rows.columns()]), folder.header))
