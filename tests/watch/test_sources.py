"""Sources: the same facts whether a job runs, was stopped, or is finished."""

import json
import math
import time

import numpy as np
import pytest
from watched import Writer, network, node_line, small

from zocosmo import minimize
from zocosmo.errors import InputError
from zocosmo.experiments import run as running
from zocosmo.experiments.run import run_plan
from zocosmo.experiments.unfinished import read_unfinished
from zocosmo.trace import Trace, TraceFile
from zocosmo.watch.find import find_source, newest
from zocosmo.watch.journal import Minimize
from zocosmo.watch.several import Several
from zocosmo.watch.source import Pace
from zocosmo.watch.study import Study


def fresh(source):
    source.refresh()
    return source


def same_as_log(study, log):
    for trial, rows in log.rows.groupby("trial"):
        curve = study.curves[str(trial)]
        assert curve.labels[1:] == (rows["method"].iloc[0], rows["seed"].iloc[0], rows["n"].iloc[0])
        for name in ("round", "bits", "queries", "objective", "disagreement"):
            assert curve.values(name).tolist() == rows[name].tolist()


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_finished_study_has_the_curves_of_its_log_and_their_times(tmp_path, suffix):
    log = run_plan(small(tmp_path), tmp_path / "out", job="run", suffix=suffix)
    study = fresh(Study(tmp_path / "out"))
    same_as_log(study, log)
    assert (study.status["state"], study.status["done"], study.status["trials"]) == ("finished", 1.0, 4)
    seconds = study.curves["0"].values("s")
    assert np.isfinite(seconds).all()
    assert (np.diff(seconds) >= 0).all()


def test_a_log_without_a_trace_can_be_watched_too(tmp_path):
    log = run_plan(small(tmp_path), tmp_path / "out")
    study = fresh(Study(tmp_path / "out"))
    same_as_log(study, log)
    assert math.isnan(study.curves["0"].last("s"))


class Stop(Exception):
    pass


def stopped(tmp_path, at=30):
    def tick(progress):
        if progress.batch and progress.rounds >= at:
            raise Stop

    with pytest.raises(Stop):
        run_plan(small(tmp_path), tmp_path / "out", job="run", tick=tick)
    return tmp_path / "out"


def test_a_study_that_failed_says_so_and_shows_what_it_has(tmp_path):
    study = fresh(Study(stopped(tmp_path)))
    assert (study.status["state"], study.status["text"]) == ("failed", "Stop")
    whole = read_unfinished(tmp_path / "out").log
    assert (
        study.curves["0"].values("objective").tolist() == whole.rows.query("trial == 0")["objective"].tolist()
    )
    assert 0.4 < study.status["done"] < 1
    assert study.graph["talk"] in ("pairs", "neighbours")


def test_rows_of_an_unfinished_study_are_rows_of_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "SNAPSHOT_EVERY", 0.02)
    found = read_unfinished(stopped(tmp_path))
    whole = run_plan(small(tmp_path), tmp_path / "whole")
    assert list(found.log.rows.columns) == list(whole.rows.columns)
    merged = found.log.rows.merge(whole.rows, how="left", indicator=True)
    assert (merged["_merge"] == "both").all()
    assert found.text.startswith("2 of 4 trials are done, ")
    assert read_unfinished(tmp_path / "whole") is None


def test_rows_are_seen_as_they_come_and_time_is_left(tmp_path):
    writer = Writer(tmp_path / "run")
    study = fresh(Study(tmp_path / "run"))
    assert (study.status["state"], study.status["done"]) == ("running", 0.0)
    for t in range(0, 50, 10):
        time.sleep(0.002)  # times have three decimals
        writer.row(t, failures=2, repairs=1)
        study.refresh()
        assert study.curves["1"].last("round") == t
        assert study.graph["pairs"] == [[0, 3], [1, 2]]
    assert study.status["done"] == 0.4
    assert study.status["left"] is not None
    assert (study.status["failures"], study.status["repairs"]) == (4, 2)
    assert study.work[0]["round"] == 40
    writer.trace.close()
    study.refresh()
    assert (study.status["state"], study.status["left"]) == ("stopped", None)
    assert "without a word" in study.status["text"]


def test_sessions_follow_each_other_in_time_and_rounds_are_not_repeated(tmp_path):
    first = Writer(tmp_path / "run")
    for t in (0, 10):
        first.row(t)
    first.trace.close()
    again = Writer(tmp_path / "run")
    again.row(10)
    again.row(20)
    study = fresh(Study(tmp_path / "run"))
    assert study.curves["0"].values("round").tolist() == [0, 10, 20]
    assert [event["what"] for event in study.events] == ["started", "restarted"]


def test_a_study_that_was_started_over_begins_anew(tmp_path):
    run_plan(small(tmp_path), tmp_path / "out", job="run")
    study = fresh(Study(tmp_path / "out"))
    run_plan(small(tmp_path), tmp_path / "out", job="run", replace_old=True)
    before = study.epoch
    study.refresh()
    assert study.epoch > before
    assert study.status["state"] == "finished"
    assert len(study.curves["3"]) == 13


