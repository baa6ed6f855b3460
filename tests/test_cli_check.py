"""zocosmo check: table, JSON, exit codes."""

import json

import pytest

from zocosmo.theory import payload

SMALL = """\
problem: {kind: quadratic, d: 4, zeta: 1.0}
graphs: [{kind: ring, n: 4}]
methods: [{kind: edge_local, q: 2, eta: 0.02, mu: 1.0e-3}, {kind: flood, eta: 0.01, mu: 1.0e-3}]
seeds: [1, 2]
rounds: 30
budgets: [2000]
"""


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return call_main


def test_a_table_ends_with_a_count_and_exit_code_0(run):
    code, out, err = run("check", "small.yaml", "--seeds", "64")
    assert (code, err) == (0, "")
    assert "two rounds of the ring [eq:alternating_ring_block_gap]" in out
    assert " 0 disagree; " in out.splitlines()[-1]


def test_json_has_every_row_with_its_numbers(run):
    code, out, _ = run("check", "small.yaml", "--seeds", "64", "--json")
    report = json.loads(out)
    row = next(row for row in report["rows"] if row["formula"] == "E disagreement")
    assert code == 0
    assert row["low"] < row["measured"] < row["high"]
    assert len(report["rows"]) >= report["agree"] + report["disagree"] + report["not_applicable"]


def test_a_formula_that_disagrees_gives_exit_code_1_and_says_so(run, monkeypatch):
    right = payload.flood_cost
    monkeypatch.setattr(payload, "flood_cost", lambda N, b: right(N, b) + 1)
    code, out, _ = run("check", "small.yaml", "--seeds", "30")
    assert code == 1
    assert "disagrees" in out
    assert ", 1 disagree; " in out.splitlines()[-1]


def test_the_folder_gets_what_json_prints(run, tmp_path):
    _, out, _ = run("check", "small.yaml", "--seeds", "30", "--json", "--out", "found/here")
    assert json.loads((tmp_path / "found/here/check.json").read_text()) == json.loads(out)


def test_the_same_command_gives_the_same_numbers(run):
    line = ("check", "small.yaml", "--seeds", "30", "--json")
    assert run(*line) == run(*line)


def test_settings_of_the_config_can_be_changed(run):
    out = run("check", "small.yaml", "--seeds", "30", "--set", "methods.0.q=3", "--json")[1]
    assert any("q=3" in row["setting"] for row in json.loads(out)["rows"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("check", "--seeds", "5"), "--seeds must be between 30 and 100000, got 5"),
        (
            ("check", "small.yaml", "--out", "small.yaml"),
            "small.yaml cannot be a folder: File exists",
        ),
        (("check", "--set", "rounds=3"), "--set rounds=3 changes a config, and none was given"),
        (("check", "absent.yaml"), "absent.yaml: there is no such file"),
        (("check", "small.yaml", "--set", "problem.kind=nothing"), "unknown problem 'nothing'"),
        (("check", "small.yaml", "--seeds", "many"), "valid integer"),
    ],
)
def test_mistakes_end_as_one_line_and_exit_code_2(run, line, words):
    code, out, err = run(*line)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_only_one_formula_can_be_asked_for(run):
    code, out, _ = run("check", "small.yaml", "--seeds", "30", "--only", "Stability", "--json")
    assert code == 0
    assert {row["formula"] for row in json.loads(out)["rows"]} == {"mean-square stability"}


def test_a_formula_that_no_check_has_is_refused_with_those_there_are(run):
    code, _, err = run("check", "missing.yaml", "--only", "certificate")
    assert (code, err.count("\n")) == (2, 1)
    assert "'certificate'" in err
    assert "certified step" in err


def test_the_last_line_says_what_informs(run):
    _, out, _ = run("check", "small.yaml", "--seeds", "30", "--only", "stability")
    assert "1 inform (1 stable)" in out.splitlines()[-1]


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_measured(run, monkeypatch):
    monkeypatch.setattr("zocosmo.checks.check_plans", lambda *_, **__: pytest.fail("measured"))
    code, _, err = run("check", "small.yaml", "--out", "small.yaml")
    assert (code, err.count("\n")) == (2, 1)
    assert "small.yaml cannot be a folder" in err
