"""Processes on hosts of their own: slow links, cut links, and who listens where."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dist import lab
from dist.jobs import children, differences, newest, torn, wait_for, write_config
from dist.lab import Hosts

needs_hosts = pytest.mark.skipif(lab.available() is not None, reason=lab.available() or "hosts can be made")

PORT, DELAY, LISTENS = 29400, 0.05, "0A"


class Ranks:
    """One process of a job on each host; rank 0 has the store."""

    def __init__(self, hosts, folder, config, *options):
        self.folder, self.began, self.after = folder, time.monotonic(), {}
        about = {"WORLD_SIZE": str(hosts.count), "MASTER_ADDR": hosts.address(0), "MASTER_PORT": str(PORT)}
        self.programs = []
        for rank in range(hosts.count):
            line = [sys.executable, "-m", "zocosmo.dist", str(config), *map(str, options)]
            line = [word.replace("ADDRESS", hosts.address(rank)) for word in line]
            with (folder / f"err.{rank}").open("w") as said:
                env = {**about, "RANK": str(rank), "OMP_NUM_THREADS": "1"}
                self.programs.append(hosts.run(rank, line, env, stdout=subprocess.DEVNULL, stderr=said))

    def codes(self, seconds):
        """Codes when all have ended; None for one that runs after so many seconds."""
        since = time.monotonic()
        while len(self.after) < len(self.programs) and time.monotonic() - since < seconds:
            for rank, program in enumerate(self.programs):
                if program.poll() is not None:
                    self.after.setdefault(rank, time.monotonic() - since)
            time.sleep(0.02)
        return [program.poll() for program in self.programs]

    def said(self):
        """What each rank wrote to standard error; lines of torch's own are no words of ours."""
        texts = [(self.folder / f"err.{k}").read_text(encoding="utf-8") for k in range(len(self.programs))]
        return ["".join(re.findall(r"^(?:zocosmo: |Traceback|\w+Error).*\n", text, re.M)) for text in texts]


@needs_hosts
@pytest.mark.parametrize(
    ("graph", "cut"),
    [
        pytest.param({"kind": "path", "n": 3}, 3.0, marks=pytest.mark.slow),
        pytest.param({"kind": "path", "n": 3}, 0.0, marks=pytest.mark.slow),
        pytest.param({"kind": "ring", "n": 4}, 0.0, marks=pytest.mark.slow),
        pytest.param({"kind": "ring", "n": 4}, 3.0, marks=pytest.mark.slow),
    ],
)
def test_hosts_far_apart_compute_what_the_simulator_does_though_a_link_is_cut_for_a_while(
    tmp_path, graph, cut
):
    config, out = write_config(tmp_path, graph, rounds=12, log_every=6), tmp_path / "out"
    with Hosts(graph["n"], DELAY) as hosts:
        ranks = Ranks(hosts, tmp_path, config, "--out", out, "--listen", "ADDRESS", "--deadline", 30)
        wait_for(lambda: newest(out, 1) >= (0, 6))
        if cut:
            hosts.cut(1, 2)
            time.sleep(cut)
            hosts.join(1, 2)
        assert ranks.codes(60) == [0] * hosts.count, ranks.said()
        assert hosts.missed() == 0
    assert list(differences(config, out, tmp_path / "simulated")) == []


@needs_hosts
@pytest.mark.slow
@pytest.mark.parametrize("cut", [(1, 2), (0, 1)], ids=["between peers", "from the store too"])
@pytest.mark.parametrize("graph", [{"kind": "path", "n": 3}, {"kind": "ring", "n": 4}], ids=["path", "ring"])
def test_a_link_cut_for_longer_than_the_deadline_ends_every_rank_and_the_job_can_go_on(tmp_path, graph, cut):
    """Whoever is cut off waits for 4 s; others hear of it at once, or wait as long for one that ended."""
    config, out = write_config(tmp_path, graph, rounds=60, log_every=30), tmp_path / "out"
    options = "--out", out, "--listen", "ADDRESS", "--deadline", 4, "--checkpoint-every", 2
    with Hosts(graph["n"], 0.01) as hosts:
        ranks = Ranks(hosts, tmp_path, config, *options)
        wait_for(lambda: newest(out, 2) >= (0, 6))
        hosts.cut(*cut)
        assert ranks.codes(60) == [2] * hosts.count, ranks.said()
        assert max(ranks.after.values()) < 2 * 4 + 4, (ranks.after, ranks.said())
        for rank, said in enumerate(ranks.said()):
            assert said.startswith(f"zocosmo: rank {rank}: rank "), said
            assert "(deadline 4.0 s)" in said
        assert list(torn(config, out, hosts.count)) == []
        hosts.join(*cut)
        ranks = Ranks(hosts, tmp_path, config, *options, "--resume")
        assert ranks.codes(60) == [0] * hosts.count, ranks.said()
    assert list(differences(config, out, tmp_path / "simulated")) == []


@needs_hosts
def test_processes_on_several_hosts_must_say_where_they_listen(tmp_path):
    config = write_config(tmp_path, {"kind": "path", "n": 2})
    with Hosts(2) as hosts:
        ranks = Ranks(hosts, tmp_path, config, "--out", tmp_path / "out")
        assert ranks.codes(60) == [2, 2]
        for rank, said in enumerate(ranks.said()):
            assert said.count("\n") == 1
            assert said.startswith(f"zocosmo: rank {rank}: processes on several machines")
            assert "--listen ADDRESS" in said


def listening(pid):
    """Addresses, in the kernel's hex, on which a process listens."""
    held = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            held.add(str(link.readlink()))
        except OSError:  # closed in between
            continue
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{name}").read_text(encoding="utf-8").splitlines()[1:]:
            (
                _,
                local,
                _,
                state,
                *_,
            ) = line.split()
            if state == LISTENS and f"socket:[{line.split()[9]}]" in held:
                yield local.rpartition(":")[0]


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="who listens is read from /proc")
def test_a_job_on_one_machine_listens_on_127_0_0_1_alone(tmp_path):
    config, out = write_config(tmp_path, {"kind": "path", "n": 2}, rounds=200), tmp_path / "out"
    line = [sys.executable, "-m", "zocosmo", "launch", str(config), "--out", str(out)]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(line, stdout=said, stderr=said, start_new_session=True)
    try:
        wait_for(lambda: newest(out, 1) >= (0, 10))
        pids = [run.pid, *children(run.pid).values()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        found = [set(listening(pid)) for pid in pids]
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        assert run.wait(60) == 0, (tmp_path / "said").read_text()
    finally:
        run.terminate()
        run.wait(20)
    assert found == [{"0100007F"}] * 3
