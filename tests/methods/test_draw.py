"""Draws: picked, joined and typed field by field."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from methods.cases import small_run
from zocosmo.core.support import Direction
from zocosmo.core.tape import Tape
from zocosmo.methods.base import Draw, SharedDraw
from zocosmo.rounds.draws import DrawAhead


@dataclass(frozen=True, eq=False)
class Mixed(Draw):
    """A field of every kind that a draw may have."""

    choice: Any
    spaces: Any
    active: Any = None


def direction(rounds=4, n=3, *, dense=False, start=0):
    """(rounds, n, 2) of 6 coordinates; dense: all of them, without leading axes."""
    index = np.arange(6) if dense else np.broadcast_to(np.array([1, 4]), (rounds, n, 2)).copy()
    size = rounds * n * index.shape[-1]
    return Direction(index, 6, np.arange(start, start + size).reshape(rounds, n, -1))


def second(rows):
    """The second round; an array without an axis of rounds is the same in all."""
    return rows if rows.ndim == 1 else rows[1]


def test_a_field_that_is_another_is_still_that_one_when_picked_or_joined():
    u = direction()
    draw = SharedDraw(u, u)
    for changed in (draw.pick(second), SharedDraw.merge([draw, draw], np.concatenate)):
        assert changed.u is changed.everyone


def test_a_field_that_is_another_takes_its_type_with_it():
    u = direction()
    draw = SharedDraw(u, u).of_type(np.dtype("f4"))
    assert draw.u is draw.everyone
    assert draw.u.signs.dtype == np.float32


def test_fields_that_are_equal_but_not_one_stay_two():
    picked = SharedDraw(direction(), direction(start=100)).pick(second)
    assert picked.u is not picked.everyone
    assert_array_equal(picked.everyone.signs, picked.u.signs + 100)


def test_where_the_index_does_not_change_a_direction_keeps_its_support():
    u = direction(dense=True)
    picked = Draw(u).pick(second)
    assert picked.u.index is u.index
    assert_array_equal(picked.u.signs, u.signs[1])


def test_a_new_type_leaves_the_support_as_it_is():
    draw = Draw(direction())
    assert draw.of_type(np.dtype("f4")).u.index is draw.u.index


def test_dense_rounds_of_a_block_share_one_index():
    run = small_run("dense")
    draws = DrawAhead(run.method, [run.world], [run.seed], np.dtype("f8"))
    assert draws.at(0).u.index is draws.at(1).u.index
    assert (draws.at(0).u.signs != draws.at(1).u.signs).any()


def test_a_pick_reaches_arrays_directions_and_tuples_and_leaves_none():
    choice, spaces = np.arange(12).reshape(4, 3), (np.zeros((4, 2)), np.arange(8).reshape(4, 2))
    picked = Mixed(direction(), choice, spaces).pick(second)
    assert (picked.u.index.shape, picked.u.signs.shape) == ((3, 2), (3, 2))
    assert picked.choice.tolist() == [3, 4, 5]
    assert [each.tolist() for each in picked.spaces] == [[0, 0], [2, 3]]
    assert picked.active is None


def test_draws_are_joined_field_by_field_in_their_order():
    first, then = (
        Mixed(direction(start=start), np.full((4, 3), start), (np.full((4, 2), start),)) for start in (0, 50)
    )
    joined = Mixed.merge([first, then], lambda parts: np.concatenate(parts, axis=1))
    assert joined.u.signs[0, :, 0].tolist() == [0, 2, 4, 50, 52, 54]
    assert joined.choice[0].tolist() == [0, 0, 0, 50, 50, 50]
    assert joined.spaces[0].shape == (4, 4)


def test_nodes_that_are_all_here_have_the_directions_of_everyone():
    run = small_run("marina_type")
    whole = run.method.draw(run.world, Tape(1), np.arange(3))
    some = run.method.draw(run.world_at(np.array([1, 3])), Tape(1), np.arange(3))
    assert whole.u is whole.everyone
    assert_array_equal(some.u.signs, some.everyone.signs[..., [1, 3], :])


def test_equal_keys_are_equal_directions_and_others_have_others():
    run = small_run("marina_type")
    draws = DrawAhead(run.method, [run.world_at(np.array([1, 3]))], [run.seed], np.dtype("f8"))
    first, later, again = draws.at(0), draws.at(70), draws.at(0)
    assert len({u.key for draw in (first, later) for u in (draw.u, draw.everyone)}) == 4
    assert again.u.key == first.u.key
    assert_array_equal(again.u.signs, first.u.signs)


def test_a_draw_that_replays_nothing_needs_no_past():
    draw = Draw(direction())
    assert draw.with_past(lambda t: pytest.fail("nobody asks")) is draw
