"""Queries that `minimize` needs on classic functions with its defaults, beside other optimisers.   make bench

One node: queries until the first one within 1 % of the optimum (F − F* ≤ 1 % of F(x0) − F*), beside
Nelder–Mead, Powell and COBYQA of SciPy and CMA-ES of `cmaes`, all with their defaults; then where `minimize`
stopped by itself, and what it said. Eight nodes on a ring, each with a slope of its own that cancels in the
average: queries of all nodes until the average is there, beside the same optimisers run in one place on the
mean, where a value of F costs eight queries
"""

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from classics import CLASSICS, Classic

from zocosmo import minimize

Array = np.ndarray[Any, Any]
TOL, NEAR, MOST, NODES, SEEDS = 1e-4, 0.01, 20_000, 8, (0, 1, 2)


class Reached(Exception):
    """A query was near enough."""


class Counted:
    """A function that counts, and stops an optimiser that is there or asks too often."""

    def __init__(self, case: Classic, stops: bool = True) -> None:
        self.case, self.stops, self.asked, self.first = case, stops, 0, None
        start = case.f(np.array(case.x0))
        self.near = case.best + NEAR * (start - case.best)

    def __call__(self, x: Array) -> float:
        self.asked += 1
        value = self.case.f(np.asarray(x))
        if self.first is None and value <= self.near:
            self.first = self.asked
        if self.stops and (self.first is not None or self.asked >= MOST):
            raise Reached
        return value


def scipy_by(name: str) -> Callable[[Counted], None]:
    def run(f: Counted) -> None:
        from scipy import optimize

        d, pair = len(f.case.x0), f.case.bounds
        options: dict[str, Any] = {"maxfev": MOST} | ({} if name == "COBYQA" else {"maxiter": MOST})
        bounds = None if pair is None else [pair] * d
        optimize.minimize(f, np.array(f.case.x0), method=name, bounds=bounds, options=options)

    return run


def cma(f: Counted, seed: int) -> None:
    """Started with a deviation of a quarter of max |x0|, or of 1 at the origin: what `suggest` probes."""
    from cmaes import CMA

    x0, pair = np.array(f.case.x0), f.case.bounds
    box = None if pair is None else np.array([pair] * x0.size)
    sigma = 0.25 * (float(np.abs(x0).max()) or 1.0)
    search = CMA(mean=x0, sigma=sigma, bounds=box, seed=seed)
    while True:
        points = [search.ask() for _ in range(search.population_size)]
        search.tell([(x, f(x)) for x in points])
        if search.should_stop():
            return


