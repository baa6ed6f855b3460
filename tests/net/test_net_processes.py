"""Networks of processes: commands that are frozen, killed, and cut off."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dist.lab import Hosts, available
from net.crowd import EDGE_LOCAL, Processes, replay, write_config
from zocosmo.dist.seal import make_key

WITHOUT_TORCH = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("torch is not to be imported")
sys.meta_path.insert(0, Block())
import zocosmo.net.host, zocosmo.net.member, zocosmo.net.serve, zocosmo.net.gather
"""


def test_networks_need_no_torch():
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True)


def zocosmo(*words):
    done = subprocess.run([sys.executable, "-m", "zocosmo", *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_ring_of_five_outlives_a_freeze_of_eight_seconds(tmp_path):
    config = write_config(
        tmp_path, graph={"kind": "ring", "n": 5}, rounds=1500, log_every=100, wire="mod4", problem=LARGE
    )
    with Processes(config, tmp_path / "out") as crowd:
        for _ in range(5):
            crowd.join()
        crowd.wait_for(lambda: crowd.is_playing(5, 100))
        os.kill(crowd.joined[2].pid, signal.SIGSTOP)
        time.sleep(8)
        os.kill(crowd.joined[2].pid, signal.SIGCONT)
        assert crowd.host.wait(timeout=240) == 0
        assert [process.wait(timeout=30) for process in crowd.joined] == [0] * 5
        last = (crowd.out / "host.out").read_text().splitlines()[-1]
    assert last.startswith("5 members came to round 1500")
    assert (crowd.out / "host.err").read_text().startswith("zocosmo: waits for 5 members\n")
    again = zocosmo(
        "run", config, "--events", crowd.out / "events.jsonl", "--states", "--out", tmp_path / "again"
    )
    assert again[0] == 0
    code, out, _ = zocosmo("diff", crowd.out, tmp_path / "again")
    assert (code, out.split(":")[0]) == (0, "identical")


LARGE = {"kind": "quadratic", "d": 200, "kappa": 4.0, "zeta": 1.0, "sigma": 0.1}


@pytest.mark.slow
def test_a_killed_member_is_removed_and_its_key_joins_again(tmp_path):
    config = write_config(tmp_path, rounds=6000, log_every=50, wire="mod4", method=EDGE_LOCAL)
    with Processes(config, tmp_path / "out", "--dead-after", "6") as crowd:
        for _ in range(4):
            crowd.join()
        crowd.wait_for(lambda: crowd.is_playing(4, 50))
        key = crowd.out / "1.key"
        crowd.joined[1].kill()
        crowd.joined[1].wait()
        time.sleep(4)
        crowd.joined[1] = crowd._start("again", "join", crowd.address, "--key", key, "--out", crowd.out)
        assert crowd.host.wait(timeout=300) == 0
        assert [process.wait(timeout=30) for process in crowd.joined] == [0] * 4
    kinds = [json.loads(line).get("event") for line in (crowd.out / "events.jsonl").read_text().splitlines()]
    assert kinds.count("dead") == kinds.count("join") == 1
    compared, wrong = replay(config, crowd.out)
    assert compared > 80
    assert wrong == []


@pytest.mark.slow
@pytest.mark.skipif(available() is not None, reason=str(available()))
def test_two_behind_a_router_delays_and_a_cut_link(tmp_path):
    """Nobody can connect to members 0 and 1. One says so; the other announces an address all the same."""
    config = write_config(tmp_path, rounds=300, log_every=50, wire="mod4")
    out, keys = tmp_path / "out", [tmp_path / f"{k}.key" for k in range(4)]
    out.mkdir()
    for key in keys:
        make_key(key)
    start = [sys.executable, "-m", "zocosmo"]
    with Hosts(5, delay=0.05) as hosts, (tmp_path / "host.out").open("w+") as stdout:
        hosts.hide(1)
        hosts.hide(2)
        options = ["--listen", f"{hosts.address(0)}:7345", "--allow-any", "--out", str(out), "--soft", "2"]
        host = hosts.run(0, [*start, "host", str(config), *options], stdout=stdout)
        address = _address(tmp_path / "host.out")
        members = []
        for k, key in enumerate(keys):
            listen = "none" if k == 0 else f"{hosts.address(k + 1)}:0"
            line = [*start, "join", address, "--key", str(key), "--listen", listen, "--out", str(out)]
            members.append(hosts.run(k + 1, line))
        until = time.monotonic() + 120
        while not (out / "nodes" / "00000" / "round-50.npz").exists():
            assert time.monotonic() < until
            time.sleep(0.2)
        hosts.cut(3, 4)  # two who reach each other directly: from now on through the host
        time.sleep(30)
        hosts.join(3, 4)
        assert host.wait(timeout=300) == 0
        assert [member.wait(timeout=30) for member in members] == [0] * 4
    compared, wrong = replay(config, out)
    assert (compared, wrong) == (28, [])


def _address(path):
    until = time.monotonic() + 60
    while "join with" not in path.read_text():
        assert time.monotonic() < until
        time.sleep(0.1)
    return path.read_text().split("zocosmo join ")[1].split()[0]


def test_keys_are_made_and_shown(tmp_path, call_main):
    def zocosmo(*words):
        return call_main(*map(str, words))

    code, public, _ = zocosmo("key", "new", tmp_path / "my.key")
    assert code == 0
    assert zocosmo("key", "show", tmp_path / "my.key") == (0, public, "")
    assert len(bytes.fromhex(public.strip())) == 32
    assert (tmp_path / "my.key").stat().st_mode & 0o077 == 0
    config = write_config(tmp_path)
    code, _, err = zocosmo("host", config, "--out", tmp_path / "out")
    assert (code, err.count("\n")) == (2, 1)
    assert "--allow FILE" in err
    code, _, err = zocosmo("join", "127.0.0.1:1", "--key", tmp_path / "my.key")
    assert (code, err.count("\n")) == (2, 1)
    assert "ADDR:PORT/KEY" in err
