"""Traces: whole lines, few of them, and never in the way of the job."""

import itertools
import json
import subprocess
import sys

import pytest
from watched import small

from zocosmo import trace as traces
from zocosmo.experiments.run import run_plan
from zocosmo.trace import Trace, TraceFile, is_held, traced


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_session_says_how_it_began_and_ended(tmp_path):
    path = tmp_path / "deep" / "t.jsonl"
    with traced(TraceFile.begin(path), job="run") as trace:
        trace.write("rows", columns={"objective": [1.5, float("nan")]})
        assert is_held(path)
    first, rows, end = lines(path)
    assert (first["kind"], first["job"]) == ("start", "run")
    assert rows["columns"] == {"objective": [1.5, None]}
    assert (end["kind"], end["how"]) == ("end", "done")
    assert not is_held(path)


@pytest.mark.parametrize(("error", "how"), [(KeyboardInterrupt(), "stopped"), (ValueError("why"), "failed")])
def test_errors_pass_through_and_are_told(tmp_path, error, how):
    file = TraceFile.begin(tmp_path / "t.jsonl")
    with pytest.raises(type(error)), traced(file):
        raise error
    assert lines(file.path)[-1]["how"] == how


def test_a_line_that_was_cut_off_spoils_only_itself(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"kind":"rows"}\n{"kind":"ro')
    Trace(TraceFile.begin(path)).write("beat")
    assert path.read_text().splitlines()[1] == '{"kind":"ro'
    assert json.loads(path.read_text().splitlines()[2])["kind"] == "beat"


def test_a_trace_that_cannot_be_written_is_given_up(tmp_path):
    (tmp_path / "file").write_text("")
    trace = Trace(TraceFile.begin(tmp_path / "file" / "t.jsonl"))
    trace.write("rows")
    trace.close()


def test_lines_become_rarer_as_time_goes_by(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(traces.time, "monotonic", lambda: now[0])
    trace, due = Trace(TraceFile.begin(tmp_path / "t.jsonl")), []
    for tenth in range(864_0):  # a day, ten seconds at a time
        now[0] = 10.0 * tenth
        due += [now[0]] if trace.is_due("rows") else []
    assert due[:3] == [0.0, 10.0, 20.0]
    gaps = [b - a for a, b in itertools.pairwise(due)]
    assert max(gaps) == 90.0  # a thousandth of a day is 86.4 s
    assert trace.is_due("beat")  # kinds do not share their turns


def test_writers_in_several_processes_do_not_mix_their_lines(tmp_path):
    text = f"""
from pathlib import Path
from zocosmo.trace import Trace, TraceFile
trace = Trace(TraceFile.begin(Path({str(tmp_path / "t.jsonl")!r})))
for k in range(100): trace.write("rows", columns=list(range(2000)))
"""
    running = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(2)]
    assert [process.wait(60) for process in running] == [0, 0]
    found = lines(tmp_path / "t.jsonl")
    assert len(found) == 200
    assert all(line["columns"] == list(range(2000)) for line in found)


def test_a_traced_study_writes_the_same_log(tmp_path):
    plan = small(tmp_path)
    for name, job in (("plain", ""), ("traced", "run")):
        run_plan(plan, tmp_path / name, states=True, job=job)
    for name in ("log.parquet", "states.npz", "plan.json"):
        assert (tmp_path / "plain" / name).read_bytes() == (tmp_path / "traced" / name).read_bytes()
    assert not (tmp_path / "plain/.trace").exists()
    found = lines(tmp_path / "traced/.trace/study.jsonl")
    assert [found[0]["kind"], found[-1]["kind"]] == ["start", "end"]
    run_plan(plan, tmp_path / "traced", replace_old=True)
    assert not (tmp_path / "traced/.trace").exists()
