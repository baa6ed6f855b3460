"""What the studies on quadratics share: cells by setting, exact expectations, comparisons."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zocosmo.experiments.processes import in_processes
from zocosmo.problems.quadratic import quadratic
from zocosmo.report.budget import LABELS, Cell, cell
from zocosmo.report.tables import rounded
from zocosmo.theory.exact import Quadratics, SecondMoments, expectation, known_moments, make_round
from zocosmo.theory.law import complete_law, ring_law
from zocosmo_paper.claim import NO, ORDERING, WITHIN, Claim, Printed, check, constant, figure, relation
from zocosmo_paper.interval import student_interval
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
Expected = Mapping[Spot, Array]  # E F(x̄_t) by round
UNKNOWN: Expected = MappingProxyType({})


class Quote(NamedTuple):
    """A printed cell, and the ordering it supports: `spot` below `rival`, or above it."""

    words: str
    spot: Spot
    printed: Printed
    rival: Spot
    below: bool = True
    log_normal: bool = False  # then also compared on a log scale
    others: Mapping[str, float] = MappingProxyType({})  # printed means of other couplings and updates there


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


def expected_batch(spot: Spot, seeds: Sequence[int], rounds: int) -> Array:
    """`expected_path` of several problems at once, (problems, rounds + 1)."""
    drawn = [quadratic(N, seed, d=D, omega=spot.omega, zeta=spot.zeta, sigma=spot.sigma) for seed in seeds]
    law = complete_law(N) if spot.graph == "complete" else ring_law(N)
    how: dict[str, Any] = {"coupling": spot.coupling, "q": Q, "beta": spot.beta, "dtype": np.float64}
    parts = [make_round(Quadratics(2 * each.half, each.b, spot.sigma), law, **how) for each in drawn]
    step = replace(parts[0], h=np.stack([p.h for p in parts]), b=np.stack([p.b for p in parts]))
    starts = [known_moments(np.broadcast_to(p.x0, (N, D)), spot.beta, np.float64) for p in drawn]
    columns: list[Any] = [None if p[0] is None else np.stack(p) for p in zip(*starts, strict=True)]
    now = SecondMoments(*columns)
    found = [_mean_F(step.h, step.b, now)]
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(rounds):
            now = step.step(now, spot.eta)
            found.append(_mean_F(step.h, step.b, now))
    return np.stack(found, axis=-1)


def _mean_F(h: Array, b: Array, now: SecondMoments) -> Array:
    """E F(x̄) of every problem."""
    square = now.X.sum(axis=(-2, -1)) / N**2
    found: Array = (h.sum(axis=-1) * square).sum(axis=-1) / (2 * N)
    found += (b.sum(axis=-1) * now.x.sum(axis=-1)).sum(axis=-1) / N**2
    return found


def expected_paths(
    spots: Sequence[Spot], seeds: Sequence[int], rounds: int, processes: int
) -> dict[Spot, Array]:
    """The mean of `expected_path` over the problems of the seeds, for each cell."""
    tasks = [(spot, list(problems_of(spot, seeds)), rounds) for spot in dict.fromkeys(spots)]
    done = (
        in_processes(expected_batch, tasks, processes)
        if processes > 1
        else enumerate(expected_batch(*task) for task in tasks)
    )
    paths = {tasks[k][0]: path.mean(axis=0) for k, path in done}
    return {spot: paths[spot] for spot, *_ in tasks}


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
    def read(
        cls, evidence: Evidence, config: str, printed: Sequence[Quote], more: Sequence[Spot] = ()
    ) -> Self:
        """`more` are the cells that are not printed and whose expectations are wanted too."""
        log = evidence.logs[config]
        parts, seeds = by_spot(log), [int(seed) for seed in log["seed"].unique()]
        cells = {spot: cell(part, None, "objective") for spot, part in parts.items()}
        spots, rounds = [*(row.spot for row in printed), *more], int(log["round"].max())
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
        ordered = student_interval(low.values, high.values).high < 0
        names = [spot.coupling for spot in (row.spot, row.rival)]
        held = " below ".join(names if row.below else names[::-1]) if ordered else ""
        lost = ours.diverged
        claim = figure(row.words, row.printed, ours.values, held=held, diverged=lost, rivals=row.others)
        claims.append(claim._replace(exact=float(exact[row.spot][-1])))
        claims.append(expected_claim(row, ours, float(exact[row.spot][-1]), ordered))
        if row.log_normal:
            claims.append(log_claim(row, ours))
    return claims


def expected_claim(row: Quote, ours: Cell, value: float, ordered: bool) -> Claim:
    """A printed mean against the exact E F, which has no error of its own: at most the printed std apart."""
    near = abs(value - row.printed.mean) <= row.printed.std
    verdict = WITHIN if near else ORDERING if ordered else NO
    note = "over all tapes and noise, on the problems of these seeds"
    words, paper = f"{row.words}: expectation", str(row.printed)
    numbers = {"seeds": len(ours.values), "diverged": ours.diverged, "exact": value}
    return check(Claim(words, paper, value, verdict, **numbers, note=note))  # type: ignore[arg-type]


def log_claim(row: Quote, ours: Cell) -> Claim:
    """log₁₀ F by seed, against the log-normal with the printed mean and std."""
    mean, std, seeds, _ = row.printed
    spread = math.sqrt(math.log1p((std / mean) ** 2))
    middle = math.log(mean) - spread**2 / 2
    at, about = round(middle / math.log(10), 3), round(spread / math.log(10), 3)
    printed = Printed(at, about, seeds, f"{at:g} ± {about:g}")
    logs = {seed: math.log10(value) for seed, value in ours.values.items()}
    note = "the paper's mean ± std read as those of a log-normal"
    return check(figure(f"{row.words}: log10", printed, logs, diverged=ours.diverged, note=note))


def expected_gap(exact: Mapping[Spot, Array], one: Spot, other: Spot) -> float:
    """E F of one cell minus that of another; nan where one is not known."""
    if one not in exact or other not in exact:
        return math.nan
    return float(exact[one][-1] - exact[other][-1])


def run_claims(log: pd.DataFrame, runs: str, seeds: int) -> list[Claim]:
    """The number of runs, their cost, and that all are finite. `runs` is for the paper's seeds."""
    last = log.groupby("trial", sort=False).last()
    queries, bits = (
        float(column.max()) if column.nunique() == 1 else math.nan
        for column in (last["queries"] / last["n"], last["bits"])
    )
    of = f"of {len(last):,}"
    return [
        constant("runs", runs, Fraction(len(last) * SEEDS, seeds), note=f"at {SEEDS} seeds"),
        relation(constant("runs that diverged", "0", int(last["diverged"].sum()), "all runs are finite", of)),
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
