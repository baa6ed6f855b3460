"""One round of estimates on quadratics, whose gradients are known: moments, disagreement, certificates."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.case import Case, gradients, not_fresh, not_on_matchings, not_plain, pairs_of, with_noise
from zocosmo.checks.check import Check
from zocosmo.checks.draws import PER_TAPE
from zocosmo.checks.measurement import About, Measurement
from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.signs import draw_sign_vectors
from zocosmo.core.support import Direction
from zocosmo.oracle import disagreement
from zocosmo.theory import certificates, moments, steps
from zocosmo.theory.directions import ONE

BLOCK = 2**20  # numbers in the updates held at once


def why_not_pairs(case: Case) -> str:
    """The conditions of every formula about perfect matchings of quadratics."""
    if why := not_on_matchings(case):
        return why
    if not case.is_quadratic:
        return f"exact gradients are known of quadratics, not of {case.problem_kind}"
    if not case.is_perfect:
        return "needs perfect matchings; here nodes idle"
    return not_fresh(case)


def applied(case: Case, pairs: list[tuple[int, int]], a: NDArray[Any], t: NDArray[Any]) -> Any:
    """v_e = (d/q) (1/K) Σ_k u_k u_kᵀ a_e in rounds t, as the tape draws them: (rounds, pairs, d)."""
    shape, how = (len(t), len(pairs), case.q), case.directions
    u, more = several(case, pairs, t)
    index = np.broadcast_to(u.index, shape)
    here = np.take_along_axis(np.broadcast_to(a, (len(t), *a.shape)), index, -1)
    total: NDArray[Any] = np.zeros(shape)
    for each in (u.signs, *(more[..., k, :] for k in range(how.K - 1))):
        signs = np.broadcast_to(each, shape)
        total += case.d / case.q / how.K * (here * signs).sum(-1)[..., None] * signs
    out = np.zeros((len(t), *a.shape))
    np.put_along_axis(out, index, total, axis=-1)
    return out


def several(case: Case, pairs: list[tuple[int, int]], t: NDArray[Any]) -> tuple[Direction, NDArray[Any]]:
    """The first direction of each pair in rounds t, and the signs of K − 1 more, (…, K − 1, q)."""
    coupling, (i, j), rounds = COUPLINGS[case.coupling], np.array(pairs).T, t[:, None]
    u = coupling.directions(case.tape(), rounds, i, j, d=case.d, q=case.q)
    ids = (i, j) if coupling.own_signs else ()
    K, signs = case.directions.K, case.settings["signs"]
    vectors = draw_sign_vectors(case.tape(), rounds, *ids, q=case.q, directions=K, signs=signs)
    return u, vectors[..., 1:, :]


def coupling_moments(case: Case, about: About) -> Iterator[Measurement]:
    """V and U at the start, over fresh directions of a fixed matching."""
    problem, pairs = case.quadratic, pairs_of(case.world.schedule.partners(case.tape(), 0))
    found = moments.pair_gradients(gradients(problem, problem.x0), pairs)
    a, rounds = np.asarray(found.a, float), np.arange(PER_TAPE * case.tapes)
    V, U = [], []
    for t in np.array_split(rounds, -(-len(rounds) * a.size // BLOCK)):
        v = applied(case, pairs, a, t)
        mean = v.mean(axis=1)
        V.append(((mean - a.mean(axis=0)) ** 2).sum(axis=-1))
        U.append(((v - mean[:, None]) ** 2).sum(axis=-1).mean(axis=-1))
    sizes = {"d": case.d, "q": case.q, "pairs": len(pairs)}
    how = case.directions
    told = moments.coupling_moments(case.coupling, **sizes, a2=found.a2, H2=found.H2, directions=how)
    note = f"at the start, {len(rounds):,} draws"
    yield about.sampled(told.V, np.concatenate(V), note)
    yield about._replace(formula="U of the coupling", label="eq:corr_injection").sampled(
        told.U, np.concatenate(U), note
    )


def disagreement_step(case: Case, about: About) -> Iterator[Measurement]:
    """From states that disagree, given each tape's matching; without noise, from zero momentum."""
    problem = with_noise(case.quadratic, None)
    x = problem.x0 + case.spread_states() / 16
    g, eta = gradients(problem, x), case.method.eta_at(0) * (1 - case.beta)

    @cache
    def told(pairs: tuple[tuple[int, int], ...]) -> float:
        sizes: dict[str, Any] = {"q": case.q, "matching": list(pairs), "directions": case.directions}
        step = steps.disagreement_step(case.coupling, x, g, **sizes, eta=eta)
        return float(step.after)

    predicted, measured = [], []
    for seeds, sim in case.simulated(1, x=x, problem=problem):
        predicted += [told(tuple(pairs_of(row))) for row in case.partners(seeds, 0)]
        measured.append(disagreement(sim.states(), sim.states().mean(axis=-2)))
    yield about.sampled(predicted, np.concatenate(measured), "from states that disagree, no noise")


def why_not_step(case: Case) -> str:
    if case.directions.sides == 1:
        return "one side adds variance by its curvature; E disagreement has it"
    return why_not_pairs(case) or not_plain(case)


def why_not_certified(case: Case) -> str:
    if why := why_not_pairs(case) or not_plain(case):
        return why
    if case.directions != ONE:
        return "the theorem is about one direction and two sides"
    if not case.cycle.is_iid:
        return f"the theorem needs independent matchings; those of {case.world.schedule_name} are not"
    if case.beta or np.any(case.quadratic.sigma):
        return "the theorem is about updates without momentum and noise"
    if case.method.eta == 0:
        return "a step of 0 needs no certificate"
    if case.method.decay.kind != "constant":
        return "the theorem is about a constant step"
    return ""


def certificate(case: Case, about: About) -> Iterator[Measurement]:
    L, sizes = float(2 * case.quadratic.half.max()), {"d": case.d, "q": case.q, "pairs": case.n // 2}
    chi, eta = case.cycle.mean.chi, case.method.eta_at(0)
    found = certificates.is_certified(case.coupling, **sizes, chi=chi, L=L, eta=eta)
    verdict = "certified" if found.certified else "not certified"
    note = f"{found.binds} condition at L = {L:.3g}; η is {found.ratio:.3g} × the limit"
    yield about.says(verdict, min(found.limits), found.eta, note)


def _words(case: Case) -> str:
    return f"{case.of_method}, {case.of_losses}, {case.on_schedule}"


def _step_words(case: Case) -> str:
    return f"{case.with_steps}, {case.of_losses}, {case.on_schedule}"


MOMENTS = Check("V of the coupling", "eq:corr_variance", why_not_pairs, _words, coupling_moments)
STEP = Check("disagreement step", "eq:corr_exact_disagreement", why_not_step, _step_words, disagreement_step)
CERTIFIED = Check("certified step", "eq:corr_step_condition", why_not_certified, _step_words, certificate)
