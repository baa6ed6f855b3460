"""Whole trajectories on quadratics: exact expectations against the mean over tapes, and stability."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from zocosmo.checks.check import Check
from zocosmo.checks.row import About, Row
from zocosmo.checks.setting import Setting, is_uniform, on_matchings
from zocosmo.checks.updates import quadratic_of
from zocosmo.theory import exact, mixing, second_moments, stability

ROUNDS = 40  # enough for all terms to count, few enough for means over tapes not to be ruled by a few of them
UNSTABLE_ROUNDS = 8
MOST_NODES = 16  # second moments of n nodes are n² × n² matrices
MOST_UNKNOWNS = 2**18


def why_not(setting: Setting) -> str:
    if setting.method.kind not in ("edge_local", "cosmo"):
        return "the exact recursion is of edge_local and cosmo"
    if setting.quadratic is None:
        return f"the exact recursion is of quadratics, not of {dict(setting.trial.problem)['kind']}"
    if setting.n > MOST_NODES or setting.n**2 * setting.d > MOST_UNKNOWNS:
        return f"n = {setting.n}, d = {setting.d}: too many second moments to follow"
    if not is_uniform(setting):
        return "balanced supports are not drawn afresh in every round"
    if on_matchings(setting) and setting.cycle is None:
        return f"the law of {setting.world.schedule_name} matchings of this graph has too many of them"
    return ""


def why_not_stable(setting: Setting) -> str:
    """Where a spectral radius is computed, but says nothing about the run."""
    if setting.method.eta == 0:
        return "a step of 0 leaves the average where it is"
    if setting.method.decay.kind != "constant":
        return "growth in the long run is of a constant step"
    return why_not(setting)


def arguments(setting: Setting) -> dict[str, Any]:
    """What `expectation` and `spectral_radius` both take."""
    problem, method = quadratic_of(setting), setting.method
    told: dict[str, Any] = {
        "problem": exact.Quadratics(2 * problem.half, problem.b, float(problem.sigma)),
        "q": setting.q,
        "beta": getattr(method, "beta", 0.0),
    }
    if on_matchings(setting):
        assert setting.cycle is not None
        return {**told, "law": setting.cycle.moments(), "coupling": getattr(method, "coupling", "I")}
    W = mixing.metropolis_weights(setting.n, setting.graph.edges).astype(float)
    W = np.linalg.matrix_power(W, getattr(method, "passes", 1))
    return {**told, "law": second_moments.Global(W)}


def radius_of(setting: Setting) -> float:
    """Two rows want it, and it takes a second."""
    if "radius" not in setting.found:
        eta = setting.method.eta_at(0)
        setting.found["radius"] = stability.spectral_radius(**arguments(setting), eta=eta)
    return float(setting.found["radius"])


def stable(setting: Setting, about: About) -> Iterator[Row]:
    radius = radius_of(setting)
    verdict = "stable" if radius < 1 else "unstable"
    yield about.says(verdict, radius, None, "growth of second moments in a round, in the long run")


def expected(setting: Setting, about: About) -> Iterator[Row]:
    """E F(x̄_T), then E disagreement: problem fixed, tapes and noise varied."""
    told = arguments(setting)
    rounds = min(setting.plan.last, ROUNDS if radius_of(setting) < 1 else UNSTABLE_ROUNDS)
    problem = quadratic_of(setting)
    law = exact.expectation(**told, eta=setting.method.eta_at, rounds=rounds, x0=problem.x0)
    F, apart = [], []
    for _, sim in setting.simulated(rounds, problem=problem):
        now = sim.checkpoint()
        F.append(now.objective)
        apart.append(now.disagreement)
    note = f"T = {rounds}, {setting.tapes} tapes"
    yield about.sampled(law.F[-1], np.concatenate(F), note)
    floor = 1e-12 * (1 + float((problem.x0**2).sum()))
    yield about._replace(formula="E disagreement").sampled(
        law.disagreement[-1], np.concatenate(apart), note, floor=floor
    )


def _words(setting: Setting) -> str:
    where = setting.on_schedule if on_matchings(setting) else setting.on_graph
    return f"{setting.with_steps}, {setting.of_problem}, {where}"


EXPECTED = Check("E F(x̄_T)", "alg:edge_local_cosmo", why_not, _words, expected)
STABLE = Check("mean-square stability", "alg:edge_local_cosmo", why_not_stable, _words, stable)
