"""A full disk: one line says so everywhere, nothing on it is torn, and with more room the job goes on."""

import contextlib
import os
import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

from dist.jobs import BOTH, Disturbed, checkpoints, differences, drafts, torn, write_config
from zocosmo.dist.ranklog import RankLog, merge
from zocosmo.errors import InputError

PATH = {"kind": "path", "n": 3}
LARGE = {"kind": "quadratic", "d": 20_000, "omega": 0.5, "zeta": 1.0, "sigma": 0.25}


class Disk:
    """A file system of its own, with little room."""

    def __init__(self, path):
        self.path = path

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", str(self.path)], check=True)

    def fill(self):
        """Leave no room at all."""
        with (self.path / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        assert shutil.disk_usage(self.path).free == 0


@pytest.fixture
def disk(tmp_path):
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip(f"mounting needs root; this is user {os.geteuid()}")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
    yield Disk(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)


def end_on_a_full_disk(job, config, out):
    """All ranks end with a line that names the file, and what was whole before is whole."""
    job.start()
    assert job.wait(100) == [2] * job.world, job.said()
    for rank in range(job.world):
        line = job.lines(rank)
        assert line.startswith(f"zocosmo: rank {rank}: "), line
        assert line.count("\n") == 1, line
        assert " cannot be written: No space left on device" in line, line
        assert str(out) in line, line
    assert list(torn(config, out, job.world)) == []
    assert drafts(out, job.world) == []


@pytest.mark.parametrize(
    "size", ["2m", *(pytest.param(f"{k}k", marks=pytest.mark.slow) for k in (4, 40, 400, 1000, 3000, 4000))]
)
def test_a_job_on_a_full_disk_ends_with_one_line_and_goes_on_when_there_is_room(tmp_path, disk, size):
    """Three ranks keep three checkpoints of 320 kB each, and rank 0 the 480 kB of all states in each."""
    methods = [{**each, "q": 50} for each in BOTH]
    config = write_config(tmp_path, PATH, methods=methods, problem=LARGE, rounds=30, log_every=10)
    out = disk.path / "out"
    disk.resize(size)
    options = config, "--out", out, "--checkpoint-every", 5
    with Disturbed(tmp_path, 3, *options) as job:
        end_on_a_full_disk(job, config, out)
        held = [checkpoints(config, out, rank).held() for rank in range(3)]
    disk.resize("64m")
    assert [checkpoints(config, out, rank).held() for rank in range(3)] == held
    with Disturbed(tmp_path, 3, *options, "--resume") as job:
        job.start()
        assert job.wait(100) == [0, 0, 0], job.said()
    assert list(differences(config, out, tmp_path / "simulated")) == []


def add_rows(log, rounds):
    channel = SimpleNamespace(crossed={}, nodes=np.arange(1), messages=0)
    for t in rounds:
        log.add(0, t, channel, SimpleNamespace(waited=0.0))


def test_the_log_of_a_rank_survives_a_full_disk(disk, tmp_path):
    """A page of rows fits; the row that does not is an error of ours, gone when the log is next opened."""
    job, path = SimpleNamespace(rank=0, attempt=0), disk.path / "log.csv"
    log = RankLog(path, job, anew=True)
    disk.fill()
    with pytest.raises(InputError, match=r"log\.csv cannot be written: No space left on device"):
        add_rows(log, range(10**4))
    whole = path.read_text(encoding="utf-8").count("\n") - 1
    (disk.path / "ballast").unlink()
    again = RankLog(path, job, anew=False)
    add_rows(again, [whole])
    merge(tmp_path / "ranks.csv", [again.text().encode()])
    rounds = [int(line.split(",")[3]) for line in (tmp_path / "ranks.csv").read_text().splitlines()[1:]]
    assert rounds == list(range(whole + 1))
