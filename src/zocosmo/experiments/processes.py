"""Interrupts held until the end of a round, and worker processes that stop with their parent."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any

from zocosmo.errors import WorkerKilled

GRACE = 60.0  # seconds that an orphaned process has for its last snapshot
THREADS = "OPENBLAS_NUM_THREADS"  # read once, when NumPy is loaded

_stop: Event | None = None  # in a worker: set when all workers are to stop
_alone = False  # in a worker: the parent is gone
_busy = False  # in a worker: a task is running


class interrupts_held:  # noqa: N801 — used as a function
    """Holds an interrupt until `asked` is called between rounds; a second interrupt is not held."""

    def __init__(self) -> None:
        self._seen = False

    def asked(self) -> bool:
        """Whether to stop now: an interrupt came, or the parent process stops or is gone."""
        return self._seen or _alone or (_stop is not None and _stop.is_set())

    def __enter__(self) -> "interrupts_held":
        self._main = threading.current_thread() is threading.main_thread()  # only that one gets signals
        if self._main:
            self._before = signal.signal(signal.SIGINT, self._see)
        return self

    def __exit__(self, *_: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _see(self, number: int, frame: object) -> None:
        if self._seen:
            raise KeyboardInterrupt
        self._seen = True


def in_processes(
    call: Callable[..., Any], tasks: Sequence[tuple[Any, ...]], processes: int
) -> Iterator[tuple[int, Any]]:
    """(number, call(*task)) of all tasks as they finish.

    A task is submitted only when a process is free, so that no task is queued when all are to stop.
    """
    context = get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(
        min(processes, len(tasks)), mp_context=context, initializer=_begin, initargs=(stop, os.getpid())
    )
    left, running = iter(enumerate(tasks)), dict[Future[Any], int]()
    try:
        while True:
            while len(running) < processes and (task := next(left, None)) is not None:
                with one_thread_each():  # submitting starts a process if there are too few
                    running[pool.submit(_work, call, task[1])] = task[0]
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    except BrokenProcessPool:
        raise WorkerKilled(
            "a process was killed, perhaps for lack of memory; continue with --resume and fewer --processes"
        ) from None
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes started meanwhile have one thread for matrix products, unless the user set a number.

    Several processes with as many threads as there are cores would wait for each other: products of
    small matrices then take up to twenty times as long.
    """
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[THREADS]


def _begin(stop: Event, parent: int) -> None:
    global _stop
    _stop = stop
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _work(call: Callable[..., Any], task: tuple[Any, ...]) -> Any:
    global _busy
    _busy = True
    try:
        return call(*task)
    finally:
        _busy = False


def _watch(parent: int) -> None:
    """End this process when its parent is gone: it would wait for tasks for ever."""
    global _alone
    while os.getppid() == parent:
        time.sleep(0.2)
    _alone, deadline = True, time.monotonic() + GRACE
    while _busy and time.monotonic() < deadline:
        time.sleep(0.05)
    os._exit(1)
