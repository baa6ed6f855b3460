"""zocosmo watch on the command line; table and figure of studies that are not finished."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from zocosmo.trace import TraceFile, traced

TRIALS = [["bowl", "ring", "mine", "1", 4]]
SMALL = """\
problem: {kind: quadratic, d: 8, zeta: 1.0}
graphs: [{kind: ring, n: 4}]
methods:
  - {kind: edge_local, q: 2, eta: 0.01, mu: 1.0e-3}
  - {kind: cosmo, q: 2, eta: 0.01, mu: 1.0e-3}
seeds: [1, 2]
rounds: 40
budgets: [500]
"""


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return call_main


@pytest.fixture
def stopped(run, monkeypatch):
    """A study that was interrupted in its second batch."""
    from zocosmo.experiments import run as running

    batch = running.run_batch

    def some(plan, trials, number, *rest, **more):
        if number:
            raise KeyboardInterrupt
        return batch(plan, trials, number, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_batch", some)
        assert run("run", "small.yaml")[0] == 130
    return run


def test_a_finished_study_in_the_terminal(run):
    run("run", "small.yaml")
    code, out, err = run("watch", "--terminal")  # not a terminal, so once; and the newest run
    assert (code, err) == (0, "")
    for words in ("small  run  finished", "100% done", "edge_local", "cosmo", "started"):
        assert words in out
    assert run("watch", "small.yaml", "--terminal", "--once", "--metric", "disagreement")[0] == 0


def test_a_stopped_study_in_the_terminal(stopped):
    out = stopped("watch", "runs/small", "--terminal", "--once")[1]
    assert "small  run  stopped" in out
    assert "50% done" in out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["none"], "none is no folder of a run; name the folder of a run"),
        ([], "nothing in runs/ or here was run in this version"),
        (["--once"], "--once is for --terminal"),
        (["--port", "70000"], "--port must be"),
        (["runs", "--terminal", "--metric", "x"], "is not known"),
        (["runs", "--host", "256.0.0.1"], "cannot listen on 256.0.0.1 port 0"),
    ],
)
def test_mistakes_are_one_line(run, words, text):
    if words[:1] == ["runs"]:
        with traced(TraceFile.begin(Path("runs/mine/.trace/study.jsonl")), trials=TRIALS) as trace:
            trace.write("rows", columns={"trial": [0], "round": [0], "objective": [1.0]})
    code, out, err = run("watch", *words)
    assert (code, out) == (2, "")
    assert text in err
    assert err.count("\n") == 1


def test_without_the_extra_the_line_says_how_to_get_it(run, monkeypatch):
    run("run", "small.yaml")
    monkeypatch.setitem(sys.modules, "starlette", None)
    for name in [
        name for name in sys.modules if name.startswith("starlette.") or name.endswith("watch.server")
    ]:
        monkeypatch.delitem(sys.modules, name)
    code, _, err = run("watch", "runs/small")
    assert code == 2
    assert "pip install 'zocosmo[watch]'" in err


def test_the_page_is_served_until_an_interrupt(run, tmp_path):
    pytest.importorskip("uvicorn", reason="the extra watch is not installed")
    run("run", "small.yaml")
    process = subprocess.Popen(
        [sys.executable, "-m", "zocosmo", "watch", "runs/small"],
        **{"cwd": tmp_path, "stdout": subprocess.PIPE, "text": True, "env": {**os.environ}},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        where = process.stdout.readline().strip()
        assert where.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(where.replace("/?", "/watch.js?"), timeout=30) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(where.partition("?")[0], timeout=30)
        refused.value.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode in (0, 130)


def test_a_table_of_an_unfinished_study_says_so(stopped):
    code, out, err = stopped("table", "small.yaml")
    assert code == 0
    assert "edge_local" in out
    assert "cosmo" not in out
    assert err == (
        "zocosmo: runs/small is not finished: 2 of 4 trials are done, 50% of all rounds; "
        "the others are as of their last checkpoint\n"
    )
    finished = stopped("run", "small.yaml", "--resume")
    assert finished[0] == 0
    again = stopped("table", "small.yaml")
    assert (again[0], again[2]) == (0, "")
    assert [line for line in again[1].splitlines() if "edge_local" in line] == [
        line for line in out.splitlines() if "edge_local" in line
    ]


def test_a_figure_of_an_unfinished_study_says_so(stopped, tmp_path):
    code, _, err = stopped("figure", "runs/small", "--to", "f.svg")
    assert code == 0
    assert "is not finished" in err
    assert "unfinished: 2 of 4 trials are done" in (tmp_path / "f.svg").read_text()


def test_a_study_without_a_row_and_a_diff_are_refused_as_ever(stopped, tmp_path):
    assert "there is no log in runs/small (it was stopped" in stopped("diff", "runs/small", "runs/small")[2]
    (tmp_path / "empty").mkdir()
    assert "there is no log in empty" in stopped("table", "empty")[2]
