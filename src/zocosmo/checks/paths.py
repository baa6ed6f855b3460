"""Whole trajectories on quadratics: exact expectations against the mean over tapes, and stability."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from zocosmo.checks.case import Case, not_fresh, not_plain, unknown_law
from zocosmo.checks.check import Check
from zocosmo.checks.measurement import About, Measurement
from zocosmo.theory import exact, stability
from zocosmo.theory.law import Global

ROUNDS = 40  # all terms matter, and no few tapes dominate the mean
UNSTABLE_ROUNDS = 8
MOST_NODES = 16  # second moments of n nodes are n² × n² matrices
MOST_UNKNOWNS = 2**18


def why_not(case: Case) -> str:
    if case.method.kind not in ("edge_local", "cosmo", "tree_mean"):
        return "the exact recursion is for edge_local, cosmo and tree_mean"
    if not case.is_quadratic:
        return f"the exact recursion is for quadratics, not for {case.problem_kind}"
    if case.n > MOST_NODES or case.n**2 * case.d > MOST_UNKNOWNS:
        return f"n = {case.n}, d = {case.d}: too many second moments to follow"
    return not_fresh(case) or not_plain(case) or (unknown_law(case) if case.on_matchings else "")


def why_not_stable(case: Case) -> str:
    """As `why_not`, and where a spectral radius would say nothing about the run."""
    if case.method.eta == 0:
        return "a step of 0 does not move the average"
    if case.method.decay.kind != "constant":
        return "growth in the long run is defined for a constant step"
    return why_not(case)


def arguments(case: Case) -> dict[str, Any]:
    """The arguments that `expectation` and `spectral_radius` share."""
    problem = case.quadratic
    losses = exact.Quadratics(2 * problem.half, problem.b, float(problem.sigma))
    told: dict[str, Any] = {"problem": losses, "q": case.q, "beta": case.beta, "directions": case.directions}
    if case.on_matchings:
        return {**told, "law": case.cycle.laws, "coupling": case.coupling}
    return {**told, "law": Global(case.weights())}


def radius_of(case: Case) -> float:
    if case.radius is None:
        case.radius = float(stability.spectral_radius(**arguments(case), eta=case.method.eta_at(0)))
    return case.radius


def stable(case: Case, about: About) -> Iterator[Measurement]:
    radius = radius_of(case)
    verdict = "stable" if radius < 1 else "unstable"
    yield about.says(verdict, radius, None, "growth of second moments per round, in the long run")


def expected(case: Case, about: About) -> Iterator[Measurement]:
    """E F(x̄_T), then E disagreement: problem fixed, tapes and noise varied."""
    rounds = min(case.plan.last, ROUNDS if radius_of(case) < 1 else UNSTABLE_ROUNDS)
    problem = case.quadratic
    means = exact.expectation(**arguments(case), eta=case.method.eta_at, rounds=rounds, x0=problem.x0)
    F, apart = [], []
    for _, sim in case.simulated(rounds, problem=problem):
        now = sim.checkpoint()
        F.append(now.objective)
        apart.append(now.disagreement)
    note = f"T = {rounds}, {case.tapes} tapes"
    yield about.sampled(means.F[-1], np.concatenate(F), note)
    floor = 1e-12 * (1 + float((problem.x0**2).sum()))
    yield about._replace(formula="E disagreement").sampled(
        means.disagreement[-1], np.concatenate(apart), note, floor=floor
    )


def _words(case: Case) -> str:
    return f"{case.with_steps}, {case.of_problem}, {case.where}"


EXPECTED = Check("E F(x̄_T)", "alg:edge_local_cosmo", why_not, _words, expected)
STABLE = Check("mean-square stability", "alg:edge_local_cosmo", why_not_stable, _words, stable)
