"""Bounds on R_T and on disagreement with every constant worked out: numbers to compare with a run."""

import math
from typing import NamedTuple

from zocosmo.theory.certificates import coupling_constants, is_certified
from zocosmo.theory.numbers import Number, check_beta, check_finite, rational, share
from zocosmo.theory.rates import Rate, Regime, Term, check_rho, check_rounds


class Recursion(NamedTuple):
    """ℰ⁺ ≤ κ ℰ + f η² M²: masked disagreement of one round."""

    kappa: Number
    factor: Number


def masked_recursion(*, d: int, q: int, rho2: Number) -> Recursion:
    """κ and f of global-support mixing   [eq:consensus_recursion, eq:consensus_average_final]

        κ = 1 − p (1 − ρ²)/2        f = ρ² + 2ρ⁴/(1 − ρ²) = ρ² (1 + ρ²)/(1 − ρ²)

    The proof rounds f up to C/(1 − ρ²) [eq:rho_alpha_payload]. rho2 = ρ².

    >>> from fractions import Fraction
    >>> masked_recursion(d=8, q=2, rho2=Fraction(1, 3))
    Recursion(kappa=Fraction(11, 12), factor=Fraction(2, 3))
    """
    check_rho(float(rho2))
    r = rational(rho2)
    return Recursion(1 - share(d, q) * (1 - r) / 2, r + 2 * r * r / (1 - r))


def core_bound(regime: Regime, *, eta: float, mu: float, rho: float, T: int, E0: float = 0.0) -> Rate:
    """R_T of global-support ZO-COSMO without momentum, for η ≤ 1/8Ld   [thm:convergence, eq:main_convergence]

        R_T ≤ 2Δ₀/ηT + 2Lη dσ²/N + (17/4) B_μ² + (9/2) L² [ℰ_0/T(1 − κ) + f η² M_node²/(1 − κ)]

    The bracket bounds the mean of ℰ_t [eq:consensus_average_unrolled]. The paper leaves the constants open;
    these follow from its proof, with g = ∇F(x̄) [lemma:avg_estimator_shared_direction]:

        E‖ḡ‖² ≤ 4d‖g‖² + 4dL²ℰ + 2dσ²/N + 2B_μ²        E⟨g, ḡ⟩ ≥ ¾‖g‖² − 2L²ℰ − 2B_μ²

    and 2Lηd ≤ ¼ leaves −η/2 of ‖g‖², (9/4)ηL² of ℰ and (17/8)η of B_μ² in the descent inequality.
    """
    check_rho(rho)
    check_rounds(T)
    check_finite("eta", eta, above=True)
    if eta > (most := 1 / (8 * regime.L * regime.d)):
        raise ValueError(f"eta = {eta:g} is above 1/8Ld = {most:.4g}, where this bound ends; lower eta")
    L2, recursion = regime.L**2, masked_recursion(d=regime.d, q=regime.q, rho2=float(rho) ** 2)
    left = 1 - float(recursion.kappa)
    terms = {
        "descent": Term(2 * regime.Delta0 / (eta * T), 1),
        "noise": Term(2 * regime.L * eta * regime.d * regime.sigma2 / regime.n),
        "bias": Term(17 / 4 * regime.B(mu) ** 2),
        "mixing": Term(9 / 2 * L2 * float(recursion.factor) * eta**2 * regime.M2(mu) / left),
        "start": Term(9 / 2 * L2 * E0 / (T * left), 1),
    }
    return Rate("thm:convergence", T, terms, regime.ceiling)


def momentum_bound(
    regime: Regime, *, eta: float, mu: float, beta: float, h: int, gamma: float, T: int
) -> Rate:
    """R_T with sparse momentum, global or on perfect matchings, any η
    [thm:momentum_convergence, eq:momentum_finite_rate]

        R_T ≤ 4Δ₀/ηT + 2Lη M² + 6B_μ² + 6L²η²M² (√6 h/γ + h − 1)² + 8L²η²M² a_β²/p

    M = M_node, a_β = β/(1 − β). From the proof: descent at z = x̄ − ηa_β m̄ with E‖E ḡ − ∇F(z)‖² at most
    3 (L²ℰ + L²η²a_β²M²/p + B_μ²), then ‖∇F(x̄)‖² ≤ 2‖∇F(z)‖² + 2L²‖x̄ − z‖². Blocks of h rounds contract
    disagreement by 1 − γ, so √ℰ ≤ ηM (√6 h/γ + h − 1) [eq:momentum_disagreement_bound]: h = 1, γ = p(1 − ρ²)
    for global support, pλ₂/2 for independent matchings, and h = 2, γ = (p/3)(1 − cos 2π/N) for the
    alternating ring. E‖m_i‖² ≤ M²/p [eq:momentum_uniform_moments]
    """
    check_rounds(T)
    check_finite("eta", eta, above=True)
    check_beta(beta)
    if h < 1 or not 0 < gamma <= 1:
        raise ValueError(f"h = {h} rounds cannot contract by gamma = {gamma}; use h ≥ 1 and 0 < gamma ≤ 1")
    L, M2, p = regime.L, regime.M2(mu), regime.q / regime.d
    apart = eta * eta * M2 * (math.sqrt(6) * h / gamma + h - 1) ** 2
    terms = {
        "descent": Term(4 * regime.Delta0 / (eta * T), 1),
        "noise": Term(2 * L * eta * M2),
        "bias": Term(6 * regime.B(mu) ** 2),
        "mixing": Term(6 * L * L * apart),
        "memory": Term(8 * (L * eta * beta / (1 - beta)) ** 2 * M2 / p),
    }
    return Rate("eq:momentum_finite_rate", T, terms, regime.ceiling)


def coupling_bound(coupling: str, regime: Regime, *, eta: float, mu: float, chi: Number, T: int) -> Rate:
    """R_T of the matching core under a coupling, for certified η   [eq:corr_explicit_core_rate]

        R_T ≤ 4Δ₀/ηT + 8Lητχζ² + 192η²L²Jζ²/γ + [12 + (48η²L²/γ)(2 + 4/γ)] B_μ²

    For deterministic losses, independent perfect matchings and a common start; needs no bound on gradients.
    Under G the second term vanishes with τ.
    """
    check_rounds(T)
    if regime.sigma2:
        raise ValueError(f"sigma2 = {regime.sigma2}: this bound is without noise; use momentum_bound")
    if regime.n % 2:
        raise ValueError(f"n = {regime.n} nodes have no perfect matching; use an even number")
    sizes = {"d": regime.d, "q": regime.q, "pairs": regime.n // 2}
    certificate = is_certified(coupling, **sizes, chi=chi, L=regime.L, eta=eta)
    if not certificate.certified:
        raise ValueError(f"{certificate}; lower eta")
    known = coupling_constants(coupling, **sizes, chi=chi)
    tau, J, gamma, stretch = float(known.tau), float(known.J), float(known.gamma), (eta * regime.L) ** 2
    terms = {
        "descent": Term(4 * regime.Delta0 / (eta * T), 1),
        "heterogeneity": Term(8 * regime.L * eta * tau * float(chi) * regime.zeta2),
        "mixing": Term(192 * stretch * J / gamma * regime.zeta2),
        "bias": Term((12 + 48 * stretch / gamma * (2 + 4 / gamma)) * regime.B(mu) ** 2),
    }
    return Rate("eq:corr_explicit_core_rate", T, terms, regime.ceiling)
