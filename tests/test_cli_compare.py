"""zocosmo compare."""

import os
import signal
import subprocess
import sys
import time

import pytest

from compare.tiny import TINY


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    return lambda *line: call_main("compare", *line)


def test_compare_prints_and_writes_everything(run, tmp_path):
    code, out, err = run("tiny.yaml", "--processes", "1")
    assert (code, err) == (0, "")
    for words in ("1,000 bits", "40 queries", "rounds", "memory", "problem and budget per node", "served"):
        assert words in out
    assert "pilot mean" not in out
    names = {str(path.relative_to(tmp_path / "runs/tiny")) for path in (tmp_path / "runs/tiny").rglob("*.*")}
    assert {"winners.md", "winners.csv", "settings.csv", "cells.csv", "field.png", "field.svg"} <= names
    assert {
        f"bowl/{name}.{end}" for name in ("objective", "traits", "settings") for end in ("md", "csv")
    } <= names


@pytest.fixture
def undrawn(monkeypatch):
    """Figures take longer than all runs of these tests."""
    monkeypatch.setattr("zocosmo.compare.run.draw_field", lambda results, to: None)


def test_tables_come_in_every_format_and_with_settings(run, undrawn):
    marks = {"markdown": "| --- |", "csv": "method,", "latex": r"\toprule", "text": "───"}
    for fmt, mark in marks.items():
        code, out, _ = run("tiny.yaml", "--processes", "1", "--format", fmt, "--settings")
        assert code == 0
        assert mark in out
        assert "pilot mean" in out


def test_brief_is_the_winners_alone(run, undrawn):
    code, out, _ = run("tiny.yaml", "--processes", "1", "--brief")
    assert code == 0
    assert "problem and budget per node" in out
    assert "memory" not in out


def test_two_processes_and_a_changed_value_work(run, undrawn):
    code, out, _ = run("tiny.yaml", "--processes", "2", "--set", "queries=20", "--out", "there")
    assert code == 0
    assert "20 queries" in out
    assert out.splitlines()[-1].startswith("there: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("none.yaml",), "none.yaml: there is no such file"),
        (("tiny.yaml", "--format", "word"), "format 'word' is not known"),
        (("tiny.yaml", "--processes", "0"), "--processes must be 1 or more"),
        (("tiny.yaml", "--set", "tune.settings=3"), "which do not divide tune.settings = 3"),
        (("tiny.yaml", "--set", "methods.0.p=3"), "--set methods.0.p=3: unknown key 'p'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, line, said):
    code, out, err = run(*line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_another_study_is_not_overwritten_unasked(run, undrawn):
    run("tiny.yaml", "--processes", "1")
    other = ("tiny.yaml", "--processes", "1", "--set", "rounds=31")
    code, _, err = run(*other)
    assert (code, "start over with --replace" in err) == (2, True)
    assert run(*other, "--replace")[0] == 0


def test_an_interrupt_says_how_to_go_on(tmp_path):
    (tmp_path / "long.yaml").write_text(TINY.replace("rounds: 30", "rounds: 1000000"))
    command = [sys.executable, "-m", "zocosmo", "compare", "long.yaml", "--processes", "1", "--replace"]
    running = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "runs/long/bowl/pilot/parts").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Continue with: zocosmo compare long.yaml --processes 1\n" in err
    assert list((tmp_path / "runs/long/bowl/pilot/parts").glob("*.half.npz"))
