import contextlib
import hashlib
import importlib.util
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dist import lab
from dist.lab import Hosts
from zocosmo.errors import InputError

pytestmark = pytest.mark.skipif(lab.available() is not None, reason=lab.available() or "hosts can be made")

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}

ECHO = """
import socket
with socket.create_server(("", 7000)) as server:
    print("ready", flush=True)
    while True:
        link, _ = server.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while said := link.recv(4096):
            link.sendall(said)
"""

ASK = """
import json, socket, sys, time
with socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2])) as link:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        start = time.monotonic()
        link.sendall(b"hello")
        assert link.recv(4096) == b"hello"
        print(time.monotonic() - start)
"""

READ = """
import hashlib, socket
with socket.create_server(("", 7000)) as server:
    print("ready", flush=True)
    link, _ = server.accept()
    digest = hashlib.sha256()
    while data := link.recv(1 << 20):
        digest.update(data)
    print(digest.hexdigest(), flush=True)
"""

WRITE = """
import hashlib, socket, sys
with socket.create_connection((sys.argv[1], 7000)) as link:
    data = hashlib.shake_128(b"lab").digest(int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.readline()
    link.sendall(data)
"""

GLOO = """
import sys
from datetime import timedelta
import torch
from torch.distributed import ProcessGroupGloo, TCPStore
node, home, own = int(sys.argv[1]), sys.argv[2], sys.argv[3]
store = TCPStore(home, 7000, 2, node == 0, timedelta(seconds=15))
options = ProcessGroupGloo._Options()
options._timeout = timedelta(seconds=15)
options._devices = [ProcessGroupGloo.create_device(hostname=own)]
group = ProcessGroupGloo(store, node, 2, options)
for t in range(20):
    mine, theirs = torch.full((8192,), 100.0 * node + t), torch.empty(8192)
    sending = group.send([mine], 1 - node, t)
    group.recv([theirs], 1 - node, t).wait()
    sending.wait()
    assert (theirs == 100.0 * (1 - node) + t).all()
store.set(f"done{node}", b"")
store.wait(["done0", "done1"])
print("exchanged")
"""


def python(hosts, k, program, *args):
    return hosts.run(k, [sys.executable, "-c", program, *map(str, args)], **PIPES)


def start(hosts, k, program, *args):
    """A program that has said it is ready."""
    started = python(hosts, k, program, *args)
    assert started.stdout.readline() == "ready\n"
    return started


def ask(hosts, k, whom, patience=5.0):
    """Round trips in seconds, or None where host `whom` is not reached."""
    asked = hosts.run(
        k, [sys.executable, "-c", ASK, hosts.address(whom), str(patience)], **PIPES, stderr=subprocess.DEVNULL
    )
    said, _ = asked.communicate(timeout=20)
    return [float(line) for line in said.split()] if asked.returncode == 0 else None


def is_silent(program, seconds):
    return select.select([program.stdout], [], [], seconds)[0] == []


def digest_of(size):
    return hashlib.sha256(hashlib.shake_128(b"lab").digest(size)).hexdigest()


