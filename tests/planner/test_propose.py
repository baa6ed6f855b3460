"""Proposed settings: within the budget, near the best there is, for reasons that carry the numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete
from zocosmo.methods import EdgeLocal
from zocosmo.planner.propose import (
    FAILING,
    HEAD_BITS,
    LEAST_DIMENSIONS,
    LEAST_ROUNDS,
    LEFT,
    SHARE,
    Spending,
    propose,
    settings,
    wire_bits,
)
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.directions import Directions, norm_factor
from zocosmo.theory.touches import share_left

RING = 2 - 2**0.5  # 2 λ₂ of the phases of a ring of 8
FIELD = {"d": 32, "lambda2": RING / 2, "pairs": 4}

spendings = st.builds(
    Spending,
    d=st.integers(1, 10**6),
    lambda2=st.floats(0.01, 1.5),
    pairs=st.integers(1, 8),
    matched=st.sampled_from([Fraction(1), Fraction(2, 3)]),
    bits=st.integers(2000, 10**9),
    queries=st.integers(400, 10**6),
    batch=st.sampled_from([1, 8]),
    spread=st.none() | st.floats(0, 20),
)


@given(spendings)
def test_a_proposal_keeps_the_budget_and_is_near_the_best(spending):
    found = propose(spending)
    assert found.rounds * found.message_bits * spending.matched <= spending.bits
    assert found.rounds * found.queries * spending.matched <= spending.queries
    others = [each for each in settings(spending) if each.rounds >= LEAST_ROUNDS]
    if found.rounds >= LEAST_ROUNDS:
        assert found.gain >= Fraction(SHARE) * max(each.gain for each in others)
    else:
        assert not others
    how = Directions(K=found.directions, signs=found.signs)
    assert found.factor == norm_factor(spending.d, found.q, how)


@given(spendings)
def test_a_subspace_is_proposed_where_and_only_where_touches_are_too_few(spending):
    found = propose(spending)
    left = share_left(found.subspace or spending.d, found.q, found.rounds, spending.gap)
    if found.subspace is None:
        assert ("are enough to agree" in found.why[4]) != ("can learn less" in found.why[4])
        assert left <= LEFT or "can learn less" in found.why[4]
        return
    assert max(found.q, LEAST_DIMENSIONS) <= found.subspace <= spending.d / 2
    assert left <= LEFT or found.subspace in (found.q, LEAST_DIMENSIONS)
    assert found.touches == Fraction(found.rounds * found.q, found.subspace)
    assert share_left(spending.d, found.q, found.rounds, spending.gap) > left


@pytest.mark.parametrize(("bits", "q", "K"), [(10_000, 16, 16), (25_000, 16, 16), (100_000, 32, 8)])
def test_the_field_gets_what_the_prototypes_found_best(bits, q, K):
    """3,200 queries, ring of 8, d = 32: as many directions as coordinates while bits are short."""
    found = propose(Spending(**FIELD, bits=bits, queries=3200))
    assert (found.q, found.directions, found.sides, found.wire, found.coupling) == (q, K, 1, "mod4", "G")
    assert found.subspace is None


def test_with_bits_to_spare_a_few_directions_are_enough():
    """K/(K + 1) of all that queries can get: 8/9, and all coordinates are sent."""
    found = propose(Spending(**FIELD, queries=3200))
    assert (found.q, found.directions, found.rounds) == (32, 8, 3200 // 9)


def test_a_language_model_shares_its_batch_out_and_moves_in_a_subspace():
    """460,800 coordinates, ring of 4, 1,540 rounds: both sides, rows, a subspace that is touched enough."""
    found = propose(Spending(d=460_800, lambda2=1.0, pairs=2, bits=1_620_000, queries=3080, batch=16))
    assert (found.q, found.directions, found.sides, found.rounds) == (256, 16, 2, 1540)
    assert found.subspace == 2**15
    assert "rows of its own among 16 examples" in found.why[1]
    assert "Subspace of 32,768: of 460,800 coordinates each would be touched 0.856 times" in found.why[4]


@pytest.mark.parametrize(("spread", "name"), [(2.9, "I"), (3.1, "G"), (None, "G")])
def test_the_coupling_follows_the_crossover(spread, name):
    found = propose(Spending(**FIELD, queries=3200, spread=spread))
    assert found.coupling == name
    assert found.why[3].startswith(f"Coupling {name}")


@pytest.mark.parametrize("q", [1, 16, 256, 4096])
def test_four_bits_are_enough_and_three_are_not(q):
    assert wire_bits(q) == 4
    assert FAILING < 0.05


def test_reasons_carry_the_numbers():
    found = propose(Spending(**FIELD, bits=10_000, queries=3200))
    size, side, wire, *_ = found.why
    assert size.startswith(
        "q = 16, 16 orthogonal directions: 10 kbit and 3,200 queries per node pay for 109 rounds."
    )
    assert "E‖ĝ‖² is 2 ‖g‖², against 32 ‖g‖² with one direction" in size
    assert "17 queries a round in place of 32" in side
    assert f"A message has {16 * 4 + HEAD_BITS} bits" in wire


def test_a_short_budget_is_said_to_be_short():
    found = propose(Spending(**FIELD, bits=500, queries=3200))
    assert found.rounds < LEAST_ROUNDS
    assert "fewer than the 100" in found.why[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "give bits, queries or both"),
        ({"bits": 0}, "bits must be 1 or more"),
        ({"bits": 20}, "pays for no round, which takes 31 bits and 2 queries"),
        ({"queries": 5, "lambda2": 0.0}, "λ₂ must be above 0"),
        ({"queries": 5, "d": 0}, "d must be 1 or more"),
    ],
)
def test_what_is_no_budget_is_refused(change, words):
    with pytest.raises(InputError, match=words):
        propose(Spending(**{**FIELD, **change}))


def test_the_code_spends_queries_and_scatters_as_proposed():
    """One round of the proposed method: its queries, and E‖ĝ‖² over tapes on a linear loss, |z| < 4."""
    found = propose(Spending(**FIELD, bits=10_000, queries=3200))
    fields = {"q": found.q, "directions": found.directions, "signs": found.signs, "sides": found.sides}
    method = EdgeLocal(coupling=found.coupling, eta=1.0, mu=1.0, **fields)
    g = np.arange(1.0, 33.0)
    flat = Quadratic(np.zeros((2, 32)), np.stack([g, g]), 0.0, None)
    sim = Simulation([Run(method, complete(2), flat, seed) for seed in range(400)])
    start = np.asarray(sim.states()).copy()
    sim.round()
    moved = ((np.asarray(sim.states()) - start)[:, 0] ** 2).sum(axis=-1)
    z = (moved.mean() - float(found.factor) * (g @ g)) / (moved.std(ddof=1) / 20)
    assert abs(z) < 4
    assert set(sim.checkpoint().queries.tolist()) == {2 * found.queries}  # of both nodes
