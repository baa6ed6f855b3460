"""How fast public supports make states agree: one round of pure mixing, exactly.

Rationals in, rationals out: states, weights and probabilities may be int or Fraction, and then no float is
made but where an eigenvalue forces one. States that hold floats are computed in floats. A law of matchings is
a list of (pairs, probability); one matching for sure is [(pairs, 1)].
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.theory.numbers import whole

Number = int | Fraction
Pair = tuple[int, int]
Law = Sequence[tuple[Sequence[Pair], Number]]
Labelled = Sequence[tuple[Mapping[Pair, Collection[int]], Number]]  # the support of each pair, probability
Matrix = NDArray[Any]  # of Fractions (dtype object) or of floats


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
    weights: Mapping[int, Number],
    *,
    R: Number = 1,
) -> Decoding:
    """Whether P_K Σ_j w_ij y_j can be rebuilt from one message per peer   [thm:one_hop_compatibility]

        exact  ⇔  K ⊆ S_ji for every peer with w_ij > 0
        else   coordinate k errs by R Σ {w_ij : k ∉ S_ji} at worst, whoever decodes, if ‖y_j‖∞ ≤ R

    One silent peer gives the paper's w_ij R. Several add up: all may sit at +R or all at −R, nobody can tell
    which, and guessing 0 for them attains the bound.

    >>> one_hop({0, 1}, {1: {0, 1}, 2: {1, 5}}, {1: Fraction(1, 3), 2: Fraction(1, 3)})
    Decoding(missing={2: (0,)}, error={0: Fraction(1, 3)})
    """
    if not R >= 0:
        raise ValueError(f"R bounds |y_j| and is 0 or more, got {R}")
    missing, error = {}, dict[int, Fraction]()
    for peer, w in weights.items():
        if _rational("a weight", w) < 0:
            raise ValueError(f"weights are 0 or more, got {w} for peer {peer}")
        lost = tuple(sorted(set(target) - set(supports.get(peer, ())))) if w else ()
        if lost:
            missing[peer] = lost
        for k in lost:
            error[k] = error.get(k, Fraction(0)) + Fraction(w) * R
    return Decoding(missing, dict(sorted(error.items())))


def edge_law(n: int, law: Law) -> dict[Pair, Fraction]:
    """P(e ∈ M) of every pair that a law of matchings knows, ascending."""
    check_law(n, law)
    share: dict[Pair, Fraction] = {}
    for pairs, chance in law:
        for i, j in pairs:
            e = (min(i, j), max(i, j))
            share[e] = share.get(e, Fraction(0)) + _rational("a probability", chance)
    return dict(sorted(share.items()))


def laplacian(n: int, weights: Mapping[Pair, Number]) -> Matrix:
    """Σ_e c_e L_e in rationals,  L_e = (e_i − e_j)(e_i − e_j)ᵀ"""
    L = np.full((n, n), Fraction(0), dtype=object)
    for (i, j), c in weights.items():
        L[i, i] += c
        L[j, j] += c
        L[i, j] -= c
        L[j, i] -= c
    return L


def expected_laplacian(n: int, law: Law) -> Matrix:
    """L̄ = E Σ_{e ∈ M} L_e in rationals   [thm:edge_local_contraction]

    >>> half = Fraction(1, 2)
    >>> [str(entry) for entry in expected_laplacian(3, [([(0, 1)], half), ([(1, 2)], half)])[1]]
    ['-1/2', '1', '-1/2']
    """
    return laplacian(n, edge_law(n, law))


def isotropic(L: Matrix) -> Fraction | None:
    """c if L = cΠ to the last digit, else None: the shape of every optimal schedule

    [eq:matching_equality_characterization]
    """
    n = len(L)
    if n < 2:
        raise ValueError(f"a Laplacian of {n} nodes has no second eigenvalue; give 2 nodes or more")
    c = Fraction(L[0, 0]) * n / (n - 1)
    return c if (c * centring(n) == L).all() else None


def lambda2(L: Matrix) -> Fraction | float:
    """λ₂ of a Laplacian: a Fraction where L = cΠ, whose other eigenvalues are all c; a float elsewhere."""
    if L.dtype == object and (c := isotropic(L)) is not None:
        return c
    return float(np.linalg.eigvalsh(L.astype(float))[1])


def centring(n: int) -> Matrix:
    """Π = I − 11ᵀ/N in rationals."""
    return np.array([[Fraction(int(i == j)) - Fraction(1, n) for j in range(n)] for i in range(n)], object)


def energy(Y: Any) -> Any:
    """‖ΠY‖_F² of states Y, a row for each node: N times the disagreement

    >>> energy([[1, 0], [3, 0]])
    Fraction(2, 1)
    """
    Y = as_states(Y)
    Z = Y - Y.sum(axis=0) / len(Y)
    return (Z * Z).sum()


def energy_after(Y: Any, law: Law, *, q: int) -> Any:
    """E‖ΠX⁺‖² after one round in which each pair averages a uniform support of q

        ‖ΠY‖² − (q/2d) tr(Yᵀ L̄ Y)        [eq:edge_laplacian_energy]

    For one matching the trace is Σ_{e ∈ M} ‖y_i − y_j‖² [eq:edge_exact_contraction]. Pairs may share their
    support or not: only its marginals count.

    >>> energy_after([[1, 0], [3, 0]], [([(0, 1)], 1)], q=1)
    Fraction(1, 1)
    """
    Y = as_states(Y)
    p = share(q, Y.shape[1])
    drop = sum((c * square(Y[i] - Y[j]) for (i, j), c in edge_law(len(Y), law).items()), Fraction(0))
    return energy(Y) - p * drop / 2


def energy_bound(Y: Any, law: Law, *, q: int) -> Any:
    """(1 − qλ₂(L̄)/2d) ‖ΠY‖²: what is left in the worst case   [eq:edge_spectral_contraction]"""
    Y = as_states(Y)
    gap = share(q, Y.shape[1]) * lambda2(expected_laplacian(len(Y), law)) / 2
    return (1 - gap) * energy(Y)


def labelled_laplacians(n: int, d: int, law: Labelled) -> list[Matrix]:
    """L̄_k = E Σ_{e ∈ M} 1{k ∈ S_e} L_e for every coordinate k   [eq:coordinate_labeled_laplacian]"""
    check_law(n, [(tuple(supports), chance) for supports, chance in law])
    weights: list[dict[Pair, Fraction]] = [{} for _ in range(d)]
    for supports, chance in law:
        for e, support in supports.items():
            if not all(0 <= k < d for k in support) or len(set(support)) != len(support):
                raise ValueError(f"the support of pair {e} must be distinct coordinates below {d}")
            for k in support:
                weights[k][e] = weights[k].get(e, Fraction(0)) + Fraction(chance)
    return [laplacian(n, each) for each in weights]


def directed_scalars(law: Labelled) -> Fraction:
    """C_dir = 2 E Σ_{e ∈ M} |S_e|: values that cross the network in a round, on average"""
    return 2 * sum(
        (Fraction(chance) * sum(map(len, supports.values())) for supports, chance in law), Fraction(0)
    )


class PerScalar(NamedTuple):
    """What a law of matchings and supports makes of the values it sends."""

    gamma: Fraction | float  # γ⋆, the largest contraction that holds for every state
    bound: Fraction  # C_dir / 2d(N − 1): no law does better with as many values
    C_dir: Fraction
    coordinate: int  # where it is slowest
    attained: bool  # L̄_k = cΠ for every k, in exact rationals


def mixing_per_scalar(n: int, d: int, law: Labelled) -> PerScalar:
    """γ⋆ = ½ min_k λ₂(L̄_k) ≤ C_dir / 2d(N − 1), and whether it is attained   [eq:mixing_per_bit_converse]

    >>> both = {(0, 1): (0, 1)}
    >>> mixing_per_scalar(2, 2, [(both, 1)])
    PerScalar(gamma=Fraction(1, 1), bound=Fraction(1, 1), C_dir=Fraction(4, 1), coordinate=0, attained=True)
    """
    labelled = labelled_laplacians(n, d, law)
    gaps = [lambda2(L) for L in labelled]
    slowest = min(range(d), key=lambda k: gaps[k])
    scalars = directed_scalars(law)
    c = scalars / (d * (n - 1))
    attained = all(isotropic(L) == c for L in labelled)
    return PerScalar(gaps[slowest] / 2, c / 2, scalars, slowest, attained)


def least_bits(gamma: Any, *, n: int, d: int, value_bits: int) -> Any:
    """B_net ≥ 2 B_val d (N − 1) γ⋆: bits in the whole network for one round of this contraction

    [thm:mixing_per_bit]
    """
    return 2 * whole("value_bits", value_bits) * whole("d", d) * (whole("n", n) - 1) * gamma


class Gaps(NamedTuple):
    """Spectrum of a schedule as the rates need it   [eq:corr_gaps]"""

    lambda2: Fraction | float  # λ₂(L̄)
    gamma: Fraction | float  # pλ₂/2: contraction of one round
    chi: Fraction | float  # 1 − λ₂/2: what pairing leaves of unequal gradients, where nobody idles


def complete_gaps(n: int, *, q: int = 1, d: int = 1) -> Gaps:
    """Uniform perfect matchings of a complete graph: λ₂ = N/(N−1); odd N, where a uniform node idles: 1

    [eq:complete_matching_laplacian]

    >>> complete_gaps(8, q=4, d=32)
    Gaps(lambda2=Fraction(8, 7), gamma=Fraction(1, 14), chi=Fraction(3, 7))
    """
    n = whole("n", n, 0)
    if n < 2:
        raise ValueError(f"pairs need at least 2 nodes, got n = {n}")
    gap = Fraction(n, n - 1) if n % 2 == 0 else Fraction(1)
    return Gaps(gap, share(q, d) * gap / 2, 1 - gap / 2)


def ring_gaps(n: int, *, q: int = 1, d: int = 1) -> Gaps:
    """One of the two perfect matchings of an even ring, by a fair coin each round: λ₂ = 1 − cos(2π/N)

    [eq:edge_ring_gap]
    """
    if n < 2 or n % 2:
        raise ValueError(f"a ring has two perfect matchings if its nodes are even in number, got n = {n}")
    gap = 2 * math.sin(math.pi / n) ** 2
    return Gaps(gap, float(share(q, d)) * gap / 2, math.cos(math.pi / n) ** 2)


def metropolis_weights(n: int, edges: Iterable[Pair]) -> Matrix:
    """W in rationals: w_ij = 1 / (1 + larger degree), w_ii the rest   [eq:appendix_metropolis_offdiag]

    >>> [str(w) for w in metropolis_weights(3, [(0, 1), (1, 2)])[0]]
    ['2/3', '1/3', '0']
    """
    pairs = sorted({(min(e), max(e)) for e in edges})
    for i, j in pairs:
        if not 0 <= i < j < n:
            raise ValueError(f"edge ({i}, {j}) is a loop or leaves the nodes 0 to {n - 1}")
    degree = [sum(i in e for e in pairs) for i in range(n)]
    weights = {(i, j): Fraction(1, 1 + max(degree[i], degree[j])) for i, j in pairs}
    return identity(n) - laplacian(n, weights)


def rho(W: Any) -> float:
    """ρ = ‖W − 11ᵀ/N‖₂ of a symmetric doubly stochastic W   [eq:appendix_rho_compute]"""
    W = np.asarray(W).astype(float)
    return float(np.abs(np.linalg.eigvalsh(W - 1 / len(W))).max())


def masked_factor(rho: Any, *, q: int, d: int) -> Any:
    """1 − (q/d)(1 − ρ²): what one global support leaves of the energy   [eq:masked_contraction_witness]

    >>> masked_factor(Fraction(1, 2), q=1, d=4)
    Fraction(13, 16)
    """
    return 1 - share(q, d) * (1 - rho * rho)


def masked_energy(Y: Any, W: Any, *, q: int) -> Any:
    """E‖ΠX⁺‖² when all nodes mix one uniform support of q by W:  (1 − p) ‖ΠY‖² + p ‖ΠWY‖²"""
    Y = as_states(Y)
    p = share(q, Y.shape[1])
    W = np.asarray(W, dtype=object if Y.dtype == object else float)
    return (1 - p) * energy(Y) + p * energy(W @ Y)


def masked_witness(W: Any, coefficients: Sequence[float]) -> Matrix:
    """States that contract by exactly `masked_factor`: columns a_k v with Wv = ±ρv

    They exist by [lemma:masked_contraction_tight]; these are they, an N × d array of floats.
    """
    W = np.asarray(W).astype(float)
    values, vectors = np.linalg.eigh(W - 1 / len(W))
    v = vectors[:, np.abs(values).argmax()]
    return np.outer(v - v.mean(), np.asarray(coefficients, float))


def check_law(n: int, law: Law) -> None:
    """Refuse what is no law of matchings of n nodes."""
    total = Fraction(0)
    for pairs, chance in law:
        ends = [end for pair in pairs for end in pair]
        if len(set(ends)) != len(ends) or not all(0 <= end < n for end in ends):
            raise ValueError(f"pairs {list(pairs)} share a node or leave 0 to {n - 1}; give disjoint pairs")
        if _rational("a probability", chance) < 0:
            raise ValueError(f"a probability is 0 or more, got {chance}")
        total += Fraction(chance)
    if total != 1:
        raise ValueError(f"probabilities of a law add up to 1, got {total}; give Fractions")


def as_states(Y: Any) -> Matrix:
    """Y as Fractions, or as floats if it holds any; one row for each node."""
    given: Matrix = np.asarray(Y)
    if given.ndim != 2:
        raise ValueError(f"states are rows of nodes and columns of coordinates, got shape {given.shape}")
    if given.dtype.kind == "f":
        return given
    return np.array([[_rational("an entry", each) for each in row] for row in given.tolist()], dtype=object)


def share(q: int, d: int) -> Fraction:
    """p = q/d"""
    if not 1 <= q <= d:
        raise ValueError(f"a support has 1 ≤ q ≤ d coordinates, got q = {q}, d = {d}")
    return Fraction(whole("q", q), whole("d", d))


def square(v: Matrix) -> Any:
    """‖v‖²"""
    return (v * v).sum()


def identity(n: int) -> Matrix:
    """I in rationals."""
    return np.array([[Fraction(int(i == j)) for j in range(n)] for i in range(n)], dtype=object)


def _rational(what: str, value: Any) -> Fraction:
    if not isinstance(value, Rational):
        raise ValueError(f"{what} is an int or a Fraction here, got {value!r}; wrap it in Fraction(…)")
    return Fraction(int(value.numerator), int(value.denominator))  # NumPy's would overflow
