"""zocosmo schedule: the best law of a graph on the command line."""

import json
import re

import pytest
from rich.console import Console

from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.graphs import Graph, Listing, erdos_renyi, grid

REST = """problem: {kind: quadratic, d: 4}
methods: [{kind: edge_local, q: 2, eta: 1e-2, mu: 1e-3}]
seeds: [1]
rounds: 10
"""


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    return lambda line: call_main("schedule", *line.split())


def report(run, line):
    code, out, err = run(f"{line} --json")
    assert (code, err) == (0, "")
    return json.loads(out)


def by_name(found):
    return {row["schedule"]: row for row in found["schedules"]}


def test_the_best_law_of_a_grid_stands_beside_the_schedules_that_have_names(run):
    found = report(run, "--graph grid --nodes 9 --q 2 --d 8")
    rows = by_name(found)
    assert list(rows) == ["best per round", "best per scalar", "maximal (auto)", "round_robin"]
    for row in rows.values():
        assert row["lambda2"] <= rows["best per round"]["lambda2"] * (1 + 1e-8)
        assert row["per_scalar"] <= rows["best per scalar"]["per_scalar"] * (1 + 1e-8)
    assert all(row["exact"] and 0 < row["efficiency"] <= 1 for row in rows.values())
    assert found["best"]["gap"] < 1e-8


def test_contractions_are_those_of_the_support(run):
    """γ = qλ₂/2d a round, and 2q E|M| scalars buy it: q/d = 1/4 here."""
    row = by_name(report(run, "--graph ring --nodes 6 --q 2 --d 8"))["alternating (auto)"]
    assert row["lambda2"] == pytest.approx(0.5)
    assert row["contraction"] == pytest.approx(0.5 / 8)
    assert row["per_scalar"] == pytest.approx(0.5 / 8 / (2 * 2 * 3))


def test_on_a_complete_graph_nothing_beats_the_uniform_schedule(run):
    rows = by_name(report(run, "--graph complete --nodes 6"))
    assert {round(rows[name]["efficiency"], 9) for name in ("best per round", "complete (auto)")} == {1.0}
    assert "maximal" not in rows


def test_above_sixteen_nodes_uniform_matchings_are_an_estimate(run):
    rows = by_name(report(run, "--graph star --nodes 17"))
    assert [row["schedule"] for row in rows.values() if not row["exact"]] == ["maximal (auto)"]
    assert rows["maximal (auto)"]["lambda2"] <= rows["best per round"]["lambda2"]
    assert "≈ " in run("--graph star --nodes 17")[1]


def test_the_table_names_matchings_weights_and_the_block(run):
    code, out, _ = run("--graph star --nodes 4")
    assert code == 0
    assert "No law of this graph has λ₂ above 0.3333333333" in out
    assert "33.33 %   0-1" in out
    assert out.endswith("weights: [1, 1, 1]\n")


