"""Batches of a study on other machines: through Dask, through MPI, or through any executor.

A batch travels as bytes. The worker checks that it has the sender's code and libraries, runs the batch in
memory and returns its rows, which the sender stores as a part of the study. A lost worker costs the batches
that were running on it; Dask runs those elsewhere, and otherwise a resumed study does.
"""

import logging
import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from zocosmo.errors import InputError, WorkerKilled
from zocosmo.extras import missing
from zocosmo.log import make_header

REACH = 5.0  # seconds to reach a scheduler, and again for its answer
LOST = "a worker was lost; continue with --resume"

Say = Callable[[str], None]

_one = threading.Lock()  # a worker may have several threads, and batches share caches


class Parcel(NamedTuple):
    """A task on its way to a worker."""

    content: bytes  # the call and its arguments
    folder: str  # where it was sent from: users' own modules are there
    header: dict[str, Any]  # code and libraries of the sender


def unpack_and_run(parcel: Parcel) -> Any:
    """On a worker: check code and libraries, then run the task. One at a time in a process."""
    with _one:
        _check_same(parcel)
        if parcel.folder not in sys.path and Path(parcel.folder).is_dir():
            sys.path.insert(0, parcel.folder)
        call, arguments = pickle.loads(parcel.content)
        return call(*arguments)


def _check_same(parcel: Parcel) -> None:
    """Other code or libraries could give other bytes."""
    asked, ours = parcel.header, make_header(parcel.header["config"], "")
    machine = f"the worker on {socket.gethostname()}"
    if ours["source"] != asked["source"]:
        raise InputError(f"{machine} has another version of the code; install the same one there")
    for name, number in asked["versions"].items():
        if (found := ours["versions"].get(name, "none")) != number:
            raise InputError(f"{machine} has {name} {found}, not {number}; install the same there")


def in_executor(
    call: Callable[..., Any],
    tasks: Sequence[tuple[int, tuple[Any, ...]]],
    executor: Executor,
    config: Mapping[str, Any],
) -> Iterator[tuple[int, Any]]:
    """(number, call(*arguments)) of all tasks as they finish; what has not begun at the end is cancelled.

    `config` is the study's: it says which libraries must be the same on a worker.
    """
    here, header = str(Path.cwd()), make_header({"problem": config.get("problem", {})}, "")
    futures = {
        executor.submit(unpack_and_run, Parcel(pickle.dumps((call, arguments)), here, header)): number
        for number, arguments in tasks
    }
    failed: Future[Any] | None = None
    try:
        for future in as_completed(futures):
            if future.cancelled() or future.exception() is not None:
                failed = future
                break
            yield futures.pop(future), future.result()
    finally:
        for future in futures:
            future.cancel()
    if failed is not None:  # keep what others have finished meanwhile
        for future, number in futures.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield number, future.result()
        _result(failed)


def _result(future: Future[Any]) -> Any:
    try:
        return future.result()
    except (BrokenExecutor, CancelledError):
        raise WorkerKilled(LOST) from None
    except ModuleNotFoundError as error:
        raise InputError(f"a worker has no module {error.name!r}; install it on every machine") from None
    except Exception as error:
        if type(error).__name__ == "KilledWorker":  # Dask's, after several workers were lost with this batch
            raise WorkerKilled(f"{LOST}, and give workers more memory if this repeats") from None
        raise


@contextmanager
def executor_on(on: str, say: Say = lambda text: None) -> Iterator[Executor | None]:
    """The executor that `on` names, dask://HOST:PORT or mpi; None in an MPI rank that served as a worker."""
    if on == "mpi":
        with _mpi() as executor:
            yield executor
        return
    with _dask(_address(on), say) as executor:
        yield executor


def _address(on: str) -> tuple[str, int]:
    parts = urlsplit(on)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme != "dask" or host is None or port is None:
        raise InputError(f"--on takes dask://HOST:PORT or mpi, got {on!r}")
    return host, port


@contextmanager
def _dask(address: tuple[str, int], say: Say) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise missing("--on dask", str(error.name), "cluster") from None
    host, port = address
    where = f"{host}:{port}"
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost workers are its daily business
    try:
        socket.create_connection(address, REACH).close()
        client = Client(f"tcp://{where}", timeout=REACH, set_as_default=False)
    except OSError:
        remedy = f"start one with: dask scheduler --port {port}"
        raise InputError(f"no Dask scheduler answers at {where}; {remedy}") from None
    try:
        if not client.scheduler_info()["workers"]:
            say(f"the scheduler at {where} has no workers yet; start some with: dask worker tcp://{where}")
        yield client.get_executor(pure=False)
    finally:
        client.close()


@contextmanager
def _mpi() -> Iterator[Executor | None]:
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except ModuleNotFoundError as error:
        raise missing("--on mpi", str(error.name), "cluster") from None
    except (ImportError, RuntimeError):  # of mpi4py without a library to load
        raise InputError(
            "mpi4py finds no MPI library; install Open MPI or MPICH, or: pip install mpich"
        ) from None
    if MPI.COMM_WORLD.Get_size() < 2:
        raise InputError("--on mpi needs 2 ranks or more; start it with: mpiexec -n 3 zocosmo … --on mpi")
    ranks: Any = MPICommExecutor(MPI.COMM_WORLD, root=0)
    with ranks as executor:
        yield executor
