"""Rates: what is assumed, what a result gives at horizon T, and the steps that go with a horizon.

All results are about R_T = T⁻¹ Σ_{t<T} E‖∇F(x̄_t)‖². `bounds.py` has them with every constant worked out.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from zocosmo.theory.law import check_coupling
from zocosmo.theory.numbers import Number, check_finite, check_size, rational, whole

MOST_ROUNDS = 10**30  # a horizon beyond this counts as never


@dataclass(frozen=True, kw_only=True)
class Regime:
    """Sizes, and what is assumed of the losses   [assum:smooth_lower, assum:oracle, assum:third]"""

    d: int
    q: int
    n: int  # nodes
    L: float  # each F_i is L-smooth
    Delta0: float  # F(x̄_0) − F*
    L3: float = 0.0  # third-order constant; 0 on quadratics, where central differences are exact
    G2: float | None = None  # G² + σ² bounds E‖∇f_i‖² along the run; some results need it
    sigma2: float = 0.0  # oracle variance of a node
    zeta2: float = 0.0  # heterogeneity: mean_i ‖∇F_i − ∇F‖² at any x
    start2: float | None = None  # ‖∇F(x̄_0)‖², if known

    def __post_init__(self) -> None:
        for name, size in zip("dqn", (*check_size(self.d, self.q), whole("n", self.n)), strict=True):
            object.__setattr__(self, name, size)
        check_finite("L", self.L, above=True)
        check_finite("Delta0", self.Delta0, above=True)
        check_finite("L3", self.L3)
        check_finite("sigma2", self.sigma2)
        check_finite("zeta2", self.zeta2)
        if self.G2 is not None:
            check_finite("G2", self.G2)
        most = 2 * self.L * self.Delta0
        if self.start2 is not None and not 0 <= self.start2 <= most * (1 + 1e-12):
            raise ValueError(f"start2 = {self.start2} lies outside 0 … 2LΔ₀ = {most}; check L and Delta0")

    @property
    def ceiling(self) -> float:
        """What a bound must be below to be informative: ‖∇F(x̄_0)‖² if known, else 2LΔ₀, which bounds it."""
        return 2 * self.L * self.Delta0 if self.start2 is None else self.start2

    def B(self, mu: float) -> float:
        """B_μ   [eq:bmu_mnode_def]"""
        check_finite("mu", mu, above=True)
        return float(bias_scale(d=self.d, q=self.q, L3=self.L3, mu=mu))

    def M2(self, mu: float) -> float:
        """M_node² = 2d (G² + σ²) + 2 B_μ² ≥ E‖ĝ_i‖²   [eq:bmu_mnode_def, eq:estimator_second_moment]"""
        if self.G2 is None:  # 0 would mean that all gradients vanish
            raise ValueError("this result needs G2 in Regime: G2 + sigma2 bounds E‖∇f_i‖² along the run")
        return 2 * self.d * (self.G2 + self.sigma2) + 2 * self.B(mu) ** 2


def bias_scale(*, d: int, q: int, L3: Number, mu: Number) -> Number:
    """B_μ = L₃ μ² d q / 6, the most that a finite μ adds to an estimate   [eq:bmu_mnode_def]

    >>> from fractions import Fraction
    >>> bias_scale(d=4, q=2, L3=3, mu=Fraction(1, 10))
    Fraction(1, 25)
    """
    d, q = check_size(d, q)
    return rational(L3) * rational(mu) ** 2 * d * q / 6


class Term(NamedTuple):
    """One summand; with everything else fixed it falls as T^(−power)."""

    value: float
    power: float = 0.0


@dataclass(frozen=True)
class Rate:
    """A bound on R_T: named terms, their sum, and whether it is informative.

    A bound that is not below 2LΔ₀ (or ‖∇F(x̄_0)‖², if `Regime.start2` gives it) is **vacuous**: a method that
    stays at x̄_0 satisfies it too, since L-smoothness alone gives ‖∇F(x̄_0)‖² ≤ 2LΔ₀.
    """

    label: str
    T: int
    terms: Mapping[str, Term]
    ceiling: float

    @property
    def total(self) -> float:
        return math.fsum(term.value for term in self.terms.values())

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing at this T."""
        return self.total >= self.ceiling

    @property
    def horizon(self) -> int | None:
        """The first T that is not vacuous, everything else fixed; None if there is none."""
        return first_useful(self.at)

    def at(self, T: int) -> "Rate":
        """The same bound at another horizon, everything else fixed."""
        check_rounds(T)
        ratio = self.T / T
        moved = {k: Term(term.value * ratio**term.power, term.power) for k, term in self.terms.items()}
        return replace(self, T=T, terms=moved)

    def __str__(self) -> str:
        parts = " + ".join(f"{name} {term.value:.3g}" for name, term in self.terms.items())
        head = f"{self.total:.3g} = {parts}   [{self.label}, T = {self.T}]"
        if not self.vacuous:
            return f"{head}: a bound, below the {self.ceiling:.3g} of a method that never moves"
        first = "at no T with these steps" if self.horizon is None else f"from T = {self.horizon} on"
        return f"{head}: vacuous, a method that never moves has {self.ceiling:.3g}; not vacuous {first}"


def first_useful(rate_at: Callable[[int], Rate]) -> int | None:
    """The first T whose bound is not vacuous; None if there is none. Bounds must fall with T.

    `rate_at` may choose its steps by T, as `horizon_steps` does.
    """
    high = 1
    while rate_at(high).vacuous:
        high *= 2
        if high > MOST_ROUNDS:
            return None
    low = high // 2  # vacuous, or 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rate_at(middle).vacuous else (low, middle)
    return high


class Steps(NamedTuple):
    eta: float
    mu: float


def canonical_mu(*, d: int, q: int, T: int) -> float:
    """μ = (dq)^(−1/2) T^(−1/4), which makes μ⁴ d² q² = 1/T   [eq:canonical_mu]

    >>> canonical_mu(d=32, q=2, T=16)
    0.0625
    """
    d, q = check_size(d, q)
    check_rounds(T)
    return float((d * q) ** -0.5 * float(T) ** -0.25)


def horizon_steps(coupling: str, *, d: int, q: int, T: int, c: float = 1.0) -> Steps:
    """Steps for a horizon: S and I reach O(T^(−1/2)), G reaches O(T^(−2/3))   [thm:corr_core]

        S, I:  η = c T^(−1/2),  μ = (dq)^(−1/2) T^(−1/4)
        G:     η = c T^(−1/3),  μ = (dq)^(−1/2) T^(−1/6)

    G may take larger steps because its term linear in η vanishes with τ = 0. They are certified once T is
    large enough (`is_certified`).

    >>> horizon_steps("G", d=8, q=2, T=64)
    Steps(eta=0.25, mu=0.125)
    """
    check_coupling(coupling)
    check_finite("c", c, above=True)
    mu = canonical_mu(d=d, q=q, T=T)
    if coupling == "G":
        return Steps(c / math.cbrt(T), mu * T ** (1 / 12))
    return Steps(c / math.sqrt(T), mu)


def check_rounds(T: int) -> None:
    if T < 1:
        raise ValueError(f"T = {T} rounds have no average; use at least 1")


def check_rho(rho: float) -> None:
    if not 0 <= rho < 1:
        raise ValueError(f"rho = {rho} must be at least 0 and below 1; at 1 the graph does not mix")
