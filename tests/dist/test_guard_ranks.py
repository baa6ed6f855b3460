"""Processes with a guard of the step drop it in the rounds in which the simulator does, to the bit."""

import signal

import numpy as np
import pytest

from dist.jobs import Disturbed, differences, newest, wait_for, write_config
from dist.plans import SPARSE, STEP, case
from dist.ranks import run_cases
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log

NOISY = {"kind": "quadratic", "d": 12, "omega": 0.5, "zeta": 1.0, "sigma": 6.0}
METHODS = [
    {"kind": "cosmo", **SPARSE, "beta": 0.5},
    {"kind": "edge_local", **SPARSE, "beta": 0.5},
    {"kind": "dense", **STEP},
]
GUARD = {"grow": 0.01, "by": 0.7}  # 0.7 is no power of two: products round
RING = {"kind": "ring", "n": 5}
TYPES = {"double": ("f64", "float64"), "single": ("f32", "float32")}


def config_in(folder, **more):
    options = {"methods": METHODS, "problem": NOISY, "rounds": 60, "log_every": 5, "guard": GUARD}
    return write_config(folder, RING, **{**options, **more})


def dropped(log):
    """Trials whose step was dropped more than once."""
    return np.flatnonzero(log.rows.groupby("trial")["step_factor"].last() < 0.7).tolist()


def test_processes_with_a_guard_are_the_simulator_with_a_guard(tmp_path):
    """Five nodes in two processes: rank 0 alone sees a checkpoint, and the other is told."""
    configs = {
        name: config_in(tmp_path / "configs" / name, wire=wire, dtype=dtype)
        for name, (wire, dtype) in TYPES.items()
    }
    run_cases(tmp_path, 2, [case(name, tmp_path, config.read_text()) for name, config in configs.items()])
    for name, config in configs.items():
        assert list(differences(config, tmp_path / name, tmp_path / "simulated" / name)) == []
        assert dropped(read_log(tmp_path / name / "log.parquet")) == [0, 1, 2]


@pytest.mark.slow
def test_a_job_that_was_killed_after_a_drop_goes_on_with_the_dropped_step(tmp_path):
    """Saved every 7 rounds and measured every 5: what is restored lies between two checkpoints of the log."""
    config, out = config_in(tmp_path, rounds=400, methods=METHODS[:1]), tmp_path / "out"
    early = run_plan(load_plan(config)).rows.query("round <= 100")
    assert early["step_factor"].min() < 1  # before the kill
    with Disturbed(tmp_path, 2, config, "--out", out, "--checkpoint-every", 7) as job:
        job.start()
        wait_for(lambda: newest(out, 1)[1] > 100)
        job.send(1)
        assert job.wait(60)[1] == -signal.SIGKILL, job.said()
        job.start(1)
        assert job.wait(120) == [0, 0], job.said()
    assert list(differences(config, out, tmp_path / "simulated")) == []
