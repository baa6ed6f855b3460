"""How fast public supports make states agree: one round of pure mixing, exactly.

Integers and Fractions give exact results, except where an eigenvalue forces a float. States that hold floats
are computed in floats. Laws of matchings are in `law`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from zocosmo.theory.law import Array, Edge, Law, check_edge, identity, isotropic, laplacian
from zocosmo.theory.numbers import Number, exact, fraction, share, square


class Decoding(NamedTuple):
    """What a receiver cannot know, and what that costs it."""

    missing: dict[int, tuple[int, ...]]  # peer → coordinates of K that its message lacks
    error: dict[int, Fraction]  # coordinate → worst-case error of the best decoder; absent where exact

    @property
    def exact(self) -> bool:
        return not self.missing


def one_hop(
    target: Collection[int],
    supports: Mapping[int, Collection[int]],
    weights: Mapping[int, Fraction | int],
    *,
    R: Fraction | int = 1,
) -> Decoding:
    """Whether P_K Σ_j w_ij y_j can be rebuilt from one message per peer   [thm:one_hop_compatibility]

        exact  ⇔  K ⊆ S_ji for every peer with w_ij > 0
        else   coordinate k errs by R Σ {w_ij : k ∉ S_ji} at worst under any decoder, if ‖y_j‖∞ ≤ R

    One silent peer gives the paper's w_ij R. Errors of several peers add up: all may be +R or all −R, the
    messages do not tell which, and guessing 0 for them attains the bound.

    >>> one_hop({0, 1}, {1: {0, 1}, 2: {1, 5}}, {1: Fraction(1, 3), 2: Fraction(1, 3)})
    Decoding(missing={2: (0,)}, error={0: Fraction(1, 3)})
    """
    if not R >= 0:
        raise ValueError(f"R bounds |y_j| and must be 0 or more, got {R}")
    missing, error = {}, dict[int, Fraction]()
    for peer, w in weights.items():
        if fraction("a weight", w) < 0:
            raise ValueError(f"weights must be 0 or more, got {w} for peer {peer}")
        lost = tuple(sorted(set(target) - set(supports.get(peer, ())))) if w else ()
        if lost:
            missing[peer] = lost
        for k in lost:
            error[k] = error.get(k, Fraction(0)) + Fraction(w) * R
    return Decoding(missing, dict(sorted(error.items())))


def energy(Y: Any) -> Any:
    """‖ΠY‖_F² of states Y, a row for each node: N times the disagreement

    >>> energy([[1, 0], [3, 0]])
    Fraction(2, 1)
    """
    Y = exact("states", Y)
    return square(Y - Y.sum(axis=0) / len(Y))


def energy_after(Y: Any, law: Law, *, q: int) -> Any:
    """E‖ΠX⁺‖² after one round in which each pair averages a uniform support of q

        ‖ΠY‖² − (q/2d) tr(Yᵀ L̄ Y) ≤ (1 − qλ₂(L̄)/2d) ‖ΠY‖²   [eq:edge_laplacian_energy]

    For one matching the trace is Σ_{e ∈ M} ‖y_i − y_j‖² [eq:edge_exact_contraction]. Only the marginals of
    supports count, so pairs may share a support or not. On complete graphs L̄ = λ₂Π, and every state attains
    the bound [eq:complete_matching_tightness].

    >>> from zocosmo.theory.law import fixed_law
    >>> energy_after([[1, 0], [3, 0]], fixed_law(2, [(0, 1)]), q=1)
    Fraction(1, 1)
    """
    Y = exact("states", Y)
    p = share(Y.shape[1], q)
    if law.matchings is None:
        return (1 - p * law.lambda2 / 2) * energy(Y)
    drop = sum((c * square(Y[i] - Y[j]) for (i, j), c in law.edges.items()), Fraction(0))
    return energy(Y) - p * drop / 2


class PerScalar(NamedTuple):
    """What a law of matchings and supports achieves with the values it sends."""

    gamma: Number  # γ⋆, the largest contraction that holds for every state
    bound: Fraction  # C_dir / 2d(N − 1): no law that sends as many values does better
    C_dir: Fraction  # 2 E Σ_{e ∈ M} |S_e|: values sent over the network in a round, on average
    coordinate: int  # where it is slowest
    attained: bool  # L̄_k = cΠ for every k, in exact rationals


def mixing_per_scalar(laws: Sequence[Law]) -> PerScalar:
    """γ⋆ = ½ min_k λ₂(L̄_k) ≤ C_dir / 2d(N − 1), and whether it is attained   [eq:mixing_per_bit_converse]

    laws[k] is the law of the pairs whose support holds coordinate k, so that its Laplacian is
    L̄_k = E Σ_{e ∈ M} 1{k ∈ S_e} L_e   [eq:coordinate_labeled_laplacian]

    >>> from zocosmo.theory.law import fixed_law
    >>> mixing_per_scalar([fixed_law(2, [(0, 1)])] * 2)
    PerScalar(gamma=Fraction(1, 1), bound=Fraction(1, 1), C_dir=Fraction(4, 1), coordinate=0, attained=True)
    """
    d, n = len(laws), laws[0].n
    slowest = min(range(d), key=lambda k: laws[k].lambda2)
    scalars = 2 * sum((law.pairs for law in laws), Fraction(0))
    c = scalars / (d * (n - 1))
    attained = all(isotropic(law.laplacian) == c for law in laws)
    return PerScalar(laws[slowest].lambda2 / 2, c / 2, scalars, slowest, attained)


def metropolis_weights(n: int, edges: Iterable[Edge]) -> Array:
    """W in rationals: w_ij = 1 / (1 + larger degree), w_ii the rest   [eq:appendix_metropolis_offdiag]

    >>> [str(w) for w in metropolis_weights(3, [(0, 1), (1, 2)])[0]]
    ['2/3', '1/3', '0']
    """
    pairs = sorted({(min(e), max(e)) for e in edges})
    for e in pairs:
        check_edge(n, e)
    degree = [sum(i in e for e in pairs) for i in range(n)]
    weights = {(i, j): Fraction(1, 1 + max(degree[i], degree[j])) for i, j in pairs}
    return identity(n) - laplacian(n, weights)


def rho(W: Any) -> float:
    """ρ = ‖W − 11ᵀ/N‖₂ of a symmetric doubly stochastic W   [eq:appendix_rho_compute]"""
    W = np.asarray(W).astype(float)
    return float(np.abs(np.linalg.eigvalsh(W - 1 / len(W))).max())


def masked_factor(rho: Any, *, d: int, q: int) -> Any:
    """1 − (q/d)(1 − ρ²): what one global support leaves of the energy   [eq:masked_contraction_witness]

    >>> masked_factor(Fraction(1, 2), d=4, q=1)
    Fraction(13, 16)
    """
    return 1 - share(d, q) * (1 - rho * rho)


def masked_energy(Y: Any, W: Any, *, q: int) -> Any:
    """E‖ΠX⁺‖² when all nodes mix one uniform support of q by W:  (1 − p) ‖ΠY‖² + p ‖ΠWY‖²"""
    Y = exact("states", Y)
    p = share(Y.shape[1], q)
    W = np.asarray(W, dtype=object if Y.dtype == object else float)
    return (1 - p) * energy(Y) + p * energy(W @ Y)


def masked_witness(W: Any, coefficients: Sequence[float]) -> Array:
    """States that contract by exactly `masked_factor`: columns a_k v with Wv = ±ρv, an N × d array of floats

    [lemma:masked_contraction_tight] proves that they exist.
    """
    W = np.asarray(W).astype(float)
    values, vectors = np.linalg.eigh(W - 1 / len(W))
    v = vectors[:, np.abs(values).argmax()]
    return np.outer(v - v.mean(), np.asarray(coefficients, float))
