"""What a command line may change in a config, and checkpoints at rounds of one's own."""

import subprocess
import sys

import pytest

from zocosmo.errors import ConfigError
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import load_plan, read_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log

STUDY = """\
problem: {kind: quadratic, d: 8, zeta: 1.0}
graphs: [{kind: ring, n: 4}]
methods:
  - {kind: cosmo, q: 2, eta: 1e-2, mu: 1.0e-3}
  - {kind: edge_local, q: 2, eta: 1e-2, mu: 1.0e-3}
seeds: [1, 2]
rounds: 12
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def test_an_override_takes_the_place_of_an_entry(study):
    plan = load_plan(study, overrides=["problem.d=16", "rounds=20", "methods.1.q=4"])
    assert {trial.run().problem.d for trial in plan.trials} == {16}
    assert (plan.rounds, [trial.method.q for trial in plan.trials[::2]]) == (20, [2, 4])


def test_a_star_is_every_entry_of_a_list(study):
    plan = load_plan(study, overrides=["methods.*.mu=0.25"])
    assert {trial.method.mu for trial in plan.trials} == {0.25}


def test_an_override_may_add_what_is_not_there_and_bring_lists_and_mappings(study):
    plan = load_plan(
        study, overrides=["graphs=[{kind: path, n: 3}]", "methods.0.decay.kind=drop", "methods.0.decay.at=5"]
    )
    assert plan.trials[0].graph_of().n == 3
    assert plan.trials[0].method.eta_at(5) == pytest.approx(1e-3)


def test_the_plan_is_that_of_a_file_with_the_same_words(study):
    written = read_plan(Config(STUDY.replace("d: 8", "d: 9"), "x"), "study")
    assert load_plan(study, overrides=["problem.d=9"]).fingerprint == written.fingerprint
    assert load_plan(study, overrides=[]).fingerprint == load_plan(study).fingerprint != written.fingerprint


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("problem.dd=3", "--set problem.dd=3: unknown key 'dd' in problem, did you mean 'd'?"),
        ("problm.d=3", "--set problm.d=3: unknown key 'problm' in the file, did you mean 'problem'?"),
        ("rounds=0", "--set rounds=0: rounds must be 1 or more, got 0"),
        ("rounds=many", "--set rounds=many: rounds: "),
        ("rounds=true", "--set rounds=true:1: "),
        ("methods.2.q=1", "--set methods.2.q=1: methods has no entry '2'; it is 0 to 1, or *"),
        ("methods.x.q=1", "--set methods.x.q=1: methods has no entry 'x'"),
        ("rounds.x=1", "--set rounds.x=1: rounds is not a mapping"),
        ("rounds", "--set rounds: expected KEY=VALUE"),
        ("=3", "--set =3: expected KEY=VALUE"),
        ("a..b=3", "--set a..b=3: expected KEY=VALUE"),
        ("graphs=[{kind: ring, n: four}]", "--set graphs=[{kind: ring, n: four}]: graphs[0].n: "),
        ("seeds=[1", "--set seeds=[1:1: not YAML"),
        ("seeds=[]", "--set seeds=[]: seeds is empty"),
    ],
)
def test_a_mistake_is_one_line_that_repeats_it(study, override, says):
    with pytest.raises(ConfigError) as error:
        load_plan(study, overrides=[override])
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_launched_study_takes_the_same_changes(study, tmp_path):
    changes = ["--set", "checkpoints=[2, 5]", "--set", "methods.*.mu=0.5", "--seeds", "1", "--csv"]
    for verb, folder in (("run", "a"), ("launch", "b")):
        line = [sys.executable, "-m", "zocosmo", verb, str(study), *changes, "--out", str(tmp_path / folder)]
        subprocess.run(line, check=True, capture_output=True, timeout=120)
    ran, launched = (read_log(tmp_path / folder / "log.csv") for folder in "ab")
    assert ran.header["config"] == launched.header["config"]
    assert launched.rows["round"].tolist() == [0, 2, 5] * 2
    assert launched.rows["objective"].tolist() == ran.rows["objective"].tolist()


def test_a_mistake_elsewhere_still_has_its_line(study):
    study.write_text(STUDY.replace("zeta", "zetta"))
    with pytest.raises(ConfigError, match=r"study\.yaml:1: unknown key 'zetta'"):
        load_plan(study, overrides=["rounds=20"])


def test_runs_are_measured_at_the_rounds_that_are_asked_for(study):
    uneven = run_plan(load_plan(study, overrides=["checkpoints=[3, 7, 12]"])).rows
    every = run_plan(load_plan(study, overrides=["log_every=1"])).rows
    assert uneven["round"].tolist() == [0, 3, 7, 12] * 4
    same = every[every["round"].isin([0, 3, 7, 12])].reset_index(drop=True)
    assert uneven.equals(same)


def test_nothing_is_run_after_the_last_checkpoint(study):
    plan = load_plan(study, overrides=["checkpoints=[5]"])
    assert (plan.last, list(plan.due)) == (5, [0, 5])
    assert [t for t in range(13) if plan.is_due(t)] == [0, 5]


def test_a_stopped_run_goes_on_to_the_same_uneven_checkpoints(study, tmp_path):
    plan = load_plan(study, overrides=["checkpoints=[3, 7, 12]"])
    straight = run_plan(plan).rows

    def stop(progress):
        if progress.rounds >= 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_plan(plan, tmp_path / "out", tick=stop)
    assert run_plan(plan, tmp_path / "out", resume=True).rows.equals(straight)


def test_checkpoints_are_part_of_what_a_plan_is_and_silent_where_there_are_none(study):
    with_them = load_plan(study, overrides=["checkpoints=[3, 12]"])
    assert with_them.fingerprint != load_plan(study, overrides=["checkpoints=[4, 12]"]).fingerprint
    assert (with_them.config["checkpoints"], "log_every" in with_them.config) == ([3, 12], False)
    assert "checkpoints" not in load_plan(study).config


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("[3, 3]", "checkpoints ascend from 1 to rounds = 12, got [3, 3]"),
        ("[0, 3]", "checkpoints ascend from 1 to rounds = 12"),
        ("[3, 13]", "checkpoints ascend from 1 to rounds = 12"),
        ("[5, 3]", "checkpoints ascend from 1 to rounds = 12"),
        ("[3]\nlog_every: 2", "checkpoints replace log_every; leave one of them out"),
        ("3", "checkpoints: "),
    ],
)
def test_checkpoints_that_cannot_be_are_refused(given, says):
    with pytest.raises(ConfigError) as error:
        read_plan(Config(f"{STUDY}checkpoints: {given}\n", "study.yaml"), "study")
    assert str(error.value).startswith(f"study.yaml:8: {says}")
