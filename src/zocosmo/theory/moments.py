"""What a coupling does to one round: error of the averaged update against disagreement it injects.

The states and the matching are fixed, directions are drawn, momentum is zero and queries are exact;
`momentum.py` has the general case.
"""

from fractions import Fraction
from typing import Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from zocosmo.theory.numbers import (
    Law,
    Number,
    Pairs,
    check_law,
    check_pairs,
    check_size,
    exact,
    rational,
    spread,
    square,
    whole,
)

COUPLINGS = ("G", "S", "I")


class Moments(NamedTuple):
    V: Number  # E‖v̄ − ā‖², error of the averaged update
    U: Number  # mean over pairs of E‖v_e − v̄‖², disagreement it injects


class Coefficients(NamedTuple):
    alpha: Fraction  # of ‖ā‖² in V
    tau: Fraction  # of H² in V


def coupling_coefficients(coupling: str, *, d: int, q: int, pairs: int) -> Coefficients:
    """α and τ of V = α ‖ā‖² + τ H²   [eq:corr_coefficients]

        G:  α = d − 1              τ = 0
        S:  α = d/q − 1 + c        τ = c = (d − d/q) / pairs
        I:  α = τ = (d − 1) / pairs

    In all three α = (d − 1) − (pairs − 1) τ, so τ alone tells the couplings apart.

    >>> coupling_coefficients("S", d=32, q=4, pairs=4)
    Coefficients(alpha=Fraction(13, 1), tau=Fraction(6, 1))
    """
    check_coupling(coupling)
    (d, q), pairs = check_size(d, q), check_count(pairs)
    tau = {
        "G": Fraction(0),
        "S": (d - Fraction(d, q)) / pairs,
        "I": Fraction(d - 1, pairs),
    }[coupling]
    alpha = {"G": Fraction(d - 1), "S": Fraction(d, q) - 1 + tau, "I": tau}[coupling]
    return Coefficients(alpha, tau)


def coupling_moments(coupling: str, *, d: int, q: int, pairs: int, a2: Number, H2: Number) -> Moments:
    """V and U of the applied pair updates   [eq:corr_variance, eq:corr_injection]

        V = α ‖ā‖² + τ H²          U = (d − 1 − α) ‖ā‖² + (d − τ) H²

    a2 = ‖ā‖² and H2 = mean_e ‖a_e − ā‖². V + U is the same for all three couplings.

    >>> coupling_moments("G", d=32, q=4, pairs=4, a2=1, H2=4)
    Moments(V=Fraction(31, 1), U=Fraction(128, 1))
    """
    alpha, tau = coupling_coefficients(coupling, d=d, q=q, pairs=pairs)
    d, _ = check_size(d, q)
    a2, H2 = _energies(a2, H2)
    return Moments(alpha * a2 + tau * H2, (d - 1 - alpha) * a2 + (d - tau) * H2)


def moment_energy(*, d: int, a2: Number, H2: Number) -> Number:
    """V + U = (d − 1) ‖ā‖² + d H², whatever the coupling   [eq:corr_main_energy]

    >>> moment_energy(d=32, a2=1, H2=4)
    Fraction(159, 1)
    """
    d, _ = check_size(d, d)
    a2, H2 = _energies(a2, H2)
    return (d - 1) * a2 + d * H2


def crossover(first: str, second: str, *, d: int, q: int, pairs: int, a2: Number) -> Number | None:
    """The H² at which two couplings have the same V (and so the same U)   [eq:corr_crossover]

        V_r − V_s = (τ_r − τ_s) (H² − (pairs − 1) ‖ā‖²)

    so all three curves meet in one point, H² = (pairs − 1) ‖ā‖². Below it V_I < V_S < V_G, above it the
    other way round. None where the two agree at every H²: q = 1 makes S the same as G, q = d the same as I,
    and with one pair, or d = 1, there is nothing to tell apart.

    >>> crossover("I", "G", d=32, q=4, pairs=4, a2=1), crossover("S", "G", d=32, q=1, pairs=4, a2=1)
    (Fraction(3, 1), None)
    """
    one, other = (coupling_coefficients(name, d=d, q=q, pairs=pairs) for name in (first, second))
    if one.tau == other.tau or pairs == 1:
        return None
    return (pairs - 1) * _energies(a2, 0)[0]


class PairGradients(NamedTuple):
    """What the formulas read of the gradients of all nodes under one matching."""

    a: NDArray[Any]  # (pairs, d): a_e
    mean: NDArray[Any]  # ā
    a2: Number  # ‖ā‖²
    H2: Number  # H_M²


def pair_gradients(gradients: ArrayLike, matching: Pairs) -> PairGradients:
    """a_e = (∇F_i(x_i) + ∇F_j(x_j)) / 2, ā and H_M² = mean_e ‖a_e − ā‖²   [eq:corr_pair_gradients]

    >>> pair_gradients([[1, 0], [3, 0], [0, 2], [0, 2]], [(0, 1), (2, 3)]).H2
    Fraction(2, 1)
    """
    g = exact("gradients", gradients)
    check_pairs(matching, len(g))
    a = pair_means(g, matching)
    mean = a.mean(axis=0)
    return PairGradients(a, mean, square(mean), spread(a))


def pair_means(rows: NDArray[Any], matching: Pairs) -> NDArray[Any]:
    """(x_i + x_j) / 2 for each pair, in the order of the pairs."""
    i, j = (list(ends) for ends in zip(*matching, strict=True))
    means: NDArray[Any] = (rows[i] + rows[j]) / 2
    return means


def matching_heterogeneity(gradients: ArrayLike, law: Law) -> Number:
    """E_M H_M² over a law of perfect matchings, from edges alone   [eq:corr_matching_heterogeneity]

        E_M H_M² = tr((ΠG)ᵀ (I − L̄/2) ΠG) / N = mean_i ‖g_i − ā‖² − E_M Σ_{ij ∈ M} ‖g_i − g_j‖² / 2N

    >>> law = [([(0, 1), (2, 3)], Fraction(1, 2)), ([(1, 2), (0, 3)], Fraction(1, 2))]
    >>> matching_heterogeneity([[1, 0], [3, 0], [0, 2], [0, 2]], law)
    Fraction(9, 8)
    """
    g = exact("gradients", gradients)
    n = len(g)
    check_law(law, n)
    apart = sum(rational(w) * square(g[i] - g[j]) for pairs, w in law for i, j in pairs)
    left: Number = spread(g) - apart / (2 * n)
    return left


def heterogeneity_bound(*, chi: Number, L: Number, disagreement: Number, zeta2: Number) -> Number:
    """E_M H_M² ≤ 2χ (L² 𝒟 + ζ²)   [eq:corr_matching_heterogeneity]

    >>> heterogeneity_bound(chi=Fraction(3, 7), L=4, disagreement=0, zeta2=4)
    Fraction(24, 7)
    """
    return 2 * rational(chi) * (rational(L) ** 2 * rational(disagreement) + rational(zeta2))


def check_coupling(coupling: str) -> None:
    if coupling not in COUPLINGS:
        raise ValueError(f"coupling {coupling!r} is unknown; use one of {', '.join(COUPLINGS)}")


def check_count(pairs: int) -> int:
    if pairs < 1:
        raise ValueError(f"a matching of {pairs} pairs has nothing to couple; use at least 1")
    return whole("pairs", pairs)


def _energies(a2: Number, H2: Number) -> tuple[Number, Number]:
    if not (a2 >= 0 and H2 >= 0):
        raise ValueError(f"‖ā‖² = {a2} and H² = {H2} are squares; neither can be below 0")
    return rational(a2), rational(H2)
