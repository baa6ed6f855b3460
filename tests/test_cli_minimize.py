import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from zocosmo.blackbox.commands import Command
from zocosmo.blackbox.minimize import minimize
from zocosmo.errors import InputError
from zocosmo.graphs import Graph

AWK = 'awk "{s += ($1-3)^2} END {print s}" {file}'
FIXED = ["--q", "1", "--eta", "0.1", "--mu", "0.5"]


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda *words: call_main("minimize", *words)


def test_the_command_is_the_library_s_minimize(run):
    code, out, err = run("--command", AWK, "--d", "3", "--nodes", "4", "--rounds", "6", "--json", *FIXED)
    same = minimize(Command(AWK, 4), [0.0] * 3, rounds=6, q=1, eta=0.1, mu=0.5, seed="0")
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["x"], report["fun"], report["nfev"]) == (same.x.tolist(), same.fun, same.nfev)


def test_the_result_is_a_short_table(run):
    code, out, _ = run("--command", AWK, "--d", "9", "--start", "3", "--rounds", "2", *FIXED)
    assert code == 0
    assert "3, 3, 3, 3, 3, 3, 3, 3, … (9 in all)" in out
    for words in ("loss at the average", "q = 1, eta = 0.1, mu = 0.5", "All 2 rounds are done."):
        assert words in out


def test_what_is_suggested_is_shown_with_its_reasons(run):
    _, out, _ = run("--command", AWK, "--d", "2", "--rounds", "1")
    assert "q = 1: an eighth of d = 2 or 1" in out
    assert "the largest curvature seen, c = 2" in out


@pytest.mark.parametrize("given", ["1,-2.5,3e0", "@x0.txt"])
def test_a_start_is_a_list_or_a_file(run, tmp_path, given):
    (tmp_path / "x0.txt").write_text("1\n-2.5, 3e0\n")
    _, out, _ = run("--command", AWK, "--x0", given, "--rounds", "0", "--json", *FIXED)
    assert json.loads(out)["x"] == [1.0, -2.5, 3.0]


def test_out_holds_the_result_and_its_log(run, tmp_path):
    words = ["--d", "2", "--rounds", "12", "--nodes", "2", "--out", "result.json", "--json"]
    _, out, _ = run("--command", AWK, *words, *FIXED)
    written = json.loads((tmp_path / "result.json").read_text())
    log, states = written.pop("log"), written.pop("states")
    assert len(states) == 2
    assert written == json.loads(out)
    assert [row["round"] for row in log] == [0, 10, 12]
    assert log[0]["query_loss"] is None


def test_a_budget_and_a_graph_of_edges(run):
    words = ["--graph", "0-1,1-2", "--budget", "300", "--method", "edge_local", "--coupling", "G"]
    report = json.loads(run("--command", AWK, "--d", "2", "--json", *words, *FIXED)[1])
    assert (report["status"], report["method"]["kind"]) == (1, "edge_local")
    assert 300 - 2 * 64 / 3 < report["bits"] <= 300


def test_a_run_that_diverges_is_exit_code_1(run):
    words = ["--q", "1", "--eta", "1e9", "--mu", "0.5", "--rounds", "99", "--json"]
    code, out, err = run("--command", AWK, "--d", "1", *words)
    report = json.loads(out)
    assert (code, err, report["success"], report["fun"]) == (1, "", False, None)


