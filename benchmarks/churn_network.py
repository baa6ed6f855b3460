"""A network under a random script of events, in processes on this machine; then its record is replayed.

Members join, leave, are killed, freeze for some seconds, lose all connections that others made to them, and
the host is killed and started again. At the end: who is alive and in which round, all that members kept
against the replay bit for bit, and F against an undisturbed run at equal queries. Nodes have equal
losses here: otherwise F would have parts that nobody holds any more.

    python benchmarks/churn_network.py --members 16 --events 30 --seconds 180 --scripts 5
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from net.crowd import Processes, replay, write_config
from zocosmo.experiments.events import living_simulation, with_events
from zocosmo.experiments.plan import load_plan
from zocosmo.net.roll import EVENTS, ROLL
from zocosmo.sim.engine import Simulation
from zocosmo.terms.events import read_events

FREEZE = 8.0  # seconds
CUT = 8.0
KINDS = ("join", "leave", "kill", "freeze", "cut", "host")


class Proxies:
    """A door in front of each member: connections to it can be cut, and made again."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.cut, self._open = set(), {}
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, name):
        """A free port of the member, and the port at which others find it."""
        return asyncio.run_coroutine_threadsafe(self._start(name), self.loop).result()

    async def _start(self, name):
        spare = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = spare.sockets[0].getsockname()[1]
        spare.close()
        await spare.wait_closed()
        server = await asyncio.start_server(lambda r, w: self._serve(name, port, r, w), "127.0.0.1", 0)
        return port, server.sockets[0].getsockname()[1]

    async def _serve(self, name, port, reader, writer):
        if name in self.cut:
            writer.close()
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        ends = [writer, there[1]]
        self._open.setdefault(name, []).append(ends)
        await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def sever(self, name):
        self.cut.add(name)
        for ends in self._open.pop(name, []):
            for end in ends:
                self.loop.call_soon_threadsafe(end.transport.abort)


class Script:
    """Random events, one after the other, and what was done."""

    def __init__(self, crowd, proxies, seed, members):
        self.crowd, self.proxies, self.random, self.least = crowd, proxies, random.Random(seed), members // 2
        self.done, self._later = [], []

    def join(self):
        name = len(self.crowd.joined)
        port, door = self.proxies.start(name)
        listen = ["--listen", f"127.0.0.1:{port}", "--announce", f"127.0.0.1:{door}"]
        self.crowd.join(*listen)

    def alive(self):
        """Members that play, by number, with their processes."""
        pids = {process.pid: k for k, process in enumerate(self.crowd.joined) if process.poll() is None}
        found = {}
        for path in self.crowd.out.glob("nodes/*/member.json"):
            pid = json.loads(path.read_text())["pid"]
            if pid in pids:
                found[int(path.parent.name)] = pid, pids[pid]
        return found

    def event(self):
        """One event that is possible now."""
        self.run_due()
        alive, kind = self.alive(), self.random.choice(KINDS)
        if kind in ("leave", "kill") and len(alive) <= self.least:
            kind = "join"
        member = self.random.choice(sorted(alive))
        pid, name = alive[member]
        if kind == "join":
            self.join()
        elif kind == "leave":
            os.kill(pid, signal.SIGINT)
        elif kind == "kill":
            os.kill(pid, signal.SIGKILL)
        elif kind == "freeze":
            os.kill(pid, signal.SIGSTOP)
            self._later.append((time.monotonic() + FREEZE, lambda: os.kill(pid, signal.SIGCONT)))
        elif kind == "cut":
            self.proxies.sever(name)
            self._later.append((time.monotonic() + CUT, lambda: self.proxies.cut.discard(name)))
        else:
            self.crowd.host.kill()
            self.crowd.host.wait()
            time.sleep(1.0)
            self.crowd.start_host()
        self.done.append(kind if kind in ("join", "host") else f"{kind} {member}")

    def run_due(self, *, everything=False):
        now = time.monotonic()
        for due, act in [each for each in self._later if everything or each[0] <= now]:
            with contextlib.suppress(ProcessLookupError):
                act()
            self._later.remove((due, act))


def play(options, seed, folder):
    """One script; a line of results."""
    problem = {"kind": "quadratic", "d": 64, "kappa": 4.0, "zeta": 0.0, "sigma": 0.5}
    method = {"kind": "edge_local", "q": 16, "eta": 0.01, "mu": 0.001, "beta": 0.5, "coupling": "G"}
    graph = {"kind": "rings", "n": options.members, "degree": 4}
    config = write_config(
        folder, graph=graph, method=method, problem=problem, wire="mod4", rounds=options.rounds, log_every=20
    )
    proxies = Proxies()
    with Processes(config, folder / "out", "--dead-after", str(options.dead_after), "--replace") as crowd:
        crowd.options = crowd.options[:-1]  # started again, it goes on
        script = Script(crowd, proxies, seed, options.members)
        for _ in range(options.members):
            script.join()
        crowd.wait_for(lambda: crowd.is_playing(options.members, 20), 300)
        began = time.monotonic()
        for k in range(options.events):
            due = began + (k + 1) * options.seconds / (options.events + 1)
            while time.monotonic() < due:
                script.run_due()
                time.sleep(0.1)
            script.event()
        while any(each[0] > time.monotonic() for each in script._later):
            time.sleep(0.1)
        script.run_due(everything=True)
        code = crowd.host.wait(timeout=options.patience)
        ended = [process.wait(timeout=30) for process in crowd.joined]
        last = (crowd.out / "host.out").read_text().splitlines()[-1]
    return report(config, folder / "out", script, code, ended, last)


def report(config, out, script, code, ended, last):
    plan, record = load_plan(config), read_events(out / EVENTS)
    roll = json.loads((out / ROLL).read_text())
    sim = living_simulation(with_events(plan, record), plan.trials)
    for _ in range(plan.last):
        sim.round()
    found, calm = sim.checkpoint(), Simulation([plan.trials[0].run()], wire=plan.wire, dtype=plan.dtype)
    while calm.t < plan.last and calm.queries[0] < found.queries[0]:
        calm.round()
    compared, wrong = replay(config, out)
    sums = sim.sums()
    return {
        "script": ", ".join(script.done),
        "code": code,
        "last line": last,
        "exit codes": sorted(ended),
        "terms": roll["term"][0] + 1,
        "members at the end": len(sim.term.ids),
        "skips and halves": len([each for each in record.events if each.event in ("skip", "half")]),
        "compared": compared,
        "wrong": len(wrong),
        "open debts": int(np.count_nonzero(sums.states - np.asarray(sim.state.x, float)[0].sum(axis=0))),
        "F": float(found.objective[0]),
        "undisturbed F": float(calm.checkpoint().objective[0]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("members", 16), ("events", 30), ("seconds", 180), ("scripts", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--dead-after", type=float, default=20.0)
    parser.add_argument("--patience", type=float, default=1200.0, help="seconds for the rest of the rounds")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.seed, options.seed + options.scripts):
        folder = Path(tempfile.mkdtemp(prefix="churn-"))
        found = play(options, seed, folder)
        apart = found["F"] / found["undisturbed F"] - 1
        fine = found["code"] == 0 and found["wrong"] == 0 and apart < 0.1
        failed += not fine
        print(f"script {seed} in {folder}: {'fine' if fine else 'FAILED'}")
        for name, value in found.items():
            print(f"  {name}: {value}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