def test_a_network_says_who_waits_for_whom_and_who_is_gone(tmp_path):
    _, traces = network(tmp_path / "net")
    for rank, trace in enumerate(traces):
        more = {"state": "waits", "for": 2, "waited_for": {"2": 3.0}} if rank == 1 else {}
        trace.write("node", **node_line(rank, 7, **more))
    traces[0].write("event", what="lost", rank=3, round=7, by=0)
    traces[3].close()
    traces[2].write("end", how="done")
    study = fresh(Study(tmp_path / "net"))
    assert [node["state"] for node in study.nodes] == ["computes", "waits", "done", "gone"]
    assert study.nodes[1]["for"] == 2
    assert study.events[-1]["what"] == "lost"
    assert (study.job, study.graph["n"], study.status["state"]) == ("launch", 4, "running")
    for trace in traces:
        trace.close()


def bowl(x):
    return float(((x - 3.0) ** 2).sum())


def test_minimize_is_watched_beside_its_journal(tmp_path):
    found = []

    def look(now):
        source = fresh(Minimize(tmp_path / "x.journal"))
        found.append((source.status["state"], len(source.nodes), source.graph["n"]))

    journal = tmp_path / "x.journal"
    given = {"q": 1, "eta": 0.05, "mu": 1e-3, "rounds": 12}
    result = minimize([bowl] * 4, [0.0, 1.0], method="edge_local", journal=journal, callback=look, **given)
    assert set(found) == {("running", 4, 4)}
    source = fresh(Minimize(journal))
    curve = source.curves["0"]
    assert (curve.last("round"), curve.last("bits")) == (12, result.bits)
    assert curve.last("query_loss") == result.query_loss
    assert (source.status["state"], source.status["done"]) == ("finished", 1.0)
    assert sum(node["answers"] for node in source.nodes) == result.nfev
    (tmp_path / "x.trace.jsonl").unlink()
    alone = fresh(Minimize(journal))
    assert alone.curves["0"].values("round").tolist() == list(range(1, 12))  # the last may not be over
    assert alone.curves["0"].values("query_loss")[-1] == pytest.approx(result.log["query_loss"].iloc[-1], 0.5)


def test_a_run_in_a_folder_leaves_neither_journal_nor_trace(tmp_path):
    given = {"q": 1, "eta": 0.05, "mu": 1e-3, "rounds": 3}
    minimize([bowl] * 2, [0.0, 1.0], journal=tmp_path, **given)
    assert list(tmp_path.iterdir()) == []


def test_the_studies_of_a_comparison_are_one_job(tmp_path):
    for name in ("bowl/pilot", "bowl/final"):
        run_plan(small(tmp_path), tmp_path / "cmp" / name, job="compare")
    source = find_source(tmp_path / "cmp", tmp_path)
    assert isinstance(source, Several)
    source.refresh()
    assert {curve.labels.group for curve in source.curves.values()} == {"bowl/pilot", "bowl/final"}
    assert (source.status["state"], source.status["trials"], source.job) == ("finished", 8, "compare")
    later = Writer(tmp_path / "cmp/hill/pilot")
    later.row(10)
    source.refresh()
    assert source.status["state"] == "running"
    assert source.status["note"] == "hill/pilot; 2 of 3 studies so far are finished"
    assert newest(tmp_path) == tmp_path / "cmp"


def test_what_is_no_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in (tmp_path, tmp_path / "none", tmp_path / "x.journal"):
        with pytest.raises(InputError, match="name the folder of a run"):
            find_source(run, tmp_path / "runs")
    with pytest.raises(InputError, match="nothing in"):
        find_source(None, tmp_path / "runs")


def test_lines_of_others_and_damaged_ones_are_skipped(tmp_path):
    writer = Writer(tmp_path / "run")
    with (tmp_path / "run/.trace/study.jsonl").open("a") as file:
        file.write('not json\n[1]\n{"kind":"new in a later version","s":1}\n')
    writer.row(10)
    assert len(fresh(Study(tmp_path / "run")).curves["0"]) == 1


def test_the_pace_is_that_of_the_last_minute():
    pace = Pace(60.0)
    assert pace.left(10) is None
    for s in range(100):
        pace.see(s, s)
    for s in range(100, 301):
        pace.see(s, 100 + 10 * (s - 100))
    assert pace.left(100) == pytest.approx(10.0)
    pace.see(1.0, 0.0)
    assert pace.left(1) is None


def test_documented_layout_is_enough(tmp_path):
    """The lines of docs/watch.md, written by hand."""
    folder = tmp_path / "mine" / ".trace"
    folder.mkdir(parents=True)
    held = Trace(TraceFile.begin(folder / "study.jsonl"))
    trials = [["bowl", "ring", "mine", "1", 2]]
    about = {"job": "mine", "name": "mine", "rounds": 10, "node_rounds": 20, "trials": trials}
    held.start(**about, graphs={"ring": {"n": 2, "edges": [[0, 1]]}}, talk={"mine": "pairs"})
    columns = {"trial": [0], "round": [5], "bits": [64], "queries": [20], "objective": [0.5]}
    held.write("rows", batch=0, trial=0, round=5, done=10, pairs=[[0, 1]], columns=columns)
    study = fresh(find_source(tmp_path / "mine", tmp_path))
    assert json.loads(json.dumps(study.status))["done"] == 0.5
    assert study.graph["pairs"] == [[0, 1]]
