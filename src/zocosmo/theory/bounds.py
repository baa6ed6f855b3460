"""Bounds on R_T and on disagreement with every constant worked out: numbers to hold a run against."""

import math
from fractions import Fraction
from typing import NamedTuple

from zocosmo.theory.certificates import coupling_constants, is_certified
from zocosmo.theory.numbers import Number, check_size, rational, whole
from zocosmo.theory.rates import Rate, Setting, Term, ceiling_of, check_rho, check_rounds, check_step


class Recursion(NamedTuple):
    """ℰ⁺ ≤ κ ℰ + f η² M²: masked disagreement of one round."""

    kappa: Number
    factor: Number

    def average(self, *, eta: Number, M2: Number, T: int, E0: Number = 0) -> Number:
        """T⁻¹ Σ_{t<T} ℰ_t ≤ ℰ_0 / T(1 − κ) + f η² M² / (1 − κ)   [eq:consensus_average_unrolled]"""
        check_rounds(T)
        left = 1 - self.kappa
        return rational(E0) / (T * left) + self.factor * rational(eta) ** 2 * rational(M2) / left

    def after(self, *, eta: Number, M2: Number, T: int, E0: Number = 0) -> Number:
        """ℰ_T ≤ κ^T ℰ_0 + f η² M² (1 − κ^T) / (1 − κ)"""
        kept = self.kappa ** whole("T", T, 0)
        pushed = self.factor * rational(eta) ** 2 * rational(M2)
        return kept * rational(E0) + pushed * (1 - kept) / (1 - self.kappa)


def masked_recursion(*, d: int, q: int, rho2: Number) -> Recursion:
    """κ and f of global-support mixing   [eq:consensus_recursion, eq:consensus_average_final]

        κ = 1 − p (1 − ρ²)/2        f = ρ² + 2ρ⁴/(1 − ρ²) = ρ² (1 + ρ²)/(1 − ρ²)

    f is what the proof has before it is rounded up to C/(1 − ρ²) [eq:rho_alpha_payload]. rho2 = ρ².

    >>> masked_recursion(d=8, q=2, rho2=Fraction(1, 3))
    Recursion(kappa=Fraction(11, 12), factor=Fraction(2, 3))
    """
    d, q = check_size(d, q)
    check_rho(float(rho2))
    r = rational(rho2)
    return Recursion(1 - Fraction(q, d) * (1 - r) / 2, r + 2 * r * r / (1 - r))


class BlockDisagreement(NamedTuple):
    """Bounds on ℰ_t from a common start; M2 bounds E‖v_i‖²."""

    at_blocks: float  # t a multiple of h, as the proof prints it
    anywhere: float  # any t
    sharp: float  # t a multiple of h, by the triangle inequality in L²: never above at_blocks


def block_disagreement(*, eta: float, M2: float, h: int, gamma: float) -> BlockDisagreement:
    """ℰ of any update with E‖v_i‖² ≤ M² over blocks of h rounds that contract by 1 − γ

        t = kh:     ℰ ≤ 6 η² h² M²/γ²                        [eq:momentum_disagreement_bound]
        any t:      √ℰ ≤ ηM (√6 h/γ + h − 1), adding the steps of an open block
        t = kh:     √ℰ⁺ ≤ √(1 − γ) √ℰ + ηhM  gives  ℰ ≤ η² h² M² / (1 − √(1 − γ))² ≤ 4 η² h² M²/γ²

    >>> block_disagreement(eta=0.5, M2=1.0, h=1, gamma=0.75).sharp
    1.0
    """
    if h < 1 or not 0 < gamma <= 1:
        raise ValueError(f"h = {h} rounds cannot contract by gamma = {gamma}; use h ≥ 1 and 0 < gamma ≤ 1")
    check_step(eta)
    unit = eta * eta * M2
    return BlockDisagreement(
        6 * unit * (h / gamma) ** 2,
        unit * (math.sqrt(6) * h / gamma + h - 1) ** 2,
        unit * (h / (1 - math.sqrt(1 - gamma))) ** 2,
    )


