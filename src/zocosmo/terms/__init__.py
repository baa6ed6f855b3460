"""Networks that live: terms of members, and the record of what happened. Pure functions, no sockets.

A term is a stretch of rounds with fixed members. Its graph, weights and matchings are public functions of the
members, so nodes need only agree on who is there:

    topology = Topology.of(dict(trial.graph), trial.seed, trial.graph_of())
    term = first_term(topology)
    changes, term = change_members(term, 40, joining=["ada"], leaving=[2], dead={0: 37})

The host appends `changes` to the record, and every node makes the same term with `next_term`. What that does
to states and links is in `change`: `rows_of` and `carry_state` for states, `carry_links` for what the ends of
links remember. `Record`, `read_events` and `write_events` hold everything that a replay needs besides the
plan.
"""

from zocosmo.terms.change import (
    Carried,
    Here,
    Rows,
    Waiting,
    carry_links,
    carry_state,
    fresh_links,
    rows_of,
)
from zocosmo.terms.events import (
    EVENTS,
    Change,
    Dead,
    Event,
    Failure,
    Half,
    Header,
    Join,
    Leave,
    Record,
    Repaired,
    Skip,
    append_events,
    read_events,
    write_events,
)
from zocosmo.terms.members import (
    Member,
    Term,
    Topology,
    all_terms,
    change_members,
    first_term,
    next_term,
    source_of,
)
from zocosmo.terms.shared import Shared

__all__ = [
    "EVENTS",
    "Carried",
    "Change",
    "Dead",
    "Event",
    "Failure",
    "Half",
    "Header",
    "Here",
    "Join",
    "Leave",
    "Member",
    "Record",
    "Repaired",
    "Rows",
    "Shared",
    "Skip",
    "Term",
    "Topology",
    "Waiting",
    "all_terms",
    "append_events",
    "carry_links",
    "carry_state",
    "change_members",
    "first_term",
    "fresh_links",
    "next_term",
    "read_events",
    "rows_of",
    "source_of",
    "write_events",
]
