"""A network under random scripts of events, in processes on this machine; then its record is replayed.

Members join, leave, are killed, freeze for 8 s, lose all connections that others made to them for 8 s, and
the host is killed and started again. One line for each claim, with its figures; exit code 1 if one fails.

- All who live at the end are in the same round, within the lead, and exit codes and the last line say so.
- All that members kept, at every checkpoint, is what `zocosmo run --events` makes of the record, bit for bit.
- The sum of states, debts included, changes by steps, joiners and leavers alone: exactly, on the same record
  with a problem whose sums are exact.
- F is within 10 % of the undisturbed run at equal queries: the same config and seed without events, for as
  many rounds as its members need to ask as often as all members of the disturbed run did together.

The problem is logistic regression on the digits, examples dealt at random. Its F ends near 0.8, so that a
ratio means something; a quadratic's goes to 0, where it is all noise. With labels that only one member has,
F would keep a part that nobody asks about once it left: that is a question about data, not about a network.

    python benchmarks/churn_network.py --members 16 --events 30 --seconds 180 --scripts 5
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from net.crowd import Processes, replay, write_config
from terms.networks import Linear, active
from zocosmo.experiments.events import living_simulation, with_events
from zocosmo.experiments.plan import load_plan
from zocosmo.methods import METHODS
from zocosmo.methods.corrected import Corrected
from zocosmo.net.invitation import Invitation
from zocosmo.net.roll import EVENTS
from zocosmo.net.store import NodeFolder
from zocosmo.sim.engine import Run, Simulation
from zocosmo.sim.living import LivingSimulation
from zocosmo.terms.events import Dead, Failure, read_events

FREEZE = 8.0  # seconds
CUT = 8.0
PLAYED = "played.json"
KINDS = ("join", "leave", "kill", "freeze", "cut", "host")


class Proxies:
    """A door in front of each member: connections to it can be cut, and made again."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.cut, self._open = set(), {}
        self._next = 20_000 + os.getpid() % 8_000
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def start(self, name):
        """A free port of the member, and the port at which others find it."""
        return asyncio.run_coroutine_threadsafe(self._start(name), self.loop).result()

    def _free_port(self):
        """Not among those that connections are given while the member starts."""
        while True:
            self._next += 1
            with socket.socket() as spare, contextlib.suppress(OSError):
                spare.bind(("127.0.0.1", self._next))
                return self._next

    async def _start(self, name):
        port = self._free_port()
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
        if not alive:
            raise SystemExit("the job ended before its script: give more --rounds")
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

    def has_more(self):
        """Whether somebody is still frozen or cut off."""
        return len(self._later) > 0

    def run_due(self):
        now = time.monotonic()
        for due, act in [each for each in self._later if each[0] <= now]:
            with contextlib.suppress(ProcessLookupError):
                act()
            self._later.remove((due, act))


PROBLEM = {"kind": "logistic", "data": "digits", "batch": 32, "l2": 0.01}
METHOD = {"kind": "edge_local", "q": 64, "eta": 0.01, "mu": 0.001, "beta": 0.5, "coupling": "G"}


def play(options, seed, folder):
    """One script, from start to end; what came of it is kept in the folder."""
    graph = {"kind": "rings", "n": options.members, "degree": 4}
    how = {"wire": "mod4", "rounds": options.rounds, "log_every": options.log_every}
    config, proxies = write_config(folder, graph=graph, method=METHOD, problem=PROBLEM, **how), Proxies()
    with Processes(config, folder / "out", "--dead-after", str(options.dead_after), "--replace") as crowd:
        crowd.options = crowd.options[:-1]  # started again, it goes on
        script = Script(crowd, proxies, seed, options.members)
        for _ in range(options.members):
            script.join()
        crowd.wait_for(lambda: crowd.is_playing(options.members, options.log_every), 300)
        began = time.monotonic()
        for k in range(options.events):
            due = began + (k + 1) * options.seconds / (options.events + 1)
            while time.monotonic() < due:
                script.run_due()
                time.sleep(0.1)
            script.event()
        while script.has_more():
            script.run_due()
            time.sleep(0.1)
        took = time.monotonic() - began
        code = crowd.host.wait(timeout=options.patience)
        ended = [process.wait(timeout=30) for process in crowd.joined]
        last = (crowd.out / "host.out").read_text().splitlines()[-1]
    kept = Played(script.done, code, ended, last, took)
    (folder / PLAYED).write_text(json.dumps(kept._asdict()))


class Played(NamedTuple):
    """What a script left."""

    done: list[str]
    code: int
    ended: list[int]  # exit codes of members
    last: str  # line of the host
    took: float


