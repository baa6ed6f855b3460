"""A language model in a process for each node is the simulator's, bit for bit, with queries one by one."""

import json

import pytest

pytest.importorskip("transformers")

from dist.plans import case
from dist.ranks import run_cases
from dist.test_equal import other_logs, other_states
from llm.tiny import tiny_folder
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan
from zocosmo.experiments.run import run_plan

SMALL = {"train_rows": 48, "validation_rows": 17, "threads": 1, "queries": "one_by_one", "clip": 0.9}
STEP = {"q": 64, "eta": 20.0, "mu": 0.01, "beta": 0.9}


def config(model, kind, n):
    """More rounds than the ten queries from which on slopes are clipped; 17 rows, so parts are unequal."""
    problem = {"kind": "llm", "model": str(model), "noise": 1e-7, **SMALL}
    entries = {"problem": problem, "graphs": [{"kind": "ring", "n": n}], "methods": [{"kind": kind, **STEP}]}
    return json.dumps(
        {**entries, "seeds": [5], "rounds": 30, "log_every": 15, "wire": "f32", "dtype": "float32"}
    )


@pytest.mark.parametrize(("kind", "n"), [("edge_local", 2), pytest.param("cosmo", 3, marks=pytest.mark.slow)])
def test_processes_write_the_log_and_the_states_of_the_simulator(kind, n, tmp_path):
    model = tiny_folder(tmp_path / "tiny")
    cases = [case(kind, tmp_path, config(model, kind, n))]
    run_cases(tmp_path, n, cases)
    assert list(other_states(cases, tmp_path)) == []
    assert list(other_logs(cases, tmp_path)) == []
    rows = run_plan(read_plan(Config(cases[0]["config"], "x"), "x")).rows
    assert rows["clipped"].iloc[-1] > 0  # the clip was at work
    assert rows["moved"].iloc[-1] > 0
