"""The sparse map of what was visited: a dict, in arrays."""

import itertools
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zocosmo.core.support import Support
from zocosmo.errors import InputError
from zocosmo.torch.visited import FIRST, FULL, Column, Visited

KEYS = st.sets(st.one_of(st.integers(0, 40), st.integers(0, 2**62)), min_size=1, max_size=30)
WRITES = st.lists(st.tuples(KEYS, st.sampled_from("xm"), st.integers(-99, 99)), max_size=12)


def array(keys):
    return np.array(sorted(keys), np.int64)


def new(dtype=np.float32):
    return Visited({"x": np.nan, "m": 0.0}, dtype)


def crowded(count):
    """Keys that all want the same place: multiples of FIRST's inverse have products 0, 1, 2, …"""
    inverse = pow(int(FIRST), -1, 2**64)
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


class Plain:
    """The same map as dicts."""

    def __init__(self):
        self.columns = {"x": {}, "m": {}}

    def set(self, keys, column, first):
        for name, fill in (("x", np.nan), ("m", 0.0)):
            for key in keys.tolist():
                self.columns[name].setdefault(key, fill)
        self.columns[column].update(zip(keys.tolist(), first + np.arange(keys.size), strict=True))

    def get(self, keys, column):
        return np.array([self.columns[column].get(key, -1.0) for key in keys.tolist()], np.float32)

    def rows(self):
        keys = sorted(self.columns["x"])
        return {"keys": array(keys), **{name: self.get(array(keys), name) for name in "xm"}}


DENSE = st.sets(st.integers(0, 30), min_size=1, max_size=30)  # most have keys in common
LONG = st.integers(0, 20).map(lambda k: set(range(k, k + 400)))  # the first table has 1,024 places
POOLS = st.lists(st.one_of(DENSE, DENSE, LONG, st.just(set(crowded(60).tolist()))), min_size=2, max_size=5)
KINDS = st.sampled_from(["set", "set", "get", "ahead", "ahead", "len"])
ACTS = st.lists(st.tuples(KINDS, st.integers(0, 4), st.sampled_from("xm")), max_size=30)


def same(one, other):
    return {k: v.tobytes() for k, v in one.items()} == {k: v.tobytes() for k, v in other.items()}


@given(POOLS, ACTS)
def test_what_was_looked_for_ahead_is_what_a_dict_says_when_it_is_asked_for(pool, acts):
    """Arrays that overlap, in tables that grow in between, set and asked for in any order."""
    visited, plain, pool = new(), Plain(), [array(keys) for keys in pool]
    for t, (act, k, column) in enumerate(acts):
        keys = pool[k % len(pool)]
        if act == "ahead":
            visited.look_ahead(keys, pool[t % len(pool)])
        elif act == "set":
            visited.set(keys, column, t + np.arange(keys.size))
            plain.set(keys, column, t)
        elif act == "get":
            assert visited.get(keys, column, -1.0).tobytes() == plain.get(keys, column).tobytes()
        else:
            assert len(visited) == len(plain.columns["x"])
    assert same(visited.arrays(), plain.rows())


@given(st.lists(st.one_of(DENSE, LONG), min_size=2, max_size=8), st.booleans())
def test_rounds_with_a_look_ahead_are_rounds_without(rounds, both):
    """As a step does it: ask if there are masters, look ahead to the next, ask for momentum, set."""
    visited, plain, pool = new(), Plain(), [array(keys) for keys in rounds]
    for t, (keys, coming) in enumerate(itertools.pairwise(pool)):
        if both:
            assert visited.get(keys, "x", -1.0).tobytes() == plain.get(keys, "x").tobytes()
        visited.look_ahead(coming, keys)
        assert visited.get(keys, "m", -1.0).tobytes() == plain.get(keys, "m").tobytes()
        for column in "xm" if both else "m":
            visited.set(keys, column, t + np.arange(keys.size))
            plain.set(keys, column, t)
    assert same(visited.arrays(), plain.rows())


