"""Variance that one side, noisy queries and samples of their own add to K directions, by coordinate.

None of it depends on the states of diagonal quadratics, so the recursion of `exact` adds it as a constant.
"""

from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.theory.directions import Directions, cross, first_share, query_noise
from zocosmo.theory.numbers import share

Array = NDArray[Any]


def common_traces(h: Array, q: int, directions: Directions) -> Array:
    """E[1_c m_c² t_i t_j] for each coordinate c and nodes i, j, t_i = Σ_{l ∈ S} h_il; h has shape (d, n)

    For signs that i and j share. Independent: (1/K) E[1_c t_i t_j]. Orthogonal: κ E[1_c t_i t_j] +
    (1 − κ) E[1{c is first} t_i t_j].
    """
    d, kappa = len(h), cross(q, directions)
    every = _traces(h, np.arange(d), [_within(d, q, more) for more in range(3)])
    if directions.signs == "independent":
        return kappa * every if h.dtype == object else float(kappa) * every
    first = np.zeros_like(every)
    for c in range(d):
        chances = [first_share(d, q, c, more) for more in range(3)]
        first[c] = _traces(h[c:], np.arange(1), chances)[0]
    weights = (kappa, 1 - kappa) if h.dtype == object else (float(kappa), float(1 - kappa))
    return weights[0] * every + weights[1] * first


def _within(d: int, q: int, more: int) -> Fraction:
    """P(1 + more given coordinates ∈ S)"""
    if q <= more or d <= more:
        return Fraction(0)
    return Fraction(comb(d - 1 - more, q - 1 - more), comb(d, q))


def _traces(h: Array, at: Array, chances: list[Fraction]) -> Array:
    """Σ_{l, m} h_il h_jm P(l, m ∈ S …) for each c in `at`, by how many coordinates other than c there are."""
    one, two, three = chances if h.dtype == object else [float(chance) for chance in chances]
    own = h[at][:, :, None] * h[at][:, None, :]
    rest = h.sum(axis=0) - h[at]  # all but c
    square = (h[:, :, None] * h[:, None, :]).sum(axis=0) - own
    mixed = h[at][:, :, None] * rest[:, None, :]
    cross_terms = rest[:, :, None] * rest[:, None, :] - square
    found: Array = one * own + two * (mixed + mixed.swapaxes(1, 2) + square) + three * cross_terms
    return found


def added(h: Array, q: int, sigma: Any, directions: Directions) -> Array | None:
    """E[1_c n_ic n_jc] of what sides, queries and rows add to a slope, (d, n, n); None if that is nothing.

    Without the factor (d/q)². `h` are curvatures (d, n) in the arithmetic of the result.
    """
    d, n = h.shape
    is_exact, found = h.dtype == object, None
    if directions.sides == 1 and directions.mu:
        mu = Fraction(directions.mu) if is_exact else float(directions.mu)
        found = mu * mu / 4 * common_traces(h, q, directions)
    if directions.omega or directions.rows:
        rows = share(d, q) * q * sigma * sigma / (d * directions.K) if directions.rows else 0
        own = [query_noise(d, q, c, directions) + rows for c in range(d)]
        kind = h.dtype if is_exact else np.float64
        noise: Array = np.eye(n, dtype=kind) * np.array(own, kind)[:, None, None]
        found = noise if found is None else found + noise
    return found
