"""The picture of mixing.md: energy per round, and the ring's bound against its exact gap.

python docs/mixing.py docs/img/mixing.png
"""

import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.graphs.graph import GRAPHS
from zocosmo.methods import EdgeLocal
from zocosmo.oracle import disagreement
from zocosmo.problems.quadratic import quadratic
from zocosmo.report.figures import new_panels, save_figure
from zocosmo.sim.engine import Run, Simulation
from zocosmo.theory import certificates, repeated, ring
from zocosmo.theory.law import ring_law

N, D, Q, ROUNDS, TAPES = 8, 32, 8, 40, 100
SHADES = {"S": "#1b6ca8", "I": "#d1495b"}
NAMES = {"S": "common support", "I": "a support per pair"}


def mixing_figure(to: Path) -> None:
    """Left: pure mixing on a ring with random phases, theory and simulation. Right: two-round blocks."""
    figure, (left, right) = new_panels(to, (9, 3.4), 2, 2)
    _energies(left)
    _blocks(right)
    save_figure(figure, to, dpi=85)


def simulated_energy(coupling: Any, x: NDArray[Any]) -> NDArray[Any]:
    """‖ΠX_t‖² along every tape, (rounds + 1, tapes), of the real method with η = 0."""
    method, problem = EdgeLocal(q=Q, eta=0.0, mu=1e-3, coupling=coupling), quadratic(N, 0, d=D)
    sim = Simulation([Run(method, GRAPHS["ring"](N), problem, seed, "iid") for seed in range(TAPES)])
    sim.state = method.init(np.array(np.broadcast_to(x, (TAPES, N, D))))
    left = [np.full(TAPES, N * disagreement(x, x.mean(axis=0)))]
    for _ in range(ROUNDS):
        sim.round()
        left.append(N * disagreement(sim.states(), sim.states().mean(axis=-2)))
    return np.array(left)


def _energies(axes: Any) -> None:
    x = np.outer(np.cos(2 * np.pi * np.arange(N) / N), np.ones(D)) / np.sqrt(N * D / 2)
    for coupling, shade in SHADES.items():
        path = repeated.energy_path(x, ring_law(N), ROUNDS, q=Q, common=coupling == "S")
        axes.plot(path, color=shade, linewidth=1.2, label=f"theory, {NAMES[coupling]}")
        seen = simulated_energy(coupling, x)[::4]
        wide = 1.96 * seen.std(axis=1, ddof=1) / np.sqrt(TAPES)
        at = np.arange(0, ROUNDS + 1, 4) + (0.25 if coupling == "I" else -0.25)
        axes.errorbar(at, seen.mean(axis=1), wide, fmt="o", color=shade, markersize=3, linewidth=1)
    bound = (1 - Q / D * (1 - float(certificates.ring_chi(N)))) ** np.arange(ROUNDS + 1)
    axes.plot(bound, color="#9aa5b1", linestyle="--", linewidth=1, label="one-round bound, repeated")
    axes.set(yscale="log", xlabel="round", ylabel="expected energy ‖ΠX‖²")
    axes.set_title(f"ring of {N}, i.i.d. phases, q/d = 1/{D // Q}; dots: {TAPES} tapes", fontsize=9)
    axes.legend(frameon=False, fontsize=8)


def _blocks(axes: Any) -> None:
    sizes = [4, 6, 8, 12, 16, 24, 32, 48, 64]
    for (q, d), shade in {(1, 32): "#1b6ca8", (1, 4): "#3f9142", (1, 1): "#d1495b"}.items():
        p = f"p = {Fraction(q, d)}"
        exact = [ring.block_gap(n, d=d, q=q, common=False) for n in sizes]
        paper = [ring.paper_block_gap(n, d=d, q=q) for n in sizes]
        axes.plot(sizes, exact, "o-", color=shade, markersize=3, linewidth=1.2, label=f"exact, {p}")
        axes.plot(sizes, paper, "--", color=shade, linewidth=1, label=f"published bound, {p}")
    axes.set(xscale="log", yscale="log", xlabel="nodes of the ring", ylabel="contraction of two rounds")
    axes.set_xticks([4, 8, 16, 32, 64], ["4", "8", "16", "32", "64"])
    axes.minorticks_off()
    axes.set_title("alternating ring: the bound is 3 to 6 times below", fontsize=9)
    axes.legend(frameon=False, fontsize=7)


if __name__ == "__main__":
    mixing_figure(Path(sys.argv[1]))
