"""A plan run by processes, trial by trial, each process hosting one node or several.

Rank 0 keeps the folder of the study as `zocosmo run` does and writes the same log. Every process has its own
checkpoints and log under ranks/. A resumed study continues from the newest round that all processes hold.
"""

import contextlib
import dataclasses
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from zocosmo.core.manifest import Manifest
from zocosmo.core.tape import Tape
from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.checkpoints import Checkpoints, Position
from zocosmo.dist.deadline import Deadline
from zocosmo.dist.engine import Host, Values, check_peers
from zocosmo.dist.handshake import agree, common_salt
from zocosmo.dist.job import Job, decoded
from zocosmo.dist.links import Links
from zocosmo.dist.manifests import manifest_of
from zocosmo.dist.place import Place
from zocosmo.dist.ranklog import RankLog, merge
from zocosmo.dist.ranktrace import RankTrace
from zocosmo.errors import InputError, MessageError
from zocosmo.experiments.folder import Folder, FolderPart
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.experiments.run import LogRows, Progress, Tick, make_frame
from zocosmo.experiments.states import STATES, Columns, write_states
from zocosmo.log import Log, fingerprint, make_header
from zocosmo.sim.engine import Run


@dataclasses.dataclass(frozen=True)
class Options:
    """How to run a plan; no option changes a bit of the result."""

    resume: bool = False
    replace_old: bool = False
    states: bool = True  # write the last states of all nodes to states.npz
    checkpoint_every: int = 0  # rounds; 0: at every checkpoint of the log
    deadline: float | None = None  # seconds to wait for a peer; None: learned
    key: bytes | None = None  # seals messages
    backend: str = "gloo"
    suffix: str = ".parquet"


