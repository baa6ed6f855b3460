"""A study that goes on without lost peers: pairs with one of them idle until it comes back."""

import time
from pathlib import Path

import numpy as np

from zocosmo.dist.checkpoints import Position
from zocosmo.dist.company import POLL, Company
from zocosmo.dist.engine import Host, Values
from zocosmo.dist.ranklog import RankLog, merge
from zocosmo.dist.rendezvous import Job
from zocosmo.dist.seal import open_blob, seal_blob
from zocosmo.dist.study import Options, Study
from zocosmo.errors import InputError, PeerLost
from zocosmo.experiments.folder import Folder
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import LogRows, Progress, Tick, make_frame
from zocosmo.experiments.states import STATES, write_states
from zocosmo.log import Log
from zocosmo.methods.edge_local import EdgeLocal, EdgeLocalDraw
from zocosmo.oracle import Measured, disagreement, norm, objective
from zocosmo.rounds.checkpoint import Checkpoint, make_checkpoint
from zocosmo.sim.engine import Run, stack

MOST_POSTED = 2**28  # bytes of states that the store may be given to keep


class IdleStudy(Study):
    """One trial of edge_local, a process for each node.

    Nobody can be waited for, so states are measured from what each process posts in the store, by rank 0, at
    the end. The average is then that of the nodes that posted, and the log says how many were `living`.
    """

    def __init__(self, plan: Plan, job: Job, out: Path, options: Options, tick: Tick) -> None:
        super().__init__(plan, job, out, options, tick)
        trial = plan.trials[0]
        if len(plan.trials) > 1 or not isinstance(trial.method, EdgeLocal):
            raise InputError(
                f"on_lost_peer idle is for one trial of edge_local, got {len(plan.trials)} of "
                f"{trial.method.kind}; use one method, graph and seed, or on_lost_peer stop"
            )
        if plan.guard is not None:
            raise InputError(
                "a guard needs measurements of all nodes, and on_lost_peer idle makes none on the way; leave "
                "out the guard, or use on_lost_peer stop"
            )
        run = trial.run()
        if run.graph.n != job.world:
            raise InputError(
                f"on_lost_peer idle needs a process for each node, got {job.world} for {run.graph.n} nodes"
            )
        posted = 8 * run.graph.n * run.problem.d * len(plan.due)
        if posted > MOST_POSTED:
            raise InputError(
                f"{posted / 2**20:.0f} MiB of states would be posted; raise log_every, or lower d"
            )
        self.incarnation = int(job.store.add(f"incarnation/{job.rank}", 1)) - 1

    def _trials(self, folder: Folder) -> Log | None:
        trial = self.plan.trials[0]
        self.links.is_final = False
        if self.job.has("finished"):
            return None  # the others are done
        run = trial.run()
        start = max(self.checkpoints.held(), default=Position(0, 0))  # our own: others may be elsewhere
        starts = [] if self.incarnation else self.job.publish("start", str(start.round).encode())
        self.log = RankLog(self.mine / "log.csv", self.job, anew=start.round == 0)
        host = self._host(trial, run, connect=self.incarnation == 0)
        rows = LogRows([trial], [0], run.graph.n)
        if start.round:
            self._restore(start, host, rows)
        company = Company(self.job, host.channel, self.incarnation, [int(t) for t in starts])
        try:
            company.start(host.t)
            self._rounds(host, company)
            return self._end(folder, host, rows, run)
        finally:
            company.close()

    def _rounds(self, host: Host, company: Company) -> None:
        plan, me = self.plan, self.job.rank
        if host.t == 0:
            self._post(host)
        while host.t < plan.last:
            began, t, draw = time.monotonic(), host.t, host.draw()
            assert isinstance(draw, EdgeLocalDraw)
            partner = int(draw.partners[0, 0])
            host.channel.begin(t)
            if partner == me or not company.is_with(partner, t):
                self.log.idled += partner != me
                host.skip()
                if partner != me and company.is_missed(partner):
                    time.sleep(self.links.deadline.typical)  # or nodes left alone would rush to the end
            else:
                try:
                    host.round()
                except PeerLost:
                    company.give_up(partner)
                    self.log.idled += 1
                    host.skip()
                self.links.deadline.observe(time.monotonic() - began)
            if plan.is_due(host.t):
                self._post(host)
                self.log.add(0, host.t, host.channel, self.links)
                self.tick(Progress(0, host.t * host.channel.n, np.inf, self._bits(host)))
            if host.t % self.every == 0:
                self._save(Position(0, host.t), host, LogRows([], [], 1), None)

    def _bits(self, host: Host) -> float:
        """Payload that this node has sent."""
        return float(host.channel.ledger(host.channel.codec).sent_by(self.job.rank).payload)

    def _post(self, host: Host) -> None:
        """State, queries and bits of this node after some rounds, for rank 0 to measure."""
        counted = host.counts()[0]
        x = np.asarray(host.state.x, np.float64).reshape(-1)
        data, name, key = x.tobytes() + counted.tobytes(), f"x/{host.t}/{self.job.rank}", self.options.key
        self.job.store.set(name, data if key is None else seal_blob(key, self._label(name), data))

    def _label(self, name: str) -> bytes:
        return self.manifests[0].fingerprint() + name.encode()

    def _end(self, folder: Folder, host: Host, rows: LogRows, run: Run) -> Log | None:
        store = self.job.store
        store.set(f"done/{self.job.rank}", self.log.text())
        if self.job.rank:
            self._await_log()
            self.job.finish()
            self.checkpoints.clear()
            return None
        logs = self._await_living()
        states, last = None, dict[int, Values]()
        for t in self.plan.due:
            found = self._posted(t, run)
            if found:
                last |= {node: counted for node, (_, counted) in found.items()}  # who is lost has sent, too
                rows.take(self._measured(t, found, np.stack(list(last.values())), host, run))
                states = {"trial-0": np.stack([found[node][0] for node in sorted(found)])}  # of the living
        log = Log(make_frame(self.plan, [rows.columns()]), self.header)
        merge(self.out / "ranks.csv", logs)
        if self.options.states and states:
            write_states(self.out / STATES, states)
        folder.finish(log)
        self.job.finish([rank for rank in range(1, self.job.world) if store.check([f"done/{rank}"])])
        self.checkpoints.clear()
        return log

    def _await_log(self) -> None:
        """Until rank 0 has written the log, while it, or one that came back for it, gives signs of life."""
        sign, moved = b"", time.monotonic()
        while not self.job.has("finished"):
            number = self.job.store.get("back/0") if self.job.has("back/0") else b"0"
            key, last, now = f"beat/0/{number.decode()}", sign, time.monotonic()
            sign = number + b" " + (self.job.store.get(key) if self.job.has(key) else b"")
            moved = now if sign != last else moved
            if now - moved > self.links.deadline.seconds:
                raise PeerLost(
                    f"rank 0, which writes the log, was silent for {now - moved:.1f} s after the last round; "
                    "go on with --resume",
                    rank=0,
                    waited=now - moved,
                )
            time.sleep(POLL)

    def _await_living(self) -> list[bytes]:
        """Until all are done but those that are lost; a process that nobody misses has one deadline more."""
        store, since, waiting = self.job.store, time.monotonic(), set(range(self.job.world))
        while waiting and time.monotonic() - since < self.links.deadline.seconds:
            for rank in sorted(waiting):
                current = int(store.get(f"back/{rank}")) if store.check([f"back/{rank}"]) else 0
                if store.check([f"done/{rank}"]) or store.check([f"lost/{rank}/{current}"]):
                    waiting.discard(rank)
            time.sleep(POLL)
        return [store.get(f"done/{rank}") for rank in range(self.job.world) if store.check([f"done/{rank}"])]

    def _posted(self, t: int, run: Run) -> dict[int, tuple[Values, Values]]:
        store, d, found = self.job.store, run.problem.d, {}
        for rank in range(self.job.world):
            if store.check([f"x/{t}/{rank}"]):
                data, key, name = store.get(f"x/{t}/{rank}"), self.options.key, f"x/{t}/{rank}"
                data = data if key is None else open_blob(key, self._label(name), data)
                found[rank] = np.frombuffer(data[: 8 * d]), np.frombuffer(data[8 * d :], np.int64)
        return found

    def _measured(
        self, t: int, found: dict[int, tuple[Values, Values]], counts: Values, host: Host, run: Run
    ) -> Checkpoint:
        """As in the simulator, over the nodes that posted."""
        whole, some = stack([run.problem]), stack([run.problem.at(sorted(found))])
        x = np.stack([found[node][0] for node in sorted(found)])[None]
        centre = x.mean(axis=-2)
        measured = Measured(
            objective(whole, centre),
            some.local(x).mean(axis=-1),
            disagreement(x, centre),
            norm(centre),
            {**whole.report(centre), "living": np.array([len(found)])},
        )
        alive, diverged = np.array([True]), np.array([False])
        return make_checkpoint(
            t, measured, host.bill(counts), stages=host.stages, alive=alive, diverged=diverged
        )
