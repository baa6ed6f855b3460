"""The largest λ_min of a mixture of positive semidefinite matrices, with the dual matrix that proves it.

    max  λ_min(Σ_M π_M A_M)   over π ≥ 0, Σ π = 1        A_M = Σ_{e ∈ M} a_e a_eᵀ
    min  max_M ⟨X, A_M⟩       over X ⪰ 0, tr X = 1

A primal–dual interior-point method in Nesterov–Todd scaling with Mehrotra's corrector. Both sides start and
stay feasible, so the dual matrix of every step gives a valid bound. Dense, for matrices of N − 1 rows and a
few hundred columns.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MOST_STEPS = 60
NEWTON_STEPS = 4
FINEST = 1e-10  # smallest relative gap that interior-point steps aim for; Newton's method does the rest
SHORT = 0.98  # share of the way to the boundary that a step may take
STALLED = 25  # steps after which the first one without progress is the last


class Mixture(NamedTuple):
    """Result of the steps: t ≤ best value ≤ s over the given columns."""

    pi: Array  # (m,) weights, all positive
    t: float
    X: Array  # (r, r), trace 1
    s: float


def form(a: Array, X: Array) -> Array:
    """⟨X, a_e a_eᵀ⟩ for each column a_e."""
    values: Array = np.einsum("ie,ij,je->e", a, X, a)
    return values


def mixed(a: Array, c: Array) -> Array:
    """Σ_e c_e a_e a_eᵀ"""
    matrix: Array = (a * c) @ a.T
    return matrix


def least(a: Array, c: Array) -> float:
    """λ_min(Σ_e c_e a_e a_eᵀ)"""
    return float(np.linalg.eigvalsh(mixed(a, c))[0])


def best_mixture(a: Array, B: Array, tolerance: float) -> Mixture:
    """Steps until s − t ≤ tolerance · s or rounding stops them. a is (r, E), B (E, m) of zeros and ones."""
    r, m = len(a), B.shape[1]
    pi, X = np.full(m, 1 / m), np.eye(r) / r
    t = least(a, B @ pi) - 0.1
    s = float((form(a, X) @ B).max()) + 0.1
    at = best = Mixture(pi, t, X, s)
    for k in range(MOST_STEPS):
        gap = at.s - at.t
        if gap < best.s - best.t:
            best = at
        elif k > STALLED:
            break
        if gap <= tolerance * at.s:
            break
        try:
            at = _step(a, B, at)
        except np.linalg.LinAlgError:
            break
    return best


class _Move(NamedTuple):
    pi: Array
    t: float
    s: float
    S: Array  # scaled
    X: Array  # scaled
    unscaled: Array  # of X
    z: Array


class _Newton:
    """The linearised conditions X S = μ I, π z = μ at one point, set up once for predictor and corrector.

    S = Σ π A − t I and z_M = s − ⟨X, A_M⟩ are the slacks. G scales both matrices to the same diagonal D:
    Gᵀ S G = D = G⁻¹ X G⁻ᵀ, which avoids the cancellation in S⁻¹.
    """

    def __init__(self, a: Array, B: Array, at: Mixture) -> None:
        self.a, self.B, self.at = a, B, at
        r, m = len(a), B.shape[1]
        self.z = at.s - form(a, at.X) @ B
        if not (self.z > 0).all():  # negative by rounding
            raise np.linalg.LinAlgError
        lower = np.linalg.cholesky(mixed(a, B @ at.pi) - at.t * np.eye(r))
        _, self.D, Vt = np.linalg.svd(np.linalg.cholesky(at.X).T @ lower)
        self.G: Array = np.linalg.solve(lower.T, Vt.T) * np.sqrt(self.D)
        W = self.G @ self.G.T
        h = form(a, W @ W) @ B
        K = np.zeros((m + 2, m + 2))
        K[:m, :m] = B.T @ (a.T @ W @ a) ** 2 @ B + np.diag(self.z / at.pi)
        K[:m, m] = K[m, :m] = -h
        K[m, m] = np.vdot(W, W)
        K[:m, m + 1] = K[m + 1, :m] = 1
        scale = 1 / np.sqrt(np.append(np.diag(K)[:-1], 1.0))
        scale[-1] = 1 / scale[:m].max()
        self.scale, self.K = scale, K * scale[:, None] * scale
        if not np.isfinite(self.K).all():
            raise np.linalg.LinAlgError
        self.mu = float((self.D @ self.D + at.pi @ self.z) / (r + m))

    def move(self, mu: float, bend: Array | float = 0.0, bend_z: Array | float = 0.0) -> _Move:
        """The step towards μ; `bend` holds the second-order terms of the corrector."""
        pi, m = self.at.pi, len(self.at.pi)
        E = np.diag(mu / self.D - self.D) - bend
        R = self.G @ E @ self.G.T
        top = (mu - bend_z) / pi - self.z + form(self.a, R) @ self.B
        right = np.concatenate([top, [-np.trace(R)], [0.0]]) * self.scale
        y = np.linalg.solve(self.K, right)
        for _ in range(2):  # iterative refinement of a nearly singular system
            y = y + np.linalg.solve(self.K, right - self.K @ y)
        y = y * self.scale
        d_pi, d_t, d_s = y[:m], float(y[m]), float(y[m + 1])
        dS = self.G.T @ (mixed(self.a, self.B @ d_pi) - d_t * np.eye(len(self.D))) @ self.G
        dX = self.G @ (E - dS) @ self.G.T
        if not np.isfinite(dX).all():
            raise np.linalg.LinAlgError
        return _Move(d_pi, d_t, d_s, dS, E - dS, dX, d_s - form(self.a, dX) @ self.B)

    def reach(self, dM: Array, v: Array, dv: Array) -> float:
        """The longest step, at most 1, that keeps the matrix and the numbers positive."""
        root = np.sqrt(self.D)
        low = min(float(np.linalg.eigvalsh(dM / root[:, None] / root)[0]), float((dv / v).min()))
        return min(1.0, -SHORT / low) if low < 0 else 1.0


def _step(a: Array, B: Array, at: Mixture) -> Mixture:
    newton = _Newton(a, B, at)
    D, mu = newton.D, newton.mu
    ahead = newton.move(0.0)
    p, q = newton.reach(ahead.S, at.pi, ahead.pi), newton.reach(ahead.X, newton.z, ahead.z)
    left = float(np.vdot(np.diag(D) + p * ahead.S, np.diag(D) + q * ahead.X))
    left += float((at.pi + p * ahead.pi) @ (newton.z + q * ahead.z))
    centre = max(1e-6, min(1.0, max(0.0, left / (len(D) + len(at.pi)) / mu)) ** 3)
    bend = ahead.X @ ahead.S
    move = newton.move(centre * mu, (bend + bend.T) / (D[:, None] + D), ahead.pi * ahead.z)
    p, q = newton.reach(move.S, at.pi, move.pi), newton.reach(move.X, newton.z, move.z)
    pi, X = at.pi + p * move.pi, at.X + q * move.unscaled
    X = (X + X.T) / 2
    return Mixture(pi / pi.sum(), at.t + p * move.t, X / np.trace(X), at.s + q * move.s)


def polished(a: Array, B: Array, found: Mixture) -> tuple[Array, Array]:
    """π and X refined beyond the rounding of interior-point steps.

    On the columns and eigenvectors that the steps found active, Newton's method makes all ⟨X, A_M⟩ equal, and
    likewise the lowest eigenvalues. An error ε in X then changes the bound by ε² only. Both stay positive by
    construction, so they remain a law and a valid bound.
    """
    values, vectors = np.linalg.eigh(found.X)
    slack = form(vectors, mixed(a, B @ found.pi) - found.t * np.eye(len(a)))
    kept, used = values > slack, found.pi > found.s - form(a, found.X) @ B
    if not kept.any() or not used.any():
        return found.pi, found.X
    F = _level(a, B[:, used], vectors[:, kept] * np.sqrt(values[kept]), found.s)
    pi = np.zeros(len(found.pi))
    pi[used] = _flat(a, B[:, used], found.pi[used] / found.pi[used].sum(), int(kept.sum()))
    return pi, F @ F.T / np.vdot(F, F)


def _level(a: Array, B: Array, F: Array, s: float) -> Array:
    """F near the given one with ⟨FFᵀ, A_M⟩ = s for every column and tr FFᵀ = 1."""
    for _ in range(NEWTON_STEPS):
        c = F.T @ a
        slopes = 2 * np.einsum("re,ke,em->mrk", a, c, B).reshape(B.shape[1], -1)
        rows = np.vstack(
            [np.column_stack([slopes, -np.ones(B.shape[1])]), np.append(2 * F.ravel(), 0.0)],
        )
        miss = np.append(s - (c * c).sum(axis=0) @ B, 1 - np.vdot(F, F))
        step = np.linalg.lstsq(rows, miss, rcond=1e-12)[0]
        F, s = F + step[:-1].reshape(F.shape), s + float(step[-1])
    return F


def _flat(a: Array, B: Array, pi: Array, k: int) -> Array:
    """Weights near the given ones with k equal lowest eigenvalues; the given ones if that fails."""
    corner, first = np.triu_indices(k), pi
    for _ in range(NEWTON_STEPS):
        values, vectors = np.linalg.eigh(mixed(a, B @ pi))
        c = vectors[:, :k].T @ a
        blocks = np.einsum("ie,je,em->ijm", c, c, B)[corner] * pi
        rows = np.vstack([np.column_stack([blocks, -np.eye(k)[corner]]), np.append(pi, 0.0)])
        miss = np.append(values[0] * np.eye(k)[corner] - np.diag(values[:k])[corner], 0.0)
        pi = pi * (1 + np.linalg.lstsq(rows, miss, rcond=1e-12)[0][:-1])
        if not (pi > 0).all():
            return first
    scaled: Array = pi / pi.sum()
    return scaled
