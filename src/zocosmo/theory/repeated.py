"""Pure mixing round after round: the second moments of one coordinate, exactly.

Follow one coordinate. In a round with matching M each pair averages it or not: A = I − ½ Σ_{e ∈ M} b_e L_e,
with b_e = 1 at probability p = q/d. If all pairs share a support the b_e are one coin; if each draws its own
they are independent. The expected energy of a later state is a quadratic form of the first one,

    E‖ΠX_T‖² = tr(Yᵀ Q Y),    Q ← E[A Q A] for every round from the last to the first, starting at Q = Π,

and A Q A has expectation (1 − p) Q + p A_M Q A_M under a common coin, with A_M all pairs averaged. Under
independent coins entries of Q between two pairs see two coins, Ā Q Ā with Ā = I − ½ p L_M, and entries within
a pair see one, as before. One round cannot tell the two apart [thm:edge_local_contraction]; two rounds can.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from zocosmo.theory.law import Array, Edge, Law, centring, identity, laplacian
from zocosmo.theory.numbers import exact, share

MOST_DENSE = 20  # nodes up to which the N² × N² matrix is built


def pulled_back(Q: Array, law: Law, *, p: Any, common: bool) -> Array:
    """E[A Q A] over one round: applied to the states before it, the expectation of Q after it."""
    out = 0 * Q
    for pairs, chance in law.listed():
        weight = chance if Q.dtype == object else float(chance)
        out = out + weight * _pulled_by(Q, pairs, p, common)
    return out


def _pulled_by(Q: Array, pairs: Sequence[Edge], p: Any, common: bool) -> Array:
    n = len(Q)
    L = laplacian(n, dict.fromkeys(pairs, 1)).astype(Q.dtype)
    one = identity(n).astype(Q.dtype)
    A = one - L / 2
    together: Array = (1 - p) * Q + p * (A @ Q @ A)
    if common:
        return together
    mean = one - p * L / 2
    out: Array = mean @ Q @ mean
    for i, j in pairs:
        at = np.ix_((i, j), (i, j))
        out[at] = together[at]
    return out


def energy_form(laws: Sequence[Law], *, p: Any, common: bool) -> Array:
    """Q with E‖ΠX_T‖² = tr(Yᵀ Q Y) after one round of each of `laws`, the first law first

    In rationals, or in floats if p is a float.
    """
    Q = centring(laws[0].n)
    if isinstance(p, float):
        Q = Q.astype(float)
    for law in reversed(laws):
        Q = pulled_back(Q, law, p=p, common=common)
    return Q


def energy_after_rounds(Y: Any, laws: Sequence[Law], *, q: int, common: bool) -> Any:
    """E‖ΠX_T‖² of given states after T = len(laws) rounds of pure mixing

    >>> from fractions import Fraction
    >>> flip = Law.of(3, [([(0, 1)], Fraction(1, 2)), ([(1, 2)], Fraction(1, 2))])
    >>> energy_after_rounds([[0], [0], [2]], [flip] * 2, q=1, common=True)
    Fraction(25, 24)
    """
    Y, p = _centred(Y, q)
    return (Y * (energy_form(laws, p=p, common=common) @ Y)).sum()


def energy_path(Y: Any, law: Law, rounds: int, *, q: int, common: bool) -> list[Any]:
    """E‖ΠX_t‖² for t = 0 … rounds of an i.i.d. law"""
    Y, p = _centred(Y, q)
    first = centring(len(Y)).astype(Y.dtype)
    forms = accumulate(range(rounds), lambda Q, _: pulled_back(Q, law, p=p, common=common), initial=first)
    return [(Y * (Q @ Y)).sum() for Q in forms]


def _centred(Y: Any, q: int) -> tuple[Array, Any]:
    """ΠY and p = q/d. Centred states drop the rounding of Q along the constant vector, which never decays."""
    Y = exact("states", Y)
    p: Any = share(Y.shape[1], q)
    return Y - Y.sum(axis=0) / len(Y), p if Y.dtype == object else float(p)


def asymptotic_rate(laws: Sequence[Law], *, p: float, common: bool) -> float:
    """The factor by which a cycle of `laws` shrinks the energy in the long run: spectral radius of
    Q ↦ E[A ΠQΠ A]

    An i.i.d. schedule is a cycle of one law. The one-round bound 1 − γ is never below it.
    """
    n = laws[0].n
    Pi = centring(n).astype(float)

    def cycle(flat: Array) -> Array:
        Q: Array = Pi @ flat.reshape(n, n) @ Pi
        for law in reversed(laws):
            Q = pulled_back(Q, law, p=float(p), common=common)
        return Q.reshape(-1)

    if n <= MOST_DENSE:
        columns = np.stack([cycle(column) for column in np.eye(n * n)])
        return float(np.abs(np.linalg.eigvals(columns)).max())
    from scipy.sparse.linalg import LinearOperator, eigs

    operator = LinearOperator((n * n, n * n), matvec=cycle, dtype=float)
    found = eigs(operator, k=1, which="LM", v0=Pi.reshape(-1), return_eigenvectors=False, tol=1e-10)
    return float(abs(found[0]))
