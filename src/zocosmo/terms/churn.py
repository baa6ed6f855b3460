"""Records drawn at random, to study what churn and late nodes cost. Nothing here is part of the protocol."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.terms.events import Change, Event, Half, Header, Record, Skip
from zocosmo.terms.members import Term, Topology, change_members, first_term

MEETINGS = ("pairs", "neighbours")

Values = NDArray[Any]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Churn:
    """How members come, go and lag.

    A term has `term` rounds. At its start a member goes with probability `churn`, with probability `dying`
    silently, in a round of the term before; as many join. The delay of a node has a Pareto tail: it exceeds
    the soft deadline with probability `late`, and k deadlines with probability late · k^(−tail), which makes
    it miss the next k − 1 rounds too. Of the exchanges that fail, a share `half` fails at one end only.
    """

    term: int = 50
    churn: float = 0.01
    dying: float = 0.5
    late: float = 0.01
    tail: float = 1.5
    half: float = 0.1

    def __post_init__(self) -> None:
        check_whole("term", self.term, 1)
        for name in ("churn", "dying", "late", "half"):
            if not 0 <= vars(self)[name] < 1:
                raise InputError(f"{name} must be a share, at least 0 and below 1; got {vars(self)[name]}")
        if not self.tail > 0:
            raise InputError(f"tail must be above 0, got {self.tail}")


def draw_record(
    header: Header, topology: Topology, rounds: int, churn: Churn, *, seed: Seed, meet: str = "pairs"
) -> Record:
    """Events of some rounds; nodes `meet` in the pairs of the plan's tape, or with all neighbours."""
    check_known("meet", meet, MEETINGS)
    tape, term, events = Tape(seed), first_term(topology), list[Event]()
    public = Tape(0 if header.seed is None else header.seed)
    lag = np.zeros(0, np.int64)
    for start in range(0, rounds, churn.term):
        if start:
            changes, term = _change(tape, term, start, churn)
            events += changes
        lag = np.zeros(term.next_id, np.int64)  # the round from which each member is in time again
        for t in range(start, min(start + churn.term, rounds)):
            events += _failures(tape, public, term, t, churn, lag, meet)
    return Record(header, tuple(events))


def _uniform(tape: Tape, label: str, t: int, size: int) -> Values:
    """Numbers in (0, 1], one for each of `size` places."""
    words = tape.coins(label, t).words(size)
    return ((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53


def _change(tape: Tape, term: Term, start: int, churn: Churn) -> tuple[tuple[Change, ...], Term]:
    going, dying, when = (
        _uniform(tape, label, start, len(term.members)) for label in ("going", "dying", "when")
    )
    gone = going <= churn.churn
    gone[0] = False  # somebody stays
    dead = gone & (dying <= churn.dying)
    since = start - 1 - (when * churn.term * 0.999).astype(np.int64)
    joining = [f"member {term.next_id + k}" for k in range(int(gone.sum()))]
    left = term.ids[gone & ~dead].tolist()
    died = dict(zip(term.ids[dead].tolist(), since[dead].tolist(), strict=True))
    return change_members(term, start, joining=joining, leaving=left, dead=died)


def _failures(
    tape: Tape, public: Tape, term: Term, t: int, churn: Churn, lag: Index, meet: str
) -> Iterator[Event]:
    delay = (_uniform(tape, "delay", t, len(term.members)) / max(churn.late, 1e-300)) ** (-1 / churn.tail)
    rounds = np.where(delay >= 1, np.minimum(delay, churn.term), 0).astype(np.int64)
    lag[term.ids] = np.maximum(lag[term.ids], np.where(rounds > 0, t + rounds, 0))
    late = lag[term.ids] > t
    i, j = _meetings(public, term, t, meet)
    missed = late[i] | late[j]
    pairs = np.stack([term.ids[i[missed]], term.ids[j[missed]]], axis=-1).tolist()
    coins = _uniform(tape, "half", t, 2 * len(pairs)).reshape(-1, 2)
    for (one, other), (kind, end) in zip(pairs, coins.tolist(), strict=True):
        by = partial(Half, by=one if end < 0.5 else other) if kind <= churn.half else Skip
        yield by(round=t, pair=(one, other))


def _meetings(public: Tape, term: Term, t: int, meet: str) -> tuple[Index, Index]:
    """Both ends of all exchanges of a round, by position."""
    if meet == "neighbours":
        ends = np.array(term.graph.edges, np.int64).reshape(-1, 2)
        return ends[:, 0], ends[:, 1]
    partners = term.world(1).schedule.partners(public, t)
    low = np.flatnonzero(partners > np.arange(len(partners)))
    return low, partners[low]
