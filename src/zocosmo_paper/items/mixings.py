"""Supports, messages and mixing, enumerated: what statements say of them, and what was found."""

import math
from collections.abc import Iterator
from fractions import Fraction
from heapq import heapify, heappop, heappush
from itertools import combinations, product
from typing import Any

import numpy as np

from zocosmo.core.fields import Message
from zocosmo.core.message import CODECS
from zocosmo.core.support import draw_support
from zocosmo.core.tape import Tape
from zocosmo.core.values import F32
from zocosmo.theory.bounds import masked_recursion
from zocosmo_paper.items.enumerated import (
    GRADIENTS,
    MATCHINGS,
    STATES,
    D,
    N,
    Q,
    directions,
    energy,
    estimate,
    exact,
    joint,
    masked,
    mean_of,
    pair_mixed,
    ring_weights,
    square,
)

P = Fraction(Q, D)

Pair = tuple[Any, Any]  # what the statement says, and what was found


# Supports and messages


def compatibility() -> Iterator[Pair]:
    """The values on S determine those on K for every state exactly if K ⊆ S."""
    subsets = [set(s) for q in (1, 2, 3, 4) for s in combinations(range(4), q)]
    states = list(product((0, 1), repeat=4))
    for K, S in product(subsets, subsets):
        seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for y in states:
            seen.setdefault(tuple(y[k] for k in sorted(S)), set()).add(tuple(y[k] for k in sorted(K)))
        yield S >= K, all(len(found) == 1 for found in seen.values())


def support_cost() -> Iterator[Pair]:
    """The best code of a uniform q-subset takes log₂ C(d, q) bits or more; whole numbers: 2^(C·Eℓ) ≥ C^C."""
    for d in range(2, 8):
        for q in range(1, d):
            supports = math.comb(d, q)
            total = _huffman(supports)  # sum of lengths = supports · E ℓ
            yield 2**total, supports**supports


def _huffman(leaves: int) -> int:
    """The sum of the lengths of a best prefix code for equally likely words."""
    heap, total = [1] * leaves, 0
    heapify(heap)
    while len(heap) > 1:
        joined = heappop(heap) + heappop(heap)
        heappush(heap, joined)
        total += joined
    return total


def seed_decoding() -> Iterator[Pair]:
    """Ordered values, bytes on the wire, lifted by a receiver that draws the support itself."""
    codec, d, q = CODECS["values"], 20, 3
    for seed, t in product(range(4), range(50)):
        values = np.arange(1, q + 1, dtype=np.float32) * (t + 1)
        sent = codec.encode(Message(values, None), d=d, value=F32)
        back = codec.decode(sent, d=d, q=q, value=F32).values
        vectors = []
        for some in (values, back):
            whole = np.zeros(d, np.float32)
            whole[draw_support(Tape(seed), t, d=d, q=q).index] = some
            vectors.append(whole.tobytes())
        yield vectors[0], vectors[1]


# Mixing


def edge_contraction() -> Iterator[Pair]:
    """E‖ΠX‖² of one round, for a common support and for a support per pair."""
    Y = exact(STATES)
    for pairs, coupling in product(MATCHINGS, "GI"):
        apart = sum(square(Y[i] - Y[j]) for i, j in pairs)
        mixed = [pair_mixed(Y, pairs, us) for us in joint(coupling)]
        yield energy(Y) - P / 2 * apart, mean_of(energy(X) for X in mixed)
        yield 0, sum(abs(X.sum(axis=0) - Y.sum(axis=0)).sum() for X in mixed)


def mixing_per_bit() -> Iterator[Pair]:
    """L̄_k = c Π for uniform matchings of the complete graph: equality in the bound."""
    L = exact(np.zeros((N, N), int))
    for pairs in MATCHINGS:
        for i, j in pairs:
            e = exact([0] * N)
            e[i], e[j] = Fraction(1), Fraction(-1)
            L += e[:, None] * e[None, :] * P / len(MATCHINGS)
    values = N * Q  # C_dir
    bound = Fraction(values, D * (N - 1))
    Pi = exact(np.eye(N, dtype=int)) - Fraction(1, N)
    for i, j in product(range(N), range(N)):
        yield bound * Pi[i, j], L[i, j]


def masked_recursion_holds() -> Iterator[Pair]:
    """ℰ⁺ ≤ κ ℰ + f η² mean_i E‖ĝ_i‖² over every direction."""
    W, X, g = ring_weights(), exact(STATES), exact(GRADIENTS)
    known = masked_recursion(d=D, q=Q, rho2=Fraction(1, 9))
    moment = mean_of(mean_of(square(estimate(u, row)) for row in g) for u in directions())
    for eta in (Fraction(0), Fraction(1, 16), Fraction(1, 4), Fraction(2)):
        after = mean_of(
            energy(masked(X - eta * np.array([estimate(u, row) for row in g]), W, u)) for u in directions()
        )
        yield known.kappa * energy(X) / N + known.factor * eta**2 * moment, after / N


def masked_witness() -> Iterator[Pair]:
    W, v = ring_weights(), exact([1, 0, -1, 0])
    for a in ((1, 2, -1), (0, 3, 5)):
        X = v[:, None] * exact(a)[None, :]
        after = mean_of(energy(masked(X, W, u)) for u in directions())
        yield (1 - P * (1 - Fraction(1, 9))) * energy(X), after
