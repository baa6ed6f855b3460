"""Terms: rounds between two changes of members. All of a term is a public function of its members.

Members have ids that are never used twice: founders 0 … n−1, then one after the other. Draws of the tape that
name a node or an edge name ids, so they do not depend on who else is there. Within a term nodes are numbered
by position: the members in ascending order of ids.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed
from zocosmo.errors import GraphError, InputError
from zocosmo.graphs.graph import GRAPHS, Graph, complete, rings_among
from zocosmo.graphs.listed import Chosen, build_schedule, settle
from zocosmo.methods.base import World, default_schedule
from zocosmo.terms.events import MOST_ID, Change, Dead, Join, Leave, Record

FOLLOWING = ("ring", "rings", "random_regular", "complete", "path", "star", "erdos_renyi", "small_world")

Index = NDArray[np.int64]


class Member(NamedTuple):
    """One member of a network."""

    id: int
    share: int  # which of the problem's losses it has; two members may have the same
    name: str = ""


@dataclass(frozen=True)
class Topology:
    """How the graph and the schedule of a term follow from its members."""

    founders: Graph
    kind: str
    options: Mapping[str, Any]  # of the graph, but n and seed
    schedule: Chosen
    seed: Seed  # of the graph

    @classmethod
    def of(cls, spec: Mapping[str, Any], seed: Seed, founders: Graph) -> "Topology":
        """From the graph of a trial as its plan has it, the trial's seed, and that graph."""
        rest = ("kind", "schedule", "n", "seed")
        options = {name: value for name, value in spec.items() if name not in rest}
        own = spec.get("seed")
        return cls(founders, spec["kind"], options, spec["schedule"], seed if own is None else own)

    def graph(self, ids: Sequence[int] | Index) -> Graph:
        """The graph of these members, ids ascending: node k is ids[k].

        The founders have the graph of the plan. Others have a graph of the same kind: `rings` by their ids,
        a random graph by the seed of the plan, every other by their number alone.
        """
        found, k = np.asarray(ids, np.int64), len(ids)
        if self.kind == "rings" and k > 1:
            return rings_among(found, seed=self.seed, **self.options)
        if k == self.founders.n and found[-1] == k - 1:
            return self.founders
        if self.kind not in FOLLOWING:
            raise GraphError(
                f"graph {self.kind} is only known for its {self.founders.n} nodes; where members change, use "
                "ring, rings, random_regular or complete"
            )
        alone = k == 1 or (k == 2 and self.kind in ("random_regular", "small_world"))
        return complete(k) if alone else GRAPHS[self.kind](k, **self._options(k))

    def _options(self, k: int) -> dict[str, Any]:
        """Of a graph of k nodes; a degree that k nodes cannot have becomes the nearest that they can."""
        options = dict(self.options)
        if self.kind in ("random_regular", "erdos_renyi", "small_world"):
            options["seed"] = self.seed
        if self.kind == "random_regular":
            degree = min(options["degree"], k - 1)
            options["degree"] = degree + degree * k % 2
        if self.kind == "small_world":
            options["k"] = min(options["k"], k - 1 - (k - 1) % 2)
        return options

    def schedule_on(self, graph: Graph) -> Chosen:
        """The plan's schedule where it fits the graph of a term, and else the default of that graph."""
        if self.schedule == "auto" or graph == self.founders:
            return self.schedule
        try:
            build_schedule(graph, settle(graph, self.schedule))
        except InputError:
            return default_schedule(graph)
        return self.schedule


@dataclass(frozen=True, eq=False)
class Term:
    """The rounds from `start` on, until the next term starts."""

    number: int
    start: int
    members: tuple[Member, ...]  # ids ascending
    topology: Topology
    next_id: int  # of the next member to join

    @cached_property
    def graph(self) -> Graph:
        """Between positions."""
        return self.topology.graph(self.ids)

    @cached_property
    def schedule(self) -> Chosen:
        return self.topology.schedule_on(self.graph)

    @cached_property
    def ids(self) -> Index:
        """Of the members, by position."""
        return np.array([member.id for member in self.members], np.int64)

    @cached_property
    def positions(self) -> Index:
        """Of the members, by id; where there is no such member, one that nobody has."""
        table = np.full(self.next_id, len(self.ids), np.int64)
        table[self.ids] = np.arange(len(self.ids))
        return table

    @cached_property
    def shares(self) -> Index:
        """Of the members, by position."""
        return np.array([member.share for member in self.members], np.int64)

    def position(self, member: int) -> int:
        """Where a member stands in this term."""
        at = int(np.searchsorted(self.ids, member))
        if at == len(self.ids) or self.ids[at] != member:
            raise InputError(f"member {member} is not in the term that starts with round {self.start}")
        return at

    def peers(self, member: int) -> list[int]:
        """The ids of a member's neighbours, ascending."""
        found: list[int] = self.ids[self.neighbours(self.position(member))].tolist()
        return found

    def neighbours(self, position: int) -> Index:
        """Who is linked with a position, ascending."""
        links = self.graph.link_ends
        first, last = np.searchsorted(links[:, 0], (position, position + 1))
        return links[first:last, 1]

    def world(self, d: int, members: Sequence[int] | None = None) -> World:
        """What a method knows of this term, for a process that has some of the members; None is all."""
        nodes = None if members is None else np.array([self.position(each) for each in members], np.int64)
        return World(self.graph, d, self.schedule, nodes, ids=self.ids)


