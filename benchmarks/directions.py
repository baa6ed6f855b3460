"""Several directions on one support in the batched engine.   python benchmarks/directions.py

A round with 8 directions against its queries alone, which is the oracle's answer to the same query: at most
1.15 times. Beside it: what 7 more directions add to a round against what they add to its queries; as many
losses without shifting x; and 8 rounds with one direction each, which send 8 times as much. Times are CPU
seconds of this process, so that others on the machine count less. They take turns, some 20 ms each: 16 rounds
in a row with the draws for all of them, so that caches are as warm as in a run, then their queries, and so
on. Each turn gives one ratio; printed are the median and, in brackets, the least and the most. Give names of
problems to run only those.

A batch is what `zocosmo compare` makes of the pilots of a method that has 24 step sizes and two pilot seeds,
as in configs/field.yaml: all 48 runs, or as many as fit in a core's cache. Runs of one seed share what the
tape draws. Beside it is the batch that has the most to draw: 16 runs, each with a seed of its own. There a
pair reads two or three SHAKE streams a round, whatever the loss costs, and no aim is set. Losses whose noise
takes long to draw are not here: batches share what one of them has drawn, and the next one would seem quick.
"""

import itertools
import statistics
import sys
import time
from collections.abc import Callable

from zocosmo.experiments.run import BATCH_VALUES
from zocosmo.graphs.graph import ring
from zocosmo.methods import Cosmo, EdgeLocal, Method
from zocosmo.oracle import Problem
from zocosmo.problems.network import network
from zocosmo.problems.quadratic import quadratic
from zocosmo.problems.rosenbrock import rosenbrock
from zocosmo.sim.engine import Run, Simulation

K, Q, N = 8, 16, 8
STEP = {"q": Q, "mu": 1e-3}
PILOTS, SETTINGS = 2, 24  # of a comparison
SEEDS = 16  # of a batch in which no two runs share one
MOST, REPEATS = 1.15, 9
ROUNDS = 16  # of a repeat: as many as are drawn at once


def main() -> None:
    problems: dict[str, Callable[[int], Problem]] = {
        "quadratic, d = 1024": lambda seed: quadratic(N, seed, d=1024),
        "Rosenbrock, d = 1024": lambda seed: rosenbrock(N, seed, d=1024),
        "Rosenbrock, d = 128": lambda seed: rosenbrock(N, seed, d=128, shift=0.3),
        "digits by a network of 16 units, batches of 32": lambda seed: network(N, seed),
    }
    wanted = sys.argv[1:] or list(problems)
    for name, make in problems.items():
        if not any(name.startswith(each) for each in wanted):
            continue
        settings = min(SETTINGS, BATCH_VALUES // (N * make(0).size) // PILOTS)
        for seeds, steps in ((PILOTS, settings), (SEEDS, 1)):
            print(f"{name}, seeds × step sizes: {seeds} × {steps}, {N} nodes, q = {Q}, K = {K}")
            for kind, signs, sides in itertools.product(
                (Cosmo, EdgeLocal), ("independent", "orthogonal"), (1, 2)
            ):
                several = simulation(kind, make, (seeds, steps), directions=K, signs=signs, sides=sides)
                single = simulation(kind, make, (seeds, steps), sides=sides)
                aim = MOST if steps > 1 else None
                line(several, single, f"{kind.kind:10s} {signs:11s} {sides} side{'s' * (sides - 1)}", aim)


def line(several: Simulation, single: Simulation, name: str, aim: float | None) -> None:
    query, fewer, problem = several.ask(), single.ask(), several.problem
    assert query is not None
    assert fewer is not None
    several.drop()
    single.drop()

    later = itertools.count(10**6)  # rounds that nobody has drawn noise for

    def evaluate() -> None:
        t = next(later)
        for _ in range(query.evaluations()):
            problem(query.x, t, active=query.active)

    taken = race(
        {
            "round": several.round,
            "queries": lambda: problem.slopes(query, next(later)),
            "one round": single.round,
            "one query": lambda: problem.slopes(fewer, next(later)),
            "losses": evaluate,
            "rounds": lambda: [single.round() for _ in range(K)],
        },
    )
    found, low, high = ratio(taken, "queries")
    print(
        f"  {name}".ljust(36),
        f"round {statistics.median(taken['round']) * 1e6:7.0f} µs   ",
        f"{found:.2f} [{low:.2f}, {high:.2f}] × its queries",
        f"  {added(taken):.2f} × added",
        f"  {ratio(taken, 'losses')[0]:.2f} × losses alone",
        f"  {ratio(taken, 'rounds')[0]:.2f} × {K} rounds",
        f"  aim: ≤ {aim}{'' if found <= aim else '   MISSED'}" if aim else "",
        flush=True,
    )


def race(alternatives: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """CPU seconds of a call of each alternative, a mean over each repeat; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in alternatives}
    for repeat in range(-1, REPEATS):
        for name, call in alternatives.items():
            start = time.process_time()
            for _ in range(ROUNDS):
                call()
            if repeat >= 0:  # the first one warms up
                seconds[name].append((time.process_time() - start) / ROUNDS)
    return seconds


def ratio(taken: dict[str, list[float]], to: str) -> tuple[float, float, float]:
    """Median, least and most of the repeats' ratios of a round to an alternative."""
    ratios = [one / other for one, other in zip(taken["round"], taken[to], strict=True)]
    return statistics.median(ratios), min(ratios), max(ratios)


def added(taken: dict[str, list[float]]) -> float:
    """What more directions add to a round, over what they add to its queries; from medians."""
    whole, queries, one, asked = (
        statistics.median(taken[name]) for name in ("round", "queries", "one round", "one query")
    )
    return (whole - one) / (queries - asked)


def simulation(
    kind: type[Method], make: Callable[[int], Problem], sizes: tuple[int, int], **more: object
) -> Simulation:
    seeds, steps = sizes
    runs = [
        Run(kind(eta=1e-6 * (1 + k), **STEP, **more), ring(N), make(seed), seed)  # type: ignore[arg-type]
        for seed in range(seeds)
        for k in range(steps)
    ]
    return Simulation(runs)


if __name__ == "__main__":
    main()
