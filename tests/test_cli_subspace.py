"""A public subspace from the command line: zocosmo minimize --subspace, and `subspace` in a study."""

import json

import pytest

from zocosmo.blackbox.commands import Command
from zocosmo.blackbox.minimize import minimize
from zocosmo.experiments.states import read_states

AWK = 'awk "{s += ($1-3)^2} END {print s}" {file}'
FIXED = ["--q", "1", "--eta", "0.1", "--mu", "0.5", "--rounds", "6"]
STUDY = """\
problem: {kind: quadratic, d: 24, subspace: {size: SIZE}}
graphs: [{kind: ring, n: 4}]
methods: [{kind: cosmo, q: 2, eta: 0.01, mu: 0.001}]
seeds: [1]
rounds: 10
"""


@pytest.fixture
def run(call_main, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return call_main


def test_minimize_takes_a_size(run):
    code, out, err = run("minimize", "--command", AWK, "--d", "8", "--subspace", "2", "--json", *FIXED)
    same = minimize(Command(AWK, 1), [0.0] * 8, rounds=6, q=1, eta=0.1, mu=0.5, seed="0", subspace=2)
    assert (code, err) == (0, "")
    assert json.loads(out)["x"] == same.x.tolist()
    assert len(same.x) == 8


@pytest.mark.parametrize("size", ["8", "0", "-2"])
def test_minimize_refuses_a_size_that_does_not_fit(run, size):
    code, out, err = run("minimize", "--command", AWK, "--d", "8", f"--subspace={size}", *FIXED)
    says = f"zocosmo: a subspace of size {size} does not fit d = 8; its size must be from 1 to d − 1\n"
    assert (code, out, err) == (2, "", says)


@pytest.mark.parametrize("size", ["24", "0"])
def test_a_study_refuses_it_with_the_line(run, tmp_path, size):
    (tmp_path / "study.yaml").write_text(STUDY.replace("SIZE", size))
    code, out, err = run("run", "study.yaml")
    says = f"zocosmo: study.yaml:1: a subspace of size {size} does not fit d = 24"
    assert (code, out, err.startswith(says), err.count("\n")) == (2, "", True, 1)
    assert not (tmp_path / "runs").exists()


def test_a_study_runs_and_keeps_vectors_of_d(run, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY.replace("SIZE", "6"))
    assert run("run", "study.yaml", "--states")[0] == 0
    assert read_states(tmp_path / "runs/study/states.npz")["trial-0"].shape == (4, 24)
    assert run("run", "study.yaml", "--set", "problem.subspace.size=4", "--out", "other")[0] == 0
    assert run("run", "study.yaml", "--set", "problem.subspace.size=4")[0] == 2  # another study is there


def test_check_says_what_applies(run, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY.replace("SIZE", "6"))
    code, out, _ = run("check", "study.yaml", "--seeds", "32")
    assert code == 0
    assert "not of quadratic in a subspace" in " ".join(out.split())
    assert "d=6 q=2, uniform" in out  # supports and bits are of the m axes
