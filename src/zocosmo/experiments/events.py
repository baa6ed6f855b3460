"""A plan and the record of a network that ran it: the simulator replays both."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from zocosmo.errors import InputError
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.experiments.states import Columns
from zocosmo.sim.living import LivingSimulation, check_living
from zocosmo.terms.book import LEDGER, Book, write_ledger
from zocosmo.terms.churn import MEETINGS, Churn, draw_record
from zocosmo.terms.events import Header, Record
from zocosmo.terms.members import Topology, all_terms


def topology_of(trial: Trial) -> Topology:
    """How the graph of a trial follows its members."""
    return Topology.of(dict(trial.graph), trial.seed, trial.graph_of())


def header_of(plan: Plan) -> Header:
    """The first line of a record of this plan."""
    trial = _only(plan)
    return Header(plan=plan.fingerprint, n=trial.graph_of().n, seed=trial.seed)


def with_events(plan: Plan, record: Record) -> Plan:
    """The plan with a record to follow; its log names both."""
    trial, header = _only(plan), record.header
    if header.plan != plan.fingerprint:
        raise InputError(
            f"these events are of plan {header.plan[:12]}, and the config is plan {plan.fingerprint[:12]}; "
            "use the config, seed and --set of that network"
        )
    if header.seed is not None and header.seed != trial.seed:
        raise InputError(f"these events are of seed {header.seed!r}, and the plan has {trial.seed!r}")
    if plan.lost:
        raise InputError("lost messages and events cannot be given together; remove lost from the config")
    check_living(trial.run())
    all_terms(record, topology_of(trial))
    return replace(plan, record=record, config={**plan.config, "events": record.digest})


def random_record(plan: Plan, churn: Churn, seed: int | str) -> Record:
    """Events drawn at random for all rounds of a plan."""
    trial = _only(plan)
    check_living(trial.run())
    meet = MEETINGS[trial.method.kind == "cosmo"]
    return draw_record(header_of(plan), topology_of(trial), plan.last, churn, seed=seed, meet=meet)


def living_simulation(plan: Plan, trials: Sequence[Trial]) -> LivingSimulation:
    """The simulation of a plan that has a record."""
    trial, record = trials[0], plan.record
    assert record is not None
    return LivingSimulation(
        trial.run(),
        record,
        all_terms(record, topology_of(trial)),
        codecs=[trial.method.codec],
        wire=plan.wire,
        dtype=plan.dtype,
        bound=plan.diverged_above,
        guard=plan.guard,
    )


def living_columns(sim: LivingSimulation, name: str) -> Columns:
    """Who the last states belong to, and the bill by link, as arrays."""
    sim.check_repairs()
    book = sim.book(sim.channel.codecs[0])
    bill = np.concatenate([book.links, book.counts], axis=-1)
    return {f"{name}.members": sim.term.ids, f"{name}.ledger": bill}


def write_bill(folder: Path, found: Columns) -> None:
    """Write the ledger that `living_columns` gave, and take it out of the arrays."""
    for name in [name for name in found if name.endswith(".ledger")]:
        rows, book = found.pop(name), Book()
        book.keys, book.counts = rows[:, 0] << 32 | rows[:, 1], rows[:, 2:]
        write_ledger(folder / LEDGER, book)


def _only(plan: Plan) -> Trial:
    if len(plan.trials) != 1:
        raise InputError(
            f"events are of one run, got {len(plan.trials)} trials; use one method, graph and seed"
        )
    return plan.trials[0]
