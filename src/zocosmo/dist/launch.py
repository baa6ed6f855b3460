"""Start all processes of a study on this machine, with a store that only this machine can reach."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from zocosmo.dist.lifeline import NAME, lifeline
from zocosmo.errors import MessageError
from zocosmo.files import say

QUIET = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}  # as torchrun sets; no torch warnings
GRACE = 5.0  # seconds in which processes may end by themselves after one has failed

Process = subprocess.Popen[bytes]


class LocalStore:
    """A torch store that listens on 127.0.0.1 only."""

    def __init__(self) -> None:
        import torch.distributed

        c10d: Any = torch.distributed

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        self.port: int = listener.getsockname()[1]
        self._store: Any = c10d.TCPStore(
            "127.0.0.1",
            self.port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=60),
            master_listen_fd=listener.detach(),
        )

    def tell(self, attempt: int, rank: int, why: str) -> None:
        """Report to the processes of an attempt that one of them has ended, unless one did so itself."""
        with suppress(RuntimeError, ValueError):
            self._of(attempt).compare_set("ended", "", json.dumps({"rank": rank, "why": why}))

    def is_refused(self, attempt: int) -> bool:
        """Whether the first process to end did so because it may not run like this."""
        from zocosmo.dist.job import as_report

        with suppress(RuntimeError, ValueError, MessageError):
            store = self._of(attempt)
            return store.check(["ended"]) and as_report(store.get("ended")).get("refused") is True
        return False

    def _of(self, attempt: int) -> Any:
        import torch.distributed

        c10d: Any = torch.distributed
        return c10d.PrefixStore(f"zocosmo/{attempt}", self._store)


class Refused(int):
    """The exit code of processes that may not run like this: the same command would be refused again."""


def launch(
    command: Sequence[str], world: int, *, restarts: int = 0, env: dict[str, str] | None = None
) -> int:
    """Run `command` in `world` processes, up to `restarts` times more if one fails; gives the exit code.

    When a process fails, its peers notice and end too; those still running after a while are killed.
    """
    for attempt in range(restarts + 1):
        store = LocalStore()  # a new one, so that nothing of an earlier attempt is left
        processes: list[Process] = []

        def report(rank: int, why: str, store: LocalStore = store, attempt: int = attempt) -> None:
            say(f"rank {rank} {why}")
            store.tell(attempt, rank, f"it {why}")

        try:
            for rank in range(world):
                processes.append(start(command, rank, world, store.port, attempt, env))  # noqa: PERF401 (known at once)
            code = wait(processes, report)
        except KeyboardInterrupt:
            code = 130
        finally:
            end(processes)
        if code in (0, 130) or attempt == restarts:
            return Refused(code) if code == 2 and store.is_refused(attempt) else code
        say(f"restart {attempt + 1} of {restarts}")
    raise AssertionError


def start(
    command: Sequence[str], rank: int, world: int, port: int, attempt: int, env: dict[str, str] | None = None
) -> Process:
    """Start one process with the environment that torchrun would give it."""
    about = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": world,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": attempt,
        NAME: lifeline()[0],
    }
    ours = {name: str(value) for name, value in about.items()}
    return subprocess.Popen(
        list(command),
        env={**QUIET, **os.environ, **(env or {}), **ours},
        start_new_session=True,
        pass_fds=lifeline()[:1],
    )


def wait(processes: Sequence[Process], report: Callable[[int, str], None] = lambda rank, why: None) -> int:
    """Wait until all have ended: 0, or the first code that is not 0; reports who ended without a word."""
    failed, code, told = None, 0, set[int]()
    while True:
        codes = [process.poll() for process in processes]
        bad = next((each for each in codes if each), None)
        for rank in [k for k, each in enumerate(codes) if each and k not in told]:
            told.add(rank)
            if why := fate(codes[rank] or 0):
                report(rank, why)
        if bad is not None and failed is None:
            failed, code = time.monotonic(), bad
        if all(each is not None for each in codes):
            return code if code >= 0 else 128 - code
        if failed is not None and time.monotonic() - failed > GRACE:
            told |= set(range(len(processes)))
            end(processes)
        time.sleep(0.02)


def fate(code: int) -> str:
    """How a process ended that could not say so itself; empty for one that could."""
    if code < 0:
        return f"was killed by signal {-code} ({signal.strsignal(-code) or 'unknown'})"
    return "" if code in (0, 2, 130) else f"ended with code {code}"


def end(processes: Sequence[Process]) -> None:
    """Terminate all that still run, then kill those that do not end."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + 10
    for process in processes:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
