"""A study that continues without lost peers: a pair idles until both ends are present."""

import time
from pathlib import Path

import numpy as np

from zocosmo.dist.checkpoints import Position
from zocosmo.dist.company import POLL, Company
from zocosmo.dist.engine import Host, Values
from zocosmo.dist.ranklog import RankLog
from zocosmo.dist.rendezvous import Job
from zocosmo.dist.seal import open_blob, seal_blob
from zocosmo.dist.study import Options, Study
from zocosmo.errors import InputError, PeerLost
from zocosmo.experiments.folder import Folder
from zocosmo.experiments.plan import Plan
from zocosmo.experiments.run import LogRows, Progress, Tick
from zocosmo.log import Log
from zocosmo.methods.edge_local import EdgeLocal, EdgeLocalDraw
from zocosmo.oracle import Measured, objective
from zocosmo.rounds.checkpoint import Checkpoint, make_checkpoint
from zocosmo.sim.engine import Run, stack

MOST_POSTED = 2**28  # bytes of states in the store


class IdleStudy(Study):
    """One trial of edge_local, with one process per node.

    Checkpoints do not wait for peers: each process posts its state in the store, and rank 0 measures the
    posted states at the end. Averages are over the nodes that posted, the column `living` of the log.
    """

    def __init__(self, plan: Plan, job: Job, out: Path, options: Options, tick: Tick) -> None:
        super().__init__(plan, job, out, options, tick)
        trial = plan.trials[0]
        if len(plan.trials) > 1 or not isinstance(trial.method, EdgeLocal):
            raise InputError(
                f"on_lost_peer idle runs one trial of edge_local, got {len(plan.trials)} of "
                f"{trial.method.kind}; use one method, graph and seed, or on_lost_peer stop"
            )
        if plan.guard is not None:
            raise InputError(
                "a guard measures all nodes during the run, which on_lost_peer idle cannot; "
                "leave out the guard, or use on_lost_peer stop"
            )
        run = trial.run()
        if run.graph.n != job.world:
            raise InputError(
                f"on_lost_peer idle needs one process per node, got {job.world} for {run.graph.n} nodes"
            )
        posted = 8 * run.graph.n * run.problem.d * len(plan.due)
        if posted > MOST_POSTED:
            raise InputError(f"states to post take {posted / 2**20:.0f} MiB; raise log_every, or lower d")
        self.incarnation = int(job.store.add(f"incarnation/{job.rank}", 1)) - 1

    def _trials(self, folder: Folder) -> Log | None:
        trial = self.plan.trials[0]
        self.links.is_final = False
        if self.job.has("finished"):
            return None  # the study ended without this process
        run = trial.run()
        start = max(self.checkpoints.held(), default=Position(0, 0))  # other processes may be elsewhere
        starts = [] if self.incarnation else self.job.publish("start", str(start.round).encode())
        self.log = RankLog(self.mine / "log.csv", self.job, anew=start.round == 0)
        host = self._host(trial, run, connect=self.incarnation == 0)
        rows = LogRows([trial], [0], run.graph.n)
        if start.round:
            self._restore(start, host, rows)
        company = Company(self.job, host.channel, self.incarnation, [int(t) for t in starts])
        company.tell = self.trace.event
        self.trace.follow(trial, host, run.world)
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
            self.trace.missing = -1
            if partner == me or not company.is_with(partner, t):
                self.log.idled += partner != me
                host.skip()
                if partner != me and company.is_missed(partner):
                    self.trace.missing = partner
                    time.sleep(self.links.deadline.typical)  # keep the pace of a normal round
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
                self._log(0, host)
                sent = host.channel.ledger(host.channel.codec).sent_by(me).payload
                self.tick(Progress(0, host.t * host.channel.n, np.inf, float(sent)))
            if host.t % self.every == 0:
                self._save(Position(0, host.t), host, LogRows([], [], 1), None)

    def _post(self, host: Host) -> None:
        """Post state, queries and bits of this node for rank 0 to measure."""
        counted = host.counts()[0]
        x = np.asarray(host.state.x, np.float64).reshape(-1)
        data, name, key = x.tobytes() + counted.tobytes(), f"x/{host.t}/{self.job.rank}", self.options.key
        self.job.store.set(name, data if key is None else seal_blob(key, self._label(name), data))

    def _label(self, name: str) -> bytes:
        return self.manifests[0].fingerprint() + name.encode()

    def _end(self, folder: Folder, host: Host, rows: LogRows, run: Run) -> Log | None:
        self.job.store.set(f"done/{self.job.rank}", self.log.text())
        if self.job.rank:
            self._await_log()
            self.job.finish()
            self.checkpoints.clear()
            return None
        logs = self._await_living()
        states, last = dict[str, Values](), dict[int, Values]()
        for t in self.plan.due:
            found = self._posted(t, run)
            if found:
                last |= {node: counted for node, (_, counted) in found.items()}  # lost nodes stay counted
                rows.take(self._measured(t, found, np.stack(list(last.values())), host, run))
                posted = np.stack([found[node][0] for node in sorted(found)]).astype(self.plan.dtype)
                states["trial-0"] = run.problem.vectors(posted)
        log = self._write(folder, logs, [rows.columns()], states if self.options.states else {})
        self.job.finish([rank for rank in range(1, self.job.world) if self.job.has(f"done/{rank}")])
        self.checkpoints.clear()
        return log

    def _await_log(self) -> None:
        """Wait until rank 0, restarted or not, has written the log, as long as its heartbeat changes."""
        sign, moved = b"", time.monotonic()
        while not self.job.has("finished"):
            number, last, now = self.job.read("back/0", b"0"), sign, time.monotonic()
            sign = number + b" " + self.job.read(f"beat/0/{number.decode()}")
            moved = now if sign != last else moved
            if now - moved > self.links.deadline.seconds:
                raise PeerLost(
                    f"rank 0, which writes the log, was silent for {now - moved:.1f} s after the last round; "
                    "continue with --resume",
                    rank=0,
                    waited=now - moved,
                )
            time.sleep(POLL)

    def _await_living(self) -> list[bytes]:
        """Wait for all processes that are not lost, one deadline at most; the logs of those that are done."""
        job, since, waiting = self.job, time.monotonic(), set(range(self.job.world))
        while waiting and time.monotonic() - since < self.links.deadline.seconds:
            for rank in sorted(waiting):
                current = int(job.read(f"back/{rank}", b"0"))
                if job.has(f"done/{rank}") or job.has(f"lost/{rank}/{current}"):
                    waiting.discard(rank)
            time.sleep(POLL)
        return [job.store.get(f"done/{rank}") for rank in range(job.world) if job.has(f"done/{rank}")]

    def _posted(self, t: int, run: Run) -> dict[int, tuple[Values, Values]]:
        d, key, found = run.problem.d, self.options.key, {}
        for rank in range(self.job.world):
            name = f"x/{t}/{rank}"
            if data := self.job.read(name):
                data = data if key is None else open_blob(key, self._label(name), data)
                found[rank] = np.frombuffer(data[: 8 * d]), np.frombuffer(data[8 * d :], np.int64)
        return found

    def _measured(
        self, t: int, found: dict[int, tuple[Values, Values]], counts: Values, host: Host, run: Run
    ) -> Checkpoint:
        """The checkpoint of the nodes that posted, measured as in the simulator."""
        whole, some = stack([run.problem]), stack([run.problem.at(sorted(found))])
        x = np.stack([found[node][0] for node in sorted(found)])[None]
        centre = x.mean(axis=-2)
        measured = Measured(
            objective(whole, centre),
            some.local(x).mean(axis=-1),
            whole.disagreement(x, centre),
            whole.norm(centre),
            {**whole.report(centre), "living": np.array([len(found)])},
        )
        alive, diverged = np.array([True]), np.array([False])
        return make_checkpoint(
            t, measured, host.bill(counts), waits=t * host.stages, alive=alive, diverged=diverged
        )
