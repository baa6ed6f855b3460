"""Rounds with K directions as they are written: every draw of signs and rows, slopes from evaluations.

Whole numbers and dyadic floats only, so nothing rounds: `estimates` needs even Hessians, `enumerated` d/q
and K of the form 3/2 or a power of two.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations, permutations, product

import numpy as np

N, D = 4, 3


def hadamard(Q):
    return np.array([[(-1) ** (r & j).bit_count() for j in range(Q)] for r in range(Q)])


def sign_draws(q, K, signs):
    """All draws of K sign vectors on q places, equally likely: (draws, K, q)."""
    fair = [np.array(each) for each in product((1, -1), repeat=q)]
    if signs == "independent":
        return np.array(list(product(fair, repeat=K)))
    Q = 1 << (q - 1).bit_length()
    H = hadamard(Q)[:, :q]
    rows = [(0, *more) for more in permutations(range(1, Q), K - 1)]
    return np.array([[first * H[r] for r in some] for first in fair for some in rows])


def lifted(d, q, K, signs):
    """All supports with all their signs, as d-vectors: (draws, K, d)."""
    drawn = sign_draws(q, K, signs)
    out = []
    for support in combinations(range(d), q):
        u = np.zeros((len(drawn), K, d), int)
        u[..., list(support)] = drawn
        out.append(u)
    return np.concatenate(out)


def losses(x, H, b):
    """½ xᵀHx + bᵀx of points (…, d); H even."""
    return (x * (x @ (H // 2) + b)).sum(axis=-1)


def estimates(x, H, b, u, mu, sides, noise=None):
    """ĝ · q K μ · sides / d for each draw u (…, K, d), whole; noise (…, 2K or K + 1) of evaluations."""
    plus = losses(x + mu * u, H, b)
    minus = losses(x - mu * u, H, b) if sides == 2 else losses(x, H, b)[..., None]
    K, rise = u.shape[-2], plus - minus
    if noise is not None:
        rise = rise + noise[..., :K] - noise[..., K:]
    return (rise[..., None] * u).sum(axis=-2)


def uncorrelated(size):
    """Equally likely rows of ±1, with mean 0 and no correlation between any two entries: (draws, size)."""
    order = 1 << size.bit_length()
    return hadamard(order)[:, 1 : size + 1]


class Noises:
    """What is random besides directions: samples (n, d), evaluations (n, K + 1 or 2K), dither (n, d)."""

    def __init__(self, sample=0.0, query=0.0, dither=0.0, K=1, sides=2):
        asked = 2 * K if sides == 2 else K + 1
        none = [np.zeros((N, D))]
        self.samples = [sample * each.reshape(N, D) for each in uncorrelated(N * D)] if sample else none
        evaluated = [query * each.reshape(N, asked) for each in uncorrelated(N * asked)]
        self.queries = evaluated if query else [np.zeros((N, asked))]
        one = np.eye(N * D).reshape(-1, N, D) * dither  # variance Δ²/12 at each of 12 entries
        self.dithers = [*one, *-one] if dither else none

    def all(self):
        return list(product(self.samples, self.queries, self.dithers))


def joint(coupling, drawn, q, groups):
    """Equally likely: K directions for each group; `drawn` lists supports in turn."""
    supports = len(list(combinations(range(D), q)))
    blocks = np.split(drawn, supports)
    if coupling == "G":
        return [(u,) * groups for u in drawn]
    if coupling == "S":
        return [us for block in blocks for us in product(block, repeat=groups)]
    return list(product(drawn, repeat=groups))


def move(x, m, groups, us, noises, problem, how):
    """One round of states (…, n, d), by evaluations of F_i + ξ_iᵀx; `groups` are nodes and their weights."""
    H, b = problem.H.astype(float), problem.b.astype(float)
    (sample, query, dither), mu, K = noises, how["mu"], how["K"]
    out, m_out = x.copy(), m.copy()
    for (nodes, W), u in zip(groups, us, strict=True):
        at, on = list(nodes), np.any(u != 0, axis=0)

        def f(z, at=at):  # (…, nodes, d)
            return (H[at] * z**2 / 2 + (b[at] + sample[at]) * z).sum(axis=-1)

        here, g = x[:, at], 0
        for k in range(K):
            if how["sides"] == 2:
                ends = f(here + mu * u[k]) + query[at, k], f(here - mu * u[k]) + query[at, K + k]
                slope = (ends[0] - ends[1]) / (2 * mu)
            else:
                slope = (f(here + mu * u[k]) + query[at, k] - f(here) - query[at, K]) / mu
            g = g + D / on.sum() / K * slope[..., None] * u[k]
        kept = np.where(on, how["beta"] * m[:, at] + (1 - how["beta"]) * g, m[:, at])
        y = here - how["eta"] * np.where(on, kept, 0)
        mixed = W @ y + (W - np.eye(len(at))) @ dither[at]
        out[:, at], m_out[:, at] = np.where(on, mixed, here), kept
    return out, m_out


def enumerated(laws, coupling, problem, x0, *, q, signs="independent", noises, **how):
    """E F(x̄), E disagreement and E mean_i F_i(x_i) after rounds of known matchings, or of weights W."""
    x = np.array(x0, float)[None]
    level, drawn = [(Fraction(1), x, 0 * x)], lifted(D, q, how["K"], signs)
    for law in laws:
        is_global = isinstance(law, np.ndarray)
        W = law.astype(float) if is_global else np.full((2, 2), 0.5)
        groups = [(range(N), W)] if is_global else [(pair, W) for pair in law]
        every = list(product(joint(coupling, drawn, q, len(groups)), noises.all()))
        by_weight = defaultdict(list)
        for (us, random), (weight, x, m) in product(every, level):
            by_weight[weight / len(every)].append(move(x, m, groups, us, random, problem, how))
        level = [(w, *map(np.concatenate, zip(*some, strict=True))) for w, some in by_weight.items()]
    return measured(level, problem)


def measured(level, problem):
    H, b, total = problem.H.astype(float), problem.b.astype(float), [Fraction(0)] * 3
    for weight, x, _ in level:
        centre = x.mean(axis=1, keepdims=True)
        told = (
            (H * centre**2 / 2 + b * centre).sum() / N,
            ((x - centre) ** 2).sum() / N,
            (H * x**2 / 2 + b * x).sum() / N,
        )
        total = [kept + weight * Fraction(float(value)) for kept, value in zip(total, told, strict=True)]
    return tuple(total)
