"""Pure mixing round after round: the second moments of one coordinate, exactly.

Follow one coordinate. In a round with matching M each pair averages it or not: A = I − ½ Σ_{e ∈ M} b_e L_e,
with b_e = 1 at probability p = q/d. If all pairs share a support the b_e are one coin; if each draws its own
they are independent. The expected energy of a later state is a quadratic form of the first one,

    E‖ΠX_T‖² = tr(Yᵀ Q Y),    Q ← E[A Q A] for every round from the last to the first,    Q = Π to begin with,

and A Q A has expectation (1 − p) Q + p A_M Q A_M under a common coin, with A_M all pairs averaged. Under
independent coins entries of Q between two pairs see two coins, Ā Q Ā with Ā = I − ½ p L_M, and entries within
a pair see one, as before. One round cannot tell the two apart [thm:edge_local_contraction]; two rounds can.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from zocosmo.theory.mixing import (
    Law,
    Matrix,
    Pair,
    as_states,
    centring,
    check_law,
    identity,
    laplacian,
    share,
)

MOST_DENSE = 20  # nodes up to which eigenvalues are taken of the N² × N² matrix as it is


def second_moment(n: int, law: Law, *, p: Any, common: bool) -> Matrix:
    """E[A ⊗ A], N² × N² in rationals: how a round of one law moves E[z zᵀ] of a coordinate

    common support:      1 − p + p A_M ⊗ A_M                                   averaged over M
    independent:         1 − ½p (L_M ⊗ 1 + 1 ⊗ L_M) + ¼ Σ_{e,f} E[b_e b_f] L_e ⊗ L_f
                         with E[b_e b_f] = p where e = f and p² elsewhere
    """
    check_law(n, law)
    one, out = identity(n), np.full((n * n, n * n), Fraction(0), dtype=object)
    for pairs, chance in law:
        each = [laplacian(n, {e: 1}) for e in pairs]
        L = sum(each, np.zeros_like(one))
        if common:
            A = one - L / 2
            moved = (1 - p) * np.kron(one, one) + p * np.kron(A, A)
        else:
            same = sum((np.kron(e, e) for e in each), np.zeros_like(out))
            apart = np.kron(L, L) - same
            moved = np.kron(one, one) - p * (np.kron(L, one) + np.kron(one, L)) / 2
            moved = moved + (p * same + p * p * apart) / 4
        out = out + Fraction(chance) * moved
    return out


def pulled_back(Q: Matrix, law: Law, *, p: Any, common: bool) -> Matrix:
    """E[A Q A] over one round: the form that, of today's states, gives the expectation of Q tomorrow."""
    n, out = len(Q), 0 * Q
    for pairs, chance in law:
        weight = Fraction(chance) if Q.dtype == object else float(chance)
        out = out + weight * _pulled_by(Q, pairs, n, p, common)
    return out


def _pulled_by(Q: Matrix, pairs: Sequence[Pair], n: int, p: Any, common: bool) -> Matrix:
    L = laplacian(n, dict.fromkeys(pairs, 1)).astype(Q.dtype)
    one = identity(n).astype(Q.dtype)
    A = one - L / 2
    together: Matrix = (1 - p) * Q + p * (A @ Q @ A)
    if common:
        return together
    mean = one - p * L / 2
    out: Matrix = mean @ Q @ mean
    for i, j in pairs:
        at = np.ix_((i, j), (i, j))
        out[at] = together[at]
    return out


def energy_form(n: int, laws: Sequence[Law], *, p: Any, common: bool) -> Matrix:
    """Q with E‖ΠX_T‖² = tr(Yᵀ Q Y) after one round of each of `laws`, the first law first

    In rationals where p is one; in floats where p is a float.
    """
    Q = centring(n) if not isinstance(p, float) else centring(n).astype(float)
    for law in reversed(laws):
        check_law(n, law)
        Q = pulled_back(Q, law, p=p, common=common)
    return Q


def energy_after_rounds(Y: Any, laws: Sequence[Law], *, q: int, common: bool) -> Any:
    """E‖ΠX_T‖² of given states after T = len(laws) rounds of pure mixing

    >>> flip = [([(0, 1)], Fraction(1, 2)), ([(1, 2)], Fraction(1, 2))]
    >>> energy_after_rounds([[0], [0], [2]], [flip] * 2, q=1, common=True)
    Fraction(25, 24)
    """
    Y = centred(Y)
    p: Any = share(q, Y.shape[1])
    Q = energy_form(len(Y), laws, p=p if Y.dtype == object else float(p), common=common)
    return (Y * (Q @ Y)).sum()


def energy_path(Y: Any, law: Law, rounds: int, *, q: int, common: bool) -> list[Any]:
    """E‖ΠX_t‖² for t = 0 … rounds of an i.i.d. law"""
    Y = centred(Y)
    p: Any = share(q, Y.shape[1])
    Q = centring(len(Y)).astype(Y.dtype)
    p, path = p if Y.dtype == object else float(p), [(Y * (Q @ Y)).sum()]
    for _ in range(rounds):
        Q = pulled_back(Q, law, p=p, common=common)
        path.append((Y * (Q @ Y)).sum())
    return path


def centred(Y: Any) -> Matrix:
    """ΠY: rounding of Q along the constant vector, which never decays, then meets nothing."""
    Y = as_states(Y)
    out: Matrix = Y - Y.sum(axis=0) / len(Y)
    return out


def asymptotic_rate(n: int, laws: Sequence[Law], *, p: float, common: bool) -> float:
    """What remains of the energy in a cycle of `laws`, in the long run: the spectral radius of Q ↦ E[A ΠQΠ A]

    An i.i.d. schedule is a cycle of one law. The one-round bound 1 − γ is never below it.
    """
    for law in laws:
        check_law(n, law)
    Pi = centring(n).astype(float)

    def cycle(flat: Matrix) -> Matrix:
        Q: Matrix = Pi @ flat.reshape(n, n) @ Pi
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
