"""What the defaults of `minimize` are worth: the second generation beside the first.   make bench

A ring of eight, each node with a slope of its own that cancels in the average (as in benchmarks/rigs.py).
Queries of all nodes, and bits that a node sent, until F at the average is within 1 % of the optimum: with
nothing named, and with one direction and 64 bits for a value, as before the second generation. Without noise
and with a thousandth of F(x0) − F* in each answer; with rounds alone, and with a tolerance
"""

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from classics import CLASSICS, Classic, chain, ellipsoid, rosenbrock, sphere
from rigs import TOL, Counted, rigs_of

from zocosmo import minimize

Array = np.ndarray[Any, Any]
NOISE = 1e-3
MODES: dict[str, dict[str, Any]] = {"rounds": {"rounds": 8000}, "tol": {"tol": TOL, "rounds": 6000}}
FIRST = {"wire": "f64", "directions": 1}
WIDE = [
    Classic("Rosenbrock, d = 32", rosenbrock, [-1.2, 1.0] * 16, 0.0),
    Classic("sphere, d = 64", sphere, [0.0] * 64, 0.0),
    Classic("ellipsoid 1e6, d = 64", ellipsoid, [0.0] * 64, 0.0),
    Classic("chain, d = 128", chain, [0.0] * 128, 0.0),
]


def noisy(f: Callable[[Array], float], size: float, rng: np.random.Generator) -> Callable[[Array], float]:
    return lambda x: f(x) + size * float(rng.normal())


def until_near(case: Classic, noise: float, given: dict[str, Any]) -> tuple[int, float] | None:
    """Queries and bits until the average is within 1 %; None if it is not there when the run ends."""
    near, size = Counted(case).near, noise * (case.f(np.array(case.x0)) - case.best)
    found: list[tuple[int, float]] = []
    rng = np.random.default_rng(0)
    losses = [noisy(f, size, rng) if noise else f for f in rigs_of(case)]

    def there(now: Any) -> bool:
        if case.f(now.x) <= near:
            found.append((now.nfev, now.bits))
        return bool(found)

    minimize(losses, case.x0, bounds=case.bounds, callback=there, **given)
    return found[0] if found else None


def cells(found: tuple[int, float] | None) -> list[str]:
    return ["–", "–"] if found is None else [f"{found[0]:,}", f"{found[1]:,.0f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only functions whose name contains this text")
    given = parser.parse_args()
    head = ["function", "noise", "queries, first", "second", "bits, first", "second"]
    for mode, ends in MODES.items():
        print(f"\nwith {mode}\n\n| " + " | ".join(head) + " |\n| --- |" + " ---: |" * (len(head) - 1))
        for case in [*CLASSICS, *WIDE]:
            for noise in (0.0, NOISE) if given.only in case.name else ():
                first, second = (until_near(case, noise, {**ends, **named}) for named in (FIRST, {}))
                (q1, b1), (q2, b2) = cells(first), cells(second)
                print(f"| {case.name} | {'1e-3' if noise else '0'} | {q1} | {q2} | {b1} | {b2} |", flush=True)


if __name__ == "__main__":
    main()
