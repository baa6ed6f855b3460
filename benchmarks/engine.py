"""The batched engine.   make bench

the 1,536-run study of configs/extension.yaml, against its objective evaluations alone: at most 3 times
the same, against a loop over runs, rounds and nodes as one would write it from the paper: at least 100 times
a ring of 64 nodes against one of 4,096, d = 128, q = 16: at most 1.5 times a node-round, memory linear
Rosenbrock in 10^6 dimensions, 16 nodes, q = 1,000: a round at most 2 times its two objective evaluations
"""

import importlib
import resource
import time
import tracemalloc
from pathlib import Path

import numpy as np
from timing import race, report

from zocosmo.experiments.plan import Plan, load_plan
from zocosmo.experiments.run import make_batches
from zocosmo.graphs.graph import ring
from zocosmo.methods import Cosmo
from zocosmo.oracle import objective
from zocosmo.problems.quadratic import Quadratic
from zocosmo.problems.rosenbrock import Rosenbrock, rosenbrock
from zocosmo.sim.engine import Run, Simulation

quadratics = importlib.import_module("zocosmo.problems.quadratic")  # the package has a function of that name
CONFIG = Path(__file__).parents[1] / "configs" / "extension.yaml"


def study() -> None:
    """The engine, then the same number of evaluations at its last states, in turns; both draw their noise."""
    plan = load_plan(CONFIG)
    turns = [turn(plan) for _ in range(3)]
    ours, floor, undrawn = (sorted(column)[1] for column in zip(*turns, strict=True))
    node_rounds = len(plan.trials) * 8 * plan.rounds
    rate = f"{node_rounds / ours:,.0f} node-rounds a second, one process"
    print(f"{'1,536 runs, 1,600 rounds, 8 nodes':62s} {ours:10.2f} s   {rate}")
    report("study against its evaluations alone", ours, floor, "≥ 0.33×", unit=1, name="s")
    report("study against evaluations without drawing noise", ours, undrawn, "beside it", unit=1, name="s")
    each = [by_hand(seed, 60) / (60 * 8) for seed in range(5)]
    report("a node-round against a loop by hand", ours / node_rounds, sorted(each)[2], "≥ 100×")


def turn(plan: Plan) -> tuple[float, float, float]:
    """Seconds of the whole study; of its evaluations; and of these where nothing is drawn."""
    quadratics._drawn.clear()
    simulations, start = [], time.perf_counter()
    for batch in make_batches(plan):
        simulation = Simulation([trial.run() for trial in batch])
        for t in range(plan.rounds + 1):
            if t % plan.log_every == 0:
                simulation.checkpoint()
            if t < plan.rounds:
                simulation.round()
        simulations.append(simulation)
    ours = time.perf_counter() - start
    quadratics._drawn.clear()
    floor = sum(evaluations(s.problem, s.state.x, plan.rounds, plan.log_every) for s in simulations)
    still = [Quadratic(s.problem.half, s.problem.b, 0.0, None) for s in simulations]
    undrawn = sum(
        evaluations(problem, s.state.x, plan.rounds, plan.log_every)
        for problem, s in zip(still, simulations, strict=True)
    )
    return ours, floor, undrawn


def evaluations(problem: Quadratic, x: np.ndarray, rounds: int, log_every: int) -> float:
    """Seconds for two queries a round and, at every checkpoint, the two exact losses that are logged."""
    start = time.perf_counter()
    for t in range(rounds):
        problem(x, t)
        problem(x, t)
        if t % log_every == 0:
            problem.local(x)
            objective(problem, x[:, 0])
    return time.perf_counter() - start


def by_hand(seed: int, rounds: int, n: int = 8, d: int = 32, q: int = 4) -> float:
    """One run of edge-local ZO-COSMO, coupling I, with noise and momentum: line by line."""
    rng = np.random.default_rng(seed)
    H, b = rng.uniform(1, 4, size=(n, d)), rng.normal(size=(n, d))
    x, m = np.full((n, d), d**-0.5), np.zeros((n, d))
    eta, mu, beta = 0.004, 1e-3, 0.9
    start = time.perf_counter()
    for _ in range(rounds):
        order = rng.permutation(n)
        for i, j in order.reshape(-1, 2):
            S, signs = np.sort(rng.choice(d, q, replace=False)), rng.choice([-1.0, 1.0], size=q)
            u, y = np.zeros(d), {}
            u[S] = signs
            for r in (i, j):
                noise = rng.normal(size=d) * 0.5 / np.sqrt(d)

                def f(z, r=r, noise=noise):
                    return 0.5 * np.sum(H[r] * z**2) + b[r] @ z + noise @ z

                g = d / q * (f(x[r] + mu * u) - f(x[r] - mu * u)) / (2 * mu) * signs
                m[r, S] = beta * m[r, S] + (1 - beta) * g
                y[r] = x[r, S] - eta * m[r, S]
            x[i, S] = x[j, S] = (y[i] + y[j]) / 2
    return time.perf_counter() - start


def scaling() -> None:
    """Node-rounds on rings of very different size; memory of the larger, by node."""
    simulations, peak = {}, {}
    for n in (64, 4096):
        tracemalloc.start()
        simulations[n] = Simulation(
            [Run(Cosmo(q=16, eta=4e-4, mu=5e-3), ring(n), rosenbrock(n, 1, d=128), 1)]
        )
        simulations[n].round()
        peak[n] = tracemalloc.get_traced_memory()[1] / n
        tracemalloc.stop()
    took = race({str(n): simulations[n].round for n in simulations}, trials=101)
    report("a node-round: 4,096 nodes against 64", took["4096"] / 4096, took["64"] / 64, "≥ 0.67×")
    print(f"{'peak memory a node, bytes':62s} {peak[4096]:10.0f}     against {peak[64]:10.0f}")


def large() -> None:
    """A million dimensions: all but q of them are only read, by the objective."""
    n, d = 16, 1_000_000
    problem = rosenbrock(n, 1, d=d)
    simulation = Simulation([Run(Cosmo(q=1000, eta=1e-6, mu=5e-3), ring(n), problem, 1)])
    x = simulation.state.x
    twice: Rosenbrock = simulation.problem

    def evaluate() -> None:
        twice(x, 0)
        twice(x, 0)

    took = race({"round": simulation.round, "evaluations": evaluate}, trials=7)
    report(
        "10^6 dimensions: a round against two evaluations",
        took["round"],
        took["evaluations"],
        "≥ 0.5×",
        unit=1e3,
        name="ms",
    )
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory of the process':62s} {used:10.0f} MB")


if __name__ == "__main__":
    study()
    scaling()
    large()
