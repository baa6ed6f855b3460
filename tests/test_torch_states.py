"""States of every kind: a snapshot brings them back, and a support is not taken for one of another draw."""

import numpy as np
import pytest
import torch

from zocosmo.core.support import Direction, Support
from zocosmo.torch.coordinates import Parameters
from zocosmo.torch.flat import Flat
from zocosmo.torch.rows import Rows

D = 12


def tensors(*kinds):
    """Entries 0, 1, 2, … in tensors of these types."""
    parts = torch.arange(float(D)).split(D // len(kinds))
    return [part.to(kind, copy=True) for part, kind in zip(parts, kinds, strict=True)]


def rows():
    """Rows that read ahead, as they do on a GPU."""
    found = Rows(np.arange(float(D)).reshape(1, 1, D), torch.device("cpu"))
    found.device = torch.device("cuda")
    found.places.device = torch.device("cpu")
    return found


KINDS = {
    "parameters": lambda: Parameters(tensors(torch.bfloat16, torch.float32)),
    "flat": lambda: Flat(tensors(torch.float32, torch.float32)),
    "rows": rows,
}


def drawn(t, *index):
    return Direction.unchecked(np.array([[index]]), D, np.ones((1, 1, len(index)), np.float32), key=(0, t))


def step(state, t, *index):
    return state.put(drawn(t, *index), np.array([[[t + 0.1 * k for k in index]]], np.float32))


def entries(state):
    return state.restrict(drawn(9, *range(D))).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_becomes_the_one_whose_snapshot_it_loads(kind):
    one, other = step(step(KINDS[kind](), 1, 0, 5, 9), 2, 2, 5), step(KINDS[kind](), 3, 0, 2, 7)
    assert other.load(np.array(one)) is other
    assert entries(other) == entries(one) != entries(KINDS[kind]())
    assert np.array(other).tobytes() == np.array(one).tobytes()


def test_masters_of_half_precision_weights_come_back_from_a_snapshot():
    new = lambda: Flat(tensors(torch.bfloat16, torch.bfloat16))  # noqa: E731
    state, other = new(), new()
    support = Support(np.array([1, 5]), state.d)
    state.put(support, np.array([1.0001, -2.5], np.float32))
    other.put(Support(np.array([0]), other.d), np.array([0.3], np.float32))
    other.load(np.asarray(state))
    assert np.asarray(other).tobytes() == np.asarray(state).tobytes()
    assert other.restrict(support).tolist() == [np.float32(1.0001), -2.5]


def test_a_used_column_becomes_the_snapshot_it_loads():
    column = Flat(tensors(torch.bfloat16)).zeros_like()
    empty = np.asarray(column)
    column.put(Support(np.array([0, 2]), 5), np.array([3.0, 4.0], np.float32))
    column.load(empty)
    assert column.restrict(Support(np.array([0, 2]), 5)).tolist() == [0, 0]


def test_momentum_of_visited_coordinates_comes_back_from_its_snapshot():
    new = lambda: Flat(tensors(torch.bfloat16, torch.float32)).zeros_like()  # noqa: E731
    one, other = step(step(new(), 1, 0, 5, 9), 2, 2, 5), new()
    assert other.load(np.array(one)) is other
    assert entries(other) == entries(one) != entries(new())
    assert np.array(other).tobytes() == np.array(one).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_support_of_another_draw_is_not_taken_for_the_one_made_ready(kind):
    state, now, coming, other = KINDS[kind](), drawn(1, 0, 5), drawn(2, 5, 7), drawn(3, 1, 8)
    assert state.restrict(now).tolist() == [[[0, 5]]]
    state.look_ahead(coming, now)
    state.read_ahead(coming)
    for u in (other, coming, now, other):
        assert state.restrict(u).tolist() == u.index.tolist()
    state.put(other, np.array([[[-1, -8]]], np.float32))
    assert np.array(state).reshape(-1).tolist() == [0, -1, *range(2, 8), -8, *range(9, D)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_support_of_no_draw_is_taken_for_no_other(kind):
    state, support = KINDS[kind](), drawn(1, 0, 5).keyed(None)
    state.look_ahead(support, support)
    state.read_ahead(support)
    assert state.restrict(drawn(2, 1, 8).keyed(None)).tolist() == [[[1, 8]]]


@pytest.mark.parametrize("kind", KINDS)
def test_places_of_a_draw_are_looked_for_once_though_it_is_drawn_again(kind, monkeypatch):
    state, u = KINDS[kind](), drawn(1, 0, 5)
    state.restrict(u)
    for module in ("flat", "rows"):
        monkeypatch.setattr(f"zocosmo.torch.{module}.to_device", None)
    monkeypatch.setattr(Parameters, "_cut", None)
    assert state.restrict(drawn(1, 0, 5)).tolist() == [[[0, 5]]]
