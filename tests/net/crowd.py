"""A network on this machine for tests and benchmarks: members join, leave, freeze and die; and its replay."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

from zocosmo.dist.seal import make_key, read_key
from zocosmo.experiments.plan import load_plan
from zocosmo.net.host import Host
from zocosmo.net.invitation import Invitation
from zocosmo.net.member import Member
from zocosmo.net.roll import EVENTS
from zocosmo.net.sockets import parse_address
from zocosmo.net.store import NodeFolder
from zocosmo.sim.living import LivingSimulation
from zocosmo.terms.events import Dead, read_events
from zocosmo.terms.members import Topology, all_terms

PROBLEM = {"kind": "quadratic", "d": 24, "kappa": 4.0, "zeta": 1.0, "sigma": 0.1}
EDGE_LOCAL = {"kind": "edge_local", "q": 6, "eta": 0.01, "mu": 0.001, "beta": 0.5}
COSMO = {"kind": "cosmo", "q": 6, "eta": 0.01, "mu": 0.001, "beta": 0.5}


def write_config(folder, *, graph=None, method=None, rounds=60, log_every=10, **more):
    """A config as a file; more of its entries by name."""
    data = {"problem": PROBLEM, "graphs": [graph or {"kind": "ring", "n": 4}], "seeds": [1]}
    data |= {"methods": [method or EDGE_LOCAL], "rounds": rounds, "log_every": log_every, **more}
    path = folder / "config.yaml"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def replay(config, out):
    """Play the record of a network in the simulator, and compare all that members kept: (compared, wrong)."""
    plan = load_plan(config)
    trial, record = plan.trials[0], read_events(out / EVENTS)
    topology = Topology.of(dict(trial.graph), trial.seed, trial.graph_of())
    sim = LivingSimulation(trial.run(), record, all_terms(record, topology), wire=plan.wire, dtype=plan.dtype)
    dead = {event.node: event.since for event in record.events if isinstance(event, Dead)}
    compared, wrong = 0, []
    for t in range(plan.last + 1):
        if plan.is_due(t):
            for k, member in enumerate(sim.term.ids.tolist()):
                kept = NodeFolder(out, member).load(t)
                if kept is None or t >= dead.get(member, t + 1):
                    continue
                compared += 1
                wrong += _differences(sim, trial.method.codec, k, member, kept)
        if t < plan.last:
            sim.round()
    return compared, wrong


def _differences(sim, codec, k, member, kept):
    book = sim.book(codec)
    bits = book.counts[book.links[:, 0] == member].sum(axis=0)
    counts = [sim.asked[0, k], *bits, *(count[0, k] for count in sim.channel.tally().values())]
    same = np.array_equal(kept["x"], np.asarray(sim.state.x, np.float64)[0, k])
    return [] if same and kept["counts"].tolist() == counts else [(sim.t, member)]


class Paced(Member):
    """A member whose rounds take at least 10 ms."""

    def _may_begin(self, t):
        time.sleep(0.01)
        return super()._may_begin(t)


class Threads:
    """A network whose host and members are threads of this process: no signals, but quick to start."""

    def __init__(self, config, out, *, allowed=None, **how):
        self.out, self.said, self._keys = out, [], 0
        out.mkdir(parents=True, exist_ok=True)
        self.invitation = Invitation("test", config.read_text(encoding="utf-8"), **how)
        self.allowed = allowed or (lambda key: key.hex()[:8])
        self.config, self.members, self.results, self._threads = config, [], {}, []
        make_key(out / "host.key")
        self.port = 0
        self.start_host()

    def start_host(self):
        listen, secret = f"127.0.0.1:{self.port}", read_key(self.out / "host.key")
        self.host = Host(self.invitation, secret, listen, self.out, self.allowed, self.said.append)
        self.port = int(self.host.address.partition("/")[0].rpartition(":")[2])
        self.hosting = threading.Thread(target=self._run, args=("host", self.host.run), daemon=True)
        self.hosting.start()

    def stop_host(self):
        """As if it were killed: nothing is said, and nothing more is saved."""
        self.host.is_stopped = True
        self.hosting.join()

    def join(self, *, kind=Paced, key=None, **more):
        """One more member, in a thread; gives its number in `members`."""
        if key is None:
            key, self._keys = self.out / f"{self._keys}.key", self._keys + 1
            make_key(key)
        about = {"listen": "127.0.0.1:0", "out": self.out, "own": [], "say": self.said.append, **more}
        member = kind(parse_address(self.host.address), read_key(key), **about)
        self.members.append(member)
        name = len(self.members) - 1
        thread = threading.Thread(target=self._run, args=(name, member.run), daemon=True)
        self._threads.append(thread)
        thread.start()
        return name

    def _run(self, name, target):
        try:
            self.results[name] = target()
        except BaseException as error:
            self.results[name] = error

    def wait(self, within=60.0):
        """Until everybody has ended."""
        until = time.monotonic() + within
        for thread in (*self._threads, self.hosting):
            thread.join(max(0.0, until - time.monotonic()))
            assert not thread.is_alive(), self.said

    def wait_for(self, ready, within=30.0):
        until = time.monotonic() + within
        while not ready():
            assert time.monotonic() < until, self.said
            time.sleep(0.02)

    def round_of(self, name):
        return self.members[name].post.position.round


class Processes:
    """A network of commands; whatever happens in the block, none of them outlives it."""

    def __init__(self, config, out, *options):
        self.config, self.out, self.options, self.port = config, out, options, 0
        self.joined = []
        out.mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        self.start_host()
        return self

    def __exit__(self, *error):
        for process in (*self.joined, self.host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
            process.kill()
            process.wait()

    def _start(self, name, *words):
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (self.out / f"{name}.out").open("a") as stdout, (self.out / f"{name}.err").open("a") as stderr:
            line = [sys.executable, "-m", "zocosmo", *words]
            return subprocess.Popen(line, stdout=stdout, stderr=stderr, env=env)

    def start_host(self):
        out = self.out / "host.out"
        before = out.read_text().count("join with") if out.exists() else 0
        listen = f"127.0.0.1:{self.port}"
        self.host = self._start(
            "host", "host", self.config, "--listen", listen, "--out", self.out, "--allow-any", *self.options
        )
        while not out.exists() or out.read_text().count("join with") == before:
            assert self.host.poll() is None, (self.out / "host.err").read_text()
            time.sleep(0.05)
        self.address = out.read_text().split("join with: zocosmo join ")[-1].split()[0]
        self.port = int(self.address.partition("/")[0].rpartition(":")[2])

    def join(self, *words):
        number = len(self.joined)
        key = self.out / f"{number}.key"
        make_key(key)
        process = self._start(f"join-{number}", "join", self.address, "--key", key, "--out", self.out, *words)
        self.joined.append(process)
        return process

    def is_playing(self, count, round_=1):
        """Whether this many members have come to a round that the log has."""
        return len(list(self.out.glob(f"nodes/*/round-{round_}.npz"))) >= count

    def wait_for(self, ready, within=120.0):
        until = time.monotonic() + within
        while not ready():
            assert time.monotonic() < until, (self.out / "host.err").read_text()
            time.sleep(0.1)

    def pid_of(self, member):
        return json.loads((self.out / "nodes" / f"{member:05d}" / "member.json").read_text())["pid"]


ROOT = Path(__file__).parents[2]