def claims(folder, played):
    """Each claim: its name, whether it holds, and figures."""
    config, out = folder / "config.yaml", folder / "out"
    plan, record = load_plan(config), read_events(out / EVENTS)
    sim = living_simulation(with_events(plan, record), plan.trials)
    for _ in range(plan.last):
        sim.round()
    dead = {event.node for event in record.events if isinstance(event, Dead)}
    living = [each for each in sim.term.ids.tolist() if each not in dead]
    killed = sum(each.startswith("kill") for each in played.done)
    yield _is_true(played, plan, living, killed)
    rounds = [int(NodeFolder(out, each).load_last()["round"]) for each in living]
    apart = max(rounds) - min(rounds)
    yield (
        "same round",
        apart <= Invitation("", "").lead,
        f"{len(living)} living, rounds {min(rounds)} to {max(rounds)}",
    )
    yield _is_replayed(config, out, sim, living)
    yield _is_conserved(plan, record, sim.terms)
    yield _is_as_good(plan, sim)


def _is_true(played, plan, living, killed):
    said = f"{len(living)} members came to round {plan.last}"
    fine = played.code == 0 and played.last.startswith(said)
    fine &= sorted(played.ended) == sorted([-signal.SIGKILL] * killed + [0] * (len(played.ended) - killed))
    return "exit codes", fine, f"host {played.code}, {killed} of {len(played.ended)} killed; {played.last!r}"


def _is_replayed(config, out, sim, living):
    compared, wrong = replay(config, out)
    at = {each: k for k, each in enumerate(sim.term.ids.tolist())}
    kept = {each: NodeFolder(out, each).load(sim.t)["x"] for each in living}
    same = all(np.array_equal(x, np.asarray(sim.state.x, float)[0, at[each]]) for each, x in kept.items())
    fine = not wrong and same and compared > len(living)
    failed = sum(isinstance(event, Failure) for event in sim.record.events)
    text = f"{compared} states compared, {len(wrong)} differ {wrong[:3] or ''}"
    return "replay", fine, f"{text.strip()}; {len(sim.terms)} terms, {failed} skips and halves"


def never_flat(n, d=8):
    """Linear losses whose slopes are whole numbers and never 0, so that no step, and no scale, is tiny."""
    random = np.random.default_rng(1)
    sizes = random.permuted(np.tile(2.0 ** np.arange(d), (n, 1)), axis=1)
    return Linear(sizes * random.choice([-1.0, 1.0], (n, d)))


def _is_conserved(plan, record, terms):
    """Mixing, joins and leaves keep the books, with == on numbers for which sums are exact."""
    trial, seen, move = plan.trials[0], {}, Corrected.move
    method = METHODS["edge_local"](q=2, eta=2.0**-10, mu=0.5)
    run = Run(method, trial.graph_of(), never_flat(record.header.n), trial.seed)
    sim = LivingSimulation(run, record, terms, wire=plan.wire)

    def spy(self, t, u, x_S, m_S, c):
        y = move(self, t, u, x_S, m_S, c)
        seen["step"] = u.put(np.zeros((*y.shape[:-1], u.d)), y - x_S)[0]
        return y

    Corrected.move, total, wrong, debts = spy, sim.sums().states, 0, 0
    try:
        for t in range(plan.last):
            sim.round()
            total += seen["step"][active(sim, t)].sum(axis=0)
            states, brought, taken = sim.sums()
            wrong += not np.array_equal(states - brought + taken, total)
            debts += len(sim.channel.repairs.memory.open) > 0
    finally:
        Corrected.move = move
    return "sum", not wrong, f"{wrong} of {plan.last} rounds off; debts were open in {debts} of them"


def _is_as_good(plan, sim):
    found, calm = sim.checkpoint(), Simulation([plan.trials[0].run()], wire=plan.wire, dtype=plan.dtype)
    while calm.queries[0] < found.queries[0]:
        calm.round()
    ours, theirs = float(found.objective[0]), float(calm.checkpoint().objective[0])
    text = f"{ours:.4f} after {plan.last} rounds, undisturbed {theirs:.4f} after {calm.t}"
    return (
        "F",
        abs(ours / theirs - 1) <= 0.1,
        f"{text}: {ours / theirs - 1:+.1%} at {found.queries[0]:,} queries",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("members", 16), ("events", 30), ("seconds", 180), ("scripts", 1), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=24_000)
    parser.add_argument("--log-every", type=int, default=250)
    parser.add_argument("--dead-after", type=float, default=20.0)
    parser.add_argument("--patience", type=float, default=1200.0, help="seconds for the rest of the rounds")
    parser.add_argument("--check", type=Path, nargs="+", help="folders of earlier scripts: play none")
    options = parser.parse_args()
    failed, seeds = 0, range(options.seed, options.seed + options.scripts)
    folders = options.check or [Path(tempfile.mkdtemp(prefix="churn-")) for _ in seeds]
    for seed, folder in zip(seeds, folders, strict=False):
        if not options.check:
            play(options, seed, folder)
    for folder in folders:
        played = Played(**json.loads((folder / PLAYED).read_text()))
        print(f"{folder}: {len(played.done)} events in {played.took:.0f} s")
        print(f"  {', '.join(played.done)}", flush=True)
        for name, holds, text in claims(folder, played):
            failed += not holds
            print(f"  {'holds ' if holds else 'FAILED'}  {name}: {text}", flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
