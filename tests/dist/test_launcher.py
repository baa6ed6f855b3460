"""What a launcher owes its processes: they end with it, and it says who was killed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dist.jobs import BOTH, children, newest, wait_for, write_config
from zocosmo.dist import launch as launching
from zocosmo.dist.launch import launch

RING = {"kind": "ring", "n": 4}
DIES = """
import os, signal
if os.environ["RANK"] == "2":
    os.kill(os.getpid(), signal.SIGKILL)
from zocosmo.dist.rendezvous import join
from zocosmo.errors import PeerLost
try:
    join(within=60.0).publish("hello", b"")
except PeerLost as error:
    print("PeerLost:", error)
    os._exit(2)
"""


def alive(pids):
    """Those of these processes that still run."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            found += [] if state == "Z" else [pid]
    return found


@pytest.fixture(scope="module")
def orphaned(tmp_path_factory):
    """A job of two processes whose launcher was killed, then one that may not be resumed like this."""
    folder = tmp_path_factory.mktemp("orphaned")
    config = write_config(folder, RING, methods=BOTH[:1], rounds=10**6, log_every=10**6)
    line = [sys.executable, "-m", "zocosmo", "launch", str(config), "--out", str(folder / "out")]
    line += ["--checkpoint-every", "20"]
    with (folder / "said").open("w") as said:
        job = subprocess.Popen([*line, "--nodes", "2"], stderr=said, stdout=said, start_new_session=True)
    ranks = {}
    try:
        wait_for(lambda: all(newest(folder / "out", rank).round for rank in (0, 1)), 100, 0.02)
        ranks = children(job.pid)
        job.kill()
        since = time.monotonic()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not alive(ranks.values()), 5.0)
        after, left = time.monotonic() - since, alive(ranks.values())
    finally:
        for pid in ranks.values():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        job.kill()
        job.wait()
    again = subprocess.run(
        [*line, "--nodes", "1", "--resume"], capture_output=True, text=True, timeout=100, check=False
    )
    return {"said": (folder / "said").read_text(), "after": after, "left": left, "again": again}


def test_processes_end_within_5_s_of_a_launcher_that_was_killed_and_say_so(orphaned):
    assert orphaned["left"] == []
    assert orphaned["after"] < 5
    for rank in (0, 1):
        line = f"zocosmo: rank {rank}: its launcher has ended, so this process ends too\n"
        assert line in orphaned["said"]


def test_what_a_killed_launcher_left_can_be_opened_and_a_refused_resume_is_not_advised_again(orphaned):
    """The folder is not locked; one process may not resume it, which the hint must not repeat."""
    again = orphaned["again"]
    assert again.returncode == 2
    assert "another process has" not in again.stderr
    assert re.search(r"have \d nodes in rank \d; start as many processes as before", again.stderr)
    assert "Continue with" not in again.stderr


def test_a_process_that_was_killed_before_it_joined_is_named_by_the_launcher_and_by_the_others(capfd):
    since = time.monotonic()
    code = launch([sys.executable, "-c", DIES], 3)
    out, err = capfd.readouterr()
    assert "zocosmo: rank 2 was killed by signal 9 (Killed)\n" in err
    assert out.count("PeerLost: the first to end was rank 2: it was killed by signal 9 (Killed)\n") == 2
    assert code == 137
    assert time.monotonic() - since < 60


@pytest.mark.parametrize(
    ("code", "said"),
    [(0, ""), (2, ""), (130, ""), (1, "ended with code 1"), (-15, "was killed by signal 15 (Terminated)")],
)
def test_the_launcher_speaks_for_those_who_cannot(code, said):
    assert launching.fate(code) == said
