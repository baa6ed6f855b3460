"""What a coupling does to one round: error of the averaged update against disagreement it injects.

States and matching are fixed, directions are drawn, momentum is zero and queries are exact; `momentum.py` has
the general case.
"""

from fractions import Fraction
from typing import Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from zocosmo.theory.directions import ONE, Directions, norm_factor
from zocosmo.theory.law import check_coupling
from zocosmo.theory.numbers import Number, Pairs, check_finite, check_size, exact, spread, square, whole


class Moments(NamedTuple):
    V: Number  # E‖v̄ − ā‖², error of the averaged update
    U: Number  # mean over pairs of E‖v_e − v̄‖², disagreement it injects


class Coefficients(NamedTuple):
    alpha: Fraction  # of ‖ā‖² in V
    tau: Fraction  # of H² in V


def coupling_coefficients(
    coupling: str, *, d: int, q: int, pairs: int, directions: Directions = ONE
) -> Coefficients:
    """α and τ of V = α ‖ā‖² + τ H²   [eq:corr_coefficients]

        G:  α = d − 1              τ = 0
        S:  α = d/q − 1 + c        τ = c = (d − d/q) / pairs
        I:  α = τ = (d − 1) / pairs

    In all three α = (d − 1) − (pairs − 1) τ, so couplings differ in τ alone. With K directions d becomes φ
    (`directions.norm_factor`), except in d/q: S is G where φ = d/q.

    >>> coupling_coefficients("S", d=32, q=4, pairs=4)
    Coefficients(alpha=Fraction(13, 1), tau=Fraction(6, 1))
    """
    check_coupling(coupling)
    (d, q), pairs = check_size(d, q), whole("pairs", pairs)
    phi = norm_factor(d, q, directions)
    tau = {
        "G": Fraction(0),
        "S": (phi - Fraction(d, q)) / pairs,
        "I": (phi - 1) / pairs,
    }[coupling]
    return Coefficients(phi - 1 - (pairs - 1) * tau, tau)


def coupling_moments(
    coupling: str, *, d: int, q: int, pairs: int, a2: Number, H2: Number, directions: Directions = ONE
) -> Moments:
    """V and U of the applied pair updates   [eq:corr_variance, eq:corr_injection]

        V = α ‖ā‖² + τ H²          U = (d − 1 − α) ‖ā‖² + (d − τ) H²

    a2 = ‖ā‖² and H2 = mean_e ‖a_e − ā‖². V + U = (d − 1) ‖ā‖² + d H² for every coupling
    [eq:corr_main_energy]. With K directions d becomes φ.

    >>> coupling_moments("G", d=32, q=4, pairs=4, a2=1, H2=4)
    Moments(V=Fraction(31, 1), U=Fraction(128, 1))
    """
    alpha, tau = coupling_coefficients(coupling, d=d, q=q, pairs=pairs, directions=directions)
    phi, a2, H2 = norm_factor(d, q, directions), check_finite("‖ā‖²", a2), check_finite("H²", H2)
    return Moments(alpha * a2 + tau * H2, (phi - 1 - alpha) * a2 + (phi - tau) * H2)


def crossover(first: str, second: str, *, d: int, q: int, pairs: int, a2: Number) -> Number | None:
    """The H² at which two couplings have the same V (and so the same U)   [eq:corr_crossover]

        V_r − V_s = (τ_r − τ_s) (H² − (pairs − 1) ‖ā‖²)

    so all three curves meet in one point, H² = (pairs − 1) ‖ā‖². Below it V_I < V_S < V_G, above it the
    other way round. None if the two agree at every H²: S equals G at q = 1 and I at q = d, and all three
    are equal with one pair or at d = 1.

    >>> crossover("I", "G", d=32, q=4, pairs=4, a2=1), crossover("S", "G", d=32, q=1, pairs=4, a2=1)
    (Fraction(3, 1), None)
    """
    one, other = (coupling_coefficients(name, d=d, q=q, pairs=pairs) for name in (first, second))
    if one.tau == other.tau or pairs == 1:
        return None
    return (pairs - 1) * check_finite("‖ā‖²", a2)


class PairGradients(NamedTuple):
    """The gradients of all nodes under one matching, as the formulas need them."""

    a: NDArray[Any]  # (pairs, d): a_e
    a2: Number  # ‖ā‖²
    H2: Number  # H_M²


def pair_gradients(gradients: ArrayLike, matching: Pairs) -> PairGradients:
    """a_e = (∇F_i(x_i) + ∇F_j(x_j)) / 2, ā and H_M² = mean_e ‖a_e − ā‖²   [eq:corr_pair_gradients]

    >>> pair_gradients([[1, 0], [3, 0], [0, 2], [0, 2]], [(0, 1), (2, 3)]).H2
    Fraction(2, 1)
    """
    g = exact("gradients", gradients)
    if sorted(node for pair in matching for node in pair) != list(range(len(g))):
        raise ValueError(f"{list(matching)} is no perfect matching; put each of {len(g)} nodes in one pair")
    a = pair_means(g, matching)
    return PairGradients(a, square(a.mean(axis=0)), spread(a))


def pair_means(rows: NDArray[Any], matching: Pairs) -> NDArray[Any]:
    """(x_i + x_j) / 2 for each pair, in the order of the pairs."""
    i, j = (list(ends) for ends in zip(*matching, strict=True))
    means: NDArray[Any] = (rows[i] + rows[j]) / 2
    return means