BAD = {
    "--d 2": "--command",
    "--command rig --d 2 --rounds 1": "with {x} or {file}; got 'rig'",
    "--command './rig {x}' --d 2 --rounds 1": "node 0, round 0, probe at x0: './rig' cannot be started",
    "--command 'false {x}' --d 2 --rounds 1": "ended with exit code 1",
    """--command 'sh -c "sleep 9" {x}' --d 2 --rounds 1 --timeout 0.1""": "within 0.1 s and was killed",
    "--command 'cat {file}' --d 2": "give --rounds, --budget",
    "--command 'cat {file}' --rounds 1": "give --d",
    "--command 'cat {file}' --rounds 1 --d 0": "got --d 0",
    "--command 'cat {file}' --rounds 1 --x0 1,a": "'a'",
    "--command 'cat {file}' --rounds 1 --x0 @none": "file none cannot be read",
    "--command 'cat {file}' --rounds 1 --x0 1,2 --d 3": "--x0 has 2 numbers, but --d is 3",
    "--command 'cat {file}' --rounds 1 --x0 ,": "--x0 has 0 numbers",
    "--command 'cat {file}' --rounds 1 --d 2 --graph ring": "needs --nodes",
    "--command 'cat {file}' --rounds 1 --d 2 --method adam": "choose from cosmo",
    "--command 'cat {file}' --rounds 1 --d 2 --coupling G": "has no 'coupling'",
    "--command 'cat {file}' --budget 9 --d 2": "a single node sends nothing",
    "--command 'cat {file}' --rounds 1 --d 2 --out no/r.json": "folder no does not exist",
    "--command 'cat {file}' --rounds 1 --d 2 --workers 0": "workers must be 1 or more",
    "--command 'cat {file}' --rounds 1 --d 2 --nodes 0": "--nodes must be 1 or more, got 0",
    "--command 'cat {file}' --rounds 1 --d 2 --out .": "--out . cannot be written; name a file",
    "--command 'cat {file}' --rounds 1 --d 2 --reach far": "--reach takes numbers separated by commas",
    "--command 'cat {file}' --rounds 1 --d 2 --wire f8": "wire 'f8' is not known",
    "--command 'cat {file}' --rounds 1 --d 2 --set passes": "--set takes a further field of the method",
    "--command 'cat {file}' --rounds 1 --d 2 --set seed=3": "--set takes a further field of the method",
    "--command 'cat {file}' --rounds 1 --d 2 --set gain=3": "method cosmo has no 'gain'",
    "--command 'cat {file}' --rounds 1 --d 2 --log-every 0": "log_every must be 1 or more",
}


@pytest.mark.parametrize("line", BAD)
def test_a_mistake_is_one_line_and_exit_code_2(run, line):
    code, out, err = run(*shlex.split(line))
    assert (code, out) == (2, "")
    assert err.startswith("zocosmo: ")
    assert err.count("\n") == 1
    assert BAD[line] in err


def test_further_options_reach_the_library(run):
    words = ["--set", "passes=2", "--set", "rule=balanced", "--wire", "f16", "--log-every", "2"]
    line = ["--command", AWK, "--d", "2", "--nodes", "3", "--rounds", "4", "--json", *words, *FIXED]
    report = json.loads(run(*line)[1])
    assert report["bits"] == 4 * 2 * 2 * 16  # rounds, passes, neighbours, one value of 16 bits


def test_reach_is_handed_on(run):
    _, out, _ = run("--command", AWK, "--d", "2", "--rounds", "0", "--reach", "0.5,3", "--json")
    same, other = (minimize(Command(AWK, 1), [0.0, 0.0], rounds=0, reach=reach).method for reach in (0.5, 3))
    assert json.loads(out)["method"]["mu"] == same.mu != other.mu


BREAKS = """sh -c 'test {round} = 12 && exit 3; echo 1' {x}"""


def test_a_failed_query_is_exit_code_2_and_still_writes_what_was_reached(run, tmp_path):
    code, out, err = run("--command", BREAKS, "--d", "2", "--rounds", "99", "--out", "r.json", *FIXED)
    written = json.loads((tmp_path / "r.json").read_text())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "node 0, round 12" in err
    assert (written["status"], written["nit"], len(written["log"])) == (4, 12, 3)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_kills_programs_removes_folders_and_writes_what_was_reached(tmp_path, number, code):
    rig = "sh -c 'echo $$ >> pids; test {round} = 1 && sleep 30; echo 1' {file}"
    words = ["minimize", "--command", rig, "--d", "2", "--nodes", "2", "--workers", "2", "--rounds", "9"]
    (temporary := tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "zocosmo", *words, "--out", "r.json", *FIXED],
        **{"cwd": tmp_path, "env": {**os.environ, "TMPDIR": str(temporary)}, "stderr": subprocess.PIPE},
    )
    pids, until = tmp_path / "pids", time.monotonic() + 30
    while time.monotonic() < until and (not pids.exists() or len(pids.read_text().split()) < 6):
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=15)
    assert (process.returncode, list(temporary.iterdir())) == (code, [])
    assert json.loads((tmp_path / "r.json").read_text())["status"] == 5


def test_the_result_is_printed_before_it_is_written(run, tmp_path, monkeypatch):
    def full(path, write):
        raise InputError("disk full")

    monkeypatch.setattr("zocosmo.blackbox.report.write_text", full)
    words = ["--d", "1", "--rounds", "1", "--json", "--out", "r.json"]
    code, out, err = run("--command", AWK, *words, *FIXED)
    assert (code, json.loads(out)["nit"]) == (2, 1)
    assert "disk full" in err


