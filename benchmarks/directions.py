"""Several directions on one support in the batched engine.   python benchmarks/directions.py

A round with 8 directions against its queries alone, which is the oracle's answer to the same query: at most
1.15 times. Beside it: as many losses without shifting x, and 8 rounds with one direction each, which ask as
many queries and send 8 times as much. Times are of this process alone, so other work on the machine counts
less.
"""

import itertools
import time
from collections.abc import Callable

from zocosmo.graphs.graph import ring
from zocosmo.methods import Cosmo, EdgeLocal, Method
from zocosmo.oracle import Problem
from zocosmo.problems.network import network
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation

K, Q, N, RUNS = 8, 16, 8, 16
STEP = {"q": Q, "eta": 1e-6, "mu": 1e-3}
MOST, TRIALS = 1.15, 64


def main() -> None:
    problems: dict[str, Callable[[int], Problem]] = {
        "quadratic, d = 1024": lambda seed: quadratic(N, seed, d=1024),
        "Rosenbrock, d = 1024": lambda seed: rosenbrock(N, seed, d=1024),
        "digits by a network of 16 units, batches of 32": lambda seed: network(N, seed),
    }
    for name, make in problems.items():
        print(f"{name}, {RUNS} runs of {N} nodes, q = {Q}, K = {K}")
        for kind in (Cosmo, EdgeLocal):
            for signs in ("independent", "orthogonal"):
                for sides in (1, 2):
                    line(kind, make, signs, sides)


def line(kind: type[Method], make: Callable[[int], Problem], signs: str, sides: int) -> None:
    several = simulation(kind, make, directions=K, signs=signs, sides=sides)
    single = simulation(kind, make)
    query, problem = several.ask(), several.problem
    assert query is not None
    several.drop()

    later = itertools.count(10**6)  # rounds that nobody has drawn noise for

    def evaluate() -> None:
        t = next(later)
        for _ in range(query.evaluations()):
            problem(query.x, t, active=query.active)

    taken = race(
        {
            "round": several.round,
            "queries": lambda: problem.slopes(query, next(later)),
            "losses": evaluate,
            "rounds": lambda: [single.round() for _ in range(K)],
        },
    )
    ratio = taken["round"] / taken["queries"]
    print(
        f"  {kind.kind:10s} {signs:11s} {sides} side{'s' * (sides - 1)}".ljust(36),
        f"round {taken['round'] * 1e6:7.0f} µs   {ratio:.2f} × its queries",
        f"  {taken['round'] / taken['losses']:.2f} × losses alone",
        f"  {taken['round'] / taken['rounds']:.2f} × {K} rounds   aim: ≤ {MOST}"
        + ("" if ratio <= MOST else "   MISSED"),
    )


def race(alternatives: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Mean seconds of each alternative, draws for many rounds included; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(TRIALS):
        for name, call in alternatives.items():
            start = time.process_time()
            call()
            seconds[name].append(time.process_time() - start)
    return {name: sum(taken) / TRIALS for name, taken in seconds.items()}


def simulation(kind: type[Method], make: Callable[[int], Problem], **more: object) -> Simulation:
    method = kind(**STEP, **more)  # type: ignore[arg-type]
    return Simulation([Run(method, ring(N), make(seed), seed) for seed in range(RUNS)])


if __name__ == "__main__":
    main()
