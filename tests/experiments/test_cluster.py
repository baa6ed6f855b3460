"""Batches on other machines: the bytes of one process, whatever runs them and whoever is lost on the way."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from zocosmo.errors import InputError, WorkerKilled
from zocosmo.experiments import cluster, run
from zocosmo.experiments.cluster import executor_on, in_executor
from zocosmo.experiments.plan import load_plan
from zocosmo.experiments.run import run_plan

STUDY = """\
problem: {kind: quadratic, d: 16, zeta: 1.0, sigma: 0.1}
graphs: [{kind: ring, n: 4}, {kind: complete, n: 6}]
methods:
  - {kind: cosmo, q: [2, 4], eta: 0.002, mu: 1.0e-3}
  - {kind: edge_local, q: 4, eta: 0.002, mu: 1.0e-3}
seeds: [1, 2, 3]
rounds: ROUNDS
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(STUDY.replace("ROUNDS", "20"))
    return load_plan(Path("s.yaml"))


class Serial(Executor):
    """Runs each task at once; from the k-th on it raises, as an executor whose workers are gone does."""

    def __init__(self, lose_from=10**9, error=BrokenExecutor):
        self.given, self.lose_from, self.error = [], lose_from, error

    def submit(self, call, /, *arguments):
        self.given.append(arguments)
        future = Future()
        if len(self.given) > self.lose_from:
            future.set_exception(self.error("gone"))
        else:
            try:
                future.set_result(call(*arguments))
            except Exception as error:
                future.set_exception(error)
        return future


def files(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()}


@pytest.mark.parametrize("states", [False, True])
def test_any_executor_gives_the_bytes_of_one_process(plan, states):
    run_plan(plan, Path("a"), states=states)
    told = []
    with ThreadPoolExecutor(3) as threads:
        run_plan(plan, Path("b"), states=states, executor=threads, tick=told.append)
    assert files("a") == files("b")
    assert len(told) == len(list(run.make_batches(plan))) > 2
    assert sum(each.rounds for each in told) == plan.node_rounds
    in_memory = run_plan(plan, executor=Serial())
    assert in_memory.rows.equals(run_plan(plan).rows)


@pytest.mark.parametrize("error", [BrokenExecutor, CancelledError])
def test_a_lost_worker_costs_its_batch_only(plan, error):
    run_plan(plan, Path("a"))
    count = len(list(run.make_batches(plan)))
    with pytest.raises(WorkerKilled, match="a worker was lost; continue with --resume"):
        run_plan(plan, Path("b"), executor=Serial(2, error))
    again = Serial()
    run_plan(plan, Path("b"), executor=again, resume=True)
    assert len(again.given) == count - 2  # what was done is not run again
    assert files("a") == files("b")