def core_bound(setting: Setting, *, eta: float, mu: float, rho: float, T: int, E0: float = 0.0) -> Rate:
    """R_T of global-support ZO-COSMO without momentum, for η ≤ 1/8Ld   [thm:convergence]

        R_T ≤ 2Δ₀/ηT + 2Lη dσ²/N + (17/4) B_μ² + (9/2) L² [ℰ_0/T(1 − κ) + f η² M_node²/(1 − κ)]

    The printed result hides its constants; these come from its proof, with g = ∇F(x̄):

        E‖ḡ‖² ≤ 4d‖g‖² + 4dL²ℰ + 2dσ²/N + 2B_μ²        E⟨g, ḡ⟩ ≥ ¾‖g‖² − 2L²ℰ − 2B_μ²

    and 2Lηd ≤ ¼ leaves −η/2 of ‖g‖², (9/4)ηL² of ℰ and (17/8)η of B_μ² in the descent inequality.
    """
    check_rho(rho)
    check_rounds(T)
    _at_most(eta, 1 / (8 * setting.L * setting.d), "1/8Ld")
    L2, recursion = setting.L**2, masked_recursion(d=setting.d, q=setting.q, rho2=float(rho) ** 2)
    left = 1 - float(recursion.kappa)
    terms = {
        "descent": Term(2 * setting.Delta0 / (eta * T), 1),
        "noise": Term(2 * setting.L * eta * setting.d * setting.sigma2 / setting.n),
        "bias": Term(17 / 4 * setting.B(mu) ** 2),
        "mixing": Term(9 / 2 * L2 * float(recursion.factor) * eta**2 * setting.M2(mu) / left),
        "start": Term(9 / 2 * L2 * E0 / (T * left), 1),
    }
    return Rate("thm:convergence", True, T, terms, ceiling_of(setting))


def momentum_bound(
    setting: Setting, *, eta: float, mu: float, beta: float, h: int, gamma: float, T: int
) -> Rate:
    """R_T with sparse momentum, global or on perfect matchings, any η   [eq:momentum_finite_rate]

        R_T ≤ 4Δ₀/ηT + 2Lη M² + 6B_μ² + 6L²η²M² (√6 h/γ + h − 1)² + 8L²η²M² a_β²/p

    M = M_node, a_β = β/(1 − β). From the proof: descent at z = x̄ − ηa_β m̄ with E‖E ḡ − ∇F(z)‖² at most
    3 (L²ℰ + L²η²a_β²M²/p + B_μ²), then ‖∇F(x̄)‖² ≤ 2‖∇F(z)‖² + 2L²‖x̄ − z‖². Blocks of h rounds contract
    disagreement by 1 − γ: h = 1, γ = p(1 − ρ²) for global support, pλ₂/2 for independent matchings, and
    h = 2, γ = (p/3)(1 − cos 2π/N) for the alternating ring.
    """
    check_rounds(T)
    check_step(eta)
    if not 0 <= beta < 1:
        raise ValueError(f"beta = {beta} is no share of memory; it must be at least 0 and below 1")
    L, M2, p = setting.L, setting.M2(mu), setting.q / setting.d
    apart = block_disagreement(eta=eta, M2=M2, h=h, gamma=gamma).anywhere
    terms = {
        "descent": Term(4 * setting.Delta0 / (eta * T), 1),
        "noise": Term(2 * L * eta * M2),
        "bias": Term(6 * setting.B(mu) ** 2),
        "mixing": Term(6 * L * L * apart),
        "memory": Term(8 * (L * eta * beta / (1 - beta)) ** 2 * M2 / p),
    }
    return Rate("eq:momentum_finite_rate", True, T, terms, ceiling_of(setting))


def coupling_bound(coupling: str, setting: Setting, *, eta: float, mu: float, chi: Number, T: int) -> Rate:
    """R_T of the matching core under a coupling, for certified η   [eq:corr_explicit_core_rate]

        R_T ≤ 4Δ₀/ηT + 8Lητχζ² + 192η²L²Jζ²/γ + [12 + (48η²L²/γ)(2 + 4/γ)] B_μ²

    Deterministic losses, independent perfect matchings, a common start; no bound on gradients is needed.
    Under G the second term vanishes with τ.
    """
    check_rounds(T)
    if setting.sigma2:
        raise ValueError(f"sigma2 = {setting.sigma2}: this bound is for exact losses; use momentum_bound")
    if setting.n % 2:
        raise ValueError(f"n = {setting.n} nodes have no perfect matching; use an even number")
    sizes = {"d": setting.d, "q": setting.q, "pairs": setting.n // 2}
    certificate = is_certified(eta, coupling, **sizes, chi=chi, L=setting.L)
    if not certificate.certified:
        raise ValueError(f"{certificate}; lower eta")
    known = coupling_constants(coupling, **sizes, chi=chi)
    tau, J, gamma, stretch = float(known.tau), float(known.J), float(known.gamma), (eta * setting.L) ** 2
    terms = {
        "descent": Term(4 * setting.Delta0 / (eta * T), 1),
        "heterogeneity": Term(8 * setting.L * eta * tau * float(chi) * setting.zeta2),
        "mixing": Term(192 * stretch * J / gamma * setting.zeta2),
        "bias": Term((12 + 48 * stretch / gamma * (2 + 4 / gamma)) * setting.B(mu) ** 2),
    }
    return Rate("eq:corr_explicit_core_rate", True, T, terms, ceiling_of(setting))


def _at_most(eta: float, limit: float, rule: str) -> None:
    check_step(eta)
    if eta > limit:
        raise ValueError(f"eta = {eta:g} is above {rule} = {limit:.4g}, where the bound ends; lower eta")
