"""zocosmo run, table, figure, methods, problems, example."""

import os
import signal
import subprocess
import sys
import time

import pytest

SMALL = """\
problem: {kind: quadratic, d: 8}
graphs: [{kind: ring, n: 4}]
methods:
  - {kind: cosmo, q: 2, eta: 0.01, mu: 0.001}
  - {kind: edge_local, q: 2, eta: 0.01, mu: 0.001}
seeds: [1, 2, 3]
rounds: 40
budgets: [2000]
"""


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    """The command in this process, in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL)
    return call_main


def test_run_writes_a_log_and_says_where(run, tmp_path):
    code, out, err = run("run", "small.yaml")
    assert (code, err) == (0, "")
    assert out == "runs/small/log.parquet: 6 trials, 0 diverged, 30 rows\n"
    assert sorted(path.name for path in (tmp_path / "runs/small").glob("[!.]*")) == [
        "log.parquet",
        "plan.json",
    ]


@pytest.mark.parametrize("how", [[], ["--resume"]])
def test_run_again_finds_the_log_done_and_says_so(run, how):
    first, again = run("run", "small.yaml"), run("run", "small.yaml", *how)
    assert again[:2] == first[:2]
    assert again[2] == (
        "zocosmo: runs/small is finished, so nothing was run; its results follow. "
        "To run it again, start over with --replace, or choose another --out\n"
    )
    assert run("run", "small.yaml", "--replace") == first


def test_seeds_of_the_command_line_make_another_study(run):
    run("run", "small.yaml")
    code, _, err = run("run", "small.yaml", "--seeds", "1-5")
    assert code == 2
    assert "another plan" in err
    assert "10 trials" in run("run", "small.yaml", "--seeds", "1-5", "--out", "wide")[1]


def test_a_text_log_works_as_well(run):
    assert "log.csv" in run("run", "small.yaml", "--csv")[1]
    assert run("table", "small.yaml")[0] == 0


@pytest.mark.parametrize("study", ["small.yaml", "runs/small", "runs/small/log.parquet"])
def test_a_table_is_found_by_config_folder_or_file(run, study):
    run("run", "small.yaml")
    code, out, err = run("table", study)
    assert (code, err) == (0, "")
    assert "edge_local" in out
    assert "at 2,000 bits per node" in out


@pytest.mark.parametrize("fmt", ["text", "markdown", "csv", "latex"])
def test_tables_come_in_every_format(run, fmt):
    run("run", "small.yaml")
    code, out, _ = run(
        "table", "small.yaml", "--format", fmt, "--last", "--metric", "disagreement", "--rounds"
    )
    assert code == 0
    assert "(40)" in out


def test_a_table_against_a_method_has_intervals(run):
    run("run", "small.yaml")
    code, out, _ = run("table", "small.yaml", "--against", "cosmo")
    assert code == 0
    assert "/3" in out
    assert "minus that of cosmo" in out


def test_a_lone_method_has_nothing_to_be_compared_with(run, tmp_path):
    (tmp_path / "lone.yaml").write_text(
        SMALL.replace("  - {kind: edge_local, q: 2, eta: 0.01, mu: 0.001}\n", "")
    )
    run("run", "lone.yaml")
    code, _, err = run("table", "lone.yaml", "--against", "cosmo")
    assert code == 2
    assert "the only method" in err


def test_a_table_goes_to_a_file(run, tmp_path):
    run("run", "small.yaml")
    assert run("table", "small.yaml", "--format", "markdown", "--to", "table.md")[:2] == (0, "")
    assert (tmp_path / "table.md").read_text().startswith("| method |")


def test_figures_are_drawn(run, tmp_path):
    run("run", "small.yaml")
    code, out, _ = run("figure", "small.yaml")
    assert (code, out) == (0, "small.png\nsmall.svg\n")
    assert all((tmp_path / name).stat().st_size > 5000 for name in out.split())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (["run", "none.yaml"], "none.yaml: there is no such file"),
        (["run", "small.yaml", "--seeds", "5-1"], "seeds 5-1 must ascend"),
        (["run", "small.yaml", "--seeds", ","], "--seeds are whole numbers or ranges"),
        (["table", "small.yaml"], "run the study first"),
        (["table", "small.yaml", "--format", "html"], "format 'html' is not known"),
        (["figure", "none"], "there is no log in none"),
        (["table", "small.txt"], "there is no log in small.txt"),
        (["table", "none.yaml"], "none.yaml: there is no such file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, line, says):
    code, out, err = run(*line)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["table", "--metric", "loss"], "metric 'loss' is not known; choose from"),
        (["table", "--against", "dense"], "baseline method 'dense' is not known"),
        (["figure", "--to", "picture.gif"], "a figure ends in"),
        (["figure", "--x", "time"], "x 'time' is not known"),
        (["table", "--bits", "-1"], "a budget is 0 bits per node or more"),
    ],
)
def test_mistakes_about_a_log_are_one_line_too(run, options, says):
    run("run", "small.yaml")
    code, out, err = run(options[0], "small.yaml", *options[1:])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert says in err


def test_lists_name_every_method_and_problem(run):
    from zocosmo.methods import METHODS
    from zocosmo.problems import PROBLEMS

    for command, table in (("methods", METHODS), ("problems", PROBLEMS)):
        code, out, _ = run(command)
        assert code == 0
        assert all(f"\n{name} " in out for name in table)


def test_graphs_schedules_and_decays_are_listed(run):
    code, out, _ = run("graphs")
    assert code == 0
    assert all(f"\n{name} " in out for name in ("small_world", "maximal", "cosine"))


def test_a_figure_that_cannot_be_is_refused_before_any_is_drawn(run, tmp_path):
    run("run", "small.yaml")
    assert run("figure", "small.yaml", "--to", "good.png", "--to", "bad.gif")[0] == 2
    assert not (tmp_path / "good.png").exists()


def test_a_config_that_has_changed_is_not_shown_with_its_old_log(run, tmp_path):
    run("run", "small.yaml")
    (tmp_path / "small.yaml").write_text(SMALL.replace("eta: 0.01", "eta: 0.02"))
    code, _, err = run("table", "small.yaml")
    assert code == 2
    assert "has changed since it was run (methods)" in err
    assert run("table", "runs/small")[0] == 0


def test_other_budgets_need_no_other_run(run, tmp_path):
    run("run", "small.yaml")
    (tmp_path / "small.yaml").write_text(SMALL.replace("budgets: [2000]", "budgets: [1000]"))
    assert "at 1,000 bits per node" in run("table", "small.yaml")[1]


def test_the_example_config_runs(run, tmp_path):
    (tmp_path / "first.yaml").write_text(run("example")[1])
    assert run("run", "first.yaml")[1].endswith("0 diverged, 3030 rows\n")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_interrupt_says_how_to_go_on(tmp_path, processes):
    """As a terminal does it: the signal goes to all processes of the command."""
    (tmp_path / "long.yaml").write_text(SMALL.replace("rounds: 40", "rounds: 1000000"))
    command = [sys.executable, "-m", "zocosmo", "run", "long.yaml", "--processes", processes]
    running = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "runs/long/parts").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5 if processes == "1" else 3.0)  # processes of their own take time to start
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "zocosmo run long.yaml --out runs/long --resume" in err
    assert list((tmp_path / "runs/long/parts").glob("*.half.npz"))
