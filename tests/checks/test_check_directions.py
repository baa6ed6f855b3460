"""Checks of methods with several directions, one side, normalised steps or a tree: true, and able to fail."""

from pathlib import Path

import numpy as np
import pytest

from zocosmo.channel import MemoryChannel
from zocosmo.checks import bits, check_plans, difference, draws, mix, paths, run, updates
from zocosmo.core.grid import Grid
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import load_plan, read_plan
from zocosmo.methods import TreeMean
from zocosmo.theory.directions import Directions

LOSSES = "{kind: quadratic, d: 8, omega: 0.5, zeta: 2.0, sigma: 0.5}"
APPLIED = updates.applied
RING = "{kind: ring, n: 6, schedule: iid}"


def rows(check, method, monkeypatch, graph=RING, tapes=192):
    monkeypatch.setattr(run, "CHECKS", (check,))
    top = {"problem": LOSSES, "graphs": f"[{graph}]", "methods": f"[{method}]", "budgets": "[4000]"}
    text = "\n".join(f"{key}: {value}" for key, value in {**top, "seeds": "[3]", "rounds": 50}.items())
    return check_plans([read_plan(Config(text, "small"), "small")], tapes)


def pairs(coupling, more, eta=0.05, mu=1.0e-3):
    return f"{{kind: edge_local, coupling: {coupling}, eta: {eta}, mu: {mu}, {more}}}"


def tree(more, eta=0.05, mu=1.0e-3):
    return f"{{kind: tree_mean, eta: {eta}, mu: {mu}, {more}}}"


ORTHOGONAL = "q: 4, directions: 4, signs: orthogonal"
CUT = "q: 3, directions: 3, signs: orthogonal"
FREE = "q: 4, directions: 3"
CASES = {
    "moments, orthogonal": (updates.MOMENTS, pairs("G", ORTHOGONAL)),
    "moments, cut": (updates.MOMENTS, pairs("I", CUT)),
    "moments, independent": (updates.MOMENTS, pairs("S", FREE)),
    "step, cut": (updates.STEP, pairs("S", CUT)),
    "expected, orthogonal": (paths.EXPECTED, pairs("G", ORTHOGONAL)),
    "expected, one side": (paths.EXPECTED, pairs("G", f"{ORTHOGONAL}, sides: 1", mu=0.5)),
    "expected, one side and independent": (paths.EXPECTED, pairs("S", f"{FREE}, sides: 1", mu=0.5)),
    "expected, cut, momentum": (paths.EXPECTED, pairs("I", f"{CUT}, sides: 1, beta: 0.5", mu=0.5)),
    "expected, global": (paths.EXPECTED, f"{{kind: cosmo, eta: 0.05, mu: 0.5, sides: 1, {CUT}}}"),
    "bits": (bits.BITS, pairs("G", f"{ORTHOGONAL}, sides: 1")),
    "bits, normalised": (bits.BITS, pairs("I", f"{ORTHOGONAL}, step: normalised")),
    "bits, normalised among neighbours": (
        bits.BITS,
        "{kind: cosmo, q: 2, eta: 0.01, mu: 1.0e-3, passes: 2, step: normalised}",
    ),
    "budget, normalised": (bits.BUDGET, pairs("I", f"{ORTHOGONAL}, step: normalised")),
    "bits, mean over a tree": (bits.BITS, tree(f"{CUT}, rule: balanced, hold: 3, wire: grid5")),
    "bits, sum over a tree": (
        bits.BITS,
        "{kind: tree_sum, eta: 0.01, mu: 1.0e-3, bits: 5, perturbations: 3}",
    ),
    "budget, mean over a tree": (bits.BUDGET, tree(f"{FREE}, wire: grid2")),
    "expected, mean over a tree": (paths.EXPECTED, tree(f"{CUT}, sides: 1", mu=0.5)),
    "sum on a grid": (mix.SUM, tree("q: 4, directions: 4, wire: grid3")),
    "supports held, uniform": (draws.MARGINALS, tree("q: 2, hold: 3")),
    "supports held, balanced": (draws.MARGINALS, tree("q: 3, rule: balanced, hold: 3")),
    "coverage held, uniform": (draws.COVERAGE, tree("q: 2, hold: 3")),
    "coverage held, of pairs": (draws.COVERAGE, pairs("I", "q: 2, hold: 3")),
    "coverage held, balanced": (draws.COVERAGE, pairs("G", "q: 3, rule: balanced, hold: 2")),
}


