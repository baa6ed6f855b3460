"""Every member alone, with its own memory of links and the letters it hears, is a row of the simulator."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from terms.networks import SEED, eventful, linear, living, method, topology
from zocosmo.channel import Channel, MemoryChannel
from zocosmo.core.tape import Tape
from zocosmo.core.wire import Letters
from zocosmo.graphs.slots import Slot
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import Rounds
from zocosmo.terms import Here, Shared, carry_links, fresh_links

ROUNDS = 24
CHANGES = {
    5: {"joining": ["a", "b"], "leaving": [2]},
    11: {"dead": {4: 8}},
    14: {"leaving": [8], "joining": ["c"]},
    18: {"leaving": [9, 0]},
}
SECOND = {"directions": 2, "signs": "orthogonal", "beta": 0.5, "correction": 0.25, "step_rule": "normalised"}


class Alone(Channel):
    """One member; the letters of others are what the simulator saw them write."""

    def __init__(self, *args, post, told, **options):
        super().__init__(*args, **options)
        self.post, self.others = post, told

    def _letter(self, sender, stage):
        letters, ids = self.post[self.t, stage]
        return letters.take([int(np.searchsorted(ids, self.ids[sender]))])

    def begin(self, t):
        super().begin(t)
        self.stage = 0

    def swap(self, letters, partners, u):
        self.stage += 1
        (j,) = partners.tolist()
        return letters if j == self.nodes[0] else self._letter(j, self.stage - 1)

    def hear(self, letters, u, everyone, peers_only):
        self.stage += 1
        for slot in self.slots(peers_only):
            yield slot, Letters.stack([self._letter(j, self.stage - 1) for j in slot.source.tolist()])

    def _build_slots(self, peers_only, dtype):
        for slot in super()._build_slots(peers_only, dtype):
            at = np.flatnonzero(np.arange(self.n)[slot.rows] == self.nodes[0])
            if at.size:
                yield Slot(np.array([0]), slot.source[at], slot.weight[at])

    def counts_of(self, peers, back, letters):
        return np.array([self.others[self.ids[j], self.ids[self.nodes[0]]] for j in peers], np.uint8)

    _hear_at = _spread = _residues_of_all = _sum_of_all = None


class Member:
    """A process with one member of a network."""

    def __init__(self, member, sim, how, wire, post, told):
        self.id, self.how, self.wire, self.post, self.told = member, how, wire, post, told
        self.run, self.waiting, self.rounds, self.term = sim.runs[0], {}, None, None

    def enter(self, term, state, t):
        """A term begins: a new channel, with the memory of the one before."""
        old, before = self.rounds, self.term
        options = {"wire": self.wire, "codecs": ["values"], "dtype": "float64", "tape": Tape.stack([SEED])}
        nodes = np.array([term.position(self.id)])
        boxes = {"post": self.post, "told": self.told, "repair": True, "ids": term.ids}
        channel = Alone([term.graph], d=8, nodes=nodes, **options, **boxes)
        draws = DrawAhead(self.how, [term.world(8, [self.id])], [SEED], channel.dtype)
        self.rounds, self.term = Rounds(self.how, state, draws, channel, lead=(1,)), term
        self.rounds.t, self.oracle = t, Shared(self.run.problem, term.shares[nodes])
        if old is not None:
            here = [Here(each.ids, np.array([self.id]), False) for each in (before, term)]
            memory = old.channel.repairs.memory
            self.waiting = carry_links(memory, channel.repairs.memory, *here, self.waiting).waiting
        elif t:
            fresh_links(channel.repairs.memory)

    def tell(self):
        """How many exchanges it has applied, by link: what its letters say."""
        memory = self.rounds.channel.repairs.memory
        for link in np.flatnonzero(memory.ends[:, 0] == self.term.position(self.id)):
            self.told[self.id, self.term.ids[memory.ends[link, 1]]] = memory.count[link]


@pytest.fixture
def post(monkeypatch):
    """All letters of the simulator, by round and stage, with the ids of those who wrote them."""
    kept, swap, hear = {}, MemoryChannel.swap, MemoryChannel.hear

    def write(channel, letters):
        ids = np.arange(channel.n) if channel.ids is None else channel.ids
        kept[channel.t, sum(t == channel.t for t, _ in kept)] = letters, ids

    def swapped(self, letters, partners, u):
        write(self, letters)
        return swap(self, letters, partners, u)

    def heard(self, letters, *rest):
        write(self, letters)
        return hear(self, letters, *rest)

    monkeypatch.setattr(MemoryChannel, "swap", swapped)
    monkeypatch.setattr(MemoryChannel, "hear", heard)
    return kept


@pytest.mark.parametrize("options", [{}, SECOND], ids=["first", "second"])
@pytest.mark.parametrize("wire", ["f32", "mod4"])
@pytest.mark.parametrize("kind", ["edge_local", "cosmo"])
def test_members_alone_are_rows_of_the_simulator(kind, wire, options, post):
    rules, how = topology("ring", 8), method(kind, **options)
    record = eventful(rules, ROUNDS, changes=CHANGES, failing=3)
    sim, told, alive = living(rules, record, how, wire=wire, problem=linear(8)), {}, {}
    for t in range(ROUNDS):
        states = {member: each.rounds.state for member, each in alive.items()}
        sim.round()
        members = set(sim.term.ids.tolist())
        alive = {member: each for member, each in alive.items() if member in members}
        for member in sorted(members):
            each = alive.setdefault(member, Member(member, sim, how, wire, post, told))
            if each.term is not sim.term:
                each.enter(sim.term, first_state(how, member, states, record, t), t)
        for each in alive.values():
            each.tell()
        for member, each in alive.items():
            play(each, sim, t, member)
        assert_array_equal(np.stack([alive[i].rounds.state.x[0, 0] for i in sorted(alive)]), sim.state.x[0])
    assert sim.bill().tally["repairs"].sum() > 0


def first_state(how, member, states, record, t):
    """What a member begins a term with: its own state, its source's x, or the start."""
    if member in states:
        return states[member]
    source = [event.source for event in record.events if event.event == "join" and event.node == member]
    return how.init(states[source[0]].x.copy() if source else np.zeros((1, 1, 8)))


def play(each, sim, t, member):
    """One round of one member, unless it is dead; it hears what the record says it heard."""
    gone = {e.node for e in sim.record.events if e.event == "dead" and e.since <= t < e.round}
    if member in gone:
        each.rounds.skip()
        return
    channel = each.rounds.channel
    channel.lost, channel.lost_levels = sim.channel.lost, sim.channel.lost_levels
    channel.silence(np.isin(sim.term.ids, list(gone)))
    each.rounds.advance(each.oracle)
