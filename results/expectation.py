"""Exact expectations of the mechanism studies: critical steps, E F at their end, a figure.

    python results/expectation.py [--write]

--write updates the tables and the figure of docs/expectation.md (minutes). Problems are those of the seeds of
configs/extension.yaml; the paper's numbers are of eight problems of the same law.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from zocosmo.graphs.graph import complete, ring
from zocosmo.methods import EdgeLocal
from zocosmo.problems.quadratic import Quadratic, quadratic
from zocosmo.report.curves import COLOURS
from zocosmo.report.figures import new_panels, save_figure
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory.exact import Expected, Quadratics, expectation
from zocosmo.theory.law import complete_law, ring_law
from zocosmo.theory.stability import critical_step, expected_limit, is_stable

PAGE = Path(__file__).parents[1] / "docs" / "expectation.md"
PICTURE = PAGE.parent / "img" / "expectation.png"
GRAPHS = {"complete": (complete(8), complete_law(8), "complete"), "ring": (ring(8), ring_law(8), "iid")}
SEEDS, RUNS, ROUNDS, EVERY, Q = range(8), range(64), 1600, 20, 4
STEPS = {0.0: (0.001, 0.004), 0.9: (0.001, 0.004, 0.01, 0.04)}  # of the 1,536-run study, by β


class Setting(NamedTuple):
    """A cell of the studies; ζ = 2 throughout."""

    graph: str
    coupling: str
    omega: float
    sigma: float
    beta: float
    eta: float

    @property
    def words(self) -> str:
        noise = "noisy" if self.sigma else "deterministic"
        memory = f", β = {self.beta}" if self.beta else ""
        return f"{self.graph}, ω = {self.omega:g}, {noise}{memory}, η = {self.eta} | {self.coupling}"

    def problem(self, seed: int) -> Quadratic:
        dials = {"kappa": 4.0, "omega": self.omega, "zeta": 2.0, "sigma": self.sigma}
        return quadratic(8, seed, d=32, **dials)

    def expected(self, seed: int, rounds: int = ROUNDS) -> Expected:
        problem = self.problem(seed)
        known = Quadratics(2 * problem.half, problem.b, self.sigma)
        how: dict[str, Any] = {"eta": self.eta, "beta": self.beta, "rounds": rounds, "x0": problem.x0}
        return expectation(known, GRAPHS[self.graph][1], coupling=self.coupling, q=Q, **how)

    def simulated(self, runs: Iterable[tuple[Quadratic, int]], every: int = ROUNDS) -> np.ndarray:
        """F(x̄) of each run (problem, seed of its tape) at rounds 0, every, …, ROUNDS: (checkpoints, runs)."""
        graph, _, schedule = GRAPHS[self.graph]
        method = EdgeLocal(coupling=self.coupling, q=Q, eta=self.eta, mu=1e-3, beta=self.beta)
        simulation = Simulation([Run(method, graph, problem, seed, schedule) for problem, seed in runs])
        found = [simulation.checkpoint().objective]
        for t in range(1, ROUNDS + 1):
            simulation.round()
            if t % every == 0:
                found.append(simulation.checkpoint().objective)
        return np.array(found)


class Printed(NamedTuple):
    """The paper's numbers for a setting: mean and standard deviation over eight seeds."""

    setting: Setting
    mean: float
    std: float


NOISY, SLOW, FAST = (0.6, 0.5, 0.0, 0.004), (0.6, 0.5, 0.9, 0.004), (0.6, 0.5, 0.9, 0.04)
PRINTED = [
    Printed(Setting("complete", "G", 0.0, 0.0, 0.0, 0.004), 1.160e-7, 0.421e-7),
    Printed(Setting("complete", "I", 0.0, 0.0, 0.0, 0.004), 0.01118, 0.00309),
    Printed(Setting("complete", "G", 0.6, 0.0, 0.0, 0.004), 2.96e-5, 1.13e-5),
    Printed(Setting("complete", "I", 0.6, 0.0, 0.0, 0.004), 1.34e-2, 0.48e-2),
    Printed(Setting("ring", "G", 0.6, 0.0, 0.0, 0.004), 1.43e-4, 0.49e-4),
    Printed(Setting("ring", "G", *NOISY), 1.06e-3, 0.30e-3),
    Printed(Setting("ring", "I", *NOISY), 9.60e-3, 1.69e-3),
    Printed(Setting("ring", "G", *SLOW), 1.00e-3, 0.13e-3),
    Printed(Setting("ring", "I", *SLOW), 10.60e-3, 2.70e-3),
    Printed(Setting("ring", "G", *FAST), 1.30, 1.42),
    Printed(Setting("ring", "I", *FAST), 0.131, 0.021),
]


def critical(graph: str, coupling: str, omega: float, beta: float, seed: int = 0) -> float:
    problem = Setting(graph, coupling, omega, 0.0, beta, 0.0).problem(seed)
    known = Quadratics(2 * problem.half, problem.b)
    return critical_step(known, GRAPHS[graph][1], coupling=coupling, q=Q, beta=beta)


def critical_row(graph: str, omega: float, beta: float) -> str:
    """Critical steps of the problem of seed 0, and which steps of the study lie beyond."""
    found = {coupling: critical(graph, coupling, omega, beta) for coupling in "GSI"}
    beyond = [f"{c} at {eta}" for c, edge in found.items() for eta in STEPS[beta] if eta > edge]
    steps = " | ".join(f"{edge:.5f}" for edge in found.values())
    return f"| {graph} | {omega:g} | {beta:g} | {steps} | {', '.join(beyond) or 'none'} |"


