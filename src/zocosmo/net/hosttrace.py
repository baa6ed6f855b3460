"""The trace of a host: members, graph and changes of a living network, for `zocosmo watch`.

A thread looks at what members report anyway. A host never sees a value, so there is no curve while the
network lives; the log at the end has it.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zocosmo.experiments.traces import about_plan, drawn, pairs_of
from zocosmo.net.host import Host
from zocosmo.net.invitation import only_trial
from zocosmo.net.roll import Entry
from zocosmo.terms.members import Term
from zocosmo.trace import FOLDER, STUDY, Trace, TraceFile

LOOK = 0.25  # seconds between looks
SILENT = 3.0  # seconds without a report after which a member is called silent


class HostTrace:
    """Lines of kind `graph` at a change of members, `node` for each member, `event` for who came and went."""

    def __init__(self, host: Host, folder: Path, *, is_secret: bool) -> None:
        self._host, self._trial, self._is_secret = host, only_trial(host.plan), is_secret
        self._trace = Trace(TraceFile.begin(folder / FOLDER / STUDY))
        about = about_plan(host.plan, "host")
        if is_secret:
            about["trials"] = [[*labels, "secret", n] for *labels, _, n in about["trials"]]
        self._trace.start(**about)
        self._term = -1
        self._members: set[int] = set()
        self._closed = threading.Event()
        threading.Thread(target=self._look_on, daemon=True).start()

    def close(self, how: str, text: str = "") -> None:
        self._closed.set()
        self._look(last=True)
        self._trace.write("end", how=how, text=text[:500])
        self._trace.close()

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK):
            self._look()

    def _look(self, *, last: bool = False) -> None:
        roll = self._host.roll
        term, members = roll.term, dict(roll.members)
        if term is None:
            return
        if term.number != self._term:
            self._change(term, members)
        if last or self._trace.is_due("node"):
            for number, entry in sorted(members.items()):
                self._node(term, number, entry)

    def _change(self, term: Term, members: dict[int, Entry]) -> None:
        """The graph of a new term, and who came and went."""
        ids = term.ids.tolist()
        of = f"term {term.number}, from round {term.start}: {len(ids)} members"
        graph = drawn(term.graph)
        graph["edges"] = [[ids[i], ids[j]] for i, j in graph["edges"]]  # by member, not by position
        self._trace.write("graph", **graph, members=ids, of=of)
        if self._term >= 0:
            for number in sorted(set(ids) - self._members):
                self._trace.write("event", what="joined", text=f"member {number} joined, round {term.start}")
            for number in sorted(self._members - set(ids)):
                t, how = self._host.roll.gone.get(number, (term.start, "left"))
                self._trace.write("event", what=how, text=f"member {number} {how}, round {t}")
                self._trace.write("node", rank=number, nodes=[number], state=how, round=t, trial=0)
        self._term, self._members = term.number, set(ids)

    def _node(self, term: Term, number: int, entry: Entry) -> None:
        t = int(entry.said.get("round", term.start))
        state = "silent" if time.monotonic() - entry.heard > SILENT else "computes"
        more, ids = dict[str, Any](), term.ids.tolist()
        if number == min(ids) and not self._is_secret:  # whose pairs are shown
            world = term.world(self._host.manifest.d)
            pairs = pairs_of(self._trial.method, world, self._trial.seed, t)
            more = {} if pairs is None else {"pairs": [[ids[i], ids[j]] for i, j in pairs]}
        self._trace.write("node", rank=number, nodes=[number], state=state, round=t, trial=0, **more)


@contextmanager
def traced_host(host: Host, folder: Path, *, is_secret: bool) -> Iterator[None]:
    """A trace while a host runs."""
    trace = HostTrace(host, folder, is_secret=is_secret)
    try:
        yield
    except BaseException as error:
        how = "stopped" if isinstance(error, KeyboardInterrupt) else "failed"
        trace.close(how, str(error) or type(error).__name__)
        raise
    trace.close("stopped" if host.is_stopped else "done")
