"""The alternating ring: two perfect matchings in turn, so two rounds are one block.

Phase 0 joins (0,1), (2,3), …, phase 1 joins (1,2), …, (N−1,0). For fixed centred states the energy after a
block is a quadratic form. The second round is a projection in expectation, E[A₁ Π A₁] = Π − ½ p L₁, whatever
pairs share; the first then gives, with B = I − ½ p L₁ on centred states,

    common support:       (1 − p) B + p A₀ B A₀              A₀ = I − ½ L₀
    independent:          Ā₀ B Ā₀ between pairs of phase 0, the line above within one;   Ā₀ = I − ½ p L₀

The form commutes with shifts by two nodes, so waves of angle θ over cells (2c, 2c+1) do not mix.
In the basis of sum and difference within a cell the form is a 2 × 2 matrix,

    [ 1 − ½p(1 − cos θ)        ½i p(1−p) sin θ                  ]      κ = 1      common
    [ −½i p(1−p) sin θ         (1−p)(1 − ½p − ½κp cos θ)        ]      κ = 1 − p  independent

with θ = 2πk/(N/2). The slowest wave is k = 1. The published bound is 3 (p → 0) to 6 cos²(π/N) (p = 1) times
below what it bounds, and exactly 3 times at N = 4, where a block contracts by p.
"""

import math
from typing import Any

import numpy as np

from zocosmo.theory.law import check_ring, fixed_law, ring_phases
from zocosmo.theory.numbers import share
from zocosmo.theory.repeated import energy_form


def paper_block_gap(n: int, *, d: int, q: int) -> float:
    """γ = (p/3)(1 − cos(2π/N)), the published bound for a block   [eq:alternating_ring_block_gap]"""
    check_ring(n)
    return float(share(d, q)) * 2 * math.sin(math.pi / n) ** 2 / 3


def block_gap(n: int, *, d: int, q: int, common: bool) -> float:
    """The largest γ with E‖ΠX₂‖² ≤ (1 − γ) ‖ΠX₀‖² for all states, after phase 0 and then phase 1

    In closed form from the wave k = 1: 1 − λ_max of its 2 × 2 matrix, written so that small gaps keep their
    digits.

    >>> block_gap(4, d=8, q=1, common=True), block_gap(4, d=8, q=1, common=False)
    (0.125, 0.125)
    """
    check_ring(n)
    p, theta = float(share(d, q)), 4 * math.pi / n
    kappa = 1.0 if common else 1 - p
    slow = p * math.sin(theta / 2) ** 2  # ½p(1 − cos θ)
    fast = 1 - (1 - p) * (1 - p / 2 - kappa * p * math.cos(theta) / 2)
    off = p * (1 - p) * math.sin(theta) / 2
    mean, half = (slow + fast) / 2, (fast - slow) / 2
    return (slow * fast - off * off) / (mean + math.hypot(half, off))


def looseness(n: int, *, d: int, q: int, common: bool) -> float:
    """How many times the published block bound lies below the exact gap.

    >>> round(looseness(64, d=8, q=1, common=False), 3)
    3.474
    """
    return block_gap(n, d=d, q=q, common=common) / paper_block_gap(n, d=d, q=q)


def block_witness(n: int, *, d: int, q: int, common: bool) -> Any:
    """States of one coordinate, N floats of mean 0 and norm 1, that a block contracts by `block_gap` only"""
    check_ring(n)
    laws = [fixed_law(n, pairs) for pairs in ring_phases(n)]
    Q = energy_form(laws, p=float(share(d, q)), common=common)
    values, vectors = np.linalg.eigh(Q)
    v = vectors[:, values.argmax()]
    v = v - v.mean()
    return v / np.sqrt((v * v).sum())
