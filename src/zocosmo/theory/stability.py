"""Mean-square stability: whether E F(x̄_t) stays bounded, up to which step, and where it settles.

Without linear terms and noise, a round maps second moments linearly (`exact`). With them it is the same map T
plus terms driven by the means, and means decay at least as fast as second moments: (E z)² ≤ E z². So E F(x̄_t)
stays bounded for every b, σ and x_0 if and only if the spectral radius of T is below 1. T preserves the cone
of second moments: its radius is itself an eigenvalue, and it is below 1 if and only if Y = T Y + 1 has a
positive definite solution (then Y = Σ_t Tᵗ 1). That equation is small: coordinates interact only through the
n × n sum of E[a_il a_jl], so each is solved separately and the sum last.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from zocosmo.theory.directions import ONE, Directions
from zocosmo.theory.exact import (
    Expected,
    Quadratics,
    Round,
    SecondMoments,
    in_turn,
    make_round,
    measure,
)
from zocosmo.theory.law import Array, Mixings
from zocosmo.theory.numbers import Number, check_finite

DENSE = 600  # unknowns up to which all eigenvalues are computed
ACCURACY = 1e-10  # of an eigenvalue
MOST_HALVINGS = 60
Search = tuple[int, int]  # vectors that Arnoldi keeps, and its number of restarts
QUICK: Search = (64, 8)
PATIENT: tuple[Search, ...] = ((160, 30), (400, 30))  # for clustered eigenvalues, as far below 1


def spectral_radius(
    problem: Quadratics,
    law: Mixings,
    *,
    q: int,
    coupling: str | None = None,
    eta: Number,
    beta: Number = 0,
    directions: Directions = ONE,
) -> float:
    """Growth of second moments per round, in the long run, at step η   [alg:edge_local_cosmo, alg:zo_cosmo]

    For a list of laws, taken in turn, the geometric mean over one cycle. b, σ, sides and noisy queries do
    not matter, the number of directions and their signs do.

    One node, one coordinate of curvature 2: x⁺ = (1 − 2η) x.

    >>> from zocosmo.theory.law import Global
    >>> round(spectral_radius(Quadratics([[2]], [[0]]), Global([[1]]), q=1, eta=0.25), 12)
    0.25
    """
    return MomentMap(problem, law, q=q, coupling=coupling, beta=beta, directions=directions).radius(eta)


def is_stable(
    problem: Quadratics,
    law: Mixings,
    *,
    q: int,
    coupling: str | None = None,
    eta: Number,
    beta: Number = 0,
    directions: Directions = ONE,
) -> bool:
    """Whether second moments decay at step η: spectral radius below 1."""
    return MomentMap(problem, law, q=q, coupling=coupling, beta=beta, directions=directions).is_stable(eta)


def critical_step(
    problem: Quadratics,
    law: Mixings,
    *,
    q: int,
    coupling: str | None = None,
    beta: Number = 0,
    directions: Directions = ONE,
    accuracy: float = 1e-6,
) -> float:
    """The step at which the spectral radius reaches 1: smaller steps are stable, larger ones are not.

    Starting from a small stable step, η is doubled until it is unstable; root finding then locates the
    crossing to a relative `accuracy`. With one curvature h everywhere, and G or one direction for all, it is
    2/(φ h), φ = d for one direction (`directions.norm_factor`).

    >>> from zocosmo.theory.law import complete_law
    >>> alike = Quadratics([[2, 2, 2, 2]] * 2, [[0, 0, 0, 0]] * 2)
    >>> round(critical_step(alike, complete_law(2), coupling="G", q=2), 6)
    0.25
    """
    from scipy.optimize import brentq

    found = MomentMap(problem, law, q=q, coupling=coupling, beta=beta, directions=directions)
    H = problem.H.astype(np.float64)
    low = 1 / (problem.d * (float(np.abs(H).max()) or 1.0))
    for _ in range(MOST_HALVINGS):
        if found.is_stable(low):
            break
        low /= 2
    else:
        least = float(H.mean(axis=0).min())
        raise ValueError(f"no step is stable: the least mean curvature is {least:g}; it must be above 0")
    high = 2 * low
    while found.is_stable(high):
        low, high = high, 2 * high
    if found.radius(low) >= 1:  # the crossing itself, to rounding
        return low
    if found.radius(high) <= 1:
        return high
    return float(brentq(lambda eta: found.radius(eta) - 1, low, high, xtol=accuracy * low, rtol=accuracy))


def expected_limit(
    problem: Quadratics,
    law: Mixings,
    *,
    q: int,
    coupling: str | None = None,
    eta: Number,
    beta: Number = 0,
    directions: Directions = ONE,
    scale: Number = 0,
) -> Expected:
    """The limits of E F(x̄_t), E disagreement and E mean_i F_i(x_i) as t grows; refuses an unstable step.

    Two nodes that pull x to 1 and to −1 with the same curvature agree on 0 at once, so the limit is 0.

    >>> from zocosmo.theory.law import complete_law
    >>> pair = Quadratics([[2], [2]], [[2], [-2]])
    >>> bool(abs(expected_limit(pair, complete_law(2), coupling="I", q=1, eta=0.25).F) < 1e-15)
    True
    """
    linear = MomentMap(problem, law, q=q, coupling=coupling, beta=beta, directions=directions)
    if len(linear.rounds) > 1:
        raise ValueError(f"a limit needs one law, got {len(linear.rounds)} in turn; use expectation instead")
    if not linear.is_stable(eta):
        top = f"spectral radius {linear.radius(eta):.6g}"
        raise ValueError(f"no limit: eta = {eta} is unstable, {top}; use a step below critical_step")
    how: dict[str, Any] = {"coupling": coupling, "q": q, "beta": beta, "directions": directions}
    full = make_round(problem, *linear.laws, **how, scale=scale, dtype=np.float64)
    means = _settled_means(full, float(eta), linear)
    driven = full.step(linear.unpack(np.zeros(linear.size), *means), float(eta))
    second = Resolvent(linear, float(eta)).apply(linear.pack(driven))
    return Expected(*(np.asarray(value) for value in measure(problem, linear.unpack(second, *means))))


class MomentMap:
    """T: the map of one cycle of the laws on the second moments of all coordinates, as one vector."""

    def __init__(
        self,
        problem: Quadratics,
        law: Mixings,
        *,
        q: int,
        coupling: str | None,
        beta: Number,
        directions: Directions = ONE,
    ) -> None:
        self.laws = in_turn(problem, law)
        flat = Quadratics(problem.H, np.zeros(problem.H.shape, int))  # b and σ do not affect stability
        how: dict[str, Any] = {
            "coupling": coupling,
            "q": q,
            "beta": beta,
            "directions": directions.only_signs,
        }
        self.rounds: list[Round] = [make_round(flat, each, **how, dtype=np.float64) for each in self.laws]
        self.shape, self.blocks = (problem.d, problem.n, problem.n), 1 if beta == 0 else 3
        self.size = self.blocks * problem.d * problem.n**2
        self._last: Array | None = None  # the last eigenvector, where the next search starts

    def unpack(self, vector: Array, x: Array | None = None, m: Array | None = None) -> SecondMoments:
        """SecondMoments of a vector (coordinates, blocks, n²); means default to 0."""
        parts = vector.reshape(self.shape[0], self.blocks, *self.shape[1:]).swapaxes(0, 1)
        nothing = np.zeros(self.shape[:2])
        x, m = nothing if x is None else x, nothing if m is None else m
        if self.blocks == 1:
            return SecondMoments(x, _even(parts[0]))
        return SecondMoments(x, _even(parts[0]), m, parts[1], _even(parts[2]))

    def pack(self, now: SecondMoments) -> Array:
        parts = [part for part in (now.X, now.C, now.M) if part is not None]
        return np.stack(parts, axis=1).ravel()

    def apply(self, vector: Array, eta: float) -> Array:
        now = self.unpack(vector)
        for each in self.rounds:
            now = each.step(now, eta)
        return self.pack(now)

    def radius(self, eta: Number) -> float:
        """Spectral radius per round."""
        step = float(check_finite("eta", eta))
        if self.size <= DENSE:
            dense = np.stack([self.apply(column, step) for column in np.eye(self.size)], axis=1)
            top: float | None = float(np.abs(np.linalg.eigvals(dense)).max())
        else:
            top = self._largest(step)
        if top is None:
            raise ValueError(f"Arnoldi found no eigenvalue at eta = {eta}; vary eta a bit or use is_stable")
        return float(top ** (1 / len(self.rounds)))

    def is_stable(self, eta: Number) -> bool:
        """By the positive definite solution; for several laws in turn by their radius."""
        inverse = self.resolvent(float(check_finite("eta", eta)))
        return self.radius(eta) < 1 if inverse is None else inverse.is_positive()

    def resolvent(self, eta: float) -> "Resolvent | None":
        """(1 − T)⁻¹ if T has one law and 1 is not an eigenvalue."""
        if len(self.rounds) > 1:
            return None
        try:
            return Resolvent(self, eta)
        except np.linalg.LinAlgError:
            return None

    def inside(self) -> Array:
        """Independent entries of variance 1: inside the cone, so Arnoldi finds its leading eigenvector."""
        eye = np.broadcast_to(np.eye(self.shape[1]), self.shape)
        return np.stack([eye, 0 * eye, eye][: self.blocks], axis=1).ravel()

    def _largest(self, eta: float) -> float | None:
        """By Arnoldi; if that is slow, on (1 − T)⁻¹, whose leading eigenvalue is 1/(1 − ρ) if ρ < 1."""
        top = self._arnoldi(lambda vector: self.apply(vector, eta), QUICK)
        inverse = self.resolvent(eta) if top is None else None
        if inverse is not None and inverse.is_positive():
            far = self._arnoldi(inverse.apply, QUICK)
            top = None if far is None else 1 - 1 / far
        for search in PATIENT:
            top = self._arnoldi(lambda vector: self.apply(vector, eta), search) if top is None else top
        return top

    def _arnoldi(self, apply: Callable[[Array], Array], search: Search) -> float | None:
        from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

        start = self.inside() if self._last is None else self._last
        operator: Any = LinearOperator((self.size, self.size), matvec=apply, dtype=np.float64)
        kept = min(search[0], self.size)
        try:
            values, vectors = eigs(operator, k=1, v0=start, ncv=kept, tol=ACCURACY, maxiter=search[1])
        except ArpackNoConvergence:
            return None
        self._last = np.ascontiguousarray(vectors[:, 0].real)
        return float(np.abs(values[0]))


class Resolvent:
    """(1 − T)⁻¹: each coordinate separately, then the sum that couples them.

    T M = L_k M_k + B Σ_l h h' X_l, with L_k the map of coordinate k alone and B that of the sum.
    """

    def __init__(self, linear: MomentMap, eta: float) -> None:
        (one,), (d, n, _) = linear.rounds, linear.shape
        self.linear, self.square, size = linear, n * n, linear.size // d
        own, shared = np.empty((d, size, size)), np.empty((size, n * n))
        for j, column in enumerate(np.eye(size)):
            now = linear.unpack(np.tile(column, d))
            own[:, :, j] = linear.pack(one.step(now, eta, np.zeros((n, n)))).reshape(d, size)
        empty = linear.unpack(np.zeros(linear.size))
        for j, column in enumerate(np.eye(n * n)):
            shared[:, j] = linear.pack(one.step(empty, eta, column.reshape(n, n)))[:size]
        self.own = np.linalg.inv(np.eye(size) - own)
        self.shared = self.own @ shared
        self.curvature = (one.h[:, :, None] * one.h[:, None, :]).reshape(d, n * n, 1)
        core = (self.curvature * self.shared[:, : n * n]).sum(axis=0)
        self.core = np.linalg.inv(np.eye(n * n) - core)

    def apply(self, vector: Array) -> Array:
        alone = self.own @ vector.reshape(len(self.own), -1, 1)
        total = self.core @ (self.curvature * alone[:, : self.square]).sum(axis=0)
        return np.ravel(alone + self.shared @ total)

    def is_positive(self) -> bool:
        """Whether the solution for independent entries of variance 1 is positive definite."""
        _, X, _, C, M = self.linear.unpack(self.apply(self.linear.inside()))
        whole = X if C is None or M is None else np.block([[X, C], [C.swapaxes(1, 2), M]])
        return bool(np.isfinite(whole).all() and np.linalg.eigvalsh(whole).min() > 0)


def _settled_means(full: Round, eta: float, linear: MomentMap) -> tuple[Array, Array | None]:
    """Means that a round does not change, coordinate by coordinate."""
    d, n, _ = linear.shape
    size = n if linear.blocks == 1 else 2 * n

    def after(means: Array) -> Array:
        parts = means.reshape(d, -1, n)
        now = full.step(linear.unpack(np.zeros(linear.size), parts[:, 0], parts[:, -1]), eta)
        return np.concatenate([now.x] if now.m is None else [now.x, now.m], axis=1)

    constant = after(np.zeros((d, size)))
    columns = [after(np.tile(column, (d, 1))) - constant for column in np.eye(size)]
    settled = np.linalg.solve(np.eye(size) - np.stack(columns, axis=2), constant[:, :, None])[:, :, 0]
    return settled[:, :n], None if size == n else settled[:, n:]


def _even(Z: Array) -> Array:
    return (Z + Z.swapaxes(1, 2)) / 2