def first_term(topology: Topology, names: Sequence[str] = ()) -> Term:
    """The founders, each with the share of its number."""
    n = topology.founders.n
    named = [*names, *[""] * (n - len(names))]
    return Term(0, 0, tuple(Member(i, i, named[i]) for i in range(n)), topology, n)


def next_term(term: Term, start: int, changes: Iterable[Change]) -> Term:
    """The term that starts with round `start`; an InputError if these changes cannot be."""
    joins, gone = [], set[int]()
    for change in changes:
        if change.round != start:
            raise InputError(f"member {change.node} changes with round {change.round}, the term with {start}")
        if isinstance(change, Join):
            joins.append(change)
        else:
            term.position(change.node)
            gone.add(change.node)
    joins.sort(key=lambda join: join.node)
    stay = [member for member in term.members if member.id not in gone]
    _check_joins(term, joins, {member.id for member in stay})
    if not stay:
        raise InputError(f"nobody is left in round {start}; a network needs one member that stays")
    new = [Member(join.node, join.share, join.name) for join in joins]
    next_id = joins[-1].node + 1 if joins else term.next_id
    return Term(term.number + 1, start, (*stay, *new), term.topology, next_id)


def _check_joins(term: Term, joins: Sequence[Join], stay: set[int]) -> None:
    shares = term.topology.founders.n
    for expected, join in enumerate(joins, term.next_id):
        if join.node != expected:
            raise InputError(f"the next member to join has id {expected}, got {join.node}; ids do not return")
        if join.source not in stay:
            raise InputError(f"member {join.node} cannot take the state of {join.source}, who does not stay")
        if join.share >= shares:
            raise InputError(f"member {join.node} has share {join.share}; the problem has {shares} shares")


def change_members(
    term: Term,
    start: int,
    *,
    joining: Sequence[str] = (),
    leaving: Iterable[int] = (),
    dead: Mapping[int, int] | None = None,
) -> tuple[tuple[Change, ...], Term]:
    """The events of a change, as a host makes them, and the term they begin.

    `joining` are names; `dead` maps members to the first round they did not play. A joiner gets the lowest
    share that nobody has, or its id modulo the number of shares; its source is `source_of`.
    """
    gone: list[Change] = [Leave(round=start, node=node) for node in leaving]
    gone += [Dead(round=start, node=node, since=since) for node, since in (dead or {}).items()]
    left = {change.node for change in gone}
    stay = [member for member in term.members if member.id not in left]
    if not stay:
        raise InputError(f"nobody is left in round {start}; a network needs one member that stays")
    held, shares = {member.share for member in stay}, term.topology.founders.n
    free = deque(share for share in range(shares) if share not in held)
    joins: list[Join] = []
    for node, name in enumerate(joining, term.next_id):
        if node > MOST_ID:
            raise InputError(f"a network has at most {MOST_ID:,} members in its life")
        share = free.popleft() if free else node % shares
        joins.append(Join(round=start, node=node, name=name, share=share, source=stay[0].id))
    coming, new = next_term(term, start, [*gone, *joins]), {join.node for join in joins}
    sourced = [replace(join, source=source_of(coming, join.node, new)) for join in joins]
    return (*gone, *sourced), coming


def source_of(term: Term, joiner: int, joiners: set[int]) -> int:
    """Whose state a joiner takes: its lowest neighbour that was there before, or else the lowest member."""
    lowest = (member.id for member in term.members)
    return next(each for each in chain(term.peers(joiner), lowest) if each not in joiners)


def all_terms(record: Record, topology: Topology, names: Sequence[str] = ()) -> list[Term]:
    """The terms of a record, one after the other; an InputError if it contradicts itself."""
    if record.header.n != topology.founders.n:
        raise InputError(f"events of {record.header.n} founders; the plan has {topology.founders.n} nodes")
    changes: dict[int, list[Change]] = {}
    for event in record.events:
        if isinstance(event, Change):
            changes.setdefault(event.round, []).append(event)
    terms = [first_term(topology, names)]
    for start in sorted(changes):
        terms.append(next_term(terms[-1], start, changes[start]))
    return terms
