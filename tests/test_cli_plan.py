"""zocosmo plan: tables and JSON of the planner's outlook, a figure, and mistakes in one line."""

import json
from fractions import Fraction

import pytest
from rich.console import Console

from zocosmo.graphs import ring
from zocosmo.planner import Deployment, Wish, as_report, outlook

PAPER = "--d 2523136 --nodes 4 --budget 403701760 --q 8192"


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda line: call_main("plan", *line.split())


def test_json_is_the_report_of_the_library(run):
    code, out, err = run(f"{PAPER} --json")
    setting = Deployment(
        d=2_523_136, bandwidth=10**8, latency=Fraction(1, 50), query_time=Fraction(1, 2), budget=403_701_760
    )
    assert (code, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(as_report(outlook(setting, ring(4), Wish(q=8192)))))


def test_the_table_has_the_paper_s_multipliers(run):
    code, out, _ = run("--d 2523136 --nodes 2 --graph complete --budget 403701760 --q 8192")
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert code == 0
    assert ("1.69" in out, "13.94" in out, "N = 2,732" in out) == (True, True, True)
    assert {"global", "edge-local", "flooding", "dense", "indexed", "MARINA-type"} <= set(rows)


def test_the_table_has_the_paper_s_full_model_multipliers(run):
    _, out, _ = run("--d 6525621760 --nodes 2 --graph complete --budget 10G --q 8192")
    assert "2.03" in out
    assert "3.19e+04" in out


def test_tables_fit_the_page(run):
    _, out, _ = run("--d 6525621760 --nodes 40 --graph star --budget 1T")
    tables = out.split("\nMethod: ")[0].splitlines()
    assert max(map(len, tables)) <= 120
    assert "…" not in out


def test_units_change_nothing_but_the_spelling(run):
    plain = run("--d 5000 --nodes 6 --budget 1000000 --bandwidth 1e8 --latency 0.02 --query-time .5 --json")
    units = run("--d 5000 --nodes 6 --budget 1Mbit --bandwidth 0.1G --latency 20ms --query-time 500ms --json")
    assert plain == units


def test_random_graphs_come_from_the_tape(run):
    line = "--d 5000 --nodes 20 --graph erdos_renyi --p 0.3 --budget 1M --json"
    first, again, other = (json.loads(run(f"{line} --seed {seed}")[1]) for seed in (1, 1, 2))
    assert first == again
    assert first["network"] != other["network"]
    assert first["schedule"]["exact"] is False


def test_an_estimate_is_marked_as_one(run):
    _, out, _ = run("--d 5000 --nodes 20 --graph erdos_renyi --budget 1M --schedule maximal")
    assert "≈" in out
    assert "λ₂ = about" in out


def test_edges_make_a_graph_too(run):
    code, out, _ = run("--d 5000 --graph 0-1,1-2,2-3 --budget 1M --json")
    assert (code, json.loads(out)["network"]["diameter"]) == (0, 3)


def test_time_in_place_of_rounds(run):
    _, out, _ = run("--d 2523136 --nodes 4 --budget 403701760 --time 30min --json")
    found = json.loads(out)
    assert found["methods"][1]["seconds"]["total"] >= 1800 - found["methods"][1]["seconds"]["round"]
    assert found["choice"]["binding"] == "bits"


@pytest.mark.parametrize("time", ["1ns", "5min", "3h", "2d"])
def test_no_method_runs_longer_than_the_time(run, time):
    """Nor ends a whole round early: dense rounds of MARINA-type take longer than others."""
    _, out, _ = run(f"--d 2523136 --nodes 4 --bandwidth 10M --time {time} --json")
    report = json.loads(out)
    seconds = report["setting"]["time"]
    for row in report["methods"]:
        longest = row["seconds"]["round"] * 25 if row["method"] == "marina_type" else row["seconds"]["round"]
        assert seconds - 1.001 * longest <= row["seconds"]["total"] <= seconds


def test_a_time_needs_no_budget(run):
    """What the link sends in the time at most limits nothing: any larger budget gives the same rows."""
    line = "--d 40 --nodes 12 --graph grid --bandwidth 10M --query-time 2s --time 8h --json"
    free, ample = (json.loads(run(more)[1]) for more in (line, f"{line} --budget 1T"))
    assert free["methods"] == ample["methods"]
    assert free["methods"][1]["rounds"] == 7163
    assert "8 h hold 7,163 rounds" in free["why"][1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "--d 2523136 --nodes 4 --graph complete --budget 10G",
            "flooding (flood), if a node rebuilds 7,569,408",
        ),
        (
            "--d 2523136 --nodes 16 --budget 100M",
            "edge-local (edge_local) by the clock, 1.021 s against 1.16 s",
        ),
        ("--d 40 --nodes 12 --graph grid --budget 1M", "edge-local (edge_local): it sends no more"),
    ],
)
def test_a_method_is_named_first(run, line, said):
    report = json.loads(run(f"{line} --json")[1])
    assert report["why"][0].startswith(f"Method: {said}")


