"""zocosmo reproduce: the list, the board, JSON, mistakes, and what to do after Ctrl-C."""

import io
import json
import sys
from pathlib import Path

import pytest
from fakes import small  # noqa: F401

from zocosmo_paper import run as runs
from zocosmo_paper.claim import Claim
from zocosmo_paper.cli import reproduce as command
from zocosmo_paper.items import all_items


@pytest.fixture
def run(call_main, monkeypatch, tmp_path, small):  # noqa: F811
    """The command in this process, in an empty folder, with two items: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *line: call_main("reproduce", *line)


def test_the_list_has_names_labels_and_needs(run):
    code, out, err = run("--list")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["name", "small", "needy"]
    assert "tab:small" in out
    assert "a model" in out


def test_the_list_as_json_has_the_seconds_that_were_measured(run, monkeypatch):
    monkeypatch.setattr(command, "seconds", lambda: {"small": 2.5})
    found = json.loads(run("--list", "--json")[1])["items"]
    assert [(item["name"], item["seconds"], item["needs"]) for item in found] == [
        ("small", 2.5, ""),
        ("needy", None, "a model"),
    ]


def test_a_run_ends_with_the_board_the_counts_and_the_page(run):
    code, out, err = run("small", "--processes", "1")
    lines = out.splitlines()
    verdicts = [
        word for line in lines for word in ("no", "ordering", "within") if line.rstrip().endswith(f" {word}")
    ]
    assert (code, err, verdicts) == (0, "", ["no", "ordering", "within", "within"])
    assert lines[-2] == "2 within, 1 ordering, 1 no, 1 not run (5 claims)"
    assert lines[-1] == "reproduction/report/index.html: the report. reproduction/verdicts.csv: every line."
    assert Path("reproduction/report/index.html").is_file()


def test_many_lines_that_are_within_are_counted(run, monkeypatch):
    monkeypatch.setattr(command, "MOST_LINES", 1)
    out = run("all", "--out", "here")[1]
    assert "2 claims" in out
    assert "a third" not in out
    assert "cosmo ends at 7" in out


def test_json_has_every_claim_with_its_numbers(run):
    code, out, err = run("small", "--seeds", "4", "--json", "--out", "here")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["counts"] == {"within": 2, "ordering": 1, "no": 1, "not run": 1}
    assert [claim["seeds"] for claim in found["claims"]] == [4, 4, 4, 0, 0]
    assert set(Claim._fields) | {"item"} == set(found["claims"][0])
    assert found["items"][0]["command"] == "zocosmo reproduce small --seeds 4"


def test_the_same_command_says_the_same(run):
    first, again = run("small"), run("small", "--resume")
    assert first == again


def test_what_needs_a_model_says_what_to_run(run):
    out = run("small")[1]
    assert "small: run: something else\n" in out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ((), "no item given; name some, or all"),
        (("large",), "item 'large' is not known; choose from all, small, needy"),
        (("small", "--seeds", "1"), "--seeds must be between 2 and 10000, got 1"),
        (("small", "--seeds", "some"), "valid integer"),
        (("small", "--processes", "0"), "--processes must be 1 or more, got 0"),
        (("small", "--model", "smollm2"), "small takes no model; leave out --model and --set"),
        (("needy", "--set", "rounds=2"), "--set rounds=2 applies to a study of a model; also give --model"),
        (("small", "--out", "taken"), "--out taken is a file; name a folder"),
    ],
)
def test_mistakes_end_as_one_line_and_exit_code_2_before_anything_runs(run, monkeypatch, line, words):
    Path("taken").touch()
    monkeypatch.setattr(command, "progress", None)
    code, out, err = run(*line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_without_matplotlib_nothing_is_begun(run, monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert run("small")[::2] == (
        2,
        'zocosmo: the figure of small needs matplotlib; run: pip install "zocosmo[plot]"\n',
    )
    assert not Path("reproduction").exists()


def test_a_folder_of_another_plan_cannot_be_gone_on_with(run):
    run("small", "--seeds", "2")
    code, out, err = run("small", "--resume")
    assert (code, out) == (2, "")
    assert "reproduction/small/tab-small holds a study of another plan" in err
    assert "without --resume" in err


def test_ctrl_c_says_how_to_go_on(run, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "run_plan", stopped)
    code, out, err = run("small", "--seeds", "2", "--out", "my folder")
    again = "zocosmo reproduce small --out 'my folder' --seeds 2 --resume"
    assert (code, out) == (130, "")
    assert err == f"zocosmo: stopped; finished work is kept. Continue with: {again}\n"


def test_somebody_who_watches_sees_each_item_and_the_time_left(run, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def reconfigure(self, **_):
            pass

    monkeypatch.setattr(sys, "stderr", seen := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    run("all")
    assert "small" in seen.getvalue()
    assert "tables and figures" in seen.getvalue()
    assert " left" in seen.getvalue()


def test_time_left_follows_the_pace_so_far(monkeypatch):
    clock = iter([0.0, 20.0, 40.0])
    monkeypatch.setattr(command.time, "monotonic", lambda: next(clock))
    left = command.Left({"a": 10.0, "b": 30.0}, ["a", "b"])
    assert left("a", 0.5) == (5 / 40, 20.0 * 35 / 5)
    assert left("b", 0.0) == (10 / 40, 40.0 * 30 / 10)


def test_every_item_of_the_paper_has_a_title_a_label_and_a_time():
    items = all_items()
    assert all(item.title and item.labels and item.claimed for item in items.values())
    assert {name for name, item in items.items() if not item.needs} == set(command.seconds())
