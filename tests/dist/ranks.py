"""Processes of the runtime, started for tests: many cases in one start, since starting is what takes long."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from zocosmo.dist.launch import LocalStore, start

DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 150.0  # for all cases of a start; whoever still runs then is killed
INTO_FILES = 'exec "$@" >"$0/out.$RANK" 2>"$0/err.$RANK"'  # `start` gives children our own output


class Ended(NamedTuple):
    """How one process ended; `code` is None where it had to be killed."""

    rank: int
    code: int | None
    out: str
    err: str
    after: float  # seconds since the start

    @property
    def is_one_line(self) -> bool:
        """A mistake as users see it: one line that names the rank, and no traceback."""
        return self.err.count("\n") == 1 and self.err.startswith(f"zocosmo: rank {self.rank}: ")


def run_cases(folder: Path, world: int, cases: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """What the driver says of each case, by name, in order of rank; every process must end by itself."""
    listed = folder / "cases.json"
    listed.write_text(json.dumps(cases), encoding="utf-8")
    for each in run_commands(folder, [[str(DRIVER), str(listed)]] * world):
        assert each.code == 0, f"rank {each.rank} ended with {each.code}: {each.err}"
    said = [json.loads((folder / f"said.{rank}").read_text(encoding="utf-8")) for rank in range(world)]
    return {case["name"]: [one[case["name"]] for one in said] for case in cases}


def run_commands(folder: Path, commands: list[list[str]], seconds: float = SECONDS) -> list[Ended]:
    """Python with these arguments, one process for each, as `zocosmo launch` would start them."""
    folder.mkdir(parents=True, exist_ok=True)
    store, began = LocalStore(), time.monotonic()
    shell = ["/bin/sh", "-c", INTO_FILES, str(folder), sys.executable]
    processes = [
        start([*shell, *command], rank, len(commands), store.port, 0) for rank, command in enumerate(commands)
    ]
    try:
        ended = wait(processes, began, seconds)
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # each leads a group of its own
            process.wait()
    texts = [[(folder / f"{kind}.{k}").read_text() for kind in ("out", "err")] for k in range(len(commands))]
    return [Ended(k, code, *texts[k], after) for k, (code, after) in enumerate(ended)]


def wait(
    processes: list["subprocess.Popen[bytes]"], began: float, seconds: float
) -> list[tuple[int | None, float]]:
    """Code and time of each, when all have ended or time is up."""
    after = [seconds] * len(processes)
    running = set(range(len(processes)))
    while running and time.monotonic() - began < seconds:
        for k in [k for k in running if processes[k].poll() is not None]:
            after[k] = time.monotonic() - began
            running.discard(k)
        time.sleep(0.02)
    return [(process.poll(), when) for process, when in zip(processes, after, strict=True)]
