"""What a member keeps of its own run: its state and its counts at every checkpoint, and how it ended."""

import json
import os
import signal
from pathlib import Path

import numpy as np

from zocosmo.dist.engine import Host as Engine
from zocosmo.errors import InputError
from zocosmo.experiments.states import Columns, load_arrays, save_arrays
from zocosmo.files import make_folder, write_text

ABOUT = "member.json"


class NodeFolder:
    """OUT/nodes/ID: round-T.npz has x, and queries, bits by kind and what went wrong, after T rounds."""

    def __init__(self, out: Path, member: int) -> None:
        self.path, self.member = out / "nodes" / f"{member:05d}", member

    def begin(self, key: bytes) -> None:
        """Make the folder, and say which process it belongs to."""
        make_folder(self.path)
        for old in self.path.glob("round-*.npz"):
            old.unlink()
        write_text(self.path / ABOUT, json.dumps({"pid": os.getpid(), "key": key.hex()}) + "\n")

    def save(self, engine: Engine) -> None:
        x = np.asarray(engine.state.x, np.float64).reshape(-1)
        save_arrays(self.path / f"round-{engine.t}.npz", {"x": x, "counts": engine.counts()[0]})

    def load(self, t: int) -> Columns | None:
        """What was kept after t rounds."""
        path = self.path / f"round-{t}.npz"
        return load_arrays(path) if path.exists() else None

    def end(self, how: str, t: int) -> None:
        write_text(self.path / ABOUT, json.dumps({"pid": None, "ended": how, "round": t}) + "\n")


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
        raise InputError(f"say which member is to leave; those that run here from {out}: {named}")
    os.kill(found[member], signal.SIGINT)
    return member


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
