"""No query outside its bounds, ever: random boxes, starts and functions, through every way in.   make bench

10,000 runs of `minimize` (with a tolerance, with suggestions, with given steps, in a subspace), `Optimizer`
(ask and tell, one by one) and `suggest`; every 100th asks a program through `Command`, as `zocosmo minimize
--command` does
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zocosmo import Optimizer, minimize, suggest
from zocosmo.blackbox.commands import Command
from zocosmo.errors import InputError, OracleError

Array = np.ndarray[Any, Any]
RUNS, EVERY = 10_000, 100
RIG = "import sys; x = [float(v) for v in sys.argv[1].split(',')]; print(sum((v - 1) ** 2 for v in x))"


class Case(NamedTuple):
    lo: Array
    hi: Array
    x0: Array
    f: Callable[[Array], float]
    n: int

    @property
    def pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.lo.tolist(), self.hi.tolist(), strict=True))


def draw_case(rng: np.random.Generator) -> Case:
    """A box with sides from 1e-6 to 1e6, some open, some closed to a point; a start inside or on a side."""
    d, n = int(rng.integers(1, 7)), int(rng.integers(1, 4))
    lo = rng.normal(size=d) * 10.0 ** rng.integers(-3, 4, d)
    hi = lo + 10.0 ** rng.uniform(-6, 6, d)
    share = rng.choice([0.0, 1.0, 0.5, rng.random()], d)
    x0 = np.clip(lo + share * (hi - lo), lo, hi)
    kind = rng.random(d)
    hi = np.where(kind < 0.05, lo, hi)
    x0 = np.where(kind < 0.05, lo, x0)
    lo, hi = np.where(kind > 0.9, -np.inf, lo), np.where((kind > 0.8) & (kind < 0.95), np.inf, hi)
    return Case(lo, hi, x0, draw_function(rng, x0, hi - lo), n)


def draw_function(rng: np.random.Generator, x0: Array, width: Array) -> Callable[[Array], float]:
    unit = np.where(np.isfinite(width) & (width > 0), width, 1.0)
    best, weight = x0 + unit * rng.normal(size=x0.size) * 2, 10.0 ** rng.uniform(-2, 2, x0.size)
    kind, noise = int(rng.integers(5)), float(rng.choice([0.0, 0.0, 0.1]))
    shapes: list[Callable[[Array], float]] = [
        lambda z: float(weight @ z**2),
        lambda z: float(weight @ z),
        lambda z: float(weight @ np.abs(z)),
        lambda z: 1.0,
        lambda z: float(np.sum(100 * (z[1:] - z[:-1] ** 2) ** 2) + np.sum((1 - z) ** 2)),
    ]
    return lambda x: shapes[kind]((x - best) / unit) + noise * float(rng.normal())


class Watch:
    """A function that notes queries outside the box."""

    def __init__(self, case: Case) -> None:
        self.case, self.asked, self.outside = case, 0, 0

    def __call__(self, x: Array) -> float:
        self.asked += 1
        self.outside += not bool(((x >= self.case.lo) & (x <= self.case.hi)).all())
        return self.case.f(x)


def by_rounds(case: Case, f: Watch, seed: int) -> None:
    minimize(f, case.x0, n=case.n, rounds=20, bounds=case.pairs, seed=seed)


def by_tolerance(case: Case, f: Watch, seed: int) -> None:
    minimize(f, case.x0, n=case.n, tol=1e-3, rounds=60, bounds=case.pairs, seed=seed)


def by_hand(case: Case, f: Watch, seed: int) -> None:
    width = np.where(case.hi > case.lo, case.hi - case.lo, np.inf).min()
    step = {"eta": 10.0 ** (seed % 7 - 3), "mu": min(1.0, float(width)) / (2 + seed % 3)}
    method = "cosmo" if case.n < 2 or seed % 2 else "edge_local"
    minimize(f, case.x0, n=case.n, rounds=20, bounds=case.pairs, seed=seed, method=method, q=1, **step)


def in_a_subspace(case: Case, f: Watch, seed: int) -> None:
    minimize(f, case.x0, n=case.n, rounds=10, bounds=case.pairs, subspace=1, q=1, eta=0.5, mu=1e-7, seed=seed)


def by_asking(case: Case, f: Watch, seed: int) -> None:
    width = float(np.where(case.hi > case.lo, case.hi - case.lo, np.inf).min())
    about = {"eta": 0.3, "mu": min(1.0, width) / 4, "bounds": case.pairs, "seed": seed}
    run = Optimizer(case.x0, n=case.n, method="cosmo", **about)
    while run.t < 5:
        run.tell([[f(x) for x in side] for side in run.ask().points])
    while run.t < 10:
        for question in reversed(run.questions()):
            run.tell(f(question.point), question)
    f(run.mean)


def by_suggesting(case: Case, f: Watch, seed: int) -> None:
    suggest(f, case.x0, n=case.n, bounds=case.pairs, seed=seed)


WAYS = [by_rounds, by_tolerance, by_hand, in_a_subspace, by_asking, by_suggesting]


def by_program(case: Case, seed: int) -> tuple[int, int]:
    """A real program for each query; what it was given is on its command line, which `Command` hands on
    exactly."""

    class Noting(Command):
        asked = outside = 0

        def _one(self, x: Array, query: Any) -> float:
            type(self).asked += 1
            type(self).outside += not bool(((x >= case.lo) & (x <= case.hi)).all())
            return super()._one(x, query)

    with tempfile.TemporaryDirectory() as folder:
        rig = Path(folder) / "rig.py"
        rig.write_text(RIG)
        oracle = Noting(f"{sys.executable} -S {rig} {{x}}", 1)
        minimize(oracle, case.x0, rounds=2, tol=1e-3, bounds=case.pairs, seed=seed, journal=folder)
    return Noting.asked, Noting.outside


def run_case(seed: int, programs: bool) -> tuple[str, int, int]:
    """The way in, queries, and those outside."""
    rng = np.random.default_rng(seed)
    case, way = draw_case(rng), WAYS[seed % len(WAYS)]
    if programs and seed % EVERY == 0:
        return "by_program", *by_program(case, seed)
    f = Watch(case)
    try:
        with np.errstate(all="ignore"):
            way(case, f, seed)
    except (InputError, OracleError) as error:
        return f"refused: {str(error)[:40]}", f.asked, f.outside
    return way.__name__, f.asked, f.outside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs, count, asked, outside = parser.parse_args().runs, Counter[str](), 0, 0
    for seed in range(runs):
        name, queries, out = run_case(seed, programs=True)
        count[name] += 1
        asked, outside = asked + queries, outside + out
    print(f"{runs:,} boxes, {asked:,} queries, {outside} outside their bounds")
    for name, found in count.most_common():
        print(f"  {found:6,} {name}")
    assert outside == 0


if __name__ == "__main__":
    main()
