import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.logs import hand_made_log, part_of
from zocosmo.errors import InputError
from zocosmo.report.budget import at_budget, cell, cells

LOG = hand_made_log()
SPARSE = part_of(LOG, graph="ring", method="sparse")
DENSE = part_of(LOG, graph="ring", method="dense")


@pytest.mark.parametrize(("bits", "t"), [(0, 0), (99.5, 0), (100, 10), (199, 10), (200, 20), (1e12, 20)])
def test_the_last_checkpoint_within_the_budget_is_taken(bits, t):
    """Checkpoints at 0, 100 and 200 bits   [eq:fixed_budget_selector]"""
    assert at_budget(part_of(LOG, trial=0), bits)["round"] == t


def test_a_run_that_costs_more_from_the_start_is_left_out():
    late = part_of(LOG, trial=0).iloc[1:]
    assert at_budget(late, 99) is None
    assert math.isnan(cell(late, 99, "objective").mean)
    assert cell(late, 99, "objective")[2:] == ({}, 0, None, 0)


@given(
    costs=st.lists(st.integers(0, 50), min_size=1, max_size=20),
    metric=st.lists(st.floats(-9, 9), min_size=20, max_size=20),
    budget=st.integers(-1, 400),
)
def test_the_selector_is_the_equation(costs, metric, budget):
    """ℓ* by brute force over any non-decreasing bits, ties included."""
    bits = pd.Series(costs, dtype=float).cumsum()
    paid = [k for k, b in enumerate(bits) if b <= budget]
    row = at_budget(pd.DataFrame({"bits": bits, "metric": metric[: len(costs)]}), budget)
    assert (row is None) == (paid == [])
    assert row is None or (row.name, row["metric"]) == (max(paid), metric[max(paid)])


def test_a_cell_is_mean_and_deviation_over_seeds():
    """4, 2, 6 at 150 bits: mean 4, squares 0 + 4 + 4 over 3 − 1, so std 2."""
    assert cell(SPARSE, 150, "objective") == (4.0, 2.0, {"1": 4.0, "2": 2.0, "3": 6.0}, 0, (10, 10), 0)


def test_no_budget_means_the_last_row():
    assert cell(SPARSE, None, "objective") == (2.0, 1.0, {"1": 2.0, "2": 1.0, "3": 3.0}, 0, (20, 20), 0)


def test_a_run_that_diverged_is_counted_and_not_averaged():
    """3 and 5 stay: mean 4, std √2."""
    assert cell(DENSE, 1000, "objective") == (4.0, math.sqrt(2), {"1": 3.0, "2": 5.0}, 1, (10, 10), 0)


def test_a_run_counts_up_to_the_row_before_it_diverged():
    assert cell(DENSE, 999, "objective") == (8.0, 0.0, {"1": 8.0, "2": 8.0, "3": 8.0}, 0, (0, 0), 0)


def test_a_cell_of_diverged_runs_only_has_no_mean():
    entry = cell(part_of(LOG, graph="grid", method="dense"), None, "objective")
    assert math.isnan(entry.mean)
    assert math.isnan(entry.std)
    assert entry[2:] == ({}, 2, None, 0)


def test_rounds_run_from_the_least_to_the_most_completed():
    """At 160 bits, 15 bits a round pay for round 10, 17 bits a round do not."""
    entry = cell(part_of(LOG, graph="grid", method="sparse"), 160, "objective")
    assert entry.rounds == (0, 10)
    assert entry.values == {"1": 8.0, "2": 4.0, "3": 16.0}


def test_one_seed_has_a_mean_and_no_deviation():
    entry = cell(part_of(LOG, trial=0), None, "objective")
    assert entry.mean == 2.0
    assert math.isnan(entry.std)


def test_relative_values_are_divided_by_round_0():
    assert cell(SPARSE, 150, "objective", relative=True)[:2] == (0.5, 0.25)


def test_a_value_that_is_not_finite_is_not_skipped():
    """Only the mark `diverged` takes a run out of the mean."""
    entry = cell(
        SPARSE.assign(objective=[8.0, 4.0, 2.0, 8.0, 2.0, math.nan, 8.0, 6.0, 3.0]), None, "objective"
    )
    assert math.isnan(entry.mean)
    assert len(entry.values) == 3


def test_cells_are_tidy_and_in_order_of_appearance():
    frame = cells(LOG[::-1].sort_values(["trial", "round"], ascending=[False, True]), [150, None])
    assert list(zip(frame["graph"], frame["method"], strict=True))[::2] == [
        ("grid", "dense"),
        ("grid", "sparse"),
        ("ring", "dense"),
        ("ring", "sparse"),
    ]
    assert frame["budget"].isna().tolist() == [False, True] * 4


def test_cells_repeat_what_cell_says():
    frame = cells(LOG, [150, 3000], metric="objective", relative=True)
    row = frame.iloc[3]
    assert tuple(row[["method", "metric", "relative", "budget"]]) == ("dense", "objective", True, 3000)
    assert tuple(row[["mean", "seeds", "diverged", "rounds_min", "rounds_max"]]) == (0.1875, 2, 1, 20, 20)
    assert frame.iloc[7][["rounds_min", "rounds_max"]].isna().all()


@pytest.mark.parametrize(
    ("log", "arguments", "message"),
    [
        (LOG, {"bits": 1, "metric": "objective"}, "got 4 combinations; call cells"),
        (SPARSE, {"bits": 1, "metric": "loss"}, "'loss' is not known; choose from n, .*objective"),
        (SPARSE, {"bits": 1, "metric": "disagreement", "relative": True}, "is 0 at round 0"),
        (SPARSE[1:], {"bits": None, "metric": "objective", "relative": True}, "starts at round 10"),
        (SPARSE[::-1], {"bits": 1, "metric": "objective"}, "do not increase; sort the log"),
        (SPARSE.assign(bits=-SPARSE["bits"]), {"bits": 1, "metric": "objective"}, "trial 0 do not increase"),
        (SPARSE.assign(seed="7"), {"bits": 1, "metric": "objective"}, "seed 7 has two trials"),
        (SPARSE.drop(columns="seed"), {"bits": 1, "metric": "objective"}, "lacks seed"),
    ],
)
def test_what_cannot_be_a_cell_is_refused(log, arguments, message):
    with pytest.raises(InputError, match=message):
        cell(log, **arguments)


@pytest.mark.parametrize("bits", [-1, math.nan])
def test_a_budget_below_zero_is_refused(bits):
    with pytest.raises(InputError, match=f"got {bits}; None means the last round"):
        cells(LOG, [bits])


@pytest.mark.parametrize(("bits", "ended"), [(150, 0), (200, 0), (299, 0), (300, 3), (10**6, 3)])
def test_runs_that_are_over_before_the_budget_are_counted(bits, ended):
    """Checkpoints at 0, 100, 200 bits: a further one, at 300, decides."""
    assert cell(SPARSE, bits, "objective").ended == ended
