"""Processes killed at any moment: the job goes on from whole checkpoints, to the bits of the simulator."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from dist.jobs import (
    BOTH,
    Disturbed,
    children,
    differences,
    drafts,
    newest,
    rank_folder,
    torn,
    wait_for,
    write_config,
)

RING = {"kind": "ring", "n": 4}
ROUNDS = 1500
FEW = 300
LARGE = {"kind": "quadratic", "d": 200_000, "omega": 0.5, "zeta": 1.0, "sigma": 0.25}


def reached(out, rank, rounds=ROUNDS):
    """Rounds of all trials that a rank has saved."""
    trial, t = newest(out, rank)
    return trial * rounds + t


def kill_at_rounds(job, out, config, rounds, targets):
    """Kill ranks in turn, each once it has saved so many rounds, and some since its start; what that tore."""
    for attempt, target in enumerate(targets):
        rank = attempt % job.world
        target = max(target, reached(out, rank, rounds) + 25)
        job.start(attempt)
        wait_for(lambda rank=rank, target=target: reached(out, rank, rounds) >= target)
        job.send(rank)
        codes = job.wait(60)
        assert codes[rank] == -signal.SIGKILL, job.said()
        assert {code for k, code in enumerate(codes) if k != rank} == {2}, job.said()
        yield from torn(config, out, job.world)
    job.start(len(targets))
    assert job.wait(120) == [0] * job.world, job.said()


@pytest.mark.parametrize(("kills", "rounds"), [(2, FEW), pytest.param(20, ROUNDS, marks=pytest.mark.slow)])
def test_a_job_whose_processes_are_killed_ends_with_the_simulators_bits(tmp_path, kills, rounds):
    config, out = write_config(tmp_path, RING, rounds=rounds, log_every=50), tmp_path / "out"
    coins = random.Random(kills)
    targets = sorted(coins.randrange(25, 2 * rounds - 200) for _ in range(kills))
    with Disturbed(tmp_path, 4, config, "--out", out, "--checkpoint-every", 25) as job:
        assert list(kill_at_rounds(job, out, config, rounds, targets)) == []
    assert list(differences(config, out, tmp_path / "simulated")) == []
    assert drafts(out, 4) == []


def kill_while_writing(job, out, config, kills):
    """Kill ranks in turn while the draft of a checkpoint is seen; whether each of the drafts is left."""
    left = []
    for attempt in range(kills):
        rank = attempt % job.world
        job.start(attempt)
        before = newest(out, rank)
        wait_for(lambda rank=rank, before=before: newest(out, rank) > before)
        name = f".{job.processes[rank].pid}.safetensors"
        wait_for((rank_folder(out, rank) / name).exists, pause=0)
        job.send(rank)
        assert job.wait(60)[rank] == -signal.SIGKILL, job.said()
        assert list(torn(config, out, job.world)) == []
        left.append((rank_folder(out, rank) / name).exists())
    job.start(kills)
    assert job.wait(150) == [0] * job.world, job.said()
    return left


@pytest.mark.slow
def test_a_kill_in_the_middle_of_a_checkpoint_costs_no_bit(tmp_path):
    """Eight kills of eight were seen to come before the rename, and left a draft; one must."""
    methods = [{**BOTH[0], "q": 50}, {**BOTH[1], "q": 50}]
    config = write_config(tmp_path, RING, methods=methods, problem=LARGE, rounds=60, log_every=30)
    out = tmp_path / "out"
    with Disturbed(tmp_path, 4, config, "--out", out, "--checkpoint-every", 1) as job:
        assert any(kill_while_writing(job, out, config, 8))
    assert list(differences(config, out, tmp_path / "simulated")) == []
    assert drafts(out, 4) == []


@pytest.mark.slow
def test_torchrun_starts_a_killed_job_again_and_it_ends_with_the_simulators_bits(tmp_path):
    config = write_config(tmp_path, {"kind": "ring", "n": 3}, rounds=ROUNDS, log_every=50)
    out, line = tmp_path / "out", ["torch.distributed.run", "--standalone", "--nproc-per-node", "3"]
    line += ["--max-restarts", "3", "-m", "zocosmo.dist", str(config), "--out", str(out)]
    line += ["--checkpoint-every", "25"]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(
            [sys.executable, "-m", *line], stdout=said, stderr=said, start_new_session=True
        )
        try:
            for rank, target in ((1, 300), (0, 1800)):
                wait_for(lambda rank=rank, target=target: reached(out, rank) >= target, 120)
                os.kill(children(run.pid)[rank], signal.SIGKILL)
                time.sleep(1.0)  # until torchrun has seen it
            assert run.wait(120) == 0, (tmp_path / "said").read_text()
        finally:
            os.killpg(run.pid, signal.SIGKILL) if run.poll() is None else None
    assert list(differences(config, out, tmp_path / "simulated")) == []
