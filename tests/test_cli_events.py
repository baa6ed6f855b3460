"""zocosmo churn, and zocosmo run --events: a record is drawn, replayed and compared."""

import json

import pytest

from zocosmo.log import read_log

CONFIG = """\
problem: {kind: quadratic, d: 8, zeta: 1.0}
graphs: [{kind: ring, n: 6}]
methods:
  - {kind: edge_local, q: 2, eta: 0.05, mu: 0.01, beta: 0.5}
seeds: [7]
wire: mod4
rounds: 40
"""


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, in a folder with a config and a record."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "live.yaml").write_text(CONFIG)
    code, out, _ = call_main(
        "churn", "live.yaml", "--out", "e.jsonl", "--term", "10", "--churn", "0.3", "--late", "0.1"
    )
    assert (code, out[:9]) == (0, "e.jsonl: ")
    return call_main


def test_two_replays_are_identical_in_log_states_and_ledger(run, tmp_path):
    for name in "ab":
        code, out, err = run("run", "live.yaml", "--events", "e.jsonl", "--out", name)
        assert (code, err) == (0, "")
    assert {path.name for path in (tmp_path / "a").glob("[!.]*")} == {
        "log.parquet",
        "plan.json",
        "states.npz",
        "ledger.csv",
    }
    code, out, _ = run("diff", "a", "b")
    assert code == 0
    assert out.startswith("identical: 1 trial, 5 rows, states of 1 trial, bits of ")


def test_one_event_less_shows_in_the_diff(run, tmp_path):
    lines = (tmp_path / "e.jsonl").read_text().splitlines()
    less = [line for k, line in enumerate(lines) if json.loads(line).get("event") != "half" or k > 30]
    (tmp_path / "less.jsonl").write_text("\n".join(less[:-1]))
    run("run", "live.yaml", "--events", "e.jsonl", "--out", "a")
    run("run", "live.yaml", "--events", "less.jsonl", "--out", "b")
    code, out, _ = run("diff", "a", "b")
    assert code == 1
    assert "states differ first at trial 0" in out


def test_a_changed_ledger_is_found(run, tmp_path):
    for name in "ab":
        run("run", "live.yaml", "--events", "e.jsonl", "--out", name)
    ledger = tmp_path / "b" / "ledger.csv"
    head, first, *rest = ledger.read_text().splitlines()
    ledger.write_text("\n".join([head, first[:-1] + str(9 - int(first[-1])), *rest]))
    code, out, _ = run("diff", "a", "b")
    assert code == 1
    assert out.startswith("ledger differs first on link 0 → 1: ")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--seeds", "8"], "these events are of plan "),
        (["--seeds", "7,8"], "events are of one run, got 2 trials"),
        (["--set", "methods.0.kind=dense"], "unknown"),
        (["--set", "rounds=50"], "these events are of plan "),
    ],
)
def test_events_of_another_run_are_refused_in_one_line(run, words, error):
    code, out, err = run("run", "live.yaml", "--events", "e.jsonl", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert error in err


def test_a_log_of_events_counts_the_living(run, tmp_path):
    run("run", "live.yaml", "--events", "e.jsonl", "--out", "a")
    rows = read_log(tmp_path / "a/log.parquet").rows
    assert rows["living"].iloc[0] == 6
    assert {"failures", "repairs"} <= {*rows.columns}
