"""zocosmo diff: what two runs must share to be called identical."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.logs import hand_made_log
from zocosmo.errors import InputError
from zocosmo.report.diff import StoredRun, as_text, compare, differs

HEADER = {"fingerprint": "f", "source": "s", "versions": {"numpy": "2.0"}}
ROWS = len(hand_made_log())
ANY = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


def kept(name="a", states=None, header=HEADER, **changes):
    """The log made by hand, with some cells changed: objective=(row, value)."""
    rows = hand_made_log()
    for column, (row, value) in changes.items():
        rows.loc[row, column] = value
    return StoredRun(name, rows, header, states)


def states(*entries):
    """Zeros of 2 nodes and 3 coordinates for two trials, but for entries (trial, node, coordinate, value)."""
    arrays = {f"trial-{k}": np.zeros((2, 3)) for k in range(2)}
    for trial, node, coordinate, value in entries:
        arrays[f"trial-{trial}"][node, coordinate] = value
    return arrays


def test_a_run_is_identical_to_itself():
    report = compare(kept(states=states()), kept("b", states=states()))
    assert report["identical"]
    assert as_text(report) == f"identical: 11 trials, {ROWS} rows, states of 2 trials"


def test_one_bit_is_found_and_named_with_both_values():
    after = math.nextafter(4.0, 5.0)
    report = compare(kept(), kept("b", objective=(1, after)))
    assert report["log"]["first"] == {
        **{"trial": 0, "round": 10, "column": "objective"},
        **{"values": ["4.0", repr(after)], "hex": ["0x1.0000000000000p+2", "0x1.0000000000001p+2"]},
    }
    assert (report["log"]["cells"], report["log"]["largest"]) == (1, after - 4.0)


def test_the_first_difference_is_that_of_the_earliest_row():
    report = compare(kept(), kept("b", objective=(5, 0.5), disagreement=(4, 99.0), local=(4, 99.0)))
    first = report["log"]["first"]
    assert (first["trial"], first["round"], first["column"]) == (1, 10, "local")
    assert report["log"]["columns"] == {"objective": 1, "local": 1, "disagreement": 1}
    assert report["log"]["largest"] == 97.0


def test_text_cells_have_no_hex():
    text = as_text(compare(kept(), kept("b", seed=(0, "7"))))
    assert text == "log differs first at trial 0, round 0, seed: '1' / '7'\n  1 cells differ (seed 1)"


def test_nan_equals_nan_of_the_same_place_and_nothing_else():
    hollow = kept(objective=(3, math.nan))
    assert compare(hollow, hollow)["identical"]
    assert compare(hollow, kept())["log"]["cells"] == 1
    assert compare(hollow, kept("b", objective=(4, math.nan)))["log"]["cells"] == 2


def test_an_ignored_column_may_differ():
    a, b = kept(), kept("b", framing_bits=(2, 8))
    assert not compare(a, b)["identical"]
    assert compare(a, b, ["framing_bits"])["identical"]


def test_a_column_that_nobody_has_cannot_be_ignored():
    with pytest.raises(InputError, match="no column 'framing' to ignore; there are problem"):
        compare(kept(), kept(), ["framing"])


def test_missing_rows_and_columns_are_differences():
    a, b = kept(), kept("b")
    b = b._replace(rows=b.rows.drop(index=[4, 5]).drop(columns="local"))
    assert as_text(compare(a, b)) == (
        "only a has 2 rows, the first: trial 1, round 10\nonly a has columns local"
    )


def test_other_code_and_libraries_are_named_and_no_difference():
    other = {**HEADER, "source": "z", "versions": {"numpy": "2.1", "scipy": "1"}}
    report = compare(kept(), kept("b", header=other))
    assert report["identical"]
    assert as_text(report).splitlines()[:-1] == [
        "source differs: s / z",
        "numpy differs: 2.0 / 2.1",
        "scipy differs: None / 1",
    ]


def test_states_are_compared_entry_by_entry():
    report = compare(kept(states=states()), kept("b", states=states((1, 0, 2, 0.5), (1, 1, 0, -2.0))))
    assert not report["identical"]
    assert as_text(report) == (
        "states differ first at trial 1, node 0, coordinate 2: 0.0 / 0.5 (0x0.0p+0 / 0x1.0000000000000p-1)\n"
        "  2 entries differ, by 2 at most"
    )


def test_states_of_other_shapes_or_trials_are_differences():
    theirs = {"trial-0": np.zeros((2, 4)), "trial-2": np.zeros((2, 3))}
    text = as_text(compare(kept(states=states()), kept("b", states=theirs)))
    assert "states of trial-0 have shapes [2, 3] / [2, 4]" in text
    assert "only a has states of trial-1" in text
    assert "only b has states of trial-2" in text


def test_states_that_one_run_alone_kept_are_mentioned():
    report = compare(kept(states=states()), kept("b"))
    assert as_text(report) == f"only a has states\nidentical: 11 trials, {ROWS} rows"


def test_two_rows_of_one_name_are_refused():
    twice = kept()
    twice = twice._replace(rows=twice.rows.assign(round=0))
    with pytest.raises(InputError, match="a has two rows of trial 0, round 0"):
        compare(twice, kept())


def test_a_report_is_json():
    report = compare(kept(objective=(0, math.inf)), kept("b", objective=(1, math.nan), states=states()))
    assert json.loads(json.dumps(report, allow_nan=False)) == report


@given(ANY, ANY)
def test_numbers_are_the_same_only_bit_by_bit(a, b):
    same = a.hex() == b.hex()  # tells −0.0 from 0.0, and writes every NaN alike
    assert differs(np.array([a]), np.array([b])).tolist() == [not same]
