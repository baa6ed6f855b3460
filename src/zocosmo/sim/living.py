"""One run of a network that lives: members come and go, exchanges fail, as a record says."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.channel import Channel
from zocosmo.errors import InputError
from zocosmo.methods.base import World
from zocosmo.methods.cosmo import Cosmo
from zocosmo.methods.edge_local import EdgeLocal
from zocosmo.oracle import Arrays
from zocosmo.rounds.checkpoint import Bill
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.guard import Guard
from zocosmo.sim.engine import Run, Simulation
from zocosmo.terms.book import Book
from zocosmo.terms.change import Here, Waiting, carry_links, carry_state, rows_of
from zocosmo.terms.events import Change, Dead, Failure, Half, Record, Repaired
from zocosmo.terms.members import Term
from zocosmo.terms.shared import Shared

Values = NDArray[Any]
Index = NDArray[np.int64]
NONE = np.zeros((0, 2), np.int64)


class Sums(NamedTuple):
    """Σ x less open debts, and what changes of members added to it and took from it: each (d,)."""

    states: Values
    brought: Values
    taken: Values


class LivingSimulation(Simulation):
    """A run whose members and failed exchanges are those of a record; `terms` are its terms.

    A member that is silent asks, sends and changes nothing until it is removed. Bits and queries of members
    that left stay on the bill.
    """

    def __init__(
        self,
        run: Run,
        record: Record,
        terms: Sequence[Term],
        *,
        codecs: Sequence[str] = (),
        wire: str = "nominal_f32",
        dtype: DTypeLike = np.float64,
        bound: float = 1e12,
        guard: Guard | None = None,
    ) -> None:
        check_living(run)
        options: dict[str, Any] = {"codecs": codecs, "wire": wire, "dtype": dtype, "bound": bound}
        super().__init__([run], **options, guard=guard, repair=True)
        self.record, self.terms, self.term = record, list(terms), terms[0]
        self._changes, self._silent, self._failures = _by_round(record)
        self.books = {codec: Book() for codec in self.channel.codecs}  # of earlier terms
        self._asked, self._tally = 0, dict.fromkeys(self.channel.tally(), 0)  # of members that left
        self.waiting: dict[tuple[int, int], Waiting] = {}
        self.brought, self.taken = np.zeros(run.problem.d), np.zeros(run.problem.d)
        self.repairs: list[tuple[int, int, int]] = []  # round, who undid an exchange, and with whom
        self._check_failures()
        self.problem = Shared(run.problem, self.term.shares)

    # Rounds

    def round(self) -> None:
        while self.term.number + 1 < len(self.terms) and self.terms[self.term.number + 1].start == self.t:
            self._change(self.terms[self.term.number + 1])
        lost = self._failures.get(self.t, {})
        self.channel.lost, self.channel.lost_levels = (
            {self.t: self._positions(lost.get(stage, NONE))} for stage in ("values", "level")
        )
        gone, t = [node for node, (since, until) in self._silent.items() if since <= self.t < until], self.t
        memory = _memory(self.channel)
        memory.undone = []
        if gone:
            self._round_without(np.searchsorted(self.term.ids, sorted(gone)))
        else:
            super().round()
        undone = self.term.ids[memory.ends[memory.undone]].tolist() if memory.undone else []
        self.repairs += [(t, by, other) for by, other in undone]

    def _round_without(self, silent: Index) -> None:
        """A round in which some nodes do nothing: what it did to them is put back."""
        mask = np.zeros(self.channel.n, bool)
        mask[silent] = True
        kept = {name: part[..., silent, :].copy() for name, part in self._parts().items()}
        asked, memory = self.asked[..., silent].copy(), _memory(self.channel)
        links = np.flatnonzero(mask[memory.ends[:, 0]])
        by_node = {name: vars(memory)[name][silent].copy() for name in memory.by_node}
        by_link = {name: vars(memory)[name][links].copy() for name in memory.by_link}
        self.channel.silence(mask)
        super().round()
        self.channel.silence(None)
        for name, part in self._parts().items():
            part[..., silent, :] = kept[name]
        self.asked[..., silent] = asked
        for name, values in by_node.items():
            vars(memory)[name][silent] = values
        for name, values in by_link.items():
            vars(memory)[name][links] = values

    def _parts(self) -> dict[str, Values]:
        return {name: part for name, part in self.state._asdict().items() if part is not None}

    def _positions(self, links: Index) -> Any:
        """Links between ids as links between positions."""
        return self.term.positions[links]

    # Terms

    def _change(self, term: Term) -> None:
        """Members change: states and links are carried over, and bills are kept."""
        old, before, channel, x = self.term, self.term.ids, self.channel, self.state.x
        changes = self._changes[term.start]
        rows, gone = rows_of(old, term, changes), ~np.isin(before, term.ids)
        for codec in channel.codecs:
            self.books[codec].add(channel.ledger(codec), before)
        self._asked += int(self.asked[..., gone].sum())
        for name, count in channel.tally().items():
            self._tally[name] += int(count[..., gone].sum())
        self.brought += _total(x[0, rows.source[rows.fresh]])
        self.taken += _total(x[0, gone])
        self.state = carry_state(self.state, rows)
        asked = self.asked[..., rows.source]
        asked[..., rows.fresh] = 0
        self._open(term)
        self.asked = asked
        here = Here(before, before, True), Here(term.ids, term.ids, True)
        carried = carry_links(_memory(channel), _memory(self.channel), *here, self.waiting)
        self.waiting = carried.waiting
        for debt in carried.dropped:
            self.taken[debt.places] -= debt.delta

    def _open(self, term: Term) -> None:
        """The channel, draws and losses of a term."""
        run = self.runs[0]
        self.term = term
        self.channel = self._make_channel([term.graph], ids=term.ids)
        world = World(term.graph, run.problem.d, term.schedule, None, run.problem.shapes, term.ids)
        run.method.check(world)
        self.draws = DrawAhead(self.method, [world], [run.seed], self.channel.dtype)
        self.stages = np.array([run.method.stages(world)])
        self.problem = Shared(run.problem, term.shares)

    def _check_failures(self) -> None:
        """Refuse failures of pairs that are not linked in their term."""
        starts, links = [term.start for term in self.terms], dict[int, list[tuple[int, Index]]]()
        for t, by_stage in self._failures.items():
            number = int(np.searchsorted(starts, t, side="right")) - 1
            links.setdefault(number, []).extend((t, each) for each in by_stage.values())
        for number, failed in links.items():
            ends = self.terms[number].ids[self.terms[number].graph.link_ends]
            rounds = np.repeat([t for t, _ in failed], [len(each) for _, each in failed])
            all_failed = np.concatenate([each for _, each in failed])
            strange = np.flatnonzero(~np.isin(all_failed @ (2**32, 1), ends @ (2**32, 1)))
            if len(strange):
                t, (i, j) = rounds[strange[0]], all_failed[strange[0]]
                raise InputError(f"members {i} and {j} are not linked in round {t}: this is another run")

    # Bills and sums

    def bill(self) -> Bill:
        now = super().bill()
        bits = {codec: total + self.books[codec].counts.sum(axis=0) for codec, total in now.bits.items()}
        tally = {name: count + self._tally[name] for name, count in now.tally.items()}
        return now._replace(queries=now.queries + self._asked, bits=bits, tally=tally)

    def book(self, codec: str) -> Book:
        """The bill of the whole run by link."""
        book = self.books[codec].copy()
        book.add(self.channel.ledger(codec), self.term.ids)
        return book

    def sums(self) -> Sums:
        """Σ x less open debts, with what joiners brought and leavers took so far.

        `states` less `brought` plus `taken` is what steps alone made of the start.
        """
        x, memory = np.asarray(self.state.x, np.float64)[0], _memory(self.channel)
        open_debts = _total(memory.debts(*x.shape))
        for kept in self.waiting.values():
            if kept.places is not None and kept.delta is not None:
                open_debts[kept.places] += kept.delta
        return Sums(_total(x) - open_debts, self.brought, self.taken)

    def check_repairs(self) -> None:
        """Refuse a record that tells of repairs, and not of those that this run made."""
        told = {
            (event.round, event.by, sum(event.pair) - event.by)
            for event in self.record.events
            if isinstance(event, Repaired) and event.round < self.t
        }
        if told and (apart := told ^ set(self.repairs)):
            t, by, other = min(apart)
            whose = "only the record" if (t, by, other) in told else "only the replay"
            raise InputError(f"{whose} has member {by} undo an exchange with {other} in round {t}")

    # Snapshots

    def arrays(self) -> Arrays:
        kept: Arrays = {"term": np.array(self.term.number), "asked": np.array(self._asked)}
        kept |= {"brought": self.brought, "taken": self.taken}
        kept["repairs"] = np.array(self.repairs, np.int64).reshape(-1, 3)
        kept |= {f"tally.{name}": np.array(count) for name, count in self._tally.items()}
        for codec, book in self.books.items():
            kept |= {f"{codec}.keys": book.keys, f"{codec}.counts": book.counts}
        for k, (link, waits) in enumerate(self.waiting.items()):
            kept[f"waiting.{k}.at"] = np.array([*link, waits.applied])
            if waits.places is not None and waits.delta is not None:
                kept |= {f"waiting.{k}.places": waits.places, f"waiting.{k}.delta": waits.delta}
        return {**super().arrays(), **{f"living.{name}": array for name, array in kept.items()}}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        kept = {name.removeprefix("living."): array for name, array in arrays.items() if "living." in name}
        number = int(kept["term"])
        if number != self.term.number:
            self._open(self.terms[number])
        super().restore(arrays)
        self._asked, self.brought, self.taken = int(kept["asked"]), kept["brought"], kept["taken"]
        self.repairs = [(t, by, other) for t, by, other in kept["repairs"].tolist()]
        self._tally = {name: int(kept[f"tally.{name}"]) for name in self._tally}
        for codec, book in self.books.items():
            book.keys, book.counts = kept[f"{codec}.keys"], kept[f"{codec}.counts"]
        self.waiting = {}
        while (at := kept.get(f"waiting.{len(self.waiting)}.at")) is not None:
            name, (i, j, count) = f"waiting.{len(self.waiting)}", at.tolist()
            self.waiting[i, j] = Waiting(count, kept.get(f"{name}.places"), kept.get(f"{name}.delta"))


def check_living(run: Run) -> None:
    """Refuse runs that cannot follow a record."""
    method = run.method
    if not isinstance(method, Cosmo | EdgeLocal):
        raise InputError(f"{method.kind} cannot follow events; use edge_local or cosmo")
    if isinstance(method, Cosmo) and method.passes > 1:
        raise InputError(f"events name one exchange a round, got passes = {method.passes}; use passes = 1")
    if isinstance(method, EdgeLocal) and not method.is_fleeting:
        raise InputError("events need a new matching and an exchange in every round; use hold 1, pairs round")
    if run.problem.in_place:
        raise InputError("events need states that are vectors; this problem's are models")


def _memory(channel: Channel) -> Any:
    assert channel.repairs is not None
    return channel.repairs.memory


def _total(rows: Values) -> Values:
    """The sum of rows in order, in double precision."""
    total = np.zeros(rows.shape[-1])
    for row in rows:
        total += row
    return total


def _by_round(
    record: Record,
) -> tuple[dict[int, list[Change]], dict[int, tuple[int, int]], dict[int, dict[str, Index]]]:
    """Changes by round, silent rounds by member, and lost messages by round and stage."""
    changes: dict[int, list[Change]] = defaultdict(list)
    silent: dict[int, tuple[int, int]] = {}
    lost: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for event in record.events:
        if isinstance(event, Change):
            changes[event.round].append(event)
        if isinstance(event, Dead):
            silent[event.node] = event.since, event.round
        if isinstance(event, Failure):
            i, j = event.pair
            both = [(i, j), (j, i)]
            missed = [link for link in both if link[0] == event.by] if isinstance(event, Half) else both
            lost.setdefault(event.round, {}).setdefault(event.stage, []).extend(missed)
    failures = {t: {stage: _ascending(each) for stage, each in found.items()} for t, found in lost.items()}
    return changes, silent, failures


def _ascending(links: list[tuple[int, int]]) -> Index:
    """In the order in which they are looked up fastest."""
    found = np.array(links, np.int64)
    return found[np.lexsort(found.T[::-1])]
