"""Jobs that tests disturb: processes that are killed, stopped and started again, and what is left of them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from zocosmo.dist.checkpoints import NAME, Checkpoints, Position
from zocosmo.dist.launch import LocalStore, start
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan
from zocosmo.log import fingerprint, make_header

STEP = {"eta": 0.015625, "mu": 0.0009765625, "q": 5, "beta": 0.5}
BOTH = ({"kind": "cosmo", **STEP}, {"kind": "edge_local", **STEP, "coupling": "I"})
NOISY = {"kind": "quadratic", "d": 12, "omega": 0.5, "zeta": 1.0, "sigma": 0.25}
INTO_FILES = 'exec "$@" >>"$0/out.$RANK" 2>"$0/err.$RANK"'  # `start` gives children our own output
MODULE = ("-m", "zocosmo.dist")


def write_config(folder, graph, *, methods=BOTH, problem=NOISY, rounds=40, log_every=10, **more):
    """A config in a folder, as YAML takes JSON; more of its entries by name."""
    folder.mkdir(parents=True, exist_ok=True)
    data = {"problem": problem, "graphs": [graph], "methods": list(methods), "seeds": [7]}
    config = folder / "config.yaml"
    data |= {"rounds": rounds, "log_every": log_every, "wire": "f64", "dtype": "float64", **more}
    config.write_text(json.dumps(data), encoding="utf-8")
    return config


class Disturbed:
    """The processes of one job; whatever happens in the block, none of them outlives it."""

    def __init__(self, folder, world, *arguments, command=MODULE, env=None):
        self.folder, self.world, self.env = folder, world, env or {}
        self.line = ["/bin/sh", "-c", INTO_FILES, str(folder), sys.executable, *command, *map(str, arguments)]
        self.processes, self.store = {}, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # each leads a group of its own
            process.wait()

    def start(self, attempt=0):
        """All processes, with a store of their own."""
        self.store = LocalStore()
        for rank in range(self.world):
            self.start_one(rank, attempt)

    def start_one(self, rank, attempt=0):
        self.processes[rank] = start(self.line, rank, self.world, self.store.port, attempt, self.env)

    def send(self, rank, number=signal.SIGKILL):
        self.processes[rank].send_signal(number)

    def wait(self, seconds, ranks=None):
        """Codes when these ranks have ended, all if none are named; None for one that had to be killed."""
        until = time.monotonic() + seconds
        listed = list(self.processes) if ranks is None else ranks
        while any(self.processes[k].poll() is None for k in listed) and time.monotonic() < until:
            time.sleep(0.01)
        codes = [self.processes[k].poll() for k in listed]
        for k in listed:
            self.processes[k].kill()
        return codes

    def lines(self, rank):
        return (self.folder / f"err.{rank}").read_text(encoding="utf-8")

    def said(self):
        """All last words, for a failure's message."""
        return {rank: self.lines(rank) for rank in self.processes}


def wait_for(what, seconds=150.0, pause=0.002):
    """What `what` gives as soon as it is true; an error if it stays false for so long."""
    until = time.monotonic() + seconds
    while not (found := what()):
        if time.monotonic() > until:
            raise AssertionError(f"nothing of what was waited for in {seconds:g} s")
        time.sleep(pause)
    return found


def newest(out, rank):
    """The newest position of a rank's checkpoints by their names; (0, 0) before there are any."""
    with contextlib.suppress(FileNotFoundError):
        found = (NAME.fullmatch(path.name) for path in rank_folder(out, rank).iterdir())
        return max((Position(int(m[1]), int(m[2])) for m in found if m), default=Position(0, 0))
    return Position(0, 0)


def rank_folder(out, rank):
    return Path(out) / "ranks" / f"{rank:03d}"


def checkpoints(config, out, rank):
    """The checkpoints of a rank as a process of this plan and code sees them."""
    plan = load_plan(config)
    stamp = fingerprint(
        {
            "engine": "dist",
            "sealed": False,
            **make_header(plan.config, plan.fingerprint),
        }
    )
    return Checkpoints(rank_folder(out, rank), stamp)


def torn(config, out, world):
    """Checkpoints with a name that cannot be loaded, or are held and cannot be."""
    for rank in range(world):
        kept = checkpoints(config, out, rank)
        for position in {*kept._named(), *kept.held()}:
            if kept.load(position) is None:
                yield rank, position


def drafts(out, world):
    """Files that were being written."""
    return [path for rank in range(world) for path in rank_folder(out, rank).glob(".*")]


def differences(config, out, folder):
    """Where the files of a job are not, to the bit, those of the simulator, which runs into `folder`."""
    run_plan(load_plan(config), folder, states=True)
    if (out / "log.parquet").read_bytes() != (folder / "log.parquet").read_bytes():
        yield "log"
    with np.load(out / "states.npz") as ours, np.load(folder / "states.npz") as theirs:
        yield from set(ours.files) ^ set(theirs.files)
        yield from (k for k in ours.files if ours[k].tobytes() != theirs[k].tobytes())


def children(pid):
    """Processes that a process started, by rank."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    found = {}
    for child in map(int, listed.stdout.split()):
        with contextlib.suppress(OSError):
            said = re.search(rb"(?:^|\0)RANK=(\d+)", Path(f"/proc/{child}/environ").read_bytes())
            if said:
                found[int(said[1])] = child
    return found
