"""Central differences: their error in the slope, against its bound."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.case import Case, gradients, too_large, with_noise
from zocosmo.checks.check import Check
from zocosmo.checks.draws import PER_TAPE
from zocosmo.checks.measurement import About, Measurement
from zocosmo.core.support import Direction, draw_direction
from zocosmo.core.tape import Tape
from zocosmo.oracle import Query
from zocosmo.problems.quadratic import Quadratic
from zocosmo.problems.rosenbrock import Rosenbrock
from zocosmo.theory import rates

EPSILON = float(np.finfo(float).eps)


def why_not(case: Case) -> str:
    if not isinstance(case.run.problem, Quadratic | Rosenbrock):
        return f"third derivatives are known of quadratic and rosenbrock, not of {case.problem_kind}"
    if case.directions.sides == 1:
        return "the bound is for central differences, not for one side"
    if not case.is_uniform:
        return "there is no fresh support of q coordinates in every round"
    return too_large(case)


def derivatives(problem: Any, x: NDArray[Any], u: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """∇F_i·u and D³F_i[u, u, u] of every node."""
    if isinstance(problem, Quadratic):
        slope: NDArray[Any] = (gradients(problem, x) * u).sum(axis=-1)
        return slope, np.zeros_like(slope)
    z = x - problem.shifts
    head, a, b = z[..., :-1], u[..., :-1], u[..., 1:]
    bend, along = z[..., 1:] - head**2, b - 2 * head * a  # r and r' of r(s) along x + su; r'' = −2a²
    slope = (2 * problem.alpha * bend * along - 2 * (1 - head) * a).sum(axis=-1)
    third = (-12 * problem.alpha * along * a**2).sum(axis=-1)
    return slope, third


def residual(case: Case, about: About) -> Iterator[Measurement]:
    """‖ĝ − D∇F‖ at the start over draws of the tape: at most B_μ plus the rounding of two queries."""
    method, d, q = case.method, case.d, case.q
    problem = with_noise(case.quadratic, None) if case.is_quadratic else case.run.problem
    x = np.array(np.broadcast_to(problem.x0, (case.n, d)))
    found, slack, L3 = 0.0, 0.0, 0.0
    for t in range(PER_TAPE):
        u = draw_direction(Tape("check")[..., None], np.array([t]), d=d, q=q)
        slope = problem.slopes(Query(x, (u,), method.mu), t)[..., 0]
        exact, third = derivatives(problem, x, dense(u))
        found = max(found, float(np.abs(slope - exact).max()) * d / np.sqrt(q))
        L3 = max(L3, float(np.abs(third).max()) / q**1.5)
        values = np.abs(problem.local(x)).max() + 1.0
        slack = max(slack, float((d + 8) * EPSILON * values / method.mu) * d / np.sqrt(q))
    bound = float(rates.bias_scale(d=d, q=q, L3=L3, mu=method.mu))
    note = f"L₃ = {L3:.3g} along {PER_TAPE} directions at the start; rounding may add {slack:.1g}"
    yield about.at_most(bound + slack, found, note)


def dense(u: Direction) -> NDArray[Any]:
    """u as a d-vector, (1, d)."""
    out = np.zeros((1, u.d))
    np.put_along_axis(out, np.atleast_2d(u.index), np.atleast_2d(u.signs).astype(float), axis=-1)
    return out


def _words(case: Case) -> str:
    return f"q={case.q} mu={case.method.mu:g}, {case.of_losses}"


BIAS = Check("finite-difference bias B_μ", "eq:bmu_mnode_def", why_not, _words, residual)