def until_near(run: Callable[[Counted], None], case: Classic) -> int | None:
    f = Counted(case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(f)
    except Reached:
        pass
    return f.first


def alone(case: Classic) -> dict[str, Any]:
    """One node: `minimize` with a tolerance and nothing else, and the others."""
    f = Counted(case, stops=False)
    result = minimize(f, case.x0, tol=TOL, bounds=case.bounds)
    start = case.f(np.array(case.x0))
    others = {name: until_near(scipy_by(name), case) for name in ("Nelder-Mead", "Powell", "COBYQA")}
    found = [until_near(lambda g, seed=seed: cma(g, seed), case) for seed in SEEDS]  # type: ignore[misc]
    others["CMA-ES"] = None if None in found else int(np.median(found))  # type: ignore[arg-type]
    left = (result.fun - case.best) / (start - case.best)
    ours = {"minimize": f.first, "stopped": result.nfev, "left": left, "success": bool(result.success)}
    return {"function": case.name, **ours, **others, "message": result.message}


def rigs_of(case: Classic) -> list[Callable[[Array], float]]:
    """f_i = f + c_i · (x − x0), with Σ c_i = 0: sides of a Hadamard matrix, a tenth of the gain per unit of
    x."""
    x0 = np.array(case.x0)
    unit = np.where(x0 == 0, 1.0, np.abs(x0))
    gain = case.f(x0) - case.best
    signs = np.array(
        [[(-1) ** bin(i & (1 + j % (NODES - 1))).count("1") for j in range(x0.size)] for i in range(NODES)]
    )
    slopes = 0.1 * gain * signs / unit / x0.size
    return [lambda x, c=c: case.f(x) + float(c @ (x - x0)) for c in slopes]


def together(case: Classic, one: dict[str, Any]) -> dict[str, Any]:
    """Eight nodes on a ring; the average is measured after every round, and that is not counted."""
    near, start = Counted(case).near, case.f(np.array(case.x0))
    found: list[tuple[int, float]] = []

    def look(now: Any) -> None:
        if not found and case.f(now.x) <= near:
            found.append((now.nfev, now.bits))

    result = minimize(rigs_of(case), case.x0, tol=TOL, bounds=case.bounds, rounds=6000, callback=look)
    there, bits = found[0] if found else (None, None)
    left = (result.fun - case.best) / (start - case.best)
    ours = {
        "minimize": there,
        "bits": bits,
        "stopped": result.nfev,
        "left": left,
        "success": bool(result.success),
    }
    names = ("Nelder-Mead", "Powell", "COBYQA", "CMA-ES")
    others = {name: None if one[name] is None else NODES * one[name] for name in names}
    return {"function": case.name, **ours, **others, "message": result.message}


def table(rows: list[dict[str, Any]], *more: str) -> str:
    names = [
        "function",
        "minimize",
        "Nelder-Mead",
        "Powell",
        "COBYQA",
        "CMA-ES",
        *more,
        "stopped",
        "left",
        "success",
    ]
    lines = ["| " + " | ".join(names) + " |", "| --- |" + " ---: |" * (len(names) - 1)]
    for row in rows:
        shown = {**row, "left": f"{row['left']:.1e}", "success": "yes" if row["success"] else "no"}
        lines.append("| " + " | ".join("–" if shown[k] is None else _cell(shown[k]) for k in names) + " |")
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:,.0f}"


def judged(case: Classic, tol: float, k: int) -> tuple[bool, bool]:
    """From another start, with another seed: whether it was called a success, and whether it is within 1
    %."""
    rng, x0 = np.random.default_rng(k), np.array(case.x0)
    near = 0.0 if case.bounds else 0.3 * np.abs(x0).min()
    x0 = x0 * rng.uniform(0.5, 1.5, x0.shape) + near * rng.normal(size=x0.shape) if k else x0
    x0 = x0 if case.bounds is None else np.clip(x0, *case.bounds)
    result = minimize(case.f, x0, tol=tol, bounds=case.bounds, seed=k, rounds=3000)
    return bool(result.success), bool(result.fun - case.best <= NEAR * (case.f(x0) - case.best))


def judge(cases: list[Classic], starts: int) -> None:
    """How often a success is none, by tolerance."""
    for tol in (1e-2, 1e-3, 1e-4):
        found = [judged(case, tol, k) for case in cases for k in range(starts)]
        said, wrong = sum(yes for yes, _ in found), sum(yes and not near for yes, near in found)
        print(f"tol {tol:g}: {len(found)} runs, {said} called a success, {wrong} of them not within 1 %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the rows as JSON")
    parser.add_argument("--only", default="", help="only functions whose name contains this text")
    parser.add_argument(
        "--starts", type=int, default=0, help="only judge successes, from this many starts each"
    )
    given = parser.parse_args()
    cases = [case for case in CLASSICS if given.only in case.name]
    if given.starts:
        judge(cases, given.starts)
        return
    one = [alone(case) for case in cases]
    print(table(one), "\n")
    eight = [together(case, row) for case, row in zip(cases, one, strict=True)]
    print(table(eight, "bits"), "\n")
    for rows in (one, eight):
        honest = sum(row["left"] <= NEAR or not row["success"] for row in rows)
        near = sum(row["left"] <= NEAR for row in rows)
        print(f"{near} of {len(rows)} within 1 %, {honest} of {len(rows)} within 1 % or not called a success")
    if given.out is not None:
        given.out.write_text(json.dumps({"one": one, "eight": eight}, indent=1) + "\n")


if __name__ == "__main__":
    main()
