"""How often a coordinate must be drawn until nodes agree on it.

A round draws a coordinate with probability p = q/m, m the number of dimensions that nodes move in. Mixing
then keeps at most 1 − γ of its expected disagreement: γ = λ₂/2 for independent matchings, 1 − ρ² among all
neighbours [eq:edge_spectral_contraction, eq:masked_contraction_witness]. So T rounds without steps leave at
most

    (1 − pγ)^T ≤ exp(−γ T q/m),

and T q/m ≥ ln(1/left)/γ touches are enough for any q and m. With L̄ = λ₂ Π, as on complete graphs, the
first bound is exact. With steps the same factor sets the floor: what a round injects is divided by pγ.
"""

import math

from zocosmo.theory.numbers import Number, share, whole


def share_left(m: int, q: int, T: int, gap: Number) -> Number:
    """(1 − γ q/m)^T: the share of a disagreement that T rounds leave at most; exact for exact γ

    >>> str(share_left(4, 2, 3, check_gap(1)))
    '1/8'
    """
    return (1 - share(m, q) * check_gap(gap)) ** whole("T", T, 0)


def touches_needed(gap: Number, left: float) -> float:
    """ln(1/left)/γ: visits T q/m of a coordinate after which no more than `left` of a disagreement remains

    >>> round(touches_needed(0.5, 0.01), 2)
    9.21
    """
    return -math.log(check_left(left)) / float(check_gap(gap))


def rounds_to_agree(m: int, q: int, gap: Number, left: float) -> int:
    """The least T with (1 − γ q/m)^T ≤ left, for independent rounds

    >>> rounds_to_agree(4096, 256, 0.5, 0.01)
    146
    """
    kept = float(share(m, q) * check_gap(gap))
    return 1 if kept == 1 else max(1, math.ceil(math.log(check_left(left)) / math.log1p(-kept)))


def largest_subspace(q: int, T: int, gap: Number, left: float) -> int:
    """The largest m with T q/m ≥ ln(1/left)/γ touches of each dimension; q or more

    >>> largest_subspace(256, 1540, 0.5, 0.01)
    42804
    """
    return max(whole("q", q), math.floor(whole("T", T) * q / touches_needed(gap, left)))


def check_gap(gap: Number) -> Number:
    """γ, above 0 and at most 1."""
    if not 0 < gap <= 1:
        raise ValueError(f"gap = {gap} must be above 0 and at most 1; connect the graph")
    return gap


def check_left(left: float) -> float:
    """A share above 0 and below 1."""
    if not 0 < left < 1:
        raise ValueError(f"left = {left} must be above 0 and below 1")
    return left
