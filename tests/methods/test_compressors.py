from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from methods.by_node import largest
from zocosmo.channel import MemoryChannel
from zocosmo.core import VALUE_TYPES
from zocosmo.graphs.graph import ring
from zocosmo.methods.compressors import (
    lift,
    mean_magnitude,
    mean_of_nodes,
    rand_q,
    scaled_signs,
    top_q,
    union,
)

WHOLE = st.integers(-8, 8).map(float)  # few values: many ties
VECTORS = st.integers(1, 9).flatmap(lambda d: arrays(np.float64, d, elements=WHOLE))


@given(VECTORS, st.data())
def test_top_q_keeps_the_largest_and_of_equals_the_first(v, data):
    q = data.draw(st.integers(1, len(v)))
    index, values = top_q(v, q)
    assert index.tolist() == largest(v, q)
    assert_array_equal(values, v[index])


@given(arrays(np.float64, (2, 3, 5), elements=WHOLE), st.integers(1, 5))
def test_top_q_of_many_rows_is_that_of_each(v, q):
    index, values = top_q(v, q)
    for at in np.ndindex(2, 3):
        alone = top_q(v[at], q)
        assert_array_equal(index[at], alone[0])
        assert_array_equal(values[at], alone[1])


@pytest.mark.parametrize("q", [1, 2, 4])
def test_rand_q_is_unbiased_times_d_over_q_and_a_contraction_without(q):
    """All supports, d = 8, in numbers that round nothing: means are equal, not close."""
    v = np.array([3.0, -1.0, 0.0, 4.0, 1.0, -5.0, 9.0, 2.0])
    supports = [np.array(s) for s in combinations(range(8), q)]
    unbiased = sum(lift(rand_q(v, s, unbiased=True), s, 8) for s in supports)
    assert_array_equal(unbiased, len(supports) * v)
    lost = sum(((lift(rand_q(v, s, unbiased=False), s, 8) - v) ** 2).sum() for s in supports)
    assert Fraction(lost) == len(supports) * (1 - Fraction(q, 8)) * Fraction((v**2).sum())


@given(arrays(np.float64, 8, elements=WHOLE))
def test_scaled_signs_lose_what_the_paper_says(v):
    """‖C(v) − v‖² = ‖v‖² − ‖v‖₁²/d; whole numbers and d = 8 round nothing, zeros included."""
    compressed = scaled_signs(v, mean_magnitude(v))
    assert ((compressed - v) ** 2).sum() == (v**2).sum() - np.abs(v).sum() ** 2 / 8
    assert len(set(np.abs(compressed))) == 1


def test_the_scale_of_signs_is_what_the_wire_brings():
    v = np.array([0.1, -0.25, 0.0])
    channel = MemoryChannel([ring(4)], d=3, wire="f16", codecs=("values",), dtype="float64")
    scale = float(VALUE_TYPES["f16"].round(np.abs(v).sum() / 3))
    assert scaled_signs(v, channel.as_read(mean_magnitude(v))).tolist() == [scale, -scale, scale]
    assert scaled_signs(v, mean_magnitude(v))[0] != scale


def test_a_union_is_what_any_node_has():
    index = np.array([[[0, 2], [2, 3]], [[1, 4], [1, 4]]])
    assert union(index, 5).tolist() == [
        [[True, False, True, True, False]],
        [[False, True, False, False, True]],
    ]


def test_a_mean_of_nodes_does_not_depend_on_company():
    v = np.random.default_rng(0).normal(size=(7, 5, 33))
    alone = [mean_of_nodes(v[k : k + 1])[0] for k in range(7)]
    assert_array_equal(mean_of_nodes(v), np.stack(alone))
    assert np.abs(mean_of_nodes(v)[:, 0] - v.mean(axis=1)).max() < 1e-15  # 5 additions of numbers below 4
