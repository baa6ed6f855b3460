"""Pair invariance, moments with stored momentum and noise, convergence bounds: with the real methods."""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.checks.case import Case, gradients, not_fresh, not_on_matchings, not_plain, pairs_of, with_noise
from zocosmo.checks.check import Check
from zocosmo.checks.measurement import About, Measurement
from zocosmo.checks.updates import why_not_pairs
from zocosmo.core.tape import Tape
from zocosmo.theory import bounds, moments, momentum, ring
from zocosmo.theory.directions import ONE
from zocosmo.theory.rates import Rate, Regime

ROUNDS = 40  # of the runs that bounds are held against

Array = NDArray[Any]


# A V = V: an update that is equal within each pair passes mixing unchanged


def invariance(case: Case, about: About) -> Iterator[Measurement]:
    """States that are a pair's update, mixed by the real method with η = 0, bit for bit."""
    off, looked = 0, 0
    for seeds, sim in case.simulated(0, eta=0.0):
        draw: Any = case.method.draw(case.world, Tape.stack(seeds), np.asarray(0))
        shape = (len(seeds), case.n, case.q)
        index, signs = (np.broadcast_to(part, shape) for part in (draw.u.index, draw.u.signs))
        sizes = 1.0 + np.minimum(draw.partners, np.arange(case.n))  # the same at both ends of a pair
        V = np.zeros((*shape[:2], case.d))
        np.put_along_axis(V, index, sizes[..., None] * signs, axis=-1)
        sim.state = sim.method.init(V.copy())
        sim.round()
        off, looked = off + int((sim.states() != V).sum()), looked + V.size
    yield about.equal(0, off, f"entries that mixing changed, of {looked:,}")


def _on_pairs(case: Case) -> str:
    return not_on_matchings(case) or not_plain(case) or not_fresh(case)


# V and U with stored momentum and oracle noise


def why_not_stored(case: Case) -> str:
    if why := why_not_pairs(case) or not_plain(case):
        return why
    if case.directions != ONE:
        return "the formula is about one direction and two sides"
    if case.method.eta == 0:
        return "a step of 0 applies no update"
    if not case.beta and not np.any(case.quadratic.sigma):
        return "without momentum and noise it is V of the coupling"
    return ""


def stored(case: Case, about: About) -> Iterator[Measurement]:
    """One round from states and momenta that disagree: pair means move by −η w_e, the average by −η w̄."""
    problem, eta = case.quadratic, case.method.eta_at(0)
    x, m = problem.x0 + case.spread_states() / 16, case.spread_states()[::-1] / 4
    g, sigma2 = gradients(with_noise(problem, None), x), float(np.max(problem.sigma)) ** 2
    nu = case.beta * case.q / case.d * m.mean(axis=0) * bool(case.beta) + (1 - case.beta) * g.mean(axis=0)

    @cache
    def told(pairs: tuple[tuple[int, int], ...]) -> moments.Moments:
        a, c = moments.pair_means(g, pairs), moments.pair_means(m, pairs) * bool(case.beta)
        return momentum.momentum_moments(case.coupling, a, c, q=case.q, beta=case.beta, sigma2=sigma2)

    predicted: list[moments.Moments] = []
    V, U = [], []
    for seeds, sim in case.simulated(0, x=x, problem=problem):
        if case.beta:
            sim.state = sim.state._replace(m=np.array(np.broadcast_to(m, (len(seeds), *m.shape)), float))
        sim.round()
        moved = (x - sim.states()) / eta
        mean = moved.mean(axis=-2)
        for each, row, centre in zip(moved, case.partners(seeds, 0), mean, strict=True):
            pairs = pairs_of(row)
            predicted.append(told(tuple(pairs)))
            w = moments.pair_means(each, pairs)
            V.append(((centre - nu) ** 2).sum())
            U.append(((w - centre) ** 2).sum(axis=-1).mean())
    note = "one round from states and momenta that disagree"
    yield about.sampled([float(each.V) for each in predicted], V, note)
    yield about._replace(formula="U with momentum and noise", label="eq:momentum_energy_v23").sampled(
        [float(each.U) for each in predicted], U, note
    )


# Convergence bounds against the run they are about


class Seen(NamedTuple):
    """What a bound is about, over all tapes, and what it assumes of the run."""

    R: float  # mean over t < T of E‖∇F(x̄_t)‖²
    G2: float  # the most of mean_i E‖∇F_i(x_i)‖² over t


