"""The sum of states through joins, leaves, deaths, skips and halves: exact, with == on dyadic data."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from terms.networks import active, eventful, living, method, topology
from zocosmo.methods.corrected import Corrected
from zocosmo.terms import Half, Header, Leave, Record, Skip, change_members, first_term

CHANGES = {
    6: {"joining": ["a"], "leaving": [2]},
    12: {"joining": ["b"], "dead": {5: 9}},
    15: {"joining": ["c", "d"], "leaving": [0], "dead": {3: 15}},
}
GRAPHS = {"edge_local": topology("ring", 8), "cosmo": topology("random_regular", 8, degree=3)}
SECOND = {"directions": 2, "signs": "orthogonal", "sides": 1, "correction": 0.25}


def freeze(sim):
    """From now on nodes take no steps, so nothing but changes of members may change the sum."""
    sim.use(replace(sim.method, eta=0.0))


@pytest.fixture
def steps(monkeypatch):
    """The last step of every node, (n, d), as methods take it: idle and silent nodes give it up."""
    seen, move = {}, Corrected.move

    def spy(self, t, u, x_S, m_S, c):
        y = move(self, t, u, x_S, m_S, c)
        seen["step"] = u.put(np.zeros((*y.shape[:-1], u.d)), y - x_S)[0]
        return y

    monkeypatch.setattr(Corrected, "move", spy)
    return seen


@pytest.mark.parametrize("wire", ["f64", "mod4"])
@pytest.mark.parametrize("kind", ["edge_local", "cosmo"])
def test_the_sum_changes_by_steps_and_by_what_joiners_bring_and_leavers_take(kind, wire, steps):
    """Weights are 1/2 and 1/4, gradients whole numbers: every sum below is exact, so equal, not close."""
    rules = GRAPHS[kind]
    sim = living(rules, eventful(rules, 20, changes=CHANGES), method(kind), wire=wire)
    total, held = np.zeros(8), 0
    for t in range(20):
        sim.round()
        total += steps["step"][active(sim, t)].sum(axis=0)
        states, brought, taken = sim.sums()
        assert_array_equal(states - brought + taken, total)
        held += len(sim.channel.repairs.memory.open) + len(sim.waiting)
    assert held > 0
    assert sim.bill().tally["repairs"].sum() > 0
    assert (taken.any(), brought.any()) == (True, True)


@pytest.mark.parametrize("kind", ["edge_local", "cosmo"])
def test_corrections_of_those_who_stay_are_undone_with_their_exchanges(kind):
    """Σ c is γ times what mixing did: as long as all stay, it is γ times the open debts, exactly."""
    rules = GRAPHS[kind]
    sim = living(rules, eventful(rules, 12, changes={}), method(kind, **SECOND), wire="f64")
    for _ in range(12):
        sim.round()
        debts = sim.channel.repairs.memory.debts(8, 8).sum(axis=0)
        assert_array_equal(sim.state.c.sum(axis=(0, 1)), 0.25 * debts)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 7), st.sampled_from("shr")), max_size=30), st.integers(0, 3))
def test_any_failures_and_a_leaver_keep_the_books(fates, leaver):
    """Pairs of a ring of four fail in any pattern; in round 6 anybody leaves."""
    rules, pairs = topology("ring", 4), [(0, 1), (1, 2), (2, 3), (0, 3)]
    events = [Leave(round=6, node=leaver)]
    for t, fate in fates:
        pair = next(pair for pair in pairs if leaver not in pair) if t > 5 else pairs[t % 2 :: 2][fate == "h"]
        events.append(
            Skip(round=t, pair=pair) if fate == "s" else Half(round=t, pair=pair, by=pair[fate == "r"])
        )
    sim = living(rules, Record(Header(plan="p", n=4), tuple(events)), method("edge_local"), wire="f64")
    sim.round()
    sim.round()
    freeze(sim)
    total = sim.sums().states
    for _ in range(8):
        sim.round()
        assert_array_equal(sim.sums().states + sim.taken, total)


def test_a_joiner_takes_a_state_and_no_momentum():
    rules = topology("ring", 4)
    changes, _ = change_members(first_term(rules), 5, joining=["a"])
    record = Record(Header(plan="p", n=4), changes)
    how = method("edge_local", beta=0.5, correction=0.25, step_rule="normalised")
    sim, plain = (living(rules, each, how) for each in (record, Record(record.header)))
    for _ in range(5):
        sim.round()
        plain.round()
    sim._change(sim.terms[1])
    source = sim.term.position(changes[0].source)
    assert_array_equal(sim.state.x[0, 4], plain.state.x[0, source])
    assert_array_equal(sim.state.x[0, :4], plain.state.x[0])
    for name in ("m", "v", "c"):
        now, without = (each.state._asdict()[name] for each in (sim, plain))
        assert not now[0, 4].any()
        assert without.any()


def test_a_half_exchange_waits_for_its_link_to_come_back():
    """0 and 3 of a ring of four are parted by a joiner, who leaves again: then 3 undoes its half."""
    rules = topology("ring", 4)
    came, term = change_members(first_term(rules), 4, joining=["a"])
    left, _ = change_members(term, 8, leaving=[4])
    half = Half(round=3, pair=(0, 3), by=3)
    record = Record(Header(plan="p", n=4), (*came, *left, half))
    sim = living(rules, record, method("edge_local"), wire="f64")
    held = []
    for _ in range(12):
        sim.round()
        held.append((len(sim.waiting), len(sim.channel.repairs.memory.open)))
    assert [*held[3:8], held[-1]] == [(0, 1), *[(2, 0)] * 4, (0, 0)]
    assert [(by, other) for _, by, other in sim.repairs] == [(3, 0)]


def test_a_half_exchange_with_a_leaver_stands():
    rules = topology("ring", 4)
    left, _ = change_members(first_term(rules), 4, leaving=[0])
    record = Record(Header(plan="p", n=4), (*left, Half(round=3, pair=(0, 3), by=3)))
    sim = living(rules, record, method("edge_local"), wire="f64")
    for _ in range(4):
        sim.round()
    x, (debt,) = sim.state.x[0].copy(), sim.channel.repairs.memory.open.values()
    sim._change(sim.terms[1])
    taken = x[0].copy()
    taken[debt.places] -= debt.delta
    assert_array_equal(sim.state.x[0], x[1:])
    assert_array_equal(sim.taken, taken)
    assert debt.delta.any()
    assert (sim.channel.repairs.memory.open, sim.waiting) == ({}, {})


def test_the_dead_do_nothing_until_they_are_removed():
    """From `since` on: no query, no bit, no change of state; its partners pay for messages nobody hears."""
    rules = topology("ring", 4)
    gone, _ = change_members(first_term(rules), 6, dead={1: 2})
    sim = living(rules, Record(Header(plan="p", n=4), gone), method("edge_local", beta=0.5), wire="f32")
    for _ in range(2):
        sim.round()
    x, m = (part[0, 1].copy() for part in (sim.state.x, sim.state.m))
    sent = sim.channel.ledger("values").sent_by(1)
    for _ in range(4):
        sim.round()
    assert_array_equal(sim.state.x[0, 1], x)
    assert_array_equal(sim.state.m[0, 1], m)
    assert sim.asked.tolist() == [[12, 4, 12, 12]]
    ledger = sim.channel.ledger("values")
    assert (ledger.sent_by(1), ledger.sent_by(0).total) == (sent, 3 * sent.total)
    assert np.array_equal(sim.channel.tally()["failures"], [[2, 0, 2, 0]])
