"""zocosmo bench-link: what is timed, in whose turn, and how it is told."""

import itertools

import pytest

torch = pytest.importorskip("torch")

from zocosmo.dist import bench  # noqa: E402
from zocosmo.dist.bench import Timed, bench_link, rows, take_turns  # noqa: E402
from zocosmo.errors import InputError  # noqa: E402
from zocosmo.report.link import link_table  # noqa: E402


@pytest.fixture(scope="module")
def report():
    return bench_link(d=1000, q=10, trials=2, repeats=3, program="zocosmo.net.beside_gloo")


def test_bytes_are_those_of_the_messages(report):
    """q = 10 of d = 1,000: 40 bytes of values, 40 or 13 of coordinates, 32 of a frame, 16 of a seal.

    Between members an envelope of 22 bytes is around it."""
    assert {row["name"]: row["bytes"] for row in report["rows"]} == {
        **{"values": 40, "indexed": 80, "packed": 40 + 13 + 32, "dense": 4000},
        **{"raw": 72, "used": 72, "checked": 72, "framed": 72, "sealed": 88, "named": 85, "mix": 72},
        "members": 72 + 22,
    }


def test_every_row_has_a_time_and_a_ratio_to_its_floor(report):
    median = {row["name"]: row["median_us"] for row in report["rows"]}
    assert all(row["low_us"] <= row["median_us"] <= row["high_us"] for row in report["rows"])
    assert all(
        row["ratio"] == pytest.approx(row["median_us"] / median[row["floor"]]) for row in report["rows"]
    )


def test_the_paper_stands_beside_what_it_measured(report):
    paper = {row["name"]: row["paper_ratio"] for row in report["rows"] if row["paper_us"] is not None}
    assert {name: round(ratio, 2) for name, ratio in paper.items()} == {
        "values": 1.00,
        "indexed": 1.28,
        "dense": 21.15,
    }


def test_the_table_has_both_parts(report):
    table = link_table(report)
    assert table.columns[1]._cells[0] == "One way, acknowledged"
    assert table.row_count == len(report["rows"]) + 2


def timed(name, calls, share=1):
    return Timed(name, name, 0, "a", lambda: calls.append(name), share)


def test_who_comes_first_rotates():
    calls = []
    take_turns([timed(name, calls) for name in "abc"], trials=3, repeats=1, meet=lambda: None)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"


def test_a_message_with_a_share_is_repeated_less_often():
    calls = []
    found = take_turns([timed("a", calls), timed("b", calls, 10)], trials=2, repeats=30, meet=lambda: None)
    assert (calls.count("a"), calls.count("b")) == (1 + 60, 1 + 6)
    assert {name: len(taken) for name, taken in found.items()} == {"a": 2, "b": 2}


def test_times_are_of_one_message_and_in_microseconds(monkeypatch):
    """A clock that moves one second a look: a turn of four messages takes one second."""
    clock = itertools.count()
    monkeypatch.setattr(bench.time, "perf_counter", lambda: float(next(clock)))
    each = timed("a", [])
    found = take_turns([each], trials=3, repeats=4, meet=lambda: None)
    assert [row["median_us"] for row in rows([each], found)] == [250_000.0]


def test_the_fastest_trial_stands_beside_the_median():
    (row,) = rows([timed("a", [])], {"a": [4e-6, 1e-6, 9e-6]})
    assert (row["fastest_us"], row["median_us"]) == (1.0, 4.0)


@pytest.mark.parametrize("name", ["trials", "repeats"])
def test_nothing_cannot_be_timed(name):
    with pytest.raises(InputError, match=f"--{name} must be 1 or more, got 0"):
        bench_link(**{name: 0})


@pytest.mark.parametrize("code", [0, 3])
def test_processes_that_leave_no_report_are_one_error(monkeypatch, code):
    monkeypatch.setattr(bench, "launch", lambda line, world: code)
    with pytest.raises(InputError, match=f"ended with code {code}"):
        bench_link()
