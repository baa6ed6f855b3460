"""Values on a grid and sums over a tree: the lemmas, and the code that they are about."""

import math
from fractions import Fraction as Fr

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.channel import MemoryChannel
from zocosmo.core.grid import GRID, step_of
from zocosmo.core.noise import Noise
from zocosmo.core.tape import Tape
from zocosmo.graphs.graph import complete, path, ring, star
from zocosmo.theory.grid import (
    added_share,
    error_of_sum,
    grid_step,
    on_grid,
    read_row,
    subtree_sizes,
    tree_sum,
)
from zocosmo.traffic import breadth_first

BITS = range(2, 9)
GRAPHS = pytest.mark.parametrize("graph", [ring(6), star(5), path(4), complete(3)], ids=lambda g: g.name)
SIXTEENTHS = st.fractions(-1000, 1000, max_denominator=16)


def sending(graph):
    """Parents in the order in which nodes send: the reverse of the search."""
    return dict(reversed(list(breadth_first(graph, 0).items())[1:]))


def dyadic(rng, shape):
    """Whole sixteenths, which double precision adds exactly."""
    return rng.integers(-(2**12), 2**12, shape) / 16.0


@given(SIXTEENTHS, st.lists(SIXTEENTHS, max_size=3), st.sampled_from(BITS), st.integers(0, 2**16 - 1))
def test_no_value_is_off_the_grid_or_further_off_than_half_a_step(y, others, b, m):
    largest, r = max(abs(each) for each in (y, *others)), Fr(2 * m + 1, 2**17)
    if not largest:
        return
    step = grid_step(b, largest)
    read = on_grid(y, step, r)
    k = read / step - 1 + r
    assert k.denominator == 1
    assert -(2 ** (b - 1)) <= k < 2 ** (b - 1)
    assert -step / 2 < read - y <= step / 2


@pytest.mark.parametrize("b", BITS)
def test_the_mean_error_over_every_dither_of_a_short_tape_is_zero_and_its_variance_as_stated(b):
    """r = (2m + 1)/2M for all M = 64, and y in multiples of Δ/64: variance Δ²/12 (1 − 1/M²), with ==."""
    M, step = 64, grid_step(b, Fr(5))
    for j in range(-M, M + 1, 7):
        y = step * Fr(j, M)
        errors = [on_grid(y, step, Fr(2 * m + 1, 2 * M)) - y for m in range(M)]
        assert sum(errors) == 0
        assert sum(e * e for e in errors) / M == step * step / 12 * (1 - Fr(1, M * M))


@given(st.integers(1, 2**40), st.sampled_from(BITS))
def test_the_step_is_the_one_that_the_wire_writes_into_the_head(largest, b):
    wire, value = GRID[f"grid{b}"], largest / 2.0**30
    head = wire._head(np.array([[value]]))
    assert Fr(float(step_of(head)[0, 0])) == grid_step(b, Fr(value))


@pytest.mark.parametrize("b", BITS)
@GRAPHS
def test_the_channel_adds_up_what_the_theory_says_to_the_bit(graph, b):
    """Steps are dyadic and values short, so that double precision is exact: ==."""
    tape, n, K, t = Tape(b), graph.n, 3, 5
    values = dyadic(np.random.default_rng(b), (n, K))
    channel = MemoryChannel([graph], d=K, wire=f"grid{b}", codecs=["scalars"], dtype="float64", tape=tape)
    channel.t = t
    total = channel.sum_values(values[None])[0, 0]
    r = Noise(tape, n).dither(t, np.arange(n), K)
    rows = [[Fr(float(v)) for v in row] for row in values]
    told, steps = tree_sum(rows, sending(graph), b, [[Fr(float(v)) for v in row] for row in r])
    assert [Fr(float(v)) for v in total] == told
    assert len(steps) == n


@GRAPHS
def test_a_sum_is_right_on_average_and_off_by_what_its_steps_say(graph):
    """5,000 sums of 4 numbers, each with dither of its own; within 6 standard errors of the sample."""
    draws, K, b = 5_000, 4, 3
    tape, parents = Tape.stack(list(range(draws))), list(breadth_first(graph, 0).items())[1:]
    values = dyadic(np.random.default_rng(1), (graph.n, K))
    made = MemoryChannel(
        [graph] * draws, d=K, wire=f"grid{b}", codecs=["scalars"], dtype="float64", tape=tape
    )
    totals = made.sum_values(np.broadcast_to(values, (draws, *values.shape)))[:, 0]
    errors = totals - values.sum(axis=0)
    assert (np.abs(errors.mean(axis=0)) <= 6 * errors.std(axis=0, ddof=1) / math.sqrt(draws)).all()
    told = np.array([steps_of(graph, parents, values, b, seed, K) for seed in range(200)])
    apart = (errors[:200] ** 2).mean(axis=1) - told
    assert abs(apart.mean()) <= 6 * apart.std(ddof=1) / math.sqrt(len(apart))


def steps_of(graph, parents, values, b, seed, K):
    """Σ Δ²/12 of one sum."""
    r = Noise(Tape(seed), graph.n).dither(0, np.arange(graph.n), K)
    rows = [[Fr(float(v)) for v in row] for row in values]
    _, steps = tree_sum(rows, dict(reversed(parents)), b, [[Fr(float(v)) for v in row] for row in r])
    return float(error_of_sum(steps))


@GRAPHS
def test_subtrees_are_counted(graph):
    sizes = subtree_sizes(sending(graph))
    depth = {0: 0}
    for child, parent in list(breadth_first(graph, 0).items())[1:]:
        depth[child] = depth[parent] + 1
    assert sizes[0] == graph.n
    assert sum(sizes) == sum(depth.values()) + graph.n


@pytest.mark.parametrize(("b", "K"), [(2, 1), (3, 16), (4, 64)])
@pytest.mark.parametrize("graph", [ring(8), star(8), path(8)], ids=lambda g: g.name)
def test_a_grid_adds_no_more_than_the_bound_to_sums_of_normal_numbers(graph, b, K):
    """The mean of Σ Δ²/12 over 2,000 rounds, plus 6 standard errors, against the bound; not a tenth of it.

    Two bits pass on errors that are no longer small; there the bound is given a half more.
    """
    rng, rounds = np.random.default_rng(K), 2000
    parents, sums = sending(graph), rng.standard_normal((rounds, graph.n, K))
    reach, added = 2 ** (b - 1) - 0.5, np.zeros(rounds)
    for child, parent in (*parents.items(), (0, 0)):
        step = step_of(GRID[f"grid{b}"]._head(np.abs(sums[:, child]).max(axis=1, keepdims=True)))
        assert (np.abs(sums[:, child]) <= reach * step).all()
        added += step[:, 0] ** 2 / 12
        if child:
            sums[:, parent] += sums[:, child] + step * (rng.random((rounds, K)) - 0.5)
    bound = added_share(subtree_sizes(parents), K, b) * graph.n * (1.5 if b == 2 else 1.0)
    assert added.mean() + 6 * added.std(ddof=1) / math.sqrt(rounds) <= bound
    assert added.mean() >= bound / 10


@pytest.mark.parametrize("largest", [0, -1])
def test_a_message_of_zeros_has_no_step(largest):
    with pytest.raises(ValueError, match=r"largest value must be above 0"):
        grid_step(3, Fr(largest))
    assert read_row([Fr(0), Fr(0)], 3, [Fr(1, 2)] * 2) == ([0, 0], 0)