class Study:
    """One process's part of a plan; a lost peer ends it."""

    def __init__(self, plan: Plan, job: Job, out: Path, options: Options, tick: Tick) -> None:
        if plan.until is not None:
            raise InputError("until is for the simulator; leave it out, or use zocosmo run")
        self.plan, self.job, self.out, self.options, self.tick = plan, job, out, options, tick
        self.header = make_header(plan.config, plan.fingerprint)
        changes_log = {"sealed": options.key is not None}
        self.stamp = fingerprint({"engine": "dist", **changes_log, **self.header})
        self.every = options.checkpoint_every or plan.log_every
        for graph in {trial.graph_of() for trial in plan.trials}:
            Place(graph, job.world)  # checks the number of processes
        for trial in plan.trials:
            check_peers(trial.method)
        salt = b"" if options.key is None else common_salt(job)
        self.manifests = [manifest(plan, trial, options, salt) for trial in plan.trials]
        self.mine = out / "ranks" / f"{job.rank:03d}"
        self.began = False  # the first round of this process

    def run(self) -> Log | None:
        agree(self.job, self.manifests)
        self.links = Links(self.job, deadline=Deadline(self.options.deadline), backend=self.options.backend)
        try:
            with self._folder() as (folder, done):
                if self.said["finished"]:
                    return done
                with self._traced():
                    return self._trials(folder)
        except Exception as error:  # reported before the connections close
            self.job.report(error, began=self.began)
            raise
        finally:
            self.links.close()

    @contextlib.contextmanager
    def _folder(self) -> Iterator[tuple[Folder, Log | None]]:
        """The study's folder, opened by rank 0; an error there stops all processes."""
        folder = Folder(self.out, self.header, self.options.suffix)
        with contextlib.ExitStack() as stack:
            said: dict[str, Any] = {}
            done = None
            if self.job.rank == 0:
                again = self.job.attempt > 0  # a restart continues its own study
                resume, replace_old = self.options.resume or again, self.options.replace_old and not again
                try:
                    done = stack.enter_context(folder.opened(resume=resume, replace_old=replace_old))
                    said = {"finished": done is not None, "anew": replace_old}
                except InputError as error:
                    said = {"error": str(error)}
            told = self.job.share("folder", json.dumps(said).encode() if self.job.rank == 0 else None)
            self.said = decoded(told, "what rank 0 said of its folder", dict)
            if "error" in self.said:
                raise InputError(str(self.said["error"]))
            if not isinstance(self.said.get("finished"), bool) or not isinstance(self.said.get("anew"), bool):
                raise MessageError(f"rank 0 said {self.said} of its folder; start all ranks again")
            self.checkpoints = Checkpoints(self.mine, self.stamp)
            if self.job.rank == 0 and not self.said["finished"]:
                (self.out / STATES).unlink(missing_ok=True)  # of an earlier study
            if self.said["anew"]:
                self.checkpoints.clear()
            yield folder, done

    @contextlib.contextmanager
    def _traced(self) -> Iterator[None]:
        """A trace for those who watch, with how this process ended."""
        self.trace = RankTrace(self.out, self.plan, self.job, self.links, anew=self.said["anew"])
        error: BaseException | None = None
        try:
            yield
        except BaseException as found:
            error = found
            raise
        finally:
            self.trace.close(error)

    def _trials(self, folder: Folder) -> Log | None:
        parts = [FolderPart(folder.part(k).path, self.stamp) for k in range(len(self.plan.trials))]
        done = self._done(parts) if self.job.rank == 0 else []
        start = self._agree_on_start(len(done))
        self.log = RankLog(self.mine / "log.csv", self.job, anew=start == Position(0, 0))
        for k in range(start.trial, len(self.plan.trials)):
            rows, states = self._trial(self.plan.trials[k], start.round if k == start.trial else 0)
            if self.job.rank == 0:
                kept = {"states": states} if states is not None and self.options.states else {}
                done.append({**rows.columns(), **kept})
                parts[k].save("done", done[-1])
        return self._finish(folder, done)

    def _done(self, parts: list[FolderPart]) -> list[Columns]:
        """The leading trials that are done."""
        found = itertools.takewhile(
            lambda columns: columns is not None, (part.load("done") for part in parts)
        )
        return list(found)  # type: ignore[arg-type]

    def _agree_on_start(self, done: int) -> Position:
        """The newest position that all processes hold in the first trial that is not done."""
        posted = self.job.collect("held", json.dumps(self.checkpoints.held()).encode())
        start = None if posted is None else json.dumps(newest(done, posted)).encode()
        return as_position(decoded(self.job.share("start", start), "the start", list))

    def _trial(self, trial: Trial, start: int) -> tuple[LogRows, Values | None]:
        """Run a trial from round `start` to its end; rank 0 gets its rows and last states."""
        plan, run = self.plan, trial.run()
        host = self._host(trial, run)
        rows = LogRows([trial], [0], run.graph.n)
        self.trace.follow(trial, host, run.world)
        if start:
            states = self._restore(Position(trial.number, start), host, rows)
        else:
            states = self._measure(host, rows)
        self.began = True
        while host.t < plan.last and host.alive.all():
            began = time.monotonic()
            host.round()
            self.links.deadline.observe(time.monotonic() - began)
            if plan.is_due(host.t):
                states = self._measure(host, rows)
                self._log(trial.number, host)
                self.tick(Progress(trial.number, host.t * run.graph.n, rows.best, rows.bits))
            if host.t % self.every == 0 and host.alive.all():
                self._save(Position(trial.number, host.t), host, rows, states)
        return rows, None if states is None else run.problem.vectors(states.astype(plan.dtype))

    def _log(self, trial: int, host: Host) -> None:
        """A row of this process's log."""
        channel, trace = host.channel, self.trace
        self.log.add(trial, host.t, channel, self.links)
        trace.messages, trace.bytes = channel.messages, sum(channel.crossed.values())

    def _host(self, trial: Trial, run: Run) -> Host:
        wire, dtype = trial.method.wire_for(self.plan.wire, self.plan.dtype), self.plan.dtype
        about: dict[str, Any] = {"d": run.problem.d, "wire": wire, "dtype": dtype}
        about |= {"codec": trial.method.codec, "tape": Tape(trial.seed), "key": self.options.key}
        session = self.manifests[trial.number].fingerprint()
        place = Place(run.graph, self.job.world)
        channel = TorchChannel(place, self.links, session=session, **about)
        channel.lost = self.plan.lost
        return Host(run, channel, bound=self.plan.diverged_above, guard=self.plan.guard)

    def _measure(self, host: Host, rows: LogRows) -> Values | None:
        with self.links.deadline.measuring():
            found = host.checkpoint()
        if found is None:
            return None
        rows.take(found[0])
        self.trace.rows(rows.newest, last=host.t in (0, self.plan.last))
        return found[1]

    def _save(self, position: Position, host: Host, rows: LogRows, states: Values | None) -> None:
        arrays = host.arrays()
        about: dict[str, Any] = {
            "nodes": host.channel.nodes.tolist(),
            "crossed": sum(host.channel.crossed.values()),
        }
        if self.job.rank == 0 and states is not None:
            columns = rows.columns()
            about["columns"] = list(columns)  # in order, which safetensors does not keep
            arrays |= {f"rows.{name}": column for name, column in columns.items()}
            arrays["states"] = states
        self.checkpoints.save(position, arrays, about)

    def _restore(self, position: Position, host: Host, rows: LogRows) -> Values | None:
        found = self.checkpoints.load(position)
        assert found is not None  # it was held a moment ago
        arrays, about = found
        if about["nodes"] != host.channel.nodes.tolist():
            raise InputError(
                f"the checkpoints of {self.out} have {len(about['nodes'])} nodes in rank {self.job.rank}; "
                "start as many processes as before, or start anew with --replace"
            )
        host.restore(arrays)
        if "columns" in about:
            rows.add({name: arrays[f"rows.{name}"] for name in about["columns"]})
        return arrays.get("states")

    def _finish(self, folder: Folder, done: list[Columns]) -> Log | None:
        """Rank 0 writes the log; the others keep their checkpoints until then."""
        logs, log = self.job.collect("log", self.log.text().encode()), None
        if logs is not None:
            kept = enumerate(done)
            states = {f"trial-{k}": columns.pop("states") for k, columns in kept if "states" in columns}
            log = self._write(folder, logs, done, states)
        self.job.finish()
        self.checkpoints.clear()
        return log

    def _write(self, folder: Folder, logs: Sequence[bytes], done: Sequence[Columns], states: Columns) -> Log:
        """The results: the logs of all processes, the last states, and the log of the study."""
        merge(self.out / "ranks.csv", logs)
        if states:
            write_states(self.out / STATES, states)
        log = Log(make_frame(self.plan, done), self.header)
        folder.finish(log)
        return log


def newest(trial: int, posted: Sequence[bytes]) -> Position:
    """The newest position in this trial that all processes hold, or its beginning."""
    shown = [decoded(each, f"what rank {rank} holds", list) for rank, each in enumerate(posted)]
    common = set.intersection(*({as_position(each) for each in held} for held in shown))
    return max((p for p in common if p.trial == trial), default=Position(trial, 0))


def as_position(given: Any) -> Position:
    """A position from the store."""
    match given:
        case [int(trial), int(t)] if trial >= 0 and t >= 0:
            return Position(trial, t)
    raise MessageError(f"the store has {given!r} for a trial and a round; start all ranks again")


def manifest(plan: Plan, trial: Trial, options: Options, salt: bytes = b"") -> Manifest:
    """What all processes must agree on about a trial."""
    every = options.checkpoint_every or plan.log_every
    return manifest_of(plan, trial, sealed=options.key is not None, salt=salt, checkpoint_every=every)
