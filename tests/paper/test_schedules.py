"""Balanced epochs and coverage: what draws show, and that a schedule which is not balanced is told."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from zocosmo.core.support import Support, draw_support
from zocosmo.theory import coverage
from zocosmo_paper.item import Evidence
from zocosmo_paper.items import schedules
from zocosmo_paper.items.schedules import Epochs, watch_epochs, watch_node

NOTHING = Evidence({}, None, Path("nowhere"))


def verdicts(found):
    return {claim.words: claim.verdict for claim in found.claims}


@pytest.fixture
def small(monkeypatch):
    """d = 64 and q = 8 in place of the LoRA model's: 12 rounds are then an exposure of 1.5."""
    for name, value in {"LORA": 64, "Q": 8, "LONG": 12, "SHORT": 4}.items():
        monkeypatch.setattr(schedules, name, value)


@pytest.mark.parametrize(("d", "q", "epochs"), [(128, 16, 30), (20, 3, 30), (1030, 70, 3)])
def test_epochs_cover_every_coordinate_once_within_the_bound(d, q, epochs):
    """Up to d = 1024 a permutation is drawn outright, above that it is a keyed network."""
    found = watch_epochs(d, q, epochs)
    assert found[:2] == (0, 0)
    assert found.longest <= coverage.max_balanced_gap(d, q)
    assert found.mean == coverage.epoch_length(d, q)


def test_uniform_supports_are_not_balanced(monkeypatch):
    """Eight draws of 16 from 128 miss a coordinate with probability (7/8)^8 = 0.34."""
    monkeypatch.setattr(schedules, "balanced_support", draw_support)
    monkeypatch.setattr(schedules, "SIZES", {(128, 16): 10})
    found = verdicts(schedules.find_balanced(NOTHING))
    assert found["d = 128, q = 16: coordinates that an epoch misses"] == "no"
    assert found["d = 128, q = 16: second visits within an epoch"] == "no"


def test_epochs_are_counted_right_by_hand(monkeypatch):
    """d = 2 and q = 1: coordinate 0 in rounds 0 and 3, coordinate 1 in rounds 1 and 2. Gaps 3 and 1."""
    order = [0, 1, 1, 0]
    monkeypatch.setattr(
        schedules, "balanced_support", lambda tape, t, *, d, q: Support(np.array([order[t]]), d)
    )
    assert watch_epochs(2, 1, 2) == Epochs(0, 0, 3, Fraction(2))


@pytest.mark.parametrize(("longest", "verdict"), [(614, "within"), (615, "within"), (616, "no")])
def test_a_gap_is_held_against_its_bound(longest, verdict):
    assert schedules._gap("gap", 615, longest).verdict == verdict


def test_balanced_claims_hold_at_small_sizes(monkeypatch):
    monkeypatch.setattr(schedules, "SIZES", {(128, 16): 60, (20, 3): 60})
    found = schedules.find_balanced(NOTHING)
    assert set(verdicts(found).values()) == {"within"}
    assert found.tables[0].rows[0][:4] == ["128", "16", "8", "60"]


@pytest.mark.parametrize(("coupling", "edges"), [("G", [()] * 12), ("I", [(0, 1), (0, 3)] * 6)])
def test_a_node_visits_the_union_of_its_supports(small, coupling, edges):
    """With I the edges of node 0 on the alternating ring are to node 1 and to node 3 in turn."""
    tape = schedules.Tape(2)
    seen = {k for t, edge in enumerate(edges) for k in draw_support(tape, t, *edge, d=64, q=8).index}
    assert watch_node(coupling, 2).long["2"] == len(seen) / 64


def test_seeds_widen_the_draws(small):
    assert list(watch_node("G", 3).short) == ["1", "2", "3"]


def test_exact_constants_are_the_printed_ones():
    assert {claim.verdict for claim in schedules._exact()} == {"within"}


@pytest.mark.parametrize(("T", "wrong"), [(1540, 0), (1539, 1), (1600, 2), (1700, 3)])
def test_another_horizon_misses_the_printed_constants(monkeypatch, T, wrong):
    """One round less is seen by the count of queries alone; 1600 leave 99.34 %, and 1700 an exposure of 5."""
    monkeypatch.setattr(schedules, "LONG", T)
    assert [claim.verdict for claim in schedules._exact()].count("no") == wrong


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.99326, "within"), (0.99344, "within"), (0.99324, "no"), (0.99346, "no")]
)
def test_a_share_must_round_into_the_printed_range(share, verdict):
    assert schedules._in_range("share", share).verdict == verdict


def test_small_sizes_do_not_have_the_coverage_of_the_paper(small):
    found = verdicts(schedules.find_coverage(NOTHING))
    assert found["I: coverage drawn, mean over seeds"] == "no"
    assert found["I: coverage drawn, against its law"] == "within"


@pytest.mark.slow
def test_the_tape_draws_the_printed_coverage_and_gaps():
    claims = [*schedules.find_balanced(NOTHING).claims, *schedules.find_coverage(NOTHING).claims]
    assert {claim.verdict for claim in claims} == {"within"}
