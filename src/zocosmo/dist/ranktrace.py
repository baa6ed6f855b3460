"""The trace of one process of a study: what it does and whom it waits for, looked up by a thread.

The thread reads a few numbers and writes a line now and then; rounds do not wait for it.
"""

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from zocosmo.dist.engine import Host
from zocosmo.dist.job import Job
from zocosmo.dist.links import Links
from zocosmo.experiments.plan import Plan, Trial
from zocosmo.experiments.traces import about_plan, pairs_of
from zocosmo.methods.base import World
from zocosmo.trace import FOLDER, Trace, TraceFile

LOOK = 0.25  # seconds between looks
LONG = 1.0  # seconds of waiting that are worth a line


class RankTrace:
    """Lines of kind `node`, from a thread; rows, from the study."""

    def __init__(self, out: Path, plan: Plan, job: Job, links: Links, *, anew: bool) -> None:
        path = out / FOLDER / f"rank-{job.rank:03d}.jsonl"
        if anew:
            path.unlink(missing_ok=True)
        self._job, self._links = job, links
        self._trace = Trace(TraceFile.begin(path))
        about = about_plan(plan, "launch") if job.rank == 0 else {"job": "launch"}
        self._trace.start(**about, rank=job.rank, world=job.world, attempt=job.attempt)
        self._host: Host | None = None
        self._trial = 0
        self._world: World | None = None
        self.messages = self.bytes = 0
        self._said: tuple[str, int] = ("", -1)
        self._closed = threading.Event()
        threading.Thread(target=self._look_on, daemon=True).start()

    def follow(self, trial: Trial, host: Host, world: World | None = None) -> None:
        """Report on this host from now on."""
        self._trial, self._method, self._seed = trial.number, trial.method, trial.seed
        self._world = world if self._job.rank == 0 else None
        self._host = host

    def rows(self, columns: Mapping[str, NDArray[Any]], *, last: bool = False) -> None:
        """The newest rows of the log, which rank 0 has."""
        host = self._host
        if host is not None and columns and (last or self._trace.is_due("rows")):
            listed = {name: column.tolist() for name, column in columns.items()}
            done = host.t * host.channel.n
            where = {"batch": self._trial, "trial": self._trial, "round": host.t, "done": done}
            self._trace.write("rows", **where, columns=listed)

    def close(self, error: BaseException | None) -> None:
        """How it ended."""
        self._closed.set()
        self._look(last=True)
        if error is None:
            self._trace.write("end", how="done")
        else:
            how = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
            self._trace.write("end", how=how, text=(str(error) or type(error).__name__)[:500])
        self._trace.close()

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK):
            self._look()

    def _look(self, *, last: bool = False) -> None:
        host = self._host
        if host is None:
            return
        state = self._state()
        if not (last or self._trace.is_due("node") or state != self._said):
            return
        self._said = state
        links, what = self._links, {"state": state[0]}
        more: dict[str, Any] = {} if state[1] < 0 else {"for": state[1]}
        if self._world is not None:
            pairs = pairs_of(self._method, self._world, self._seed, host.t)
            more |= {} if pairs is None else {"pairs": pairs}
        self._trace.write(
            "node",
            **what,
            **more,
            rank=self._job.rank,
            nodes=host.channel.nodes.tolist(),
            trial=self._trial,
            round=host.t,
            waited=round(links.waited, 3),
            waited_for={str(peer): round(s, 3) for peer, s in dict(links.waited_for).items()},
            messages=self.messages,
            bytes=self.bytes,
        )

    def _state(self) -> tuple[str, int]:
        peer, since = self._links.waits_for
        if peer >= 0 and time.monotonic() - since > LONG:
            return "waits", peer
        return "computes", -1