def seen(case: Case, rounds: int) -> Seen:
    problem = case.quadratic
    half, b = problem.half.mean(axis=-2), problem.b.mean(axis=-2)
    R, G2 = np.zeros(rounds), np.zeros(rounds)
    for seeds, sim in case.simulated(0, problem=problem):
        share = len(seeds) / case.tapes
        for t in range(rounds):
            x = sim.states()
            slope = 2 * half * x.mean(axis=-2) + b
            R[t] += share * float((slope**2).sum(axis=-1).mean())
            G2[t] += share * float((gradients(problem, x) ** 2).sum(axis=-1).mean())
            sim.round()
    return Seen(float(R.mean()), float(G2.max()))


def regime(case: Case, G2: float) -> Regime:
    problem = case.quadratic
    half, b = problem.half.mean(axis=-2), problem.b.mean(axis=-2)
    best = float((-(b**2) / (4 * half)).sum())
    start = float((half * problem.x0**2 + b * problem.x0).sum())
    sizes = {"d": case.d, "q": case.q, "n": case.n}
    sigma2 = float(np.max(problem.sigma)) ** 2
    return Regime(**sizes, L=float(2 * problem.half.max()), Delta0=start - best, G2=G2, sigma2=sigma2)


def why_not_bound(case: Case) -> str:
    if case.method.kind not in ("cosmo", "edge_local"):
        return "the theorems are about cosmo and edge_local"
    if not case.is_quadratic:
        return f"gradients along a run are known of quadratics, not of {case.problem_kind}"
    if case.directions != ONE:
        return "the theorems are about one direction and two sides"
    if case.method.eta == 0 or case.method.decay.kind != "constant":
        return "the theorems are about a constant step above 0"
    return not_fresh(case) or not_plain(case)


def why_not_core(case: Case) -> str:
    if case.method.kind == "edge_local" or case.beta:
        return "the theorem is about global supports without momentum"
    if why := why_not_bound(case):
        return why
    if case.method.eta > 1 / (8 * float(2 * case.quadratic.half.max()) * case.d):
        return "the step is above 1/8Ld, where this bound ends"
    return ""


def why_not_momentum(case: Case) -> str:
    if why := why_not_bound(case):
        return why
    if case.on_matchings and not (case.is_perfect and _contraction(case)[1] > 0):
        return "needs perfect matchings that connect all nodes"
    return ""


def _contraction(case: Case) -> tuple[int, float]:
    """h and γ: blocks of h rounds contract disagreement by 1 − γ."""
    p = case.q / case.d
    if not case.on_matchings:
        return 1, p * (1 - _rho(case) ** 2)
    if case.world.schedule_name == "alternating":
        return 2, float(ring.paper_block_gap(case.n, d=case.d, q=case.q))
    return (1, p * float(case.cycle.mean.lambda2) / 2) if case.cycle.is_iid else (1, 0.0)


def _rho(case: Case) -> float:
    W = case.weights()
    return float(np.abs(np.linalg.eigvalsh(W - 1 / case.n)).max())


def core(case: Case, about: About) -> Iterator[Measurement]:
    rounds = min(case.plan.last, ROUNDS)
    found = seen(case, rounds)
    steps = {"eta": case.method.eta_at(0), "mu": case.method.mu, "rho": _rho(case)}
    yield _held(about, bounds.core_bound(regime(case, found.G2), **steps, T=rounds), found)


def with_momentum(case: Case, about: About) -> Iterator[Measurement]:
    rounds = min(case.plan.last, ROUNDS)
    found, (h, gamma) = seen(case, rounds), _contraction(case)
    steps = {"eta": case.method.eta_at(0), "mu": case.method.mu, "beta": case.beta, "gamma": gamma}
    yield _held(about, bounds.momentum_bound(regime(case, found.G2), **steps, h=h, T=rounds), found)


def _held(about: About, bound: Rate, found: Seen) -> Measurement:
    useful = "" if not bound.vacuous else ", which standing still satisfies too"
    note = f"R_T after {bound.T} rounds; the bound is {bound.total / found.R:.3g} × it{useful}"
    return about.at_most(bound.total, found.R, note)


def _words(case: Case) -> str:
    return f"{case.with_steps}, {case.of_problem}, {case.where}"


def _pair_words(case: Case) -> str:
    return f"{case.of_method}, d={case.d}, {case.on_schedule}"


INVARIANCE = Check("pair invariance", "eq:corr_pair_invariance", _on_pairs, _pair_words, invariance)
STORED = Check("V with momentum and noise", "prop:momentum_moments_v23", why_not_stored, _words, stored)
CORE = Check("bound on R_T", "thm:convergence", why_not_core, _words, core)
MOMENTUM = Check(
    "bound on R_T with momentum", "thm:momentum_convergence", why_not_momentum, _words, with_momentum
)
