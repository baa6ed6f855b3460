"""The record of queries: what is cut and when, signal to noise, coverage, and that all of it is restored."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from zocosmo.llm.record import FEWEST, WINDOW, Record  # noqa: E402

ONE = np.array([0])


def record(shape=(1,), d=8):
    return Record(shape, d)


def told(into, step, quantile, rows):
    """What a difference of losses becomes; it is noted."""
    found = into.clip(step, quantile)
    into.add(step, np.zeros_like(step), quantile, rows)
    return found


def fed(steps, quantile=0.5, into=None):
    """What one node's slopes become, one round after the other."""
    into = into or record()
    return [float(told(into, np.array([step]), quantile, ONE)[0]) for step in steps]


# The clip


def test_nothing_is_cut_before_ten_queries():
    steps = [1.0] * (FEWEST - 1) + [1e9]  # the tenth is judged by nine
    assert FEWEST == 10
    assert fed(steps) == steps


def test_a_step_is_cut_at_the_order_statistic_and_keeps_its_sign():
    """The quantile 0.75 of 1 … 10 is the ⌈7.5⌉ = 8th; of 1 … 10 and 20 it is the ⌈8.25⌉ = 9th."""
    seen = record()
    shuffled = [3.0, -9.0, 1.0, 10.0, -2.0, 5.0, 8.0, -4.0, 7.0, 6.0]
    assert fed(shuffled, 0.75, seen) == shuffled
    assert fed([-20.0, 30.0], 0.75, seen) == [-8.0, 9.0]
    assert fed([9.0, -8.5], 0.75, seen) == [9.0, -8.5]  # not above the limit
    assert (seen.cut.tolist(), seen.count.tolist()) == ([2], [14])


def test_a_limit_asked_for_ahead_is_the_one_that_cuts():
    """Also after steps that came since, after a restart, and beside another quantile."""
    steps = [1.0, 5.0, 2.0] * 6 + [9.0]
    asked, plain = record(), record()
    for step in steps:
        asked.limit(0.75), asked.limit(0.1)
        assert fed([step], 0.75, asked) == fed([step], 0.75, plain)
    asked.limit(0.75)
    asked.restore(record().arrays())
    assert np.isinf(asked.limit(0.75)).all()


def test_what_is_remembered_is_not_clipped():
    """Else limits could never rise again."""
    seen = record()
    fed([1.0] * 10, 0.5, seen)
    assert fed([5.0] * 12, 0.5, seen) == [1.0] * 11 + [5.0]  # of 10 ones and 11 fives the ⌈10.5⌉th is 5
    assert seen.steps[0, 10] == 5.0


def test_only_the_last_fifty_count():
    seen = record()
    fed([100.0] * WINDOW + [1.0] * WINDOW, 0.9, seen)
    assert fed([3.0], 0.9, seen) == [1.0]
    assert (WINDOW, seen.count.tolist()) == (50, [101])


def test_without_a_quantile_nothing_is_cut():
    seen = record()
    assert fed([1.0] * 20 + [1e9], 0.0, seen)[-1] == 1e9
    assert seen.cut.tolist() == [0]


def test_every_node_is_cut_by_its_own_steps():
    seen = record((2, 2))
    size, rows = np.array([[1.0, 10.0], [100.0, 1000.0]]), np.arange(4)
    for _ in range(10):
        seen.add(size, np.zeros((2, 2)), 0.5, rows)
    found = told(seen, np.full((2, 2), 50.0), 0.5, rows)
    assert found.tolist() == [[1.0, 10.0], [50.0, 50.0]]
    assert seen.cut.tolist() == [[1, 1], [0, 0]]


def test_those_who_are_not_asked_remember_nothing():
    seen, nan = record((3,)), np.nan
    seen.add(np.array([nan, 4.0, nan]), np.array([nan, 1.0, nan]), 0.5, np.array([1]))
    assert seen.count.tolist() == [0, 1, 0]
    assert seen.steps[:, 0].tolist() == [0.0, 3.0, 0.0]
    assert np.isnan(seen.loss()).tolist() == [True, False, True]
    assert seen.loss()[1] == 2.5


# Scores


def test_signal_to_noise_is_the_root_mean_square_over_the_root_of_two_noises():
    seen = record()
    fed([3.0, -4.0], 0.0, seen)
    assert seen.snr(0.5)[0] == pytest.approx(np.sqrt(12.5) / (np.sqrt(2) * 0.5), rel=1e-15)
    assert np.isnan(seen.snr(0.0)).all()


def test_coverage_is_the_share_of_coordinates_that_were_ever_asked_about():
    seen = record((2,), d=8)
    seen.visit(torch.tensor([[0, 3], [1, 2]]), np.arange(2))
    seen.visit(torch.tensor([[3, 5]]), np.array([1]))  # the second node alone
    seen.visit(torch.tensor([[0, 7], [1, 2]]), np.arange(2))
    assert np.flatnonzero(seen.visited[0]).tolist() == [0, 3, 7]
    assert np.flatnonzero(seen.visited[1]).tolist() == [1, 2, 3, 5]
    assert seen.scores(0.0)["coverage"].tolist() == [3 / 8, 4 / 8]


def test_the_share_of_clipped_slopes_is_of_all_queries():
    seen = record()
    assert seen.scores(0.0)["clipped"].tolist() == [0.0]
    fed([1.0] * 10 + [2.0, 3.0, 1.0], 0.5, seen)
    assert seen.scores(0.0)["clipped"].tolist() == [2 / 13]


def test_the_note_has_the_loss_and_the_signal_if_noise_is_known():
    seen = record()
    seen.add(np.array([2.5]), np.array([1.5]), 0.0, ONE)
    assert seen.note(0.0) == "loss 2.000"
    assert seen.note(2**-0.5) == "loss 2.000  snr 1.0"


# Restored


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 120), after=st.integers(1, 20))
def test_a_restored_record_goes_on_as_if_nothing_had_been(seed, before, after):
    rng, first, d = np.random.default_rng(seed), record((2, 3), d=13), 13

    def feed(into, steps):
        return [told(into, step, 0.8, np.arange(6)).tobytes() for step in steps]

    feed(first, rng.standard_normal((before, 2, 3)))
    first.visit(torch.from_numpy(rng.integers(0, d, (6, 4))), np.arange(6))
    second = record((2, 3), d=13)
    second.restore(first.arrays())
    later = rng.standard_normal((after, 2, 3)) * 3
    assert feed(second, later) == feed(first, later)
    ends = [{k: v.tobytes() for k, v in each.arrays().items()} for each in (first, second)]
    assert ends[0] == ends[1]


def test_what_was_saved_does_not_change_with_what_comes_after():
    seen = record()
    fed([1.0] * 3, 0.5, seen)
    saved = seen.arrays()
    kept = {name: array.tobytes() for name, array in saved.items()}
    fed([2.0] * 20, 0.5, seen)
    seen.visit(torch.tensor([[1]]), ONE)
    assert {name: array.tobytes() for name, array in saved.items()} == kept