def is_gone(process):
    """No such process, or one that has ended and that its parent has not yet asked about."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def comes_true(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_round_trip_takes_two_delays(delay):
    with Hosts(2, delay) as hosts:
        start(hosts, 1, ECHO)
        assert 2 * delay <= min(ask(hosts, 0, 1)) < 2 * delay + 0.1


def test_the_delay_can_be_changed():
    with Hosts(2) as hosts:
        start(hosts, 1, ECHO)
        hosts.set_delay(0.1)
        assert 0.2 <= min(ask(hosts, 0, 1)) < 0.3
        hosts.set_delay(0.0)
        assert min(ask(hosts, 0, 1)) < 0.1


def test_frames_keep_their_order_when_the_delay_falls():
    switch = lab.Switch("switch", ["a", "b"])
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        for delay, text in [(0.3, b"first"), (0.0, b"second")]:
            switch.set_delay(delay)
            there.send(lab.hardware(1) + text)
            switch.take(0, here)
    assert [frame[6:] for _, _, _, frame in switch.wire] == [b"first", b"second"]
    assert switch.wire[0][0] <= switch.wire[1][0]


def test_a_frame_goes_to_the_host_it_names_and_a_broadcast_to_all_others():
    switch = lab.Switch("switch", ["a", "b", "c"])
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    switch.ports = [here] * 3
    with here, there:
        for target in (lab.hardware(2), b"\xff" * 6):
            there.send(target + b"text")
        switch.take(1, here)
    assert [each[1:3] for each in switch.wire] == [(1, 2), (1, 0), (1, 2)]


def test_nobody_opens_a_connection_to_a_hidden_host_but_it_opens_its_own():
    with Hosts(2) as hosts:
        start(hosts, 0, ECHO)
        start(hosts, 1, ECHO)
        hosts.hide(1)
        assert len(ask(hosts, 1, 0)) == 3
        opened = hosts.run(0, [sys.executable, "-c", ASK, hosts.address(1), "1"], stderr=subprocess.PIPE)
        assert opened.wait() != 0


def test_a_cut_holds_data_back_and_it_arrives_whole_after_the_join():
    """TCP sends again by itself: at worst twice the length of the cut after its start, and 0.2 s."""
    with Hosts(2) as hosts:
        reader = start(hosts, 1, READ)
        writer = start(hosts, 0, WRITE, hosts.address(1), 1_000_000)
        hosts.cut(0, 1)
        writer.stdin.write("go\n")
        writer.stdin.flush()
        assert is_silent(reader, 2.0)
        hosts.join(0, 1)
        assert not is_silent(reader, 10.0)
        assert reader.stdout.readline().strip() == digest_of(1_000_000)


def test_a_cut_is_between_two_hosts_only():
    with Hosts(3) as hosts:
        start(hosts, 2, ECHO)
        hosts.cut(0, 2)
        assert ask(hosts, 0, 2, patience=0.3) is None
        assert ask(hosts, 1, 2) is not None


def test_a_cut_of_one_host_is_from_all_others():
    with Hosts(3) as hosts:
        start(hosts, 2, ECHO)
        hosts.cut(2)
        assert [ask(hosts, k, 2, patience=0.3) for k in (0, 1)] == [None, None]
        hosts.join(2)
        assert None not in [ask(hosts, k, 2) for k in (0, 1)]


def test_a_cut_loses_what_is_under_way():
    switch = lab.Switch("switch", ["a", "b", "c"])
    switch.wire.extend([(0.0, 0, 1, b""), (0.0, 1, 0, b""), (0.0, 1, 2, b"")])
    switch.cut(0, 1)
    assert [each[1:3] for each in switch.wire] == [(1, 2)]


def test_fifty_megabytes_arrive_intact_and_no_frame_is_missed():
    with Hosts(2) as hosts:
        reader = start(hosts, 1, READ)
        writer = start(hosts, 0, WRITE, hosts.address(1), 50_000_000)
        writer.communicate("go\n", timeout=30)
        assert reader.communicate(timeout=30)[0].strip() == digest_of(50_000_000)
        assert hosts.missed() == 0


def test_the_machine_itself_sees_nothing_of_it():
    before = socket.if_nameindex()
    with Hosts(2) as hosts:
        assert all(map(lab.exists, hosts.names))
        assert socket.if_nameindex() == before


def test_a_program_gets_its_variables_and_those_of_the_caller():
    with Hosts(1) as hosts:
        args = [sys.executable, "-c", "import os; print(os.environ['LAB'], 'PATH' in os.environ)"]
        said, _ = hosts.run(0, args, env={"LAB": "yes"}, **PIPES).communicate(timeout=10)
    assert said == "yes True\n"


def test_nothing_is_left_after_an_error():
    hosts = Hosts(2)
    with contextlib.suppress(KeyError), hosts:
        programs = [start(hosts, 1, ECHO), hosts._switch]
        raise KeyError
    assert not any(map(lab.exists, [*hosts.names, hosts.switch_name]))
    assert all(is_gone(program.pid) for program in programs)


def test_a_program_that_left_its_parent_is_ended_too():
    with Hosts(1) as hosts:
        said, _ = hosts.run(0, ["sh", "-c", "setsid sleep 60 >&- 2>&- & echo $!"], **PIPES).communicate()
        assert not is_gone(int(said))
    assert comes_true(lambda: is_gone(int(said)))


def test_a_build_that_fails_leaves_nothing(monkeypatch):
    monkeypatch.setattr(lab, "host_lines", lambda k, count: ["no such order"])
    hosts = Hosts(2)
    with pytest.raises(RuntimeError, match=r"ip -n .* failed"):
        hosts.__enter__()
    assert not any(map(lab.exists, [*hosts.names, hosts.switch_name]))


def test_nothing_is_left_when_the_caller_is_killed():
    program = """if True:
        import json, os, signal
        from dist.lab import Hosts
        with Hosts(2) as hosts:
            sleeper = hosts.run(0, ["sleep", "60"])
            print(json.dumps([hosts.names, hosts.switch_name, sleeper.pid, hosts._switch.pid]), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)"""
    places = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    here = {**os.environ, "PYTHONPATH": places}
    caller = subprocess.run([sys.executable, "-c", program], env=here, stdout=subprocess.PIPE, check=False)
    names, switch_name, *processes = json.loads(caller.stdout)
    assert caller.returncode == -signal.SIGKILL
    assert comes_true(lambda: all(map(is_gone, processes)))
    assert not any(map(lab.exists, [*names, switch_name]))


@pytest.mark.parametrize("count", [0, 255, 1.5])
def test_a_number_of_hosts_that_has_no_addresses_is_refused(count):
    with pytest.raises(InputError, match=f"number of hosts .*{count}"):
        Hosts(count)


@pytest.mark.parametrize("delay", [-0.1, float("inf"), float("nan")])
def test_a_delay_that_is_no_time_is_refused(delay):
    with pytest.raises(InputError, match=f"{delay}"):
        Hosts(2, delay)


@pytest.mark.parametrize("pair", [(0, 0), (0, 2), (2,), (-1, 0)])
def test_a_cut_of_no_link_is_refused(pair):
    with pytest.raises(InputError, match="host"):
        Hosts(2).cut(*pair)


@pytest.mark.parametrize(
    ("where", "name", "value", "reason"),
    [
        (lab.sys, "platform", "plan9", "plan9"),
        (lab.os, "geteuid", lambda: 1000, "user 1000"),
        (lab, "_IP", None, "ip command"),
        (lab, "_IP", "/bin/false", "netns add"),
    ],
)
def test_what_is_missing_is_said(monkeypatch, where, name, value, reason):
    monkeypatch.setattr(where, name, value)
    assert reason in lab.available.__wrapped__()


def test_an_order_outside_the_block_is_refused():
    with pytest.raises(RuntimeError, match="'cut'; call it inside"):
        Hosts(2).cut(0, 1)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_gloo_exchanges_over_it():
    """32 KiB each way in 20 rounds; every value is checked where it arrives."""
    with Hosts(2) as hosts:
        nodes = [python(hosts, k, GLOO, k, hosts.address(0), hosts.address(k)) for k in range(2)]
        assert [node.communicate(timeout=40)[0] for node in nodes] == ["exchanged\n"] * 2
