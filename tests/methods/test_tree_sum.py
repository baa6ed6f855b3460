"""Sums over a tree: exact integers, dither that adds nothing on average, states alike, b bits a link."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from methods.cases import GRAPHS, small, small_run, states
from methods.forward import seen
from zocosmo.core.payload import Bits
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete, path, ring, star
from zocosmo.methods.compressors import folded
from zocosmo.methods.tree_sum import REACH, mean_square, scale_of
from zocosmo.problems.quadratic import Quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation
from zocosmo.traffic import sum_messages


def linear(b):
    """Nodes whose slopes along z are b_iᵀz."""
    b = np.array(b, float)
    return Quadratic(np.zeros_like(b), b, 0.0, None)


def totals(method, problem, graph, rounds, seed=1):
    """Σ_p T_p z_p of each round, from the steps, and what it would be without rounding."""
    simulation = Simulation([Run(method, graph, problem, seed)])
    for t in range(rounds):
        before, z = simulation.state.x[0, 0].copy(), simulation.draws.at(t).u.entries[0, :, 0].astype(float)
        simulation.round()
        taken = (before - simulation.state.x[0, 0]) * (problem.n * method.perturbations / method.eta)
        yield simulation, taken, ((problem.b.sum(axis=0) @ z.T)[:, None] * z).sum(axis=0)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("bits", [2, 3])
def test_a_total_that_fits_is_off_by_the_dither_alone(n, bits):
    """All dithers on a grid of eighths, and slopes that fit, in units of Δ: T − Σ s has mean 0 exactly."""
    grid = [Fraction(2 * m + 1, 16) for m in range(8)]
    slopes = [Fraction(k, 8) for k in (-3, 0, 1, 5)]
    half = 2 ** (bits - 1)
    for s in product(slopes, repeat=n):
        if abs(sum(s)) + Fraction(n, 2) >= half:
            continue
        errors = []
        for r in product(grid, repeat=n):
            K = sum((one + shift).__floor__() for one, shift in zip(s, r, strict=True)) % 2**bits
            T = folded(np.array(float(K + Fraction(n, 2) - sum(r))), bits)
            assert float(T) == float(
                sum((a + b).__floor__() - b + Fraction(1, 2) for a, b in zip(s, r, strict=True))
            )
            errors.append(Fraction(float(T)) - sum(s))
        assert sum(errors) == 0
        assert max(map(abs, errors)) <= Fraction(n, 2)


@given(st.integers(-(2**40), 2**40), st.integers(1, 2**16 - 1), st.integers(2, 16))
def test_folding_is_exact(k, fraction, bits):
    value = Fraction(k) + Fraction(fraction, 2**12)
    found = Fraction(float(folded(np.array(float(value)), bits)))
    assert -(2 ** (bits - 1)) <= found < 2 ** (bits - 1)
    assert (found - value) % 2**bits == 0


@given(st.floats(1e-12, 1e12), st.integers(2, 16))
def test_the_scale_is_the_least_power_of_two_that_reaches(root, bits):
    scale = float(scale_of(np.array(root * root), bits))
    reach = REACH * np.sqrt(root * root)
    assert np.frexp(scale)[0] == 0.5
    assert scale * 2 ** (bits - 1) > reach >= scale * 2 ** (bits - 2)


def test_no_totals_give_the_least_scale_and_no_step():
    simulation = Simulation([Run(small("tree_sum"), ring(4), linear(np.zeros((4, 3))), 1)])
    x = simulation.states().copy()
    for _ in range(3):
        simulation.round()
    assert np.abs(simulation.states() - x).max() < 2.0**-50


def test_what_dither_adds_is_taken_off_the_mean_square_but_not_all_of_it():
    total = np.array([[[3.0, 5.0]]])
    assert mean_square(total, np.array([[[1.0]]])).tolist() == [[[16.0]]]
    assert mean_square(total, np.array([[[16.0]]])).tolist() == [[[17.0 / 4]]]


@pytest.mark.parametrize("bits", [4, 6, 10])
def test_nodes_may_differ_as_they_like_if_their_sum_is_small(bits):
    """Slopes of a thousand that cancel: only the total is read, within N Δ/2 of the truth."""
    b = np.array([[1000.0, -500.0, 1.0], [-1000.0, 500.0, 1.0], [777.0, 3.0, 0.0], [-777.0, -3.0, 0.5]])
    method, scale = small("tree_sum", bits=bits, eta=2.0**-10), 1.0
    for t, (simulation, taken, truth) in enumerate(totals(method, linear(b), ring(4), 12)):
        if t:
            assert np.abs(taken - truth).max() <= 2 * scale
        scale = scale_of(simulation.state.square, bits)[0, 0, 0] + 2.0**-20
    assert scale < 10


def test_a_total_that_does_not_fit_widens_the_scale_until_it_does():
    """Slopes grow a million times at once. A wrapped total is anywhere in its range, whose mean square is at
    least 16/3 of what made it, so the scale follows: to within 2^6 of a square that grew 10^12 times."""
    problem = linear([[1.0, 0.5, 0.25]] * 3)
    simulation = Simulation([Run(small("tree_sum", eta=0.0), complete(3), problem, 1)])
    for _ in range(5):
        simulation.round()
    before = float(simulation.state.square[0, 0, 0])
    simulation.problem.b *= 1.2345678e6  # no power of two, of which residues would be 0
    for _ in range(150):
        simulation.round()
    assert 2.0**-6 < float(simulation.state.square[0, 0, 0]) / (1.2345678e6**2 * before) < 2.0**6


@pytest.mark.parametrize("graph", [complete(5), ring(6), star(4), path(3)], ids=lambda g: g.name)
@pytest.mark.parametrize("bits", [3, 5, 32])
def test_a_link_of_the_tree_carries_b_bits_a_direction_and_no_other_carries_any(graph, bits):
    """Round 0 has 32 bits in whole words of b."""
    method, P = small("tree_sum", bits=bits, perturbations=2), 2
    simulation = Simulation([Run(method, graph, rosenbrock(graph.n, 1, d=6), 1)])
    for _ in range(9):
        simulation.round()
    ledger, tree = simulation.channel.ledger(method.codec), sum_messages(graph)
    assert len(tree) == 2 * (graph.n - 1)
    first = P * bits * -(-32 // bits)
    expected = Bits(values=first).padded().plus(Bits(values=P * bits).padded().times(8))
    expected = expected.plus(Bits(framing=256 * 9))
    for link in ledger.links:
        assert ledger.link(*link) == (expected if link in tree else Bits())


def test_as_many_scalars_as_coordinates_are_still_scalars():
    method = small("tree_sum", bits=4, perturbations=6)
    simulation = Simulation([Run(method, path(2), rosenbrock(2, 1, d=6), 1)])
    simulation.round()
    simulation.round()
    assert simulation.channel.ledger("residues4").link(0, 1).values == 6 * 32 + 6 * 4


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("bits", [3, 32])
def test_nodes_that_start_alike_stay_alike(bits, dtype):
    x = states([small_run("tree_sum", "random", bits=bits, perturbations=3)], 30, dtype=dtype, wire="f32")
    assert (x == x[:, :1]).all()


@pytest.mark.parametrize("wire", ["f64", "f32", "f16", "bf16"])
def test_no_wire_rounds_an_integer(wire):
    """Round 0 sends values of the wire; integers of 16 bits follow, and bf16 holds 8."""
    run = small_run("tree_sum", "ring", bits=16)
    first, *rest = seen(run, 6, wire=wire)[0]
    start = Simulation([run], wire=wire)
    start.round()
    assert_array_equal(first, start.states()[0])
    exact, found = totals_of(rest, first), totals_of(seen(run, 6, wire="f64")[0][1:], first)
    assert np.abs(exact - found).max() < 2.0**-6


def totals_of(later, first):
    return np.stack(later) - first


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_round_waits_on_the_way_to_the_root_and_back(graph):
    depth = {"complete": 1, "ring": 2, "random": 2}[graph]
    assert small("tree_sum").stages(small_run("tree_sum", graph).world) == 2 * depth


def test_one_side_costs_one_query_more_than_there_are_directions():
    for sides, queries in ((1, 5), (2, 8)):
        run = small_run("tree_sum", "ring", perturbations=4, sides=sides)
        assert seen(run, 3)[1].queries.tolist() == [3 * 4 * queries]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"bits": 1}, "bits must be between 2 and 16, got 1; 32 sends values of the wire"),
        ({"bits": 17}, "bits must be between 2 and 16, got 17; 32 sends values of the wire"),
        ({"perturbations": 0}, "perturbations must be 1 or more, got 0"),
        ({"sides": 3}, "sides must be between 1 and 2, got 3"),
        ({"codec": "values"}, "codec of tree_sum 'values' is not known; choose from residues5"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes, says):
    with pytest.raises(InputError, match=says) as error:
        small("tree_sum", **changes)
    assert "\n" not in str(error.value)
