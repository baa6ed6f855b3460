"""Interrupts that wait for the end of a round, and processes that stop when told to or left alone."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any

_stop: Event | None = None  # in a worker process: set when all shall stop
_parent = 0  # in a worker process: whom it works for


class interrupts_held:  # noqa: N801 — used as a function
    """Holds an interrupt back until asked for, when states are whole; a second one is not held."""

    def __init__(self) -> None:
        self._seen = False

    def asked(self) -> bool:
        """Whether to stop now: an interrupt came, or the process that wanted the work stops or is gone."""
        told = _stop is not None and (_stop.is_set() or os.getppid() != _parent)
        return self._seen or told

    def __enter__(self) -> "interrupts_held":
        self._main = threading.current_thread() is threading.main_thread()  # others get no signals
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
    """(number, call(*task)) of all tasks as they are done.

    A task is handed out when a process is free for it: nothing waits in a queue when all shall stop.
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
                running[pool.submit(call, *task[1])] = task[0]
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _begin(stop: Event, parent: int) -> None:
    global _stop, _parent
    _stop, _parent = stop, parent