def test_the_example_in_the_help_can_be_pasted():
    """By a shell, as a person would: quotes and dollars must survive it."""
    environment = {**os.environ, "COLUMNS": "200"}
    command = [sys.executable, "-m", "zocosmo", "minimize", "--help"]
    text = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60).stdout
    (example,) = [line.split("Example: ")[1] for line in text.splitlines() if "Example: " in line]
    pasted = example.replace("zocosmo", f"{sys.executable} -m zocosmo", 1) + " --json"
    out = subprocess.run(pasted, shell=True, capture_output=True, text=True, timeout=60).stdout
    assert json.loads(out)["fun"] < 1e-9


def test_help_needs_no_heavy_library():
    heavy = "('scipy', 'pandas', 'pydantic', 'yaml')"
    code = f"import sys, zocosmo.cli; print([name for name in {heavy} if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


def test_the_bar_is_drawn_on_a_terminal_only(run, monkeypatch):
    """Under a pretended terminal the rounds appear on stderr; stdout is the same."""
    words = ["--command", AWK, "--d", "1", "--rounds", "3", "--json", *FIXED]
    quiet = run(*words)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr("zocosmo.cli.common.is_watched", lambda: True)
    code, out, err = run(*words)
    assert (code, out) == quiet[:2]
    assert quiet[2] == ""
    assert "round 3" in err


@pytest.mark.parametrize(
    "text",
    [
        "schedule:\n  matchings: [[[0, 1]], [[1, 2]]]\n  weights: [1, 2]\n# for --graph 0-1,1-2\n",
        "graphs:\n  - kind: path\n    schedule: {matchings: [[[0, 1]], [[1, 2]]], weights: [1, 2]}\n",
    ],
)
def test_a_schedule_comes_from_the_file_that_zocosmo_schedule_writes(run, tmp_path, text):
    (tmp_path / "law.yaml").write_text(text)
    how = ["--d", "3", "--rounds", "6", "--method", "edge_local", "--graph", "0-1,1-2", "--json", *FIXED]
    code, out, err = run("--command", AWK, "--schedule", "law.yaml", *how)
    options = {"method": "edge_local", "rounds": 6, "q": 1, "eta": 0.1, "mu": 0.5, "seed": "0"}
    law = {"matchings": [[[0, 1]], [[1, 2]]], "weights": [1, 2]}
    same = minimize(Command(AWK, 3), [0.0] * 3, graph=Graph.of(3, [(0, 1), (1, 2)]), schedule=law, **options)
    assert (code, err, json.loads(out)["x"]) == (0, "", same.x.tolist())


@pytest.mark.parametrize(
    ("text", "said"), [("a: [1", "law.yaml:1: not YAML"), ("graphs: []", "has no matchings")]
)
def test_a_file_without_a_schedule_is_one_line_and_exit_code_2(run, tmp_path, text, said):
    (tmp_path / "law.yaml").write_text(text)
    code, out, err = run("--command", AWK, "--d", "3", "--rounds", "6", "--schedule", "law.yaml", *FIXED)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_directions_signs_sides_and_step_are_options(run):
    several = ["--directions", "2", "--signs", "orthogonal", "--sides", "1", "--step", "normalised"]
    fixed = ["--q", "2", "--eta", "0.1", "--mu", "0.5", "--rounds", "3", "--json"]
    code, out, err = run("--command", AWK, "--d", "3", "--nodes", "2", *fixed, *several)
    given = {"directions": 2, "signs": "orthogonal", "sides": 1, "step": "normalised"}
    same = minimize(Command(AWK, 2), [0.0] * 3, rounds=3, q=2, eta=0.1, mu=0.5, seed="0", **given)
    report = json.loads(out)
    assert (code, err) == (0, "")
    assert (report["x"], report["nfev"]) == (same.x.tolist(), same.nfev)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--directions", "many"], "--directions takes a whole number or auto, got 'many'"),
        (["--directions", "2", "--signs", "orthogonal"], "2 orthogonal directions do not fit on q = 1"),
        (["--sides", "3"], "sides must be between 1 and 2, got 3"),
        (["--step", "long"], "step 'long' is not known"),
    ],
)
def test_bad_directions_are_refused_in_one_line(run, words, says):
    code, out, err = run("--command", AWK, "--d", "3", "--rounds", "1", *FIXED, *words)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1
