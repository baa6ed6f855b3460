"""Runs in a public subspace over processes: the simulator's log and states, byte for byte."""

import signal

import pytest

from dist.jobs import Disturbed, differences, newest, wait_for, write_config
from dist.plans import ONE_EACH, QUADRATIC, case, config, graphs
from dist.test_equal import compare

RAGGED = {**QUADRATIC, "d": 50, "subspace": {"size": 12}}  # 12 does not divide 50
EVEN = {"kind": "logistic", "data": "digits", "batch": 8, "subspace": {"size": 26}}  # 26 divides 650
RING = {"kind": "ring", "n": 2}


def test_processes_compute_what_the_simulator_does(tmp_path):
    compare(
        tmp_path,
        3,
        [
            case("ragged", tmp_path, config(ONE_EACH, graphs(5, ["ring"]), problem=RAGGED)),
            case("float32", tmp_path, config(ONE_EACH, graphs(3), problem=RAGGED, wire=("f32", "float32"))),
            case("even", tmp_path, config(ONE_EACH, graphs(3, ["path"]), problem=EVEN, rounds=6)),
        ],
    )


@pytest.mark.slow
def test_a_job_that_was_killed_goes_on_to_the_simulators_bits(tmp_path):
    written, out = write_config(tmp_path, RING, problem=RAGGED, rounds=300, log_every=50), tmp_path / "out"
    with Disturbed(tmp_path, 2, written, "--out", out, "--checkpoint-every", 25) as job:
        job.start()
        wait_for(lambda: newest(out, 1) >= (0, 50))
        job.send(1)
        assert job.wait(60)[1] == -signal.SIGKILL, job.said()
        job.start(1)
        assert job.wait(120) == [0, 0], job.said()
    assert list(differences(written, out, tmp_path / "simulated")) == []
