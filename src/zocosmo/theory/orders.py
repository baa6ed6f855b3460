"""Rates as the paper states them, up to a constant: how terms grow, not how large they are.

The hidden constants contain L, so terms differ even in their units; each is shown with the constant 1. For
numbers to compare with a run, use `bounds.py`.
"""

import math

from zocosmo.theory.numbers import check_finite
from zocosmo.theory.rates import Rate, Regime, Term, check_rho, check_rounds


def core_order(regime: Regime, *, eta: float, mu: float, rho: float, T: int, E0: float = 0.0) -> Rate:
    """R_T of the core update at any feasible η and μ   [eq:main_convergence]

    O( Δ₀/ηT + ηdσ²/N + μ⁴d²q² + η²d [d(G² + σ²) + μ⁴d²q²] / q(1 − ρ²)² + dℰ_0 / qT(1 − ρ²) )
    """
    check_rho(rho)
    check_rounds(T)
    check_finite("eta", eta, above=True)
    d, q, gap, bias = regime.d, regime.q, 1 - rho**2, mu**4 * (regime.d * regime.q) ** 2
    moment = d * (regime.gradient2 + regime.sigma2) + bias
    terms = {
        "descent": Term(regime.Delta0 / (eta * T), 1),
        "noise": Term(eta * d * regime.sigma2 / regime.n),
        "bias": Term(bias),
        "mixing": Term(eta**2 * d * moment / (q * gap**2)),
        "start": Term(d * E0 / (q * T * gap), 1),
    }
    return Rate("eq:main_convergence", False, T, terms, regime.ceiling)


def horizon_order(regime: Regime, *, rho: float, T: int, c: float = 1.0) -> Rate:
    """R_T with η = c T^(−1/2), canonical μ and a common start   [eq:simplified_bigo_rate]

        O( Δ₀/c√T + c dσ²/N√T + 1/T + c² d²(G² + σ²) / q(1 − ρ²)²T )

    >>> regime = Regime(d=8, q=2, n=4, L=1.0, Delta0=1.0, G2=1.0, sigma2=1.0)
    >>> {name: term.value for name, term in horizon_order(regime, rho=0.0, T=4).terms.items()}
    {'descent': 0.5, 'noise': 1.0, 'bias': 0.25, 'mixing': 16.0}
    """
    check_rho(rho)
    check_rounds(T)
    check_finite("c", c, above=True)
    root = math.sqrt(T)
    terms = {
        "descent": Term(regime.Delta0 / (c * root), 0.5),
        "noise": Term(c * regime.d * regime.sigma2 / (regime.n * root), 0.5),
        "bias": Term(1 / T, 1),
        "mixing": Term(c * c * _network(regime, rho) / (regime.q * T), 1),
    }
    return Rate("eq:simplified_bigo_rate", False, T, terms, regime.ceiling)


def node_scaled_order(regime: Regime, *, rho: float, T: int) -> Rate:
    """R_T at η⋆ = √(NΔ₀ / dσ²T), which balances descent and noise   [eq:main_worker_scaled_rate]

        O( √(Δ₀dσ²/NT) + 1/T + NΔ₀ d(G² + σ²) / q(1 − ρ²)²σ²T )

    More nodes average out more noise. η⋆ ≤ 1/8Ld as in `core_bound` takes T ≥ 64 L² N Δ₀ d / σ².
    """
    check_rho(rho)
    check_rounds(T)
    check_finite("sigma2", regime.sigma2, above=True)
    d, n, sigma2 = regime.d, regime.n, regime.sigma2
    network = n * regime.Delta0 * d * (regime.gradient2 + sigma2)
    terms = {
        "noise": Term(math.sqrt(regime.Delta0 * d * sigma2 / (n * T)), 0.5),
        "bias": Term(1 / T, 1),
        "mixing": Term(network / (regime.q * (1 - rho**2) ** 2 * sigma2 * T), 1),
    }
    return Rate("eq:main_worker_scaled_rate", False, T, terms, regime.ceiling)


def budget_order(regime: Regime, *, rho: float, bits: int, value_bits: int = 32) -> Rate:
    """R_T at a budget of bits on each directed link, T = ⌊ℬ / qB_val⌋   [eq:main_budget_convergence]

        O( (Δ₀ + dσ²/N) √(qB_val/ℬ) + qB_val/ℬ + d²(G² + σ²)B_val / (1 − ρ²)²ℬ )

    The mixing term does not depend on q: larger supports mix more and cost as much more.
    """
    check_rho(rho)
    price = regime.q * value_bits
    if value_bits < 1 or bits < 2 * price:
        raise ValueError(f"{bits} bits do not pay for two rounds of {price} bits; raise the budget")
    share = price / bits
    terms = {
        "descent": Term(regime.Delta0 * math.sqrt(share), 0.5),
        "noise": Term(regime.d * regime.sigma2 / regime.n * math.sqrt(share), 0.5),
        "bias": Term(share, 1),
        "mixing": Term(_network(regime, rho) * value_bits / bits, 1),
    }
    return Rate("eq:main_budget_convergence", False, bits // price, terms, regime.ceiling)


def _network(regime: Regime, rho: float) -> float:
    """d² (G² + σ²) / (1 − ρ²)²   [eq:budget_ab_def]"""
    return regime.d**2 * (regime.gradient2 + regime.sigma2) / (1 - rho**2) ** 2
