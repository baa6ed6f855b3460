import numpy as np
import pytest

from zocosmo.core import COUPLINGS, Tape, balanced_support, draw_signs, draw_support
from zocosmo.graphs import SCHEDULES
from zocosmo.graphs.graph import path

PAIRS = np.array([0, 2, 4]), np.array([1, 3, 5])


def directions(name, t=6, **options):
    return COUPLINGS[name].directions(Tape(9), t, *PAIRS, d=40, q=5, **options)


def per_pair(array):
    return np.broadcast_to(array, (3, 5))


def test_g_and_s_see_the_same_supports_draw_for_draw():
    for t in range(50):
        assert (directions("G", t).index == directions("S", t).index).all()


def test_s_and_i_see_the_same_signs_draw_for_draw():
    for t in range(50):
        assert (directions("S", t).signs == directions("I", t).signs).all()


def test_ids_are_the_round_alone_or_the_round_and_the_edge():
    shared, own = draw_support(Tape(9), 6, d=40, q=5), draw_support(Tape(9), 6, 2, 3, d=40, q=5)
    assert (directions("G").index == shared.index).all()
    assert (directions("G").signs == draw_signs(Tape(9), 6, q=5)).all()
    assert (directions("I").index[1] == own.index).all()


@pytest.mark.parametrize(("name", "supports", "signs"), [("G", 1, 1), ("S", 1, 3), ("I", 3, 3)])
def test_what_pairs_share_is_what_the_coupling_says(name, supports, signs):
    u = directions(name)
    assert len({tuple(row) for row in per_pair(u.index)}) == supports
    assert len({tuple(row) for row in per_pair(u.signs)}) == signs


@pytest.mark.parametrize("name", COUPLINGS)
def test_both_ends_of_a_pair_draw_the_same(name):
    one, other = (COUPLINGS[name].directions(Tape(9), 1, i, j, d=40, q=5) for i, j in ((3, 8), (8, 3)))
    assert (one.index == other.index).all()
    assert (one.signs == other.signs).all()


def test_a_balanced_rule_keeps_signs_and_changes_supports():
    u = directions("I", rule=balanced_support)
    assert (u.index[0] == balanced_support(Tape(9), 6, 0, 1, d=40, q=5).index).all()
    assert (u.signs == directions("I").signs).all()


@pytest.mark.parametrize("name", COUPLINGS)
def test_every_coupling_shifts_states_of_the_pairs(name):
    """One state for all pairs, or one for each: what is shared broadcasts."""
    u = directions(name)
    one, each = u.shift(np.zeros(40), 1.0), u.shift(np.zeros((3, 40)), 1.0)
    assert (np.broadcast_to(one, (3, 40)) == each).all()
    assert np.count_nonzero(each) == 15


@pytest.mark.parametrize("name", COUPLINGS)
@pytest.mark.parametrize("rule", [draw_support, balanced_support])
def test_directions_by_node_are_those_of_their_pairs(name, rule):
    """Many tapes and rounds at once; on a path some nodes idle."""
    schedule, tape, t = SCHEDULES["maximal"](path(7)), Tape.stack([3, 4]), np.arange(5)[:, None]
    partners = schedule.partners(tape[None, :], t)
    u = COUPLINGS[name].by_node(tape[None, :], t, partners, d=30, q=4, rule=rule)
    index, signs = (np.broadcast_to(part, (5, 2, 7, 4)) for part in (u.index, u.signs))
    for r, k, i in np.ndindex(5, 2, 7):
        if (j := partners[r, k, i]) != i:
            pair = COUPLINGS[name].directions(tape[k], r, i, int(j), d=30, q=4, rule=rule)
            assert pair.index.tolist() == index[r, k, i].tolist()
            assert pair.signs.tolist() == signs[r, k, i].tolist()
