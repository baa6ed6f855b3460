"""What a member keeps of its own run: its state and its counts at every checkpoint, and how it ended."""

import json
import os
import signal
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.payload import Bits
from zocosmo.dist.engine import Host as Engine
from zocosmo.errors import InputError
from zocosmo.experiments.states import Columns, load_arrays, save_arrays
from zocosmo.files import make_folder, write_text
from zocosmo.terms.members import Term

ABOUT, BILL, LAST = "member.json", "bill.csv", "last.npz"

Counts = NDArray[np.int64]


def state_bytes(engine: Engine) -> bytes:
    """x of the one node of an engine, in the type of the states."""
    return np.ascontiguousarray(engine.state.x).tobytes()


class Account:
    """What a member has spent by link, over all terms."""

    def __init__(self) -> None:
        self._closed: dict[tuple[int, int], Counts] = {}

    def close_term(self, engine: Engine, term: Term) -> None:
        """Keep the bill of a term that is over."""
        self._closed = self.links(engine, term)

    def links(self, engine: Engine, term: Term) -> dict[tuple[int, int], Counts]:
        """Bits by kind that this member sent to each other, by ids."""
        out = dict(self._closed)
        ledger, here = engine.channel.ledger(engine.channel.codec), int(engine.channel.nodes[0])
        for (i, j), bits in zip(ledger.links, ledger.counts[0], strict=True):
            if i == here and bits.any():
                ends = int(term.ids[i]), int(term.ids[j])
                out[ends] = out.get(ends, 0) + bits
        return out

    def counts(self, engine: Engine) -> Counts:
        """As `Engine.counts` of its node, earlier terms included."""
        now: Counts = engine.counts()[0].copy()
        kinds = len(Bits._fields)
        for bits in self._closed.values():
            now[1 : 1 + kinds] += bits
        return now


class NodeFolder:
    """OUT/nodes/ID: round-T.npz has x, and queries, bits by kind and what went wrong, after T rounds."""

    def __init__(self, out: Path, member: int) -> None:
        self.path, self.member = out / "nodes" / f"{member:05d}", member

    def begin(self, key: bytes) -> None:
        """Make the folder, and say which process it belongs to."""
        make_folder(self.path)
        for old in (*self.path.glob("round-*.npz"), self.path / LAST):
            old.unlink(missing_ok=True)
        write_text(self.path / ABOUT, json.dumps({"pid": os.getpid(), "key": key.hex()}) + "\n")

    def save(self, engine: Engine, account: Account) -> None:
        x = np.asarray(engine.state.x, np.float64).reshape(-1)
        save_arrays(self.path / f"round-{engine.t}.npz", {"x": x, "counts": account.counts(engine)})

    def counts_at(self, t: int) -> Counts | None:
        """Queries, bits and failures after t rounds; of one that left, when it did. None before it joined."""
        kept = self.load(t)
        if kept is not None:
            return np.asarray(kept["counts"])
        last = self.load_last()
        return np.asarray(last["counts"]) if last is not None and int(last["round"]) < t else None

    def load_last(self) -> Columns | None:
        """What was kept at the end; None if it did not come to one."""
        path = self.path / LAST
        return load_arrays(path) if path.exists() else None

    def load(self, t: int) -> Columns | None:
        """What was kept after t rounds."""
        path = self.path / f"round-{t}.npz"
        return load_arrays(path) if path.exists() else None

    def end(self, how: str, engine: Engine, account: Account, term: Term) -> None:
        """How it ended, and the bill by link."""
        spent = sorted(account.links(engine, term).items())
        lines = [",".join(map(str, (*link, *bits.tolist()))) + "\n" for link, bits in spent]
        write_text(self.path / BILL, "".join(lines))
        save_arrays(self.path / LAST, {"round": np.array(engine.t), "counts": account.counts(engine)})
        write_text(self.path / ABOUT, json.dumps({"pid": None, "ended": how, "round": engine.t}) + "\n")


def read_bill(folder: Path) -> dict[tuple[int, int], Counts]:
    """Bits by kind that a member sent to each other."""
    rows = [
        list(map(int, line.split(","))) for line in (folder / BILL).read_text(encoding="utf-8").splitlines()
    ]
    return {(row[0], row[1]): np.array(row[2:], np.int64) for row in rows}


def ask_to_leave(out: Path, member: int | None) -> int:
    """Interrupt the process of a member that runs on this machine; gives its number."""
    found: dict[int, int] = {}
    for path in sorted((out / "nodes").glob(f"*/{ABOUT}")):
        pid = json.loads(path.read_text(encoding="utf-8"))["pid"]
        if pid is not None and _is_alive(pid):
            found[int(path.parent.name)] = pid
    if member is None and len(found) == 1:
        member = next(iter(found))
    if member not in found:
        named = ", ".join(map(str, found)) or "none"
        wanted = "no member is named" if member is None else f"member {member} does not run here"
        raise InputError(f"{wanted}; --member takes one of those that run here from {out}: {named}")
    os.kill(found[member], signal.SIGINT)
    return member


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
