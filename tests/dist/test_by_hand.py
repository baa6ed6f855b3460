"""Processes started by hand, without torchrun: rank 0 hosts the store, and takes it along when it leaves."""

import os
import socket
import subprocess
import sys

from dist.plans import SPARSE, config, graphs

TEXT = config([{"kind": "cosmo", **SPARSE}], graphs(3, ["ring"]), rounds=4)
LATE = """
import os, time
if os.environ["RANK"] != "0":  # whoever looks rarely must find the answer too
    pause, time.sleep = time.sleep, lambda seconds: pause(max(seconds, 0.7))
from zocosmo.cli.rank import main
main()
"""


def test_a_mismatch_is_one_line_at_every_rank_although_rank_0_has_the_store(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    about = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "3", "OMP_NUM_THREADS": "1"}
    env = {k: v for k, v in os.environ.items() if k != "TORCH_CPP_LOG_LEVEL"} | about
    processes = []
    for rank in range(3):
        (tmp_path / f"{rank}.yaml").write_text(
            TEXT.replace('"rounds": 4', '"rounds": 6') if rank == 2 else TEXT
        )
        line = [sys.executable, "-c", LATE, str(tmp_path / f"{rank}.yaml"), "--out", str(tmp_path / "out")]
        processes.append(
            subprocess.Popen(line, env={**env, "RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        )
    try:
        said = [process.communicate(timeout=100)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    same = "parameters.rounds: rank 0 has 4, rank 2 6; start all ranks with the same settings\n"
    assert said == [f"zocosmo: rank {rank}: {same}" for rank in range(3)]
    assert [process.returncode for process in processes] == [2, 2, 2]