@pytest.mark.parametrize(
    ("line", "graph"),
    [
        ("--graph grid --nodes 6", grid(6)),
        ("--graph erdos_renyi --nodes 6 --p 0.6 --seed 5", erdos_renyi(6, 0.6, seed=5)),
        ("--graph erdos_renyi --nodes 6 --p 0.6 --seed alpha", erdos_renyi(6, 0.6, seed="alpha")),
        ("--graph 0-1,1-2,2-3,0-3,1-3", Graph.of(4, [(0, 1), (1, 2), (2, 3), (0, 3), (1, 3)])),
    ],
)
def test_the_block_that_is_written_is_a_part_of_a_config(run, tmp_path, line, graph):
    code, out, _ = run(f"{line} --out best.yaml")
    assert (code, "For a config, written to best.yaml." in out) == (0, True)
    plan = read_plan(Config((tmp_path / "best.yaml").read_text() + REST, "study.yaml"), "study")
    given = plan.trials[0].run()
    assert given.graph.edges == graph.edges
    assert given.world.schedule_name == Listing.read(report(run, line)["schedule"]).name


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.csv", "0,1\n1,2\n2,3\n"),
        ("mine.csv", "# a path\nfrom,to\n1,0\n 1, 2\n3,2\n\n"),
        ("mine.json", "[[0, 1], [1, 2], [2, 3]]"),
        ("mine.json", '{"n": 4, "edges": [[0, 1], [1, 2], [2, 3]]}'),
    ],
)
def test_edges_are_read_from_a_file(run, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = report(run, f"--edges {name}")
    assert (found["graph"], found["n"], found["config"]) == (
        "mine",
        4,
        {"kind": "edges", "n": 4, "edges": "0-1,1-2,2-3"},
    )
    assert found["schedule"] == report(run, "--graph path --nodes 4")["schedule"]


@pytest.mark.parametrize("text", ["\ufeff0,1\n1,2\n2,3\n2,0\n", "node1,node2\n0,1\n1,2\n2,3\n0,2\n"])
def test_no_edge_is_taken_for_a_line_of_names(run, tmp_path, text):
    """A spreadsheet's mark before the first line used to hide its edge."""
    (tmp_path / "mine.csv").write_text(text, encoding="utf-8")
    assert report(run, "--edges mine.csv")["edges"] == [[0, 1], [0, 2], [1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("mine.json", "[[0, 1.5], [1, 2]]", "two whole numbers, such as 0,1; got '0,1.5'"),
        ("mine.json", "[[0, true]]", "got '0,true'"),
        ("mine.json", "[7]", "got '7'"),
        ("mine.csv", "O,1\n0,1\n1,2\n", "got 'O,1'"),
        ("mine.csv", "0,1,2\n", "got '0,1,2'"),
        ("mine.csv", "0;1\n", "got '0;1'"),
        ("mine.csv", "1,2\n2,3\n", "nodes are numbered from 0"),
    ],
)
def test_what_is_no_edge_is_shown(run, tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    code, out, err = run(f"--edges {name}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_no_number_is_cut_on_a_narrow_terminal(run, monkeypatch):
    """80 columns; 20 nodes, so that an estimate with its sign is among the numbers."""
    monkeypatch.setattr("zocosmo.cli.schedule.output", lambda: Console(width=80))
    _, out, _ = run("--graph grid --nodes 20 --total 1000")
    table = out.split("No law")[0]
    assert "…" not in table
    assert re.search(r"maximal \(auto\) +≈ 0\.[0-9]{6} ", table)
    assert len(re.findall(r"[0-9]\.[0-9] % *$", table, re.M)) == 4  # nothing falls off at the right


def test_a_config_is_not_replaced_but_an_older_block_is(run, tmp_path):
    (tmp_path / "study.yaml").write_text("graphs: [{kind: grid, n: 6}]\n" + REST)
    code, _, err = run("--graph grid --nodes 6 --out study.yaml")
    assert (code, "holds more than a schedule" in err) == (2, True)
    assert [run(f"--graph path --nodes {n} --out best.yaml")[0] for n in (4, 5)] == [0, 0]
    assert "n: 5" in (tmp_path / "best.yaml").read_text()


def test_a_search_that_is_watched_says_what_it_does(run, monkeypatch):
    monkeypatch.setattr("zocosmo.cli.common.sys.stderr.isatty", lambda: True, raising=False)
    assert "searching the laws of 4 nodes" in run("--graph path --nodes 4")[2]


def test_a_support_needs_a_dimension(run):
    assert "--q 8 needs --d" in run("--graph ring --nodes 4 --q 8")[2]


def test_the_block_of_a_graph_of_ones_own_has_its_edges(run):
    out = run("--graph 0-1,1-2")[1]
    assert 'graphs:\n  - kind: edges\n    n: 3\n    edges: "0-1,1-2"\n    schedule:\n' in out


def test_the_law_that_spends_scalars_best_can_be_asked_for(run):
    """12 / (n (n² − 1)) on a path."""
    found = report(run, "--graph path --nodes 5 --per scalar")
    assert found["best"]["value"] == pytest.approx(0.1, rel=1e-6)
    assert "best per scalar has 0.1" in run("--graph path --nodes 5 --per scalar")[1]


def test_coarser_weights_add_up_to_what_was_asked(run):
    found = report(run, "--graph grid --nodes 16 --total 1000")
    assert 1000 % sum(found["schedule"]["weights"]) == 0
    assert found["best"]["gap"] < 1e-2


def test_a_figure_is_drawn(run, tmp_path):
    assert run("--graph grid --nodes 6 --figure law.svg")[0] == 0
    assert "best per round" in (tmp_path / "law.svg").read_text()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "give either --graph, such as grid or 0-1,1-2, or --edges with a file"),
        ("--graph grid --nodes 4 --edges mine.csv", "give either --graph"),
        ("--graph grid", "graph 'grid' needs --nodes"),
        ("--graph gird --nodes 4", "graph 'gird' is not known; choose from ring"),
        ("--graph ring --nodes 129", "the number of nodes must be between 2 and 128, got 129"),
        ("--graph path --nodes 1", "the number of nodes must be between 2 and 128, got 1"),
        ("--graph ring --nodes 4 --q 3 --d 2", "--q must be between 1 and 2, got 3"),
        ("--graph ring --nodes 4 --per bit", "--per 'bit' is not known; choose from round, scalar"),
        ("--graph ring --nodes 4 --tolerance 0", "--tolerance lies from 1e-14 to below 1, got 0"),
        ("--graph ring --nodes 4 --total 0", "--total must be between 1 and"),
        ("--graph star --nodes 4 --total 2", "whole parts of 2 leave λ₂ = 0; raise total"),
        ("--graph ring --nodes 4 --figure a.gif", "a figure ends in .svg, .png, .pdf, got 'a.gif'"),
        ("--graph ring --nodes 4 --out a.json", "--out ends in .yaml, got 'a.json'"),
        ("--graph ring --nodes 4 --out no/a.yaml", "folder no does not exist; make it first"),
        ("--graph 0-1,2-3", "the graph is not connected"),
        ("--edges none.csv", "none.csv cannot be read"),
    ],
)
def test_mistakes_end_as_one_line(run, line, says):
    code, out, err = run(line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("zocosmo: ")
    assert says in err


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("bad.csv", "0,1\n1\n", "is not a list of pairs of nodes"),
        ("bad.csv", "0,1\n1,x\n", "is not a list of pairs of nodes"),
        ("bad.csv", "", "has no edges; write one pair of nodes a line"),
        ("bad.json", "{}", "is not a list of pairs of nodes"),
        ("bad.json", "[[0, 1], [1, null]]", "is not a list of pairs of nodes"),
        ("bad.json", '{"n": 0, "edges": [[0, 1]]}', "n must be 1 or more, got 0"),
        ("bad.json", "[[0, 1], [1, -2]]", "a node must be 0 or more, got -2"),
    ],
)
def test_files_that_hold_no_edges_are_refused(run, tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    code, _, err = run(f"--edges {name}")
    assert (code, err.count("\n")) == (2, 1)
    assert says in err


def test_a_path_is_mixed_best_by_its_two_phases(run):
    found = report(run, "--graph path --nodes 4")
    assert found["schedule"] == {"matchings": [[[0, 1], [2, 3]], [[1, 2]]], "weights": [1, 1]}
