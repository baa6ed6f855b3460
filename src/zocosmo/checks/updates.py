"""One round of estimates on quadratics, whose gradients are known: moments, disagreement, certificates."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.check import Check
from zocosmo.checks.draws import PER_TAPE
from zocosmo.checks.row import About, Row
from zocosmo.checks.setting import Setting, gradients, is_uniform, on_matchings, pairs_of, without_noise
from zocosmo.core.coupling import COUPLINGS
from zocosmo.oracle import disagreement
from zocosmo.problems.quadratic import Quadratic
from zocosmo.theory import certificates, mixing, moments, steps

BLOCK = 2**20  # numbers of updates held at once


def quadratic_of(setting: Setting) -> Quadratic:
    assert setting.quadratic is not None
    return setting.quadratic


def why_not_pairs(setting: Setting) -> str:
    """What every formula about perfect matchings of quadratics asks."""
    if not on_matchings(setting):
        return "mixes with all neighbours, not on matchings"
    if setting.quadratic is None:
        return f"exact gradients are known of quadratics, not of {dict(setting.trial.problem)['kind']}"
    if setting.cycle is None or not setting.cycle.is_perfect:
        return "needs perfect matchings; here nodes idle"
    if not is_uniform(setting):
        return "balanced supports are not drawn afresh in every round"
    return ""


def applied(setting: Setting, pairs: list[tuple[int, int]], a: NDArray[Any], t: NDArray[Any]) -> Any:
    """v_e = (d/q) u_e u_eᵀ a_e of all pairs in rounds t, (rounds, pairs, d), along directions of the tape."""
    i, j = np.array(pairs).T
    coupling = COUPLINGS[getattr(setting.method, "coupling", "I")]
    u = coupling.directions(setting.tape(), t[:, None], i, j, d=setting.d, q=setting.q)
    index, signs = (np.broadcast_to(part, (len(t), len(pairs), setting.q)) for part in (u.index, u.signs))
    slope = (np.take_along_axis(np.broadcast_to(a, (len(t), *a.shape)), index, -1) * signs).sum(-1)
    out = np.zeros((len(t), *a.shape))
    np.put_along_axis(out, index, setting.d / setting.q * slope[..., None] * signs, axis=-1)
    return out


def first_pairs(setting: Setting) -> list[tuple[int, int]]:
    return pairs_of(setting.world.schedule.partners(setting.tape(), 0))


def coupling_moments(setting: Setting, about: About) -> Iterator[Row]:
    """V and U at the start, over fresh directions of a fixed matching."""
    problem, pairs = quadratic_of(setting), first_pairs(setting)
    found = moments.pair_gradients(gradients(problem, problem.x0), pairs)
    a, rounds = np.asarray(found.a, float), np.arange(PER_TAPE * setting.tapes)
    V, U = [], []
    for t in np.array_split(rounds, -(-len(rounds) * a.size // BLOCK)):
        v = applied(setting, pairs, a, t)
        mean = v.mean(axis=1)
        V.append(((mean - a.mean(axis=0)) ** 2).sum(axis=-1))
        U.append(((v - mean[:, None]) ** 2).sum(axis=-1).mean(axis=-1))
    name = getattr(setting.method, "coupling", "I")
    told = moments.coupling_moments(
        name, d=setting.d, q=setting.q, pairs=len(pairs), a2=found.a2, H2=found.H2
    )
    note = f"at the start, {len(rounds):,} draws"
    yield about.sampled(told.V, np.concatenate(V), note)
    yield about._replace(formula="U of the coupling", label="eq:corr_injection").sampled(
        told.U, np.concatenate(U), note
    )


def disagreement_step(setting: Setting, about: About) -> Iterator[Row]:
    """From states that disagree, given each tape's own matching; noise left out, momentum still empty."""
    problem = without_noise(quadratic_of(setting))
    x = problem.x0 + setting.spread_states() / 16
    g, beta = gradients(problem, x), getattr(setting.method, "beta", 0.0)
    eta = setting.method.eta_at(0) * (1 - beta)
    name, kept = getattr(setting.method, "coupling", "I"), dict[tuple[Any, ...], float]()

    def told(pairs: list[tuple[int, int]]) -> float:
        key = tuple(pairs)
        if key not in kept:
            after = steps.disagreement_step(name, x, g, matching=pairs, q=setting.q, eta=eta).after
            kept[key] = float(after)
        return kept[key]

    predicted, measured = [], []
    for seeds, sim in setting.simulated(1, x=x, problem=problem):
        predicted += [told(pairs_of(row)) for row in setting.partners(seeds, 0)]
        measured.append(disagreement(sim.states(), sim.states().mean(axis=-2)))
    yield about.sampled(predicted, np.concatenate(measured), "from states that disagree, no noise")


def why_not_certified(setting: Setting) -> str:
    if why := why_not_pairs(setting):
        return why
    if setting.cycle is None or not setting.cycle.is_iid:
        return f"the theorem asks independent matchings; {setting.world.schedule_name} has none"
    if getattr(setting.method, "beta", 0.0) or np.any(quadratic_of(setting).sigma):
        return "the theorem is about updates without momentum and noise"
    if setting.method.eta == 0:
        return "a step of 0 needs no certificate"
    if setting.method.decay.kind != "constant":
        return "the theorem is about a constant step"
    return ""


def certificate(setting: Setting, about: About) -> Iterator[Row]:
    assert setting.cycle is not None
    gap = mixing.lambda2(mixing.laplacian(setting.n, setting.cycle.edge_law()))
    L = float(2 * quadratic_of(setting).half.max())
    name = getattr(setting.method, "coupling", "I")
    found = certificates.is_certified(
        setting.method.eta_at(0), name, d=setting.d, q=setting.q, pairs=setting.n // 2, chi=1 - gap / 2, L=L
    )
    verdict = "certified" if found.certified else "not certified"
    note = f"{found.binds} condition at L = {L:.3g}; η is {found.ratio:.3g} × the limit"
    yield about.says(verdict, min(found.limits), found.eta, note)


def _words(setting: Setting) -> str:
    return f"{setting.of_method}, {setting.of_losses}, {setting.on_schedule}"


def _step_words(setting: Setting) -> str:
    return f"{setting.with_steps}, {setting.of_losses}, {setting.on_schedule}"


MOMENTS = Check("V of the coupling", "eq:corr_variance", why_not_pairs, _words, coupling_moments)
STEP = Check("disagreement step", "eq:corr_exact_disagreement", why_not_pairs, _step_words, disagreement_step)
CERTIFIED = Check("certified step", "eq:corr_step_condition", why_not_certified, _step_words, certificate)