def test_what_was_looked_for_ahead_is_not_looked_for_again(monkeypatch):
    """After the losses of a round, and before the next one's, nobody looks at the table."""
    visited, keys, coming = new(), np.arange(0, 40, 2), np.arange(0, 60, 3)
    visited.look_ahead(coming, keys)
    monkeypatch.setattr(visited, "_search", None)
    for column in "xm":
        visited.set(keys, column, keys)
    assert visited.get(coming, "m").tolist() == [k if k % 2 == 0 and k < 40 else 0 for k in coming]
    assert visited.known(coming).any()


def test_arrays_set_one_after_the_other_are_both_entered():
    visited, keys, coming = new(), np.array([1, 2, 3]), np.array([3, 4])
    visited.look_ahead(coming, keys)
    visited.set(keys, "x", keys)
    visited.set(coming, "x", 9.0)
    assert visited.arrays()["x"].tolist() == [1, 2, 9, 9]


def test_restoring_forgets_what_was_looked_for_ahead():
    visited, coming = new(), np.array([1, 2])
    visited.set(np.array([2]), "m", 5.0)
    visited.look_ahead(coming, np.array([4]))
    visited.restore({"keys": np.empty(0), "x": np.empty(0), "m": np.empty(0)})
    assert visited.get(coming, "m").tolist() == [0, 0]


def test_values_given_and_taken_may_be_changed_afterwards():
    visited, keys, values = new(), np.array([1, 2]), np.array([3, 4], np.float32)
    visited.set(keys, "x", values)
    values[:] = 7
    visited.get(keys, "x")[:] = 8
    assert visited.get(keys, "x").tolist() == visited.arrays()["x"].tolist() == [3, 4]


def test_answers_of_rounds_that_are_over_are_let_go():
    visited, pool = new(), [np.arange(k, k + 9) for k in range(6)]
    seen = []
    for keys, coming in itertools.pairwise(pool):
        visited.get(keys, "x")
        seen.append(weakref.ref(visited._now))
        visited.look_ahead(coming, keys)
        visited.set(keys, "x", 1.0)
    assert [ref() is not None for ref in seen] == [False, False, False, False, True]


def test_what_cannot_be_entered_yet_is_entered_later(monkeypatch):
    """Memory runs out when the table grows: nothing that was in it, and nothing that was set, is lost."""
    visited, few, many = new(), np.arange(3), np.arange(2, 500)
    visited.set(few, "x", 4.0)
    visited.set(many, "x", 5.0)
    with monkeypatch.context() as patch:
        patch.setattr("zocosmo.torch.visited.np.empty", full_of_memory)
        with pytest.raises(MemoryError):
            visited.arrays()
    assert visited.get(few, "x").tolist() == [4, 4, 5]
    assert len(visited) == 500


@pytest.mark.parametrize("call", range(3))
def test_growing_that_is_broken_off_leaves_the_table_as_it_was(call, monkeypatch):
    visited, first, more = new(), np.arange(0, 600, 2), np.arange(1, 600, 2)
    visited.set(first, "x", first)
    before = visited.arrays()
    visited.set(more, "x", more)
    write, calls = visited._write, itertools.count()

    def broken_off(*given):
        if next(calls) == call:
            raise KeyboardInterrupt
        write(*given)

    with monkeypatch.context() as patch:
        patch.setattr("zocosmo.torch.visited.CHUNK", 512)
        patch.setattr(visited, "_write", broken_off)
        with pytest.raises(KeyboardInterrupt):
            visited.arrays()
    assert same({name: values[::2] for name, values in visited.arrays().items()}, before)
    assert len(visited) == 600


def full_of_memory(*args):
    raise MemoryError


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
        ("2 keys need 2 values", lambda v: v.set(np.array([1, 2]), "x", np.zeros(3))),
        ("they lack keys, m", lambda v: v.restore({"x": np.zeros(0)})),
        (
            "their lengths differ",
            lambda v: v.restore({"keys": np.arange(2), "x": np.zeros(1), "m": np.zeros(2)}),
        ),
    ],
)
def test_mistakes_are_refused_with_a_line(line, call):
    with pytest.raises(InputError, match=line):
        call(new())