def test_one_process_goes_on_from_what_workers_did_and_the_other_way_round(plan, monkeypatch):
    run_plan(plan, Path("a"))
    with pytest.raises(WorkerKilled):
        run_plan(plan, Path("b"), executor=Serial(1))
    run_plan(plan, Path("b"), resume=True)
    real, calls = run.run_batch, itertools.count()
    with monkeypatch.context() as patch:
        patch.setattr(run, "run_batch", lambda *a, **k: _fail_after(2, calls, real, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            run_plan(plan, Path("c"))
    run_plan(plan, Path("c"), executor=Serial(), resume=True)
    assert files("a") == files("b") == files("c")


def _fail_after(most, calls, call, *arguments, **options):
    if next(calls) == most:
        raise KeyboardInterrupt
    return call(*arguments, **options)


def test_a_worker_with_other_code_or_libraries_is_refused(plan, monkeypatch):
    ours = cluster.make_header({}, "")
    versions = {**ours["versions"], "numpy": "1.0"}
    for theirs, said in (
        ({**ours, "source": "other"}, "has another version of the code; install the same one there"),
        ({**ours, "versions": versions}, r"has numpy 1\.0, not [0-9.]+; install the same there"),
    ):
        headers = itertools.chain([ours], itertools.repeat(theirs))  # the sender's, then those of workers
        monkeypatch.setattr(cluster, "make_header", lambda *given, headers=headers: next(headers))
        with pytest.raises(InputError, match=said):
            run_plan(plan, executor=Serial())


def test_own_modules_are_found_in_the_folder_that_the_study_was_sent_from(tmp_path, monkeypatch):
    (tmp_path / "sent_along.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    from sent_along import double

    parcels = Serial()
    assert list(in_executor(double, [(0, (21,))], parcels, {})) == [(0, 42)]
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    monkeypatch.delitem(sys.modules, "sent_along")
    assert cluster.unpack_and_run(*parcels.given[0]) == 42


def test_watching_takes_one_process(plan):
    with pytest.raises(InputError, match="only one process can be watched, got an executor"):
        run_plan(plan, executor=Serial(), watch=lambda sim, now: None)


@pytest.mark.parametrize(
    "on", ["dask", "dask://", "dask://here", "dask://here:port", "tcp://here:1", "MPI", "dask://h:99999"]
)
def test_a_place_is_a_scheduler_or_mpi(on):
    with pytest.raises(InputError, match="--on takes dask://HOST:PORT or mpi, got"), executor_on(on):
        pass


def test_bad_places_are_one_line_and_exit_code_2(plan, call_main, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, out, err = call_main("run", "s.yaml", "--on", f"dask://127.0.0.1:{port}")
    remedy = f"start one with: dask scheduler --port {port}"
    assert (code, out, err) == (
        2,
        "",
        f"zocosmo: no Dask scheduler answers at 127.0.0.1:{port}; {remedy}\n",
    )
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    for on, module in (("dask://127.0.0.1:1", "distributed"), ("mpi", "mpi4py")):
        found = call_main("compare", "s.yaml", "--on", on)
        name = on.partition(":")[0]
        assert found == (2, "", f'zocosmo: --on {name} needs {module}; run: pip install "zocosmo[cluster]"\n')
    assert "leave it out with --on" in call_main("run", "s.yaml", "--on", "mpi", "--processes", "2")[2]
    assert not Path("runs").exists()


# Real clusters


def command(*words):
    return [sys.executable, "-m", *words]


def wait_until(true, seconds=120):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def large(plan):
    """A study of some seconds, and its log from one process."""
    Path("s.yaml").write_text(STUDY.replace("ROUNDS", "4000"))
    subprocess.run(command("zocosmo", "run", "s.yaml", "--out", "a", "--states"), check=True)
    return files("a")


@pytest.fixture
def dask(plan):
    """The address of a scheduler with two workers, and their processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    local, quiet = ["--host", "127.0.0.1"], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    line = command("distributed.cli.dask_scheduler", *local, "--port", str(port), "--no-dashboard")
    line_of_worker = command("distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1")
    started = [subprocess.Popen(line, **quiet)]
    wait_until(lambda: _answers(port))
    more = ["--no-nanny", "--no-dashboard", *local]
    lines = [[*line_of_worker, *more, "--local-directory", name] for name in ("one", "two")]
    started += [subprocess.Popen(each, **quiet) for each in lines]
    yield f"dask://127.0.0.1:{port}", started[1:]
    for process in reversed(started):
        process.kill()
        process.wait()


def _answers(port):
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def parts(folder):
    return len(list(Path(folder).glob("parts/*.done.npz")))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("distributed") is None, reason="Dask is not installed")
def test_two_dask_workers_and_one_of_them_killed(large, dask):
    address, workers = dask
    line = command("zocosmo", "run", "s.yaml", "--states", "--on", address, "--out")
    subprocess.run([*line, "b"], check=True)
    assert files("b") == large
    job = subprocess.Popen([*line, "c"])
    wait_until(lambda: parts("c") >= 1)
    workers[0].send_signal(signal.SIGKILL)
    assert job.wait(300) == 0
    assert files("c") == large


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="there is no MPI")
def test_two_mpi_ranks_and_one_of_them_killed(large):
    line = ["mpiexec", "-n", "2", *command("zocosmo", "run", "s.yaml", "--states", "--on", "mpi", "--out")]
    subprocess.run([*line, "b"], check=True)
    assert files("b") == large
    job = subprocess.Popen([*line, "c"])
    wait_until(lambda: parts("c") >= 1)
    os.kill(_ranks(job.pid)[-1], signal.SIGKILL)
    assert job.wait(300) != 0  # mpiexec ends all ranks when one is lost
    assert parts("c") >= 1
    subprocess.run([*line, "c", "--resume"], check=True)
    assert files("c") == large


def _ranks(pid):
    """Processes below mpiexec that run zocosmo, in the order of their numbers."""
    found, below = [], [pid]
    while below:
        children = Path(f"/proc/{below.pop()}/task").glob("*/children")
        for child in (int(word) for path in children for word in path.read_text().split()):
            below.append(child)
            if b"zocosmo" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
                found.append(child)
    return sorted(found)
