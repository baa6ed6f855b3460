"""One line for each theorem, proposition and lemma, and what was done about it.

enumerated     equal in rational numbers over every case of a small size
bound checked  never violated: over every case of a small size, or by an exact expectation
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from zocosmo.theory.moments import coupling_moments
from zocosmo.theory.momentum import momentum_moments
from zocosmo.theory.steps import curvature_residual, disagreement_step
from zocosmo_paper.claim import NO, STATEMENT, WITHIN, Claim
from zocosmo_paper.item import Evidence, Findings, Item, Table
from zocosmo_paper.items.enumerated import (
    CURVATURES,
    GRADIENTS,
    MATCHINGS,
    NOISE,
    STATES,
    STORED,
    D,
    N,
    Q,
    at_pairs,
    centred,
    directions,
    energy,
    estimate,
    exact,
    joint,
    mean_of,
    pair_means,
    pair_mixed,
    square,
)
from zocosmo_paper.items.mixings import (
    Pair,
    compatibility,
    edge_contraction,
    masked_recursion_holds,
    masked_witness,
    mixing_per_bit,
    seed_decoding,
    support_cost,
)
from zocosmo_paper.items.recursions import core_rates, coupling_rates, momentum_rates

ENUMERATED, BOUND = "enumerated", "bound checked"
COUPLINGS = ("G", "S", "I")
P = Fraction(Q, D)


class Statement(NamedTuple):
    """A labelled result: its subject in our words, what was done, and pairs to be compared."""

    label: str
    words: str
    done: str
    pairs: Callable[[], Iterator[Pair]]
    where: str = ""

    def claim(self) -> Claim:
        """`enumerated` pairs must be equal; of `bound checked` ones the second must not exceed the first."""
        pairs = list(self.pairs())
        fits = [a == b if self.done == ENUMERATED else b <= a for a, b in pairs]
        verdict = WITHIN if fits and all(fits) else NO
        note = (
            f"{self.done}: {sum(fits)} of {len(pairs)} comparisons{f', {self.where}' if self.where else ''}"
        )
        words = f"{self.label}: {self.words}"
        return Claim(words, "stated", float(sum(fits)), verdict, note=note, kind=STATEMENT)


# Estimates


def sparse_identities() -> Iterator[Pair]:
    us = directions()
    second = mean_of(u[:, None] * u[None, :] for u in us)
    yield 0, abs(second - P * exact(np.eye(D, dtype=int))).sum()
    for row in exact(GRADIENTS):
        yield D * square(row), mean_of(square(estimate(u, row)) for u in us)


def sparse_fourth() -> Iterator[Pair]:
    us = directions()
    for v in map(exact, product((-2, -1, 0, 1, 3), repeat=D)):
        yield 3 * P * square(v) ** 2, mean_of((u * v).sum() ** 4 for u in us)
        yield 3 * Fraction(D**3, Q) * square(v) ** 2, mean_of(square(estimate(u, v)) ** 2 for u in us)


def estimator() -> Iterator[Pair]:
    """f(x) = (wᵀx)³ with ‖w‖ = 3: the remainder is 2μ³ (wᵀu)³, so L₃ = 6‖w‖³; squared norms are compared."""
    w, mu, us = exact((1, 2, 2)), Fraction(1, 10), directions()
    L3 = 6 * 27
    bias = Fraction(L3) * mu**2 * D * Q / 6
    for x in map(exact, product((-1, 0, 2), repeat=D)):
        slope = 3 * (w * x).sum() ** 2 * w
        found = []
        for u in us:
            ends = [(w * (x + sign * mu * u)).sum() ** 3 for sign in (1, -1)]
            found.append(Fraction(D, Q) * (ends[0] - ends[1]) / (2 * mu) * u)
        yield bias**2, square(mean_of(found) - slope)
        yield 2 * D * square(slope) + 2 * bias**2, mean_of(square(g) for g in found)


def averaged_estimator() -> Iterator[Pair]:
    """Two nodes, quadratics, noise of two values: E‖ḡ‖² and E⟨∇F(x̄), ḡ⟩, constants as in `core_bound`."""
    H, b, noise = exact(CURVATURES)[:2], exact(GRADIENTS)[:2], exact(NOISE)[:2]
    L = max(H.ravel())
    for X in (exact(STATES)[:2], exact(STATES)[2:], exact(STATES)[:2] * 0):
        centre = X.mean(axis=0)
        g = (H.mean(axis=0) * centre) + b.mean(axis=0)
        apart = energy(X) / 2
        sigma2 = max(square(row) for row in noise)
        found = [
            mean_of(estimate(u, H[i] * X[i] + b[i] + signs[i] * noise[i]) for i in range(2))
            for u in directions()
            for signs in product((-1, 1), repeat=2)
        ]
        bound = 4 * D * square(g) + 4 * D * L**2 * apart + 2 * D * sigma2 / 2
        yield bound, mean_of(square(each) for each in found)
        yield -(Fraction(3, 4) * square(g) - 2 * L**2 * apart), -mean_of((g * each).sum() for each in found)


# Couplings


def pair_updates(coupling: str, rows: Sequence[Any]) -> Iterator[list[Any]]:
    for us in joint(coupling):
        yield [estimate(u, a) for u, a in zip(us, rows, strict=True)]


def coupling_variances() -> Iterator[Pair]:
    rows = pair_means(exact(GRADIENTS), MATCHINGS[0])
    centre = mean_of(rows)
    H2 = mean_of(square(a - centre) for a in rows)
    for coupling in COUPLINGS:
        V, U = [], []
        for vs in pair_updates(coupling, rows):
            mean = mean_of(vs)
            V.append(square(mean - centre))
            U.append(mean_of(square(v - mean) for v in vs))
        told = coupling_moments(coupling, d=D, q=Q, pairs=2, a2=square(centre), H2=H2)
        yield told.V, mean_of(V)
        yield told.U, mean_of(U)


def joint_step() -> Iterator[Pair]:
    """E𝒟⁺ of the update that also mixes, over directions."""
    X, g, eta = exact(STATES), exact(GRADIENTS), Fraction(1, 8)
    for coupling, pairs in product(COUPLINGS, MATCHINGS):
        after = []
        for us in joint(coupling):
            own = at_pairs(pairs, us)
            Y = X - eta * np.array([estimate(own[i], g[i]) for i in range(N)])
            after.append(energy(pair_mixed(Y, pairs, us)) / N)
        told = disagreement_step(coupling, X, g, q=Q, matching=list(pairs), eta=eta)
        yield told.after, mean_of(after)


def invariance() -> Iterator[Pair]:
    """A V = V for every coupling, matching and direction."""
    for coupling, pairs in product(COUPLINGS, MATCHINGS):
        rows = pair_means(exact(GRADIENTS), pairs)
        off = 0
        for us in joint(coupling):
            V = at_pairs(pairs, [estimate(u, a) for u, a in zip(us, rows, strict=True)])
            off += int((pair_mixed(V, pairs, us) != V).sum())
        yield 0, off


def gradient_bounds() -> Iterator[Pair]:
    """‖ā − ∇F(x̄)‖² ≤ L²𝒟 and ‖ā‖² ≤ 2‖∇F(x̄)‖² + 2L²𝒟 on quadratics."""
    H, b = exact(CURVATURES), exact(GRADIENTS)
    L = max(H.ravel())
    for X in (exact(STATES), exact(STATES)[::-1], exact(STATES) * 3, exact(STATES) * 0):
        a, g = (H * X + b).mean(axis=0), H.mean(axis=0) * X.mean(axis=0) + b.mean(axis=0)
        apart = energy(X) / N
        yield L**2 * apart, square(a - g)
        yield 2 * square(g) + 2 * L**2 * apart, square(a)


def cancellation() -> Iterator[Pair]:
    """G on one curvature: x̄⁺ = x̄ − η D H x̄; from x_i = 0, E‖x̄⁺‖² = η² τ E H_M²."""
    H, b, eta = exact((1, 2, 4)), centred(exact(GRADIENTS)), Fraction(1, 8)
    X = exact(STATES)
    for pairs, u in product(MATCHINGS, directions()):
        Y = X - eta * np.array([estimate(u, H * X[i] + b[i]) for i in range(N)])
        after = pair_mixed(Y, pairs, (u, u)).mean(axis=0)
        yield 0, abs(X.mean(axis=0) - eta * estimate(u, H * X.mean(axis=0)) - after).sum()
    for coupling, tau in (("G", 0), ("S", Fraction(D) - Fraction(D, Q)), ("I", D - 1)):
        H2, moved = [], []
        for pairs in MATCHINGS:
            rows = pair_means(b, pairs)
            H2.append(mean_of(square(a) for a in rows))
            moved.append(mean_of(square(eta * mean_of(vs)) for vs in pair_updates(coupling, rows)))
        yield eta**2 * Fraction(tau) / 2 * mean_of(H2), mean_of(moved)


def curvature() -> Iterator[Pair]:
    """ā = ∇F(x̄) + r_X, ‖r_X‖² ≤ δ²𝒟 and E‖D r_X‖² = d‖r_X‖²."""
    H, b = exact(CURVATURES), exact(GRADIENTS)
    for X in (exact(STATES), exact(STATES)[::-1]):
        found = curvature_residual(H, X)
        a, g = (H * X + b).mean(axis=0), H.mean(axis=0) * X.mean(axis=0) + b.mean(axis=0)
        yield 0, abs(a - g - found.r).sum()
        yield True, found.r2 <= found.bound
        yield found.applied, mean_of(square(estimate(u, found.r)) for u in directions())


def stored_momentum() -> Iterator[Pair]:
    """V and U of w_e = β P c_e + θ D (a_e + ε_e) over directions and noise."""
    beta, pairs = Fraction(3, 4), MATCHINGS[1]
    noise = exact(NOISE)
    a, c = pair_means(exact(GRADIENTS), pairs), pair_means(exact(STORED), pairs)
    nu = mean_of(beta * P * c_e + (1 - beta) * a_e for a_e, c_e in zip(a, c, strict=True))
    sigma2 = mean_of(square(row) for row in noise)
    rows = [pair_means(noise * exact(s)[:, None], pairs) for s in product((-1, 1), repeat=N)]
    for coupling in COUPLINGS:
        V, U = [], []
        for us, drawn in product(joint(coupling), rows):
            w = [
                beta * np.where(u != 0, c_e, 0 * c_e) + (1 - beta) * estimate(u, a_e + e)
                for u, a_e, c_e, e in zip(us, a, c, drawn, strict=True)
            ]
            mean = mean_of(w)
            V.append(square(mean - nu))
            U.append(mean_of(square(each - mean) for each in w))
        told = momentum_moments(coupling, np.array(a), np.array(c), q=Q, beta=beta, sigma2=sigma2)
        yield told.V, mean_of(V)
        yield told.U, mean_of(U)


SMALL = "d = 3, q = 2, four nodes"
EXACT = "R_T by the exact recursion"
STATEMENTS = (
    Statement(
        "thm:one_hop_compatibility",
        "messages must cover the target support",
        ENUMERATED,
        compatibility,
        "d = 4",
    ),
    Statement(
        "thm:edge_local_contraction", "what a matching keeps of ‖ΠX‖²", ENUMERATED, edge_contraction, SMALL
    ),
    Statement("thm:mixing_per_bit", "uniform matchings attain the bound", ENUMERATED, mixing_per_bit, SMALL),
    Statement("thm:convergence", "R_T with a global support", BOUND, core_rates, EXACT),
    Statement("prop:conditional_support_cost", "bits of a private support", BOUND, support_cost, "d ≤ 7"),
    Statement(
        "lemma:seed_decode_correctness", "values alone decode", ENUMERATED, seed_decoding, "200 messages"
    ),
    Statement(
        "lemma:sparse_direction_identities", "second moments of u", ENUMERATED, sparse_identities, SMALL
    ),
    Statement("lemma:sparse_direction_fourth", "fourth moments of u", BOUND, sparse_fourth, SMALL),
    Statement("prop:estimator", "bias and second moment", BOUND, estimator, SMALL),
    Statement(
        "lemma:avg_estimator_shared_direction",
        "moment and alignment of ḡ",
        BOUND,
        averaged_estimator,
        "d = 3, q = 2, two nodes; C, which is not printed, is 4, 4 and 2 in the moment, 2 in the alignment",
    ),
    Statement("lemma:masked_disagreement_energy", "one step of ℰ", BOUND, masked_recursion_holds, SMALL),
    Statement("lemma:masked_contraction_tight", "states that contract so", ENUMERATED, masked_witness, SMALL),
    Statement("thm:momentum_convergence", "R_T with sparse momentum", BOUND, momentum_rates, EXACT),
    Statement("prop:corr_moments", "V and U of G, S and I", ENUMERATED, coupling_variances, SMALL),
    Statement("prop:corr_joint", "disagreement after a round", ENUMERATED, joint_step, SMALL),
    Statement("eq:corr_pair_invariance", "updates pass mixing unchanged", ENUMERATED, invariance, SMALL),
    Statement("eq:corr_average_gradient_bounds", "ā against ∇F(x̄)", BOUND, gradient_bounds, SMALL),
    Statement("thm:corr_core", "R_T of each coupling at a certified step", BOUND, coupling_rates, EXACT),
    Statement("prop:corr_quadratic", "cancellation under G", ENUMERATED, cancellation, SMALL),
    Statement("prop:curvature_v23", "the residual of unequal curvatures", ENUMERATED, curvature, SMALL),
    Statement("prop:momentum_moments_v23", "V and U with momentum", ENUMERATED, stored_momentum, SMALL),
)


def find(evidence: Evidence) -> Findings:
    claims = [each.claim() for each in STATEMENTS]
    rows = [
        [each.label, each.words, each.done, claim.note.partition(": ")[2], claim.verdict]
        for each, claim in zip(STATEMENTS, claims, strict=True)
    ]
    columns = ("label", "about", "what was done", "where", "verdict")
    title = "Theorems, propositions and lemmas, and two equations that proofs rest on"
    notes = "Proofs are not checked; `zocosmo check` holds the same formulas against runs of your config."
    return Findings(claims, [Table("statements", title, columns, rows, notes)])


ITEMS: Sequence[Item] = [
    Item(
        "statements",
        "Theorems, propositions and lemmas",
        tuple(each.label for each in STATEMENTS),
        "Identities hold exactly and bounds are never violated.",
        find,
        ours={
            "sizes": "small enough to list every support, sign, matching and noise in rational numbers",
            "constants of bounds": "worked out from the proofs where the paper leaves them open",
        },
    )
]
