"""subspace: {size: m} in configs: what is read, what is refused, and what the log knows of it."""

import json

import pytest

from compare.tiny import changed, read
from zocosmo.compare.run import compare
from zocosmo.errors import ConfigError
from zocosmo.experiments import run as running
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import make_batches, run_plan
from zocosmo.experiments.states import STATES, read_states
from zocosmo.experiments.subspace import problem_entry
from zocosmo.problems.subspace import SubspaceProblem

METHODS = [
    {"kind": "cosmo", "q": 2, "eta": 0.01, "mu": 0.01, "beta": 0.5},
    {"kind": "dense", "eta": 0.001, "mu": 0.01},
]
QUADRATIC = {"kind": "quadratic", "d": 26, "zeta": 1.0, "sigma": 0.25}


def config(subspace=None, problem=QUADRATIC, methods=METHODS, **more):
    problem = problem if subspace is None else {**problem, "subspace": subspace}
    data = {"problem": problem, "graphs": [{"kind": "ring", "n": 4}], "methods": methods, "seeds": [1, 2]}
    return Config(json.dumps({**data, "rounds": 20, **more}), "study.yaml")


def plan(*args, **more):
    return read_plan(config(*args, **more), "study")


def test_the_problem_of_a_trial_is_that_of_a_subspace():
    for trial in plan({"size": 6}).trials:
        problem = trial.run().problem
        assert isinstance(problem, SubspaceProblem)
        assert (problem.d, problem.size) == (6, 26)
        assert (problem.space.tape.keys == trial.run().problem.space.tape.keys).all()
        assert problem_entry(trial.problem)["subspace"] == {"size": 6}


def test_without_one_nothing_changes():
    assert plan().trials == plan(problem={**QUADRATIC, "subspace": None}).trials
    assert "subspace.size" not in dict(plan().trials[0].problem)


@pytest.mark.parametrize("subspace", [{"size": [6, 12]}, [{"size": 6}, {"size": 12}]])
def test_a_list_of_sizes_is_a_grid(subspace):
    labels = {trial.labels[0] for trial in plan(subspace).trials}
    assert labels == {"quadratic subspace.size=6", "quadratic subspace.size=12"}


def test_with_and_without_are_compared_by_a_list_and_a_method_may_have_its_own():
    both = {trial.labels[0] for trial in plan([None, {"size": 6}]).trials}
    assert both == {"quadratic", "quadratic subspace.size=6"}
    own = [METHODS[0], {**METHODS[1], "problem": {"subspace": {"size": 4}}}]
    assert [trial.run().problem.d for trial in plan(methods=own).trials] == [26, 26, 4, 4]


def test_the_header_has_it_and_the_fingerprint_too():
    log = run_plan(plan({"size": 6}))
    assert log.header["config"]["problem"]["subspace"] == {"size": 6}
    assert len({plan(each).fingerprint for each in (None, {"size": 6}, {"size": 7})}) == 3


@pytest.mark.parametrize(
    ("subspace", "says"),
    [
        ({"size": 26}, "a subspace of size 26 does not fit d = 26; its size must be from 1 to d − 1"),
        ({"size": 0}, "a subspace of size 0 does not fit d = 26"),
        ({"size": -1}, "a subspace of size -1 does not fit"),
        ({"size": 2.5}, "problem.subspace.size: input should be a valid integer"),
        ({"size": "many"}, "problem.subspace.size: input should be a valid integer"),
        ({}, "problem.subspace lacks 'size'"),
        ({"sise": 6}, "unknown key 'sise' in problem.subspace, did you mean 'size'"),
        ({"size": []}, "problem.subspace.size is an empty list"),
        (6, "problem.subspace must be a mapping, got 6"),
        ([6], "problem.subspace must be a mapping, got 6"),
        ({"size": 1}, "q = 2 coordinates of d = 1 cannot be drawn"),
    ],
)
def test_bad_ones_are_refused_before_any_work(subspace, says):
    with pytest.raises(ConfigError, match=r"study\.yaml:1: ") as caught:
        plan(subspace)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_batches_are_measured_by_x_and_change_no_bit(monkeypatch):
    """At 2^8 numbers a batch has two of these runs, at 4 · 26 each, where z alone would let ten in."""
    whole = run_plan(plan({"size": 6}, seeds=["1-6"]))
    monkeypatch.setattr(running, "BATCH_VALUES", 2**8)
    split = plan({"size": 6}, seeds=["1-6"])
    assert [len(batch) for batch in make_batches(split)] == [2] * 6
    assert run_plan(split).rows.equals(whole.rows)


def test_states_are_ordinary_vectors_and_a_stopped_study_ends_in_the_same_log(tmp_path, monkeypatch):
    asked = plan({"size": 6}, log_every=5)
    whole = run_plan(asked, tmp_path / "whole", states=True)
    monkeypatch.setattr(running, "SNAPSHOT_EVERY", 0.0)
    rounds = running.Simulation.round

    def stop(sim):
        if sim.t == 13:
            raise KeyboardInterrupt
        rounds(sim)

    monkeypatch.setattr(running.Simulation, "round", stop)
    with pytest.raises(KeyboardInterrupt):
        run_plan(asked, tmp_path / "half", states=True)
    monkeypatch.setattr(running.Simulation, "round", rounds)
    rest = run_plan(asked, tmp_path / "half", resume=True, states=True)
    assert rest.rows.equals(whole.rows)
    one, other = (read_states(tmp_path / name / STATES) for name in ("whole", "half"))
    assert {name: x.shape for name, x in one.items()} == {f"trial-{k}": (4, 26) for k in range(4)}
    assert all((one[name] == other[name]).all() for name in one)


def test_a_comparison_takes_it(tmp_path):
    inside = read(
        changed("{kind: quadratic, d: 8, zeta: 1.0}", "{kind: quadratic, d: 24, subspace: {size: 6}}")
    )
    (contest,) = inside.contests
    assert {trial.run().problem.d for trial in contest.pilot([101]).trials} == {6}
    assert [result.d for result in compare(inside, tmp_path)] == [6]
