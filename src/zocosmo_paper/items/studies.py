"""What the studies on quadratics share: cells by setting, exact expectations, comparisons."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zocosmo.experiments.processes import in_processes
from zocosmo.problems.quadratic import quadratic
from zocosmo.report.budget import LABELS, Cell, cell
from zocosmo.report.stats import paired_interval
from zocosmo.report.tables import rounded
from zocosmo.theory.exact import Quadratics, expectation
from zocosmo.theory.law import complete_law, ring_law
from zocosmo_paper.claim import NO, ORDERING, WITHIN, Claim, Printed, constant, figure
from zocosmo_paper.item import Evidence, Table

N, D, Q = 8, 32, 4
COUPLINGS: tuple[Literal["G", "S", "I"], ...] = ("G", "S", "I")
GRAPHS = ("complete", "ring")
SEEDS = 8  # of every study here

Array = NDArray[np.float64]


class Spot(NamedTuple):
    """One cell of a study, for all seeds."""

    graph: str
    coupling: str
    eta: float
    zeta: float
    omega: float = 0.0
    sigma: float = 0.0
    beta: float = 0.0


Cells = Mapping[Spot, Cell]


class Quote(NamedTuple):
    """A printed cell, and the ordering it supports: `spot` below `rival`, or above it."""

    words: str
    spot: Spot
    printed: Printed
    rival: Spot
    below: bool = True
    log_normal: bool = False  # then also compared on a log scale


def by_spot(log: pd.DataFrame) -> dict[Spot, pd.DataFrame]:
    """The rows of each cell. Labels hold what varies within a study, such as eta=0.004."""
    found = {}
    for (problem, graph, method), part in log.groupby(LABELS, sort=False, observed=True):
        said: dict[str, Any] = dict(re.findall(r"(\w+)=(\S+)", f"{problem} {method}"))
        numbers = {name: float(said[name]) for name in Spot._fields[2:] if name in said}
        found[Spot(graph=str(graph).split()[0], coupling=said["coupling"], **numbers)] = part
    return found


def expected_path(spot: Spot, seed: int, rounds: int) -> Array:
    """E F(x̄_t), t = 0 … rounds, over matchings, directions and noise, on the problem of one seed."""
    drawn = quadratic(N, seed, d=D, omega=spot.omega, zeta=spot.zeta, sigma=spot.sigma)
    problem = Quadratics(2 * drawn.half, drawn.b, spot.sigma)
    law = complete_law(N) if spot.graph == "complete" else ring_law(N)
    steps = {"coupling": spot.coupling, "q": Q, "eta": spot.eta, "beta": spot.beta}
    found: Array = expectation(problem, law, **steps, rounds=rounds, x0=drawn.x0).F  # type: ignore[arg-type]
    return found


def expected_paths(
    spots: Sequence[Spot], seeds: Sequence[int], rounds: int, processes: int
) -> dict[Spot, Array]:
    """The mean of `expected_path` over the problems of the seeds, for each cell."""
    tasks = [(spot, seed, rounds) for spot in spots for seed in problems_of(spot, seeds)]
    paths: dict[Spot, dict[int, Array]] = {spot: {} for spot in spots}
    done = (
        in_processes(expected_path, tasks, processes)
        if processes > 1
        else enumerate(expected_path(*task) for task in tasks)
    )
    for k, path in done:
        paths[tasks[k][0]][tasks[k][1]] = path
    return {spot: np.mean([each[seed] for seed in sorted(each)], axis=0) for spot, each in paths.items()}


def problems_of(spot: Spot, seeds: Sequence[int]) -> Sequence[int]:
    """Seeds with different expectations in this cell: with equal curvatures, G does not depend on the linear
    terms   [prop:corr_quadratic]"""
    return seeds[:1] if spot.coupling == "G" and spot.omega == spot.sigma == 0 else seeds


class Study(NamedTuple):
    """A log of a study by cell, with its printed cells and their exact expectations."""

    log: pd.DataFrame
    printed: Sequence[Quote]
    parts: Mapping[Spot, pd.DataFrame]
    cells: Cells  # F(x̄) at the last round
    exact: Mapping[Spot, Array]
    seeds: list[int]

    @classmethod
    def read(cls, evidence: Evidence, config: str, printed: Sequence[Quote]) -> Self:
        log = evidence.logs[config]
        parts, seeds = by_spot(log), [int(seed) for seed in log["seed"].unique()]
        cells = {spot: cell(part, None, "objective") for spot, part in parts.items()}
        spots, rounds = [row.spot for row in printed], int(log["round"].max())
        exact = expected_paths(spots, seeds, rounds, evidence.processes)
        return cls(log, printed, parts, cells, exact, seeds)

    def quoted(self) -> list[Claim]:
        return row_claims(self.printed, self.cells, self.exact)

    def table(self, name: str, title: str, notes: str) -> Table:
        columns = ("cell", "paper", "ours", "ours, geometric mean", "expectation, exact")
        return Table(name, title, columns, row_table(self.printed, self.cells, self.exact), notes)


def row_claims(rows: Iterable[Quote], cells: Cells, exact: Mapping[Spot, Array]) -> list[Claim]:
    """Each printed cell against the runs, against the expectation, and on a log scale if `log_normal`."""
    claims = []
    for row in rows:
        ours, rival = cells[row.spot], cells[row.rival]
        low, high = (ours, rival) if row.below else (rival, ours)
        ordered = paired_interval(low.values, high.values).high < 0
        claims.append(figure(row.words, row.printed, ours.values, ordered=ordered, diverged=ours.diverged))
        claims.append(expected_claim(row, ours, float(exact[row.spot][-1]), ordered))
        if row.log_normal:
            claims.append(log_claim(row, ours))
    return claims


def expected_claim(row: Quote, ours: Cell, value: float, ordered: bool) -> Claim:
    """A printed mean against the exact E F; the error of the paper's mean is taken from the wider std.

    Eight draws from a long-tailed law often miss the tail, and their std is then too small.
    """
    wider = max(row.printed.std, 0.0 if math.isnan(ours.std) else ours.std)
    near = abs(value - row.printed.mean) <= max(row.printed.std, 2 * wider / math.sqrt(row.printed.seeds))
    verdict = WITHIN if near else ORDERING if ordered else NO
    note = "over all tapes and noise, on the problems of these seeds"
    words, paper = f"{row.words}: expectation", str(row.printed)
    return Claim(words, paper, value, verdict, seeds=len(ours.values), diverged=ours.diverged, note=note)


def log_claim(row: Quote, ours: Cell) -> Claim:
    """log₁₀ F by seed, against the log-normal with the printed mean and std."""
    mean, std, seeds = row.printed
    spread = math.sqrt(math.log1p((std / mean) ** 2))
    middle = math.log(mean) - spread**2 / 2
    printed = Printed(round(middle / math.log(10), 3), round(spread / math.log(10), 3), seeds)
    logs = {seed: math.log10(value) for seed, value in ours.values.items()}
    note = "the paper's mean ± std read as those of a log-normal"
    return figure(f"{row.words}: log10", printed, logs, diverged=ours.diverged, note=note)


def close(words: str, paper: str, a: Cell, b: Cell) -> Claim:
    """That two means differ by at most the larger std over seeds, or 2 standard errors."""
    off = a.mean - b.mean
    error = math.sqrt(sum(c.std**2 / len(c.values) for c in (a, b) if c.values))
    near = abs(off) <= max(a.std, b.std) or abs(off) <= 2 * error
    note = f"{a.mean:.3g} ± {a.std:.2g} and {b.mean:.3g} ± {b.std:.2g}"
    verdict = WITHIN if near else NO
    return Claim(words, paper, off, verdict, seeds=len(a.values), diverged=a.diverged + b.diverged, note=note)


def run_claims(log: pd.DataFrame, runs: str, seeds: int) -> list[Claim]:
    """The number of runs, their cost, and that none diverged. `runs` is for the paper's seeds."""
    last = log.groupby("trial", sort=False).last()
    per_seed = int(runs.replace(",", "")) // SEEDS
    queries, bits = (
        float(column.max()) if column.nunique() == 1 else math.nan
        for column in (last["queries"] / last["n"], last["bits"])
    )
    return [
        constant("runs", f"{per_seed * seeds:,}", len(last), note=f"{runs} with {SEEDS} seeds"),
        constant("runs that diverged", "0", int(last["diverged"].sum())),
        constant("queries of a node", "3200", queries),
        constant("bits sent by a node", "204800", bits),
    ]


def text(mean: float, std: float = math.nan, digits: int = 3) -> str:
    """mean ± std as a cell of a table.

    >>> text(1.16e-7, 4.21e-8), text(0.131, 0.021, 2), text(0.25)
    ('(1.160 ± 0.421)e-7', '0.131 ± 0.021', '0.2500')
    """
    return str(rounded(mean, std, digits))


def shown(ours: Cell | Printed) -> str:
    return text(ours.mean, ours.std)


def row_table(rows: Iterable[Quote], cells: Cells, exact: Mapping[Spot, Array]) -> list[list[str]]:
    """For each printed cell: paper, ours, our geometric mean, expectation."""
    return [
        [row.words, shown(row.printed), shown(ours), geometric(ours), text(float(exact[row.spot][-1]))]
        for row in rows
        for ours in [cells[row.spot]]
    ]


def geometric(ours: Cell) -> str:
    values = list(ours.values.values())
    return text(math.exp(math.fsum(map(math.log, values)) / len(values))) if values else "–"
