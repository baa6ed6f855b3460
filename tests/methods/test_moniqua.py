"""Moniqua: copies are right while states are near, the average is kept, and b bits a coordinate cross."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from methods.cases import small, small_run
from zocosmo.core.payload import Bits
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, path, ring
from zocosmo.methods.compressors import folded
from zocosmo.problems.quadratic import Quadratic
from zocosmo.sim.engine import Run, Simulation


def apart(graph, x, rounds, **changes):
    """Step 0 from x, (n, d)."""
    flat = Quadratic(np.ones(x.shape), np.zeros(x.shape), 0.0, None)
    simulation = Simulation([Run(small("moniqua", eta=0.0, **changes), graph, flat, 1)])
    simulation.state = simulation.method.init(x[None].copy())
    for _ in range(rounds):
        simulation.round()
    return simulation


@given(
    st.integers(1, 6),
    st.fractions(-50, 50, max_denominator=64),
    st.fractions(-1, 1, max_denominator=64),
    st.integers(0, 2**16 - 1),
)
def test_a_copy_is_right_if_states_differ_by_no_more_than_theta(bits, x, apart, m):
    """In units of Δ = 1: θ = (2^b − 1)/2. The residue of a peer within θ gives back its integer."""
    r, theta = Fraction(2 * m + 1, 2**17), Fraction(2**bits - 1, 2)
    mine, theirs = x, x + theta * apart
    k = (theirs + r).__floor__()
    here = float(mine + r - Fraction(1, 2))
    copy = here + folded(np.array(float(k % 2**bits) - here), bits)
    if abs(apart) < 1:
        assert round(float(copy)) == k


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_the_average_is_kept_to_the_bit(bits):
    """Whole numbers, Δ = 1, weights 1/4, γ = 1/2: nothing rounds in three rounds."""
    x = np.random.default_rng(0).integers(0, 2, size=(4, 8)) * 0.5
    simulation = apart(complete(4), x, 3, theta=(2**bits - 1) / 2, bits=bits, gamma=0.5)
    np.testing.assert_array_equal(simulation.state.x[0].sum(axis=0), x.sum(axis=0))
    assert (simulation.state.x[0] != x).any()


def test_states_that_agree_stay_as_they_are():
    x = np.tile(np.linspace(-3, 3, 8), (4, 1))
    np.testing.assert_array_equal(apart(ring(4), x, 5, theta=0.01).state.x[0], x)


def test_nodes_come_to_agree_as_far_as_the_grid_lets_them():
    """On a path of 5, b = 4, Δ = 2/15: what is left is a small part of Δ² times the 8 coordinates."""
    x = np.random.default_rng(0).uniform(-0.5, 0.5, size=(5, 8))
    simulation = apart(path(5), x, 400, theta=1.0, bits=4)
    start = ((x - x.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert simulation.checkpoint().disagreement[0] < 8 * (2 / 15) ** 2 < start


def test_many_bits_are_dense_gossip():
    """b = 16, θ = 1: Δ = 2^−15, and five rounds on a ring differ from exact mixing by five times that."""
    x = np.random.default_rng(0).uniform(-0.4, 0.4, size=(4, 6))
    dense = Simulation([small_run("dense", "ring", eta=0.0)])
    dense.state = dense.method.init(x[None].copy())
    for _ in range(5):
        dense.round()
    found = apart(ring(4), x, 5, theta=1.0, bits=16).state.x
    assert np.abs(found - dense.state.x).max() < 5 * 2 * 2.0**-15


def test_states_too_far_apart_are_read_wrong():
    """θ = 1/2: a peer 3 away looks near, so they never meet."""
    x = np.array([[0.0] * 6, [3.0] * 6])
    left = apart(complete(2), x, 50, theta=0.5, bits=4).state.x[0]
    assert np.abs(left[1] - left[0]).min() > 1


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_every_link_carries_b_bits_a_coordinate(bits):
    simulation = Simulation([small_run("moniqua", "ring", d=64, bits=bits)])
    for _ in range(3):
        simulation.round()
    ledger = simulation.channel.ledger(f"residues{bits}")
    assert {ledger.link(*link) for link in ledger.links} == {Bits(values=3 * 64 * bits, framing=3 * 256)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bits": 0}, "bits must be between 1 and 16, got 0"),
        ({"theta": 0.0}, "theta must be a finite number above 0, got 0.0"),
        ({"gamma": 1.5}, "gamma must be a finite number at least 0 and at most 1, got 1.5"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says) as error:
        small("moniqua", **changes)
    assert "\n" not in str(error.value)
