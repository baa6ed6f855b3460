"""The sparse map of what was visited: a dict, in arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core.support import Support
from zocosmo.errors import InputError
from zocosmo.torch.visited import FULL, GOLDEN, Column, Visited

KEYS = st.sets(st.one_of(st.integers(0, 40), st.integers(0, 2**62)), min_size=1, max_size=30)
WRITES = st.lists(st.tuples(KEYS, st.sampled_from("xm"), st.integers(-99, 99)), max_size=12)


def array(keys):
    return np.array(sorted(keys), np.int64)


def new(dtype=np.float32):
    return Visited({"x": np.nan, "m": 0.0}, dtype)


def crowded(count):
    """Keys that all want the same place: multiples of GOLDEN's inverse have products 0, 1, 2, …"""
    inverse = pow(int(GOLDEN), -1, 2**64)
    return array(key for key in ((k * inverse) % 2**64 for k in range(4 * count)) if key < 2**63)[:count]


@given(WRITES, KEYS)
def test_it_reads_as_a_dict_does(writes, asked):
    visited, model = new(), {"x": {}, "m": {}}
    for keys, column, first in writes:
        values = first + np.arange(len(keys))
        visited.set(array(keys), column, values)
        model[column].update(zip(sorted(keys), values.tolist(), strict=True))
    entered = model["x"].keys() | model["m"].keys()
    fill = {key: 0.0 if key in entered else 7.0 for key in asked}
    assert len(visited) == len(entered)
    assert visited.get(array(asked), "m", 7.0).tolist() == [model["m"].get(k, fill[k]) for k in sorted(asked)]


@given(WRITES, st.randoms(use_true_random=False))
def test_its_arrays_do_not_tell_in_which_order_it_was_filled(writes, random):
    one, other = new(), new()
    entries = [(key, column, k) for keys, column, k in writes for key in sorted(keys)]
    last = list({(key, column): value for key, column, value in entries}.items())
    for keys, column, value in writes:
        one.set(array(keys), column, value)
    random.shuffle(last)
    for (key, column), value in last:
        other.set(array([key]), column, value)
    found, expected = one.arrays(), other.arrays()
    assert {k: v.tobytes() for k, v in found.items()} == {k: v.tobytes() for k, v in expected.items()}
    assert found["keys"].tolist() == sorted({key for key, *_ in entries})


@given(WRITES)
def test_what_arrays_gave_is_restored_over_anything(writes):
    one, other = new(np.float64), new(np.float64)
    for keys, column, value in writes:
        one.set(array(keys), column, value)
    other.set(array([5, 6]), "x", 1.0)
    other.restore(one.arrays())
    assert {k: v.tobytes() for k, v in one.arrays().items()} == {
        k: v.tobytes() for k, v in other.arrays().items()
    }
    assert len(other) == len(one)


def test_it_grows_with_what_it_holds_and_stays_at_most_a_third_full():
    visited, generator = new(), np.random.default_rng(0)
    held = {}
    for k in range(40):
        keys = np.unique(generator.integers(0, 6_525_621_760, 1000))
        visited.set(keys, "x", np.arange(keys.size) + k)
        held.update(zip(keys.tolist(), (np.arange(keys.size) + k).tolist(), strict=True))
        assert FULL * len(visited) * 16 <= visited.nbytes
    assert len(visited) == len(held)
    assert visited.get(array(held), "x").tolist() == [held[key] for key in sorted(held)]


def test_keys_that_want_one_place_are_all_kept():
    keys = crowded(300)
    visited = new()
    visited.set(keys, "x", np.arange(300))
    visited.set(np.array([7]), "x", -1.0)
    assert visited.get(keys.copy(), "x").tolist() == list(range(300))
    assert visited.get(np.array([7, 8]), "x", -5.0).tolist() == [-1.0, -5.0]


def test_growing_forgets_where_keys_were():
    visited, few = new(), np.array([1, 2, 3])
    visited.set(few, "x", 4.0)
    visited.set(np.arange(100, 5000), "x", 5.0)
    visited.set(few, "m", 6.0)
    assert visited.get(few, "x").tolist() == [4, 4, 4]
    assert visited.get(few, "m").tolist() == [6, 6, 6]


def test_a_column_is_a_vector_of_zeros_until_it_is_written():
    visited, support = new(), Support(np.array([[[2, 5, 2**40]]]), 2**41)
    momentum = Column(visited, "m")
    assert momentum.restrict(support).tolist() == [[[0, 0, 0]]]
    assert support.put(momentum, np.array([[[1, 0, 3.0]]])) is momentum
    assert support.restrict(momentum).tolist() == [[[1, 0, 3]]]
    assert np.isnan(visited.get(support.index, "x")).all()


def test_writing_what_stands_there_enters_nothing():
    visited, support = new(), Support(np.array([2, 5]), 9)
    Column(visited, "m").put(support, np.zeros(2))
    assert len(visited) == 0


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ("column 'y' is not known", lambda v: v.get(np.array([1]), "y")),
        ("keys must ascend", lambda v: v.set(np.array([2, 1]), "x", 0.0)),
        ("keys must ascend", lambda v: v.set(np.array([1, 1]), "x", 0.0)),
        ("keys must ascend", lambda v: v.get(np.array([-1, 1]), "x")),
        ("2 keys need as many values", lambda v: v.set(np.array([1, 2]), "x", np.zeros(3))),
        ("lacks keys, m", lambda v: v.restore({"x": np.zeros(0)})),
        ("several lengths", lambda v: v.restore({"keys": np.arange(2), "x": np.zeros(1), "m": np.zeros(2)})),
    ],
)
def test_mistakes_are_refused_with_a_line(line, call):
    with pytest.raises(InputError, match=line):
        call(new())
