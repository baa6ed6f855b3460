"""Records and plans: replays, resuming, random events, and bills over terms."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from terms.networks import SEED, eventful, linear, living, method, topology
from zocosmo.errors import InputError
from zocosmo.methods import METHODS
from zocosmo.sim import Run, Simulation
from zocosmo.sim.living import LivingSimulation
from zocosmo.terms import Dead, Header, Join, Record, Repaired, Shared, Skip, all_terms
from zocosmo.terms.book import read_ledger, write_ledger
from zocosmo.terms.churn import Churn, draw_record

CHANGES = {5: {"joining": ["a", "b"], "leaving": [2]}, 9: {"dead": {4: 7}}, 14: {"leaving": [8, 0]}}
SECOND = {"directions": 2, "signs": "orthogonal", "sides": 1, "step_rule": "normalised", "correction": 0.25}
QUIET = Record(Header(plan="p", n=8, seed=SEED))


@pytest.mark.parametrize("options", [{}, SECOND], ids=["first", "second"])
@pytest.mark.parametrize("wire", ["nominal_f32", "f32", "bf16", "f64", "mod3"])
@pytest.mark.parametrize("kind", ["edge_local", "cosmo"])
def test_without_events_a_living_network_is_the_plain_run(kind, wire, options):
    rules = topology("ring", 8)
    sim = living(rules, QUIET, method(kind, **options), wire=wire)
    plain = Simulation(sim.runs, wire=wire)
    for _ in range(12):
        sim.round()
        plain.round()
    now, then = sim.checkpoint(), plain.checkpoint()
    assert_array_equal(sim.states(), plain.states())
    assert_array_equal(now.objective, then.objective)
    assert_array_equal(now.bits["values"], then.bits["values"])
    assert_array_equal(now.queries, then.queries)


@pytest.mark.parametrize("wire", ["f64", "mod4"])
@pytest.mark.parametrize("stop", [4, 6, 8, 15])
def test_a_stopped_replay_ends_as_one_that_was_not(wire, stop):
    rules = topology("ring", 8)
    record = eventful(rules, 20, changes=CHANGES)
    whole, begun, resumed = (
        living(rules, record, method("edge_local", beta=0.5, **SECOND), wire=wire) for _ in range(3)
    )
    for _ in range(20):
        whole.round()
    for _ in range(stop):
        begun.round()
    resumed.restore({name: np.array(array) for name, array in begun.arrays().items()})
    for _ in range(20 - stop):
        resumed.round()
    assert_array_equal(resumed.states(), whole.states())
    for one, other in zip(resumed.sums(), whole.sums(), strict=True):
        assert_array_equal(one, other)
    assert_array_equal(resumed.book("values").counts, whole.book("values").counts)
    assert_array_equal(resumed.bill().queries, whole.bill().queries)
    assert resumed.repairs == whole.repairs


def test_bits_and_queries_of_leavers_stay_on_the_bill(tmp_path):
    rules = topology("ring", 8)
    sim = living(rules, eventful(rules, 20, changes=CHANGES), method("cosmo"), wire="f32")
    for _ in range(20):
        sim.round()
    book = sim.book("values")
    assert_array_equal(book.counts.sum(axis=0), sim.bill().bits["values"][0])
    members = [8] * 5 + [9] * 4 + [8] * 5 + [6] * 6
    asked = sum(members) - 2  # the dead asked nothing in rounds 7 and 8
    assert sim.bill().queries.tolist() == [2 * asked]
    write_ledger(tmp_path / "ledger.csv", book)
    found = read_ledger(tmp_path / "ledger.csv")
    assert list(found) == [(i, j) for i, j in book.links.tolist()]
    assert list(found.values()) == [tuple(bits) for bits in book.counts.tolist()]
    assert {i for i, _ in found} == set(range(10))


def test_members_may_share_a_loss_and_hold_any():
    whole, shares = linear(4), np.array([3, 0, 3, 1, 3])
    x = np.random.default_rng(0).integers(-5, 6, (1, 5, 8)).astype(float)
    expected = (whole.g[shares] * x).sum(axis=-1)
    assert_array_equal(Shared(whole, shares).local(x), expected)
    assert_array_equal(Shared(whole, shares)(x, 3, active=np.ones((1, 5), bool)), expected)


def test_what_the_record_says_of_repairs_is_checked():
    rules = topology("ring", 8)
    record = eventful(rules, 20, changes=CHANGES)
    sim = living(rules, record, method("edge_local"))
    for _ in range(20):
        sim.round()
    made = tuple(Repaired(round=t, pair=(by, other), by=by) for t, by, other in sim.repairs)
    for events, words in ((made, None), (made[1:], "only the replay has member")):
        again = living(rules, Record(record.header, (*record.events, *events)), method("edge_local"))
        for _ in range(20):
            again.round()
        if words is None:
            again.check_repairs()
            continue
        with pytest.raises(InputError, match=words):
            again.check_repairs()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (METHODS["dense"](eta=0.1, mu=0.1), "dense cannot follow events; use edge_local or cosmo"),
        (METHODS["cosmo"](q=2, eta=0.1, mu=0.1, passes=2), "got passes = 2; use passes = 1"),
    ],
)
def test_methods_that_cannot_follow_are_refused(how, words):
    with pytest.raises(InputError, match=words):
        living(topology("ring", 8), QUIET, how)


def test_failures_of_strangers_are_refused():
    rules = topology("ring", 8)
    record = Record(QUIET.header, (Skip(round=3, pair=(0, 2)),))
    with pytest.raises(InputError, match="members 0 and 2 are not linked in round 3"):
        living(rules, record, method("cosmo"))


@pytest.mark.parametrize("meet", ["pairs", "neighbours"])
def test_random_events_are_a_record_that_runs(meet):
    rules = topology("rings", 40, degree=4)
    churn = Churn(term=10, churn=0.2, late=0.1)
    record = draw_record(Header(plan="p", n=40, seed=SEED), rules, 40, churn, seed=1, meet=meet)
    assert record == draw_record(record.header, rules, 40, churn, seed=1, meet=meet)
    kinds = {event.event for event in record.events}
    assert kinds == {"join", "leave", "dead", "skip", "half"}
    sim = living(rules, record, method("edge_local" if meet == "pairs" else "cosmo"), wire="mod4")
    for _ in range(40):
        sim.round()
    assert len(sim.terms) == 4
    assert np.isfinite(sim.states()).all()


def test_churn_and_delays_have_the_stated_laws():
    """Counts of a binomial law, within 5 standard deviations of their means."""
    rules = topology("ring", 1000)
    churn = Churn(term=20, churn=0.1, dying=0.3, late=0.02, half=0.25, tail=50.0)
    record = draw_record(Header(plan="p", n=1000, seed=SEED), rules, 200, churn, seed=3, meet="neighbours")
    changes = 9 * 1000
    gone = sum(isinstance(event, Join) for event in record.events)
    dead = sum(isinstance(event, Dead) for event in record.events)
    failed = [event for event in record.events if event.event in ("skip", "half")]
    half = sum(event.event == "half" for event in failed)
    met = 200 * 1000  # a pair fails if one of its ends is late
    for count, trials, chance in (
        (gone, changes, 0.1),
        (dead, gone, 0.3),
        (half, len(failed), 0.25),
        (len(failed), met, 1 - 0.98**2),
    ):
        spread = 2 * (trials * chance * (1 - chance)) ** 0.5  # neighbours share a node: at most twice
        assert abs(count - trials * chance) < 5 * spread


def test_terms_of_a_record_fit_its_plan():
    with pytest.raises(InputError, match="events of 8 founders; the plan has 6 nodes"):
        all_terms(QUIET, topology("ring", 6))


def test_a_living_network_in_float32():
    rules = topology("ring", 8)
    record = eventful(rules, 20, changes=CHANGES)
    run = Run(method("edge_local", beta=0.5), rules.founders, linear(8), SEED)
    sim = LivingSimulation(run, record, all_terms(record, rules), wire="f32", dtype="float32")
    for _ in range(20):
        sim.round()
    assert sim.states().dtype == np.float32
