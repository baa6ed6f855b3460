"""Jobs over random graphs end in time, also when a process dies: benchmarks/hangs.py, a few of them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

HANGS = Path(__file__).parents[2] / "benchmarks" / "hangs.py"


@pytest.mark.slow
def test_jobs_over_random_graphs_end_in_time_with_the_simulators_bits_and_so_does_one_that_loses_a_process():
    line = [sys.executable, str(HANGS), "--count", "10", "--seed", "3", "--lose", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=150, check=True)
    found = json.loads(done.stdout)
    assert (found["jobs"], found["equal"], found["errors"]) == (10, 10, 0)
    assert 0 < found["shared"] < 10
    assert len(found["lost"]) == 5  # all but the one that died
    for each in found["lost"]:
        assert "rank 5 closed the connection in round" in each["error"]
        assert each["seconds"] < 20  # of waiting for a peer; nobody had to