def test_no_number_is_cut_on_a_narrow_terminal(run, monkeypatch):
    monkeypatch.setattr("zocosmo.cli.common.output", lambda: Console(width=80))
    _, out, _ = run("--d 6525621760 --nodes 12 --graph grid --budget 1T")
    assert "…" not in out
    assert max(map(len, out.split("\nMethod: ")[0].splitlines())) <= 80


@pytest.mark.parametrize("name", ["plan.svg", "plan.png"])
def test_a_figure_is_drawn(run, tmp_path, name):
    code, _, _ = run(f"{PAPER} --figure {name}")
    assert code == 0
    assert (tmp_path / name).stat().st_size > 5000


def test_a_figure_of_graphs_that_must_be_built(run, tmp_path):
    code, _, _ = run("--d 6525621760 --nodes 9 --graph grid --budget 1G --figure plan.svg")
    assert code == 0
    assert (tmp_path / "plan.svg").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--d 0 --nodes 4 --budget 1M", "--d must be 1 or more, got 0"),
        ("--d 10 --nodes 4 --budget 1MB", "multiply by 8"),
        ("--d 10 --nodes 4 --budget -1", "got '-1'"),
        ("--d 10 --nodes 4 --budget 1M --q 11", "--q must be between 1 and 10, got 11"),
        ("--d 10 --nodes 4 --budget 1M --latency 5M", "unit 'M'"),
        ("--d 10 --nodes 4 --budget 1M --bandwidth 0", "above 0"),
        ("--d 10 --nodes 1 --graph complete --budget 1M", "2 to 512 nodes, got 1"),
        ("--d 10 --nodes 4", "give --budget (bits per node), --time"),
        ("--d 10 --budget 1M", "needs --nodes"),
        ("--d 10 --nodes 4 --budget 1M --graph web", "graph 'web' is not known"),
        ("--d 10 --nodes 5 --budget 1M --schedule alternating", "even number of nodes"),
        ("--d 10 --nodes 4 --budget 1M --schedule best", "schedule 'best' is not known"),
        ("--d 10 --nodes 4 --budget 1M --value f8", "value type 'f8'"),
        ("--d 10 --nodes 4 --budget 1M --figure plan.gif", "ends in"),
        ("--d 10 --nodes 4 --budget 1M --rounds 5 --time 1h", "not both"),
        ("--d 10 --nodes 4 --budget 1M --rounds 0", "--rounds must be 1 or more"),
        ("--d 10 --nodes 4 --budget 1M --time 0", "above 0 seconds"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run, line, said):
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_queries_bring_a_proposal_that_a_config_can_take(run):
    code, out, err = run("--d 32 --nodes 8 --budget 10k --queries 3200")
    line = next(line for line in out.splitlines() if line.startswith("Proposed: "))
    several = "q: 16, directions: 16, signs: orthogonal, sides: 1, wire: mod4"
    several += ", rule: balanced, pairs: epoch, correction: 0.125"
    assert (code, err, line) == (0, "", f"Proposed: {{kind: edge_local, coupling: G, {several}}}")
    assert "16 orthogonal directions: 10 kbit and 3,200 queries per node pay for 109 rounds" in out


def test_queries_alone_are_a_budget_too(run):
    found = json.loads(run("--d 32 --nodes 8 --queries 3200 --json")[1])["proposal"]
    assert (found["q"], found["directions"], found["rounds"], found["wire"]) == (32, 8, 355, "mod4")
    batched = json.loads(run("--d 460800 --nodes 4 --budget 1620000 --queries 3080 --batch 16 --json")[1])
    assert [batched["proposal"][name] for name in ("q", "directions", "sides")] == [256, 16, 2]
    assert "proposal" not in json.loads(run("--d 32 --nodes 8 --budget 10k --json")[1])


@pytest.mark.parametrize(
    ("line", "words"),
    [("--queries 0", "--queries must be 1"), ("--queries 9 --batch 0", "--batch must be 1")],
)
def test_queries_that_are_none_are_refused(run, line, words):
    code, _, err = run(f"--d 32 --nodes 8 --budget 10k {line}")
    assert code == 2
    assert words in err
