"""Node-rounds per second of three ways to run a decentralised method: 10 nodes on a ring, d = 10, quadratics.

ours          the batched engine: all nodes of all trials at once
by hand       the paper's global-support method as a loop over trials, rounds and nodes   [alg:zo_cosmo]
decent-bench  0.3.0, its own trial runner, in one process and in one for each processor

decent-bench has no zeroth-order method. ATC (adapt, then combine) is its nearest: step locally, send the
result, mix what arrives. A node-round of it is one gradient and d values sent; of ours two queries and q
values. All use float64, the same A_i and b_i, and Metropolis weights. Timed are the rounds: set-up, starting
processes and metrics are not in it; the copy of the network that it takes for each further trial is.

    python benchmarks/peers.py --trials 30 --rounds 1000
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from timing import report

from zocosmo.core import Tape, draw_direction
from zocosmo.graphs import metropolis
from zocosmo.graphs.graph import ring
from zocosmo.methods import Cosmo
from zocosmo.sim.engine import Run, Simulation

N, D, Q, ETA, MU = 10, 10, 1, 0.01, 1e-3
HERE = Path(__file__).parent
ENVIRONMENT = HERE.parent / "build" / "decent-bench-env"
VERSION = "0.3.0"

Seconds = float | None  # None: it cannot run on this machine


def quadratics() -> tuple[np.ndarray, np.ndarray]:
    """F_i(x) = ½ xᵀ A_i x + b_iᵀ x with eigenvalues of A_i between 1 and about 5."""
    generator = np.random.default_rng(0)
    root, b = generator.standard_normal((N, D, D)), generator.standard_normal((N, D))
    return np.eye(D) + root @ root.transpose(0, 2, 1) / D, b


A, B = quadratics()


class Quadratics:
    """The same losses for the engine; trials share them."""

    n, d, x0 = N, D, np.zeros(D)

    def local(self, x: np.ndarray) -> np.ndarray:
        slope = 0.5 * np.matmul(A, x[..., None])[..., 0] + B
        return np.einsum("...d,...d->...", slope, x)

    def __call__(self, x: np.ndarray, t: int, *, active: np.ndarray | None = None) -> np.ndarray:
        return self.local(x)

    @classmethod
    def stack(cls, problems: "list[Quadratics]") -> "Quadratics":
        return problems[0]


def ours(trials: int, rounds: int) -> Seconds:
    """All trials as one batch of the engine."""
    method, graph = Cosmo(q=Q, eta=ETA, mu=MU), ring(N)
    simulation = Simulation([Run(method, graph, Quadratics(), seed) for seed in range(trials)], wire="f64")
    start = time.perf_counter()
    for _ in range(rounds):
        simulation.round()
    return time.perf_counter() - start


def by_hand(trials: int, rounds: int) -> Seconds:
    """What one would write with the paper open: one node at a time, one line for each of the algorithm's."""
    graph = ring(N)
    W, peers = metropolis(graph).matrix(), graph.neighbours
    start = time.perf_counter()
    for seed in range(trials):
        tape, x = Tape(seed), np.zeros((N, D))
        for t in range(rounds):
            direction = draw_direction(tape, t, d=D, q=Q)
            S, u = direction.index, direction.lift(direction.signs.astype(float))
            y = np.empty_like(x)
            for i in range(N):
                slope = (F(i, x[i] + MU * u) - F(i, x[i] - MU * u)) / (2 * MU)
                y[i] = x[i] - ETA * (D / Q) * slope * u
            x = y.copy()
            for i in range(N):
                mixed = W[i, i] * y[i][S]
                for j in peers[i]:
                    mixed += W[i, j] * y[j][S]
                x[i][S] = mixed
    return time.perf_counter() - start


def F(i: int, x: np.ndarray) -> float:
    return 0.5 * x @ A[i] @ x + B[i] @ x


def decent_bench(python: Path, processes: int, trials: int, rounds: int) -> Seconds:
    """What the driver measured in an interpreter of its own, where a short run came first."""
    task = {"A": A.tolist(), "b": B.tolist(), "eta": ETA}
    task |= {"trials": trials, "rounds": rounds, "processes": processes}
    done = subprocess.run(
        [python, HERE / "peers_driver.py"], input=json.dumps(task), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"decent-bench failed: {last_line(done.stderr)}")
    return float(json.loads(last_line(done.stdout))["seconds"])  # progress bars come before it


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


def pythons() -> Iterator[Path]:
    """Every python3.13 on this machine that answers; pyenv puts names on PATH that may not."""
    pyenv = shutil.which("pyenv")
    asked = [subprocess.run([pyenv, "root"], capture_output=True, text=True).stdout.strip()] if pyenv else []
    roots = [Path(root) for root in asked if root] or [Path.home() / ".pyenv"]
    found = [path for root in roots for path in sorted(root.glob("versions/3.13*/bin/python3.13"))]
    for python in [*filter(None, [shutil.which("python3.13")]), *found]:
        if subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            yield Path(python)


def environment() -> Path | None:
    """The interpreter of build/decent-bench-env, which is made where it is not there; or None and a line why.

    It gets the NumPy release that runs here, so that the two sides differ in what is compared. torch is an
    extra that is not asked for.
    """
    python = ENVIRONMENT / "bin" / "python"
    wanted = {"decent-bench": VERSION, "numpy": np.__version__}
    check = f"from importlib.metadata import version as v; assert all(v(k) == w for k, w in {wanted}.items())"
    if python.exists() and subprocess.run([python, "-c", check], capture_output=True).returncode == 0:
        return python
    base = next(pythons(), None)
    if base is None:
        print(f"decent-bench {VERSION} left out: it needs python3.13, found neither on PATH nor with pyenv")
        return None
    pins = [f"{name}=={version}" for name, version in wanted.items()]
    print(f"installing {' '.join(pins)} in build/{ENVIRONMENT.name} …", flush=True)
    for command in (
        [base, "-m", "venv", "--clear", ENVIRONMENT],
        [python, "-m", "pip", "install", "-q", *pins],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"decent-bench {VERSION} left out: {last_line(done.stderr)}")
            return None
    return python


def take_turns(runs: dict[str, Callable[[], Seconds]], turns: int) -> dict[str, list[float]]:
    """Seconds of each, ascending, in turns as in `timing.race`; those that cannot run are left out."""
    taken: dict[str, list[float]] = {}
    for _ in range(turns):
        for name, run in runs.items():
            if (seconds := run()) is not None:
                taken.setdefault(name, []).append(seconds)
    return {name: sorted(seconds) for name, seconds in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=30, help="decent-bench advises 30 or more")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    size = {"trials": options.trials, "rounds": options.rounds}
    runs = {"ours": partial(ours, **size), "by hand": partial(by_hand, **size)}
    if (python := environment()) is not None:
        for processes in sorted({1, os.cpu_count() or 1}):
            name = f"decent-bench, {processes} process{'es' if processes > 1 else ''}"
            runs[name] = partial(decent_bench, python, processes, **size)
    took, count = {}, N * options.trials * options.rounds
    for name, seconds in take_turns(runs, options.turns).items():
        took[name] = median(seconds) / count
        rate, low, high = (count / each for each in (median(seconds), seconds[-1], seconds[0]))
        # A wide range is a busy machine: what needs every processor suffers first.
        print(f"{name:28s} {rate:12,.0f} node-rounds per second ({low:,.0f} to {high:,.0f})")
    first, *others = took
    for name in others:
        report(f"a node-round, {first}: against {name}", took[first], took[name], "≥ 20×")


if __name__ == "__main__":
    main()