@pytest.mark.parametrize(("check", "method"), CASES.values(), ids=CASES)
def test_theory_and_code_agree(check, method, monkeypatch):
    assert {row.verdict for row in rows(check, method, monkeypatch)} == {"agrees"}


@pytest.mark.parametrize(
    ("check", "more", "lie"),
    [
        (updates.MOMENTS, ORTHOGONAL, {"K": 4}),
        (updates.MOMENTS, FREE, {"K": 2}),
        (paths.EXPECTED, CUT, {"K": 1}),
        (paths.EXPECTED, f"{ORTHOGONAL}, sides: 1", {"K": 4, "signs": "orthogonal"}),
    ],
)
def test_a_wrong_law_would_be_noticed(check, more, lie, monkeypatch):
    """Theory is told fewer directions, other signs, or two sides; the code does as the config says."""
    real = run.Case.__init__

    def lying(self, *args):
        real(self, *args)
        self.told, self.directions = self.directions, Directions(**lie)

    def truly(case, *args):
        case.directions, kept = case.told, case.directions
        found = APPLIED(case, *args)
        case.directions = kept
        return found

    monkeypatch.setattr(run.Case, "__init__", lying)
    monkeypatch.setattr(updates, "applied", truly)  # which draws as the case says
    found = rows(check, pairs("G", more, mu=0.5, eta=0.1), monkeypatch, tapes=256)
    assert "disagrees" in {row.verdict for row in found}


def test_a_coarser_grid_than_the_head_says_would_be_noticed(monkeypatch):
    """Every second point is never used, so errors are larger than Δ²/12 says."""
    real = Grid.encode

    def coarse(wire, values, envelope):
        letters = real(wire, values, envelope)
        return letters._replace(values=(letters.values // 2 * 2).astype(np.uint8))

    monkeypatch.setattr(Grid, "encode", coarse)
    assert verdicts_of_sums(monkeypatch) == {"disagrees"}


def test_a_tree_that_forgets_a_node_would_be_noticed(monkeypatch):
    real = MemoryChannel._sum_of_all

    def short(channel, values, words):
        some = values.copy()
        some[:, 3] = 0
        return real(channel, some, words)

    monkeypatch.setattr(MemoryChannel, "_sum_of_all", short)
    assert verdicts_of_sums(monkeypatch) == {"disagrees"}


@pytest.mark.parametrize("check", [draws.MARGINALS, draws.COVERAGE])
@pytest.mark.parametrize("rule", ["uniform", "balanced"])
def test_supports_that_are_held_and_never_change_would_be_noticed(check, rule, monkeypatch):
    real = TreeMean.draw
    monkeypatch.setattr(TreeMean, "draw", lambda method, world, tape, t: real(method, world, tape, 0 * t))
    found = rows(check, tree(f"q: 2, rule: {rule}, hold: 3"), monkeypatch)
    assert {row.verdict for row in found} == {"disagrees"}


def verdicts_of_sums(monkeypatch):
    found = rows(mix.SUM, tree("q: 4, directions: 4, wire: grid3"), monkeypatch)
    return {row.verdict for row in found}


@pytest.mark.parametrize(
    ("check", "more", "why"),
    [
        (updates.CERTIFIED, ORTHOGONAL, "one direction and two sides|without momentum and noise"),
        (updates.STEP, f"{ORTHOGONAL}, sides: 1", "adds variance"),
        (difference.BIAS, f"{ORTHOGONAL}, sides: 1", "central differences"),
        (paths.EXPECTED, f"{ORTHOGONAL}, step: normalised", "normalised step"),
        (paths.STABLE, f"{ORTHOGONAL}, step: normalised", "normalised step"),
    ],
)
def test_what_does_not_apply_says_why(check, more, why, monkeypatch):
    (row,) = rows(check, pairs("G", more), monkeypatch)
    assert row.verdict == "not applicable"
    assert any(part in row.note for part in why.split("|"))


def test_the_config_of_the_second_generation_holds():
    plan = load_plan(Path(__file__).parents[2] / "configs" / "second.yaml")
    found = check_plans([plan], 30, only="V of the coupling")
    assert {row.verdict for row in found} == {"agrees", "not applicable"}
    assert sum(row.verdict == "agrees" for row in found) == 32
