"""E F(x̄_t) and E disagreement of edge-local and global ZO-COSMO on quadratics, for all t, without sampling.

Node i has F_i(x) = ½ Σ_k h_ik x_k² + b_iᵀx and is queried with ξ_iᵀx added, ξ_i ~ (0, σ² I/d), fresh in every
round and the same in both queries. The central difference is then exact at every μ. With S and ε the support
and signs of the node's pair, a_i = H_i x_i + b_i + ξ_i and p = q/d, a round computes, at every k ∈ S,

    ĝ_ik = (a_ik + r_ik) / p,       r_ik = Σ_{l ∈ S, l ≠ k} ε_k ε_l a_il   [eq:theory_estimator]
    v_i  = β m_i + (1 − β) ĝ_i,     y_i = x_i − η v_i                      [eq:optional_subspace_momentum]
    x_i⁺ = (y_i + y_j) / 2,         m_i⁺ = v_i                             [eq:momentum_pair_v23]

and leaves x and m unchanged elsewhere.

Why it closes. Signs are symmetric and fresh: a product of entries of different coordinates has a factor
ε_k ε_l, and its mean is 0 unless the same factor occurs twice. So r is uncorrelated with all entries of
coordinate k, and r_ik r_jk keeps only its squares. If i and j share support and signs,

    E[1_k r_ik r_jk] = p₂ Σ_{l ≠ k} E[a_il a_jl],     p₂ = P(k, l ∈ S) = q (q − 1) / (d (d − 1)),

and it is 0 if signs are independent. The rest is linear in z_k = (x_1k … x_nk, m_1k … m_nk): second moments
of z_k follow from those of z_k, and from other coordinates only through the sum of E[a_il a_jl]. The support
enters by E[1_k] = p and by E[1_k 1'_k], which is p if two nodes share the support and p² if they do not.
Nodes of one pair share both; across pairs G shares support and signs, S the support, I nothing.

K directions change one number: p₂ is multiplied by κ, the mean square of what is left of ε_k ε_l after
averaging (`directions`). One side, noisy queries and samples of each direction's own add variance that does
not depend on the states (`sides`). A wire that rounds with dither of scale Δ adds ½ (e_j − e_i) to x_i, or
(W − I) e, with e independent of variance Δ²/12 at every value and sender: it keeps every sum.

Mixing uses the same support. With J the averaging of pairs, U = diag(active) and 1_S at each node that of its
pair, x⁺ = x + 1_S (J y − U x). Its second moment needs only the averages over matchings of J Z Jᵀ, J Z U and
U Z U (`Law.averages`). Matchings are independent of the past, so an i.i.d. law is averaged once, before the
first round.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from zocosmo.theory.directions import ONE, Directions, cross, pair_share
from zocosmo.theory.law import Array, Mixing, Mixings
from zocosmo.theory.numbers import Number, check_beta, check_finite, exact, rational, same_shape, share
from zocosmo.theory.sides import added

StepSize = Number | Sequence[Number] | Callable[[int], Number]
KEPT = 256  # rounds whose averages are kept, of a sequence of laws


@dataclass(frozen=True, eq=False)
class Quadratics:
    """F_i(x) = ½ Σ_k h_ik x_k² + b_iᵀx of n nodes, queried with noise ξ_iᵀx, E‖ξ_i‖² = σ²

    H and b have shape (n, d). Integers and Fractions stay exact.
    """

    H: Array
    b: Array
    sigma: Number = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "H", finite("H", self.H))
        object.__setattr__(self, "b", finite("b", self.b))
        same_shape("curvatures H", self.H, "linear terms b", self.b)
        check_finite("sigma", self.sigma)

    @property
    def n(self) -> int:
        return int(self.H.shape[0])

    @property
    def d(self) -> int:
        return int(self.H.shape[1])


class Expected(NamedTuple):
    """Expectations after 0 … T rounds, arrays of T + 1."""

    F: Array  # E F(x̄_t), F = mean_i F_i
    disagreement: Array  # E mean_i ‖x_i − x̄‖²
    local: Array  # E mean_i F_i(x_i)


class SecondMoments(NamedTuple):
    """Means (d, n) and second moments (d, n, n) over nodes, for each coordinate; no m, C, M if β = 0."""

    x: Array
    X: Array  # E x xᵀ
    m: Array | None = None
    C: Array | None = None  # E x mᵀ
    M: Array | None = None  # E m mᵀ


def expectation(
    problem: Quadratics,
    law: Mixings,
    *,
    q: int,
    coupling: str | None = None,
    eta: StepSize,
    beta: Number = 0,
    rounds: int,
    x0: Any,
    directions: Directions = ONE,
    scale: Number = 0,
) -> Expected:
    """E F(x̄_t), E disagreement, E mean_i F_i(x_i) for t = 0 … rounds   [alg:edge_local_cosmo, alg:zo_cosmo]

    `law`: a `Law` of i.i.d. matchings, `Global` weights, or a list of them: round t takes entry t modulo its
    length, so the matchings of a tape are a list of `fixed_law`. `coupling` (G, S or I) is for matchings.
    `eta` may be a list or a function of t. `x0` is common (d,) or per node (n, d); momentum starts at 0.
    `directions`: how many, their signs and sides. `scale`: Δ of a wire with dither whose messages all decode.
    The result is exact if all arguments are.

    >>> from zocosmo.theory.law import complete_law
    >>> pair = Quadratics([[2], [2]], [[1], [-1]])
    >>> expectation(pair, complete_law(2), coupling="I", q=1, eta=Fraction(1, 4), rounds=2, x0=[1]).F.tolist()
    [Fraction(1, 1), Fraction(1, 4), Fraction(1, 16)]
    """
    laws = in_turn(problem, law)
    if rounds < 0:
        raise ValueError(f"rounds must be 0 or more, got {rounds}")
    start = _start(x0, problem)
    etas = [_eta(eta, t) for t in range(rounds)]
    arrays = all(each.dtype == object for each in (problem.H, problem.b, start))
    numbers = (*etas, beta, problem.sigma, scale, directions.mu, directions.omega)
    scalars = all(isinstance(rational(each), Fraction) for each in numbers)
    dtype: type = object if arrays and scalars and all(each.is_rational for each in laws) else np.float64
    method = {"coupling": coupling, "q": q, "beta": beta, "directions": directions, "scale": scale}
    maps = _maps(problem, laws, **method, dtype=dtype)
    now, measured = known_moments(start, beta, dtype), []
    with np.errstate(over="ignore", invalid="ignore"):  # an unstable expectation may overflow float64
        measured.append(measure(problem, now))
        for eta_t, each in zip(etas, maps, strict=False):
            now = each.step(now, as_scalar(eta_t, dtype))
            measured.append(measure(problem, now))
    return Expected(*(np.array(column, dtype) for column in zip(*measured, strict=True)))


@dataclass(frozen=True, eq=False)
class Round:
    """One round as a map of moments: curvatures, and averages weighted by the coupling.

    Arrays with more leading axes are several problems under one law.
    """

    h: Array  # (d, n)
    b: Array  # (d, n)
    noise: Array  # (n, n) σ²/d on the diagonal
    p: Any
    scale: Any  # (1 − β) d/q
    beta: Any
    active: Array
    mean: Array
    both: tuple[Array, ...]  # averages of J Z Jᵀ: weighted by E[1_k 1'_k], by κ p₂ for r, by 1 for `added`
    left: tuple[Array, ...]  # of J Z U
    none: tuple[Array, ...]  # of U Z U
    added: Array | None = None  # (d, n, n) variance that sides, queries and rows add
    dithered: Array | None = None  # (n, n) variance that the wire adds

    def step(self, now: SecondMoments, eta: Any, total: Array | None = None) -> SecondMoments:
        """SecondMoments after a round with step η; `total` replaces Σ_l E[a_il a_jl] if given."""
        x, X, m, C, M = now
        p, h, b, U, s = self.p, self.h, self.b, self.active, self.scale
        a = h * x + b
        XA = X * h[..., None, :] + x[..., :, None] * b[..., None, :]
        A = h[..., :, None] * XA + b[..., :, None] * a[..., None, :] + self.noise  # E a aᵀ
        R = s * s * ((A.sum(axis=-3, keepdims=True) if total is None else total) - A)  # of r, if shared
        v, XV, V = s * a, s * XA, s * s * A
        if m is not None and C is not None and M is not None:
            MA = _t(C) * h[..., None, :] + m[..., :, None] * b[..., None, :]
            v, XV = v + self.beta * m, XV + self.beta * C
            MV = self.beta * M + s * MA
            V = V + self.beta * (self.beta * M + s * (MA + _t(MA)))
        YX, Y = X - eta * _t(XV), X - eta * (XV + _t(XV)) + eta * eta * V
        N = None if self.added is None else s * s * self.added
        kept = X + self.none[0] * X + _on(self.both[0], Y) + eta * eta * _on(self.both[1], R)
        if N is not None:
            kept = kept + eta * eta * _on(self.both[2], N)
        if self.dithered is not None:
            kept = kept + self.dithered
        X_next = _doubled(kept / 2 + p * (self.mean @ YX - U[:, None] * X) - _on(self.left[0], YX))
        x_next = x + p * ((x - eta * v) @ self.mean.T - U * x)
        if m is None or C is None or M is None:
            return SecondMoments(x_next, X_next)
        YM, change = C - eta * _t(MV), XV - C
        C_next = C + p * (self.mean @ YM - U[:, None] * C + change * U)
        C_next = C_next + _on(self.left[0], XV - eta * V - YM) - self.none[0] * change
        C_next = C_next - eta * _on(self.left[1], R)
        kept = M + self.none[0] * (V + M) + self.none[1] * R
        if N is not None:
            C_next, kept = C_next - eta * _on(self.left[2], N), kept + self.none[2] * N
        M_next = _doubled(kept / 2 + p * U[:, None] * (_t(MV) - M) - self.none[0] * MV)
        return SecondMoments(x_next, X_next, m + p * U * (v - m), C_next, M_next)


def make_round(
    problem: Quadratics,
    law: Mixing,
    *,
    q: int,
    coupling: str | None,
    beta: Number,
    dtype: type,
    directions: Directions = ONE,
    scale: Number = 0,
) -> Round:
    """The map of one round; `coupling` sets the weights of entries across pairs   [eq:corr_operators]"""
    n, d, q = problem.n, problem.d, int(q)
    check_beta(beta)
    p, shares = share(d, q), law.shared(coupling)
    two = cross(q, directions) * pair_share(d, q)  # κ p₂
    support, sign = p if shares in "GS" else p * p, two if shares == "G" else Fraction(0)
    beta_, sigma = as_scalar(beta, dtype), as_scalar(problem.sigma, dtype)
    h: Array = problem.H.T.astype(dtype)
    more, found = added(h, q, sigma, directions), law.averages(dtype)
    weights = [(p, support), (two, sign), *([] if more is None else [(Fraction(1), Fraction(shares == "G"))])]
    both, left, none = (
        [own * as_scalar(near, dtype) + rest * as_scalar(far, dtype) for near, far in weights]
        for own, rest in (found.both, found.left, found.none)
    )
    shared = 0 * sigma if directions.rows else sigma
    return Round(
        h=h,
        b=problem.b.T.astype(dtype),
        noise=np.eye(n, dtype=dtype) * (shared * shared / d),
        p=as_scalar(p, dtype),
        scale=(1 - beta_) / as_scalar(p, dtype),
        beta=beta_,
        active=found.active,
        mean=found.mean,
        both=tuple(each.T for each in both),
        left=tuple(each.T for each in left),
        none=tuple(each.reshape(n, n) for each in none),
        added=more,
        dithered=_dithered(both[0], left[0], none[0], as_scalar(check_finite("scale", scale), dtype), n),
    )


def _dithered(both: Array, left: Array, none: Array, scale: Any, n: int) -> Array | None:
    """(Δ²/12) p E[(J − U)(J − U)ᵀ]: what dither adds to second moments; None without it."""
    if not scale:
        return None
    eye: Array = np.eye(n, dtype=both.dtype)
    mixed, half = ((average @ eye.reshape(n * n)).reshape(n, n) for average in (both, left))
    found: Array = scale * scale / 12 * (mixed - half - half.T + none.reshape(n, n) * eye)
    return found


def known_moments(start: Array, beta: Number, dtype: type) -> SecondMoments:
    """Moments of a known start (n, d) with zero momentum."""
    x: Array = start.T.astype(dtype)
    X = x[:, :, None] * x[:, None, :]
    if beta == 0:
        return SecondMoments(x, X)
    return SecondMoments(x, X, np.zeros_like(x), np.zeros_like(X), np.zeros_like(X))


def measure(problem: Quadratics, now: SecondMoments) -> tuple[Any, Any, Any]:
    """E F(x̄), E mean_i ‖x_i − x̄‖² and E mean_i F_i(x_i)."""
    n = problem.n
    dtype = now.X.dtype.type if now.X.dtype != object else object
    h, b = problem.H.T.astype(dtype), problem.b.T.astype(dtype)
    own = np.diagonal(now.X, axis1=1, axis2=2)
    square = now.X.sum(axis=(1, 2)) / (n * n)
    F = (h.sum(axis=1) * square).sum() / (2 * n) + (b.sum(axis=1) * now.x.sum(axis=1)).sum() / (n * n)
    return F, own.sum() / n - square.sum(), (h * own + 2 * b * now.x).sum() / (2 * n)


def in_turn(problem: Quadratics, law: Mixings) -> list[Mixing]:
    """The laws that rounds take in turn; refuses an empty list, and laws of other nodes."""
    laws = list(law) if isinstance(law, Sequence) else [law]
    if not laws:
        raise ValueError("at least one law of matchings is needed, got an empty list")
    for each in laws:
        if each.n != problem.n:
            raise ValueError(f"the law is of {each.n} nodes and the problem of {problem.n}; make them equal")
    return laws


def as_scalar(value: Any, dtype: type) -> Any:
    """A Fraction if all is exact, else a float."""
    return Fraction(value) if dtype is object else float(value)


def _maps(problem: Quadratics, laws: list[Mixing], **method: Any) -> Iterator[Round]:
    """The map of each round; a law that occurs again is averaged once."""
    places = {law: k for k, law in enumerate(laws)}  # once, because hashing a large law is slow
    averaged = lru_cache(KEPT)(lambda place: make_round(problem, laws[place], **method))
    return map(averaged, cycle([places[law] for law in laws]))


def _start(x0: Any, problem: Quadratics) -> Array:
    given = np.asarray(x0)
    if given.shape not in (problem.H.shape, problem.H.shape[1:]):
        n, d = problem.H.shape
        raise ValueError(f"x0 must have shape ({d},), or ({n}, {d}) per node; got shape {given.shape}")
    return finite("x0", np.broadcast_to(given, problem.H.shape))


def finite(what: str, values: Any) -> Array:
    """A matrix of Fractions or of finite floats."""
    array = exact(what, values)
    bad = [] if array.dtype == object else array[~np.isfinite(array)]
    if len(bad):
        raise ValueError(f"{what} must be finite, got {bad[0]}")
    return array


def _eta(eta: StepSize, t: int) -> Number:
    if callable(eta):
        step = eta(t)
    elif isinstance(eta, int | float | Fraction | np.number):
        step = eta
    elif t < len(eta):
        step = eta[t]
    else:
        raise ValueError(f"eta has {len(eta)} entries, too few for round {t}; give one for each round")
    if not float("-inf") < step < float("inf"):
        raise ValueError(f"a step must be a finite number, got {step} in round {t}")
    return step


def _t(Z: Array) -> Array:
    return Z.swapaxes(-2, -1)


def _doubled(Z: Array) -> Array:
    """Z + Zᵀ: exactly symmetric, because asymmetric rounding would grow."""
    return Z + _t(Z)


def _on(average: Array, Z: Array) -> Array:
    """Apply an average, an n² × n² matrix (transposed), to each Z."""
    found: Array = (Z.reshape(-1, Z.shape[-1] ** 2) @ average).reshape(Z.shape)
    return found
