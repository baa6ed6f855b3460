"""R_T by the exact second-moment recursion, against the bounds of the theorems.

On F_i(x) = ½ L ‖x‖² + b_iᵀx with Σ b_i = 0, ‖∇F(x̄)‖² = 2L F(x̄) and ‖∇F_i(x_i)‖² = 2L F_i(x_i) + ‖b_i‖², so
expectations of F and of mean_i F_i(x_i) give R_T and the bound on gradients that the theorems assume.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from zocosmo.theory.bounds import core_bound, coupling_bound, momentum_bound
from zocosmo.theory.certificates import is_certified
from zocosmo.theory.exact import Expected, Quadratics, expectation
from zocosmo.theory.law import Global, complete_law
from zocosmo.theory.rates import Regime
from zocosmo_paper.items.enumerated import ring_weights

D, Q, N, L, ROUNDS = 6, 2, 4, 2.0, 400
MU = 1e-3  # any: central differences are exact
RHO = 1 / 3  # of the ring of four

Pair = tuple[float, float]


class Losses(NamedTuple):
    problem: Quadratics
    x0: Any
    b2: float  # mean_i ‖b_i‖²

    @property
    def gap(self) -> float:
        return float(L * (self.x0**2).sum() / 2)

    def rate(self, path: Expected) -> float:
        return float(2 * L * np.mean(path.F[:-1]))

    def regime(self, path: Expected, **more: float) -> Regime:
        G2 = float(2 * L * np.max(path.local) + self.b2)
        return Regime(d=D, q=Q, n=N, L=L, Delta0=self.gap, G2=G2, **more)


def losses(sigma: float = 0.0) -> Losses:
    rows = np.array([[(3 * i + 2 * k) % 5 - 2.0 for k in range(D)] for i in range(N)])
    b = rows - rows.mean(axis=0)
    return Losses(Quadratics(np.full((N, D), L), b, sigma), np.full(D, 1.5), float((b**2).sum() / N))


def core_rates() -> Iterator[Pair]:
    W = Global(ring_weights().astype(float))
    for sigma, share in ((0.0, 1.0), (0.5, 1.0), (0.5, 0.25)):
        told, eta = losses(sigma), share / (8 * L * D)
        path = expectation(told.problem, W, q=Q, eta=eta, rounds=ROUNDS, x0=told.x0)
        regime = told.regime(path, sigma2=sigma**2)
        yield core_bound(regime, eta=eta, mu=MU, rho=RHO, T=ROUNDS).total, told.rate(path)


def momentum_rates() -> Iterator[Pair]:
    p, law = Q / D, complete_law(N)
    global_ = Global(ring_weights().astype(float)), None, p * (1 - RHO**2)
    paired = law, "I", p * float(law.lambda2) / 2
    for (mixing, coupling, gamma), eta in ((way, eta) for way in (global_, paired) for eta in (0.002, 0.02)):
        told = losses(0.5)
        how: dict[str, Any] = {"q": Q, "coupling": coupling, "eta": eta, "beta": 0.9}
        path = expectation(told.problem, mixing, **how, rounds=ROUNDS, x0=told.x0)
        bound = momentum_bound(
            told.regime(path, sigma2=0.25), eta=eta, mu=MU, beta=0.9, h=1, gamma=gamma, T=ROUNDS
        )
        yield bound.total, told.rate(path)


def coupling_rates() -> Iterator[Pair]:
    law, told = complete_law(N), losses()
    for coupling in "GSI":
        sizes = {"d": D, "q": Q, "pairs": N // 2}
        eta = float(min(is_certified(coupling, **sizes, chi=law.chi, L=L, eta=1e-9).limits))
        path = expectation(told.problem, law, q=Q, coupling=coupling, eta=eta, rounds=ROUNDS, x0=told.x0)
        regime = told.regime(path, zeta2=told.b2)
        yield coupling_bound(coupling, regime, eta=eta, mu=MU, chi=law.chi, T=ROUNDS).total, told.rate(path)