def critical_table() -> str:
    lines = ["| graph | ω | β | G | S | I | steps of the study beyond |", "| --- |" + " --- |" * 6]
    lines += [critical_row(g, omega, beta) for omega in (0.0, 0.6) for g in GRAPHS for beta in STEPS]
    return "\n".join(lines)


def spread_line() -> str:
    """How much the problem matters: seeds 0–7 with unequal curvatures."""
    edges = [[critical(g, "G", 0.6, 0.9, seed) for seed in SEEDS] for g in GRAPHS]
    said = (f"{min(some):.5f} to {max(some):.5f} ({g})" for g, some in zip(GRAPHS, edges, strict=True))
    return (
        f"Over seeds 0–7, at ω = 0.6 and β = 0.9, the critical step of G runs from {' and from '.join(said)}."
    )


def exact_mean(setting: Setting) -> float:
    """E F(x̄_1600), the mean over the problems of seeds 0–7."""
    return float(np.mean([setting.expected(seed).F[-1] for seed in SEEDS]))


def expected_row(row: Printed) -> str:
    """`within`: no further from the paper's mean than its standard deviation, or than two standard errors.

    The standard error is that of eight runs, from the standard deviation of 64 of ours: F is skewed, and
    eight low runs would give both a low mean and a low deviation.
    """
    exact = exact_mean(row.setting)
    ours = row.setting.simulated((row.setting.problem(seed), seed) for seed in RUNS)[-1]
    off = (row.mean - exact) / (ours.std(ddof=1) / len(SEEDS) ** 0.5)
    verdict = "within" if abs(row.mean - exact) <= row.std or abs(off) <= 2 else "no"
    cells = f"{row.mean:.3g} ± {row.std:.2g}", f"{ours.mean():.3g} ± {ours.std(ddof=1):.2g}", f"{off:+.1f}"
    return f"| {row.setting.words} | {exact:.4g} | {' | '.join(cells)} | {verdict} |"


def expected_table() -> str:
    head = "| setting | | E F(x̄_1600) | the paper, 8 runs | ours, 64 runs | paper off, in s.e. | verdict |"
    return "\n".join([head, "| --- |" + " --- |" * 6, *map(expected_row, PRINTED)])


def tables() -> dict[str, str]:
    with threadpool_limits(1):  # threads only slow down small matrices
        return {"critical": f"{critical_table()}\n\n{spread_line()}\n", "expected": f"{expected_table()}\n"}


def draw(to: Path = PICTURE) -> None:
    """Exact curves over eight runs each, on the ring; one problem, that of seed 0, and eight tapes."""
    figure, panels = new_panels(to, (8.0, 3.4), 2, 2)
    for axes, dials in zip(panels, (NOISY, FAST), strict=True):
        for colour, coupling in zip(COLOURS, "GSI", strict=False):
            setting = Setting("ring", coupling, *dials)
            draw_setting(axes, setting, colour)
        momentum = f", β = {dials[2]}" if dials[2] else ""
        axes.set(yscale="log", xlabel="round", title=f"η = {dials[3]}{momentum}, σ = {dials[1]}")
        axes.legend(frameon=False, fontsize=9)
    panels[0].set_ylabel(r"objective $F(\bar{x})$")
    save_figure(figure, to, dpi=100)
    if to.suffix == ".png":  # fewer shades make a smaller file
        from PIL import Image

        Image.open(to).convert("RGB").quantize(32, dither=Image.Dither.NONE).save(to, optimize=True)


def draw_setting(axes: Any, setting: Setting, colour: str) -> None:
    base = setting.problem(0)
    noises = [setting.problem(seed).noise for seed in SEEDS]
    problems = [Quadratic(base.half, base.b, setting.sigma, noise) for noise in noises]
    runs = setting.simulated(zip(problems, SEEDS, strict=True), EVERY)
    rounds = np.arange(0, ROUNDS + 1, EVERY)
    axes.plot(rounds, runs, color=colour, linewidth=0.5, alpha=0.5)
    known, law = Quadratics(2 * base.half, base.b, setting.sigma), GRAPHS[setting.graph][1]
    how: dict[str, Any] = {"coupling": setting.coupling, "q": Q, "eta": setting.eta, "beta": setting.beta}
    word = setting.coupling
    if is_stable(known, law, **how):
        limit = float(expected_limit(known, law, **how).F)
        axes.axhline(limit, color=colour, linewidth=1, linestyle=":")
    else:
        word += ", unstable"
    axes.plot(rounds, setting.expected(0).F[rounds], color=colour, linewidth=2, label=f"{word}: E F")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the tables and the figure into the docs")
    parser.add_argument("--figure", type=Path, help="only draw the figure, to this file")
    given = parser.parse_args()
    if given.figure is not None:
        draw(given.figure)
        return
    found = tables()
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        for name, table in found.items():
            head, _, rest = text.partition(f"<!-- {name} -->\n")
            text = (
                f"{head}<!-- {name} -->\n{table}<!-- end -->\n{rest.partition('<!-- end -->' + chr(10))[2]}"
            )
        PAGE.write_text(text, encoding="utf-8")
        draw()
    print(*found.values(), sep="\n", end="")


if __name__ == "__main__":
    main()
