"""Networks over ZeroMQ, their members in threads: equal to the simulator bit for bit, whatever happens."""

import subprocess
import sys

import numpy as np
import pytest

from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import read_log

from net.crowd import COSMO, EDGE_LOCAL, Threads, replay, write_config


def finish(crowd, config, *, compared):
    """Wait for the end; everything that members kept is what the simulator makes of the record."""
    crowd.wait()
    done, wrong = replay(config, crowd.out)
    assert done >= compared
    assert wrong == []


@pytest.mark.parametrize(
    ("method", "wire", "dtype"),
    [
        (EDGE_LOCAL, "mod4", "float64"),
        (COSMO, "mod3", "float32"),
        (COSMO, "f32", "float32"),
        ({**EDGE_LOCAL, "step": "normalised", "directions": 2}, "f64", "float64"),
    ],
)
def test_fixed_members_equal_the_simulator(tmp_path, method, wire, dtype):
    config = write_config(tmp_path, method=method, wire=wire, dtype=dtype)
    crowd = Threads(config, tmp_path / "out")
    for _ in range(4):
        crowd.join()
    finish(crowd, config, compared=28)
    assert crowd.host.finished == 4
