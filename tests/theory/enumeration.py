"""Every draw of a few rounds on a small quadratic, moved by the algorithm as it is written.

All inputs are dyadic and d/q = 3/2, so float64 never rounds here: two rounds need 31 binary places, 8 bits
before the point, and sums over a batch 10 bits more. Probabilities, which have thirds, are Fractions.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from zocosmo.theory.exact import Quadratics

D, Q = 3, 2
X0 = [[1, 0, 2], [-1, 1, 0], [2, 2, -1], [0, -2, 1]]
PROBLEM = Quadratics(
    [[1, 2, 3], [2, 1, 1], [1, 3, 2], [4, 1, 1]],
    [[1, -1, 0], [0, 2, 1], [-2, 0, 1], [1, 1, -3]],
    Fraction(1, 2),
)


def directions():
    """By support, u with a plus on its first coordinate: the sign of all of u plays no part."""
    for support in combinations(range(D), Q):
        signs = [(1, *rest) for rest in product((1, -1), repeat=Q - 1)]
        yield [np.array([dict(zip(support, s, strict=True)).get(k, 0.0) for k in range(D)]) for s in signs]


def joint_directions(coupling, pairs):
    """Equally likely: a direction for each pair."""
    by_support = list(directions())
    if coupling == "G":
        return [(u,) * pairs for group in by_support for u in group]
    if coupling == "S":
        return [us for group in by_support for us in product(group, repeat=pairs)]
    return list(product([u for group in by_support for u in group], repeat=pairs))


def noises(problem):
    """Equally likely, with mean 0 and covariance σ²/d: one entry at a time, ±σ√n."""
    if problem.sigma == 0:
        return [np.zeros((4, D))]
    ones = np.eye(4 * D).reshape(-1, 4, D) * float(problem.sigma) * 2
    return [*ones, *-ones]


def move(x, m, groups, us, noise, problem, eta, beta):
    """One round of states (…, n, d): `groups` share a direction, and mix by weights of their own."""
    H, b = problem.H.astype(float), problem.b.astype(float)
    x_next, m_next = x.copy(), m.copy()
    for (nodes, W), u in zip(groups, us, strict=True):
        on, at = u != 0, list(nodes)
        a = H[at] * x[:, at] + b[at] + noise[at]
        g = D / Q * (a @ u)[..., None] * u
        m_next[:, at] = np.where(on, beta * m[:, at] + (1 - beta) * g, m[:, at])
        y = x[:, at] - eta * np.where(on, m_next[:, at], 0)
        x_next[:, at] = np.where(on, W @ y, x[:, at])
    return x_next, m_next


def after(level, law, coupling, problem, eta, beta):
    """What each state can become, with the probability of each."""
    pair, chances = np.full((2, 2), 0.5), law
    if isinstance(law, np.ndarray):
        pair, chances = law.astype(float), [([range(4)], Fraction(1))]
    for groups, chance in chances:
        every = list(product(joint_directions(coupling, len(groups)), noises(problem)))
        for (us, noise), (weight, x, m) in product(every, level):
            mixed = [(nodes, pair) for nodes in groups]
            yield weight * chance / len(every), *move(x, m, mixed, us, noise, problem, eta, beta)


def packed(level):
    """States of equal probability in one batch."""
    by_weight = defaultdict(list)
    for weight, x, m in level:
        by_weight[weight].append((x, m))
    return [(weight, *map(np.concatenate, zip(*some, strict=True))) for weight, some in by_weight.items()]


def enumerated(laws, coupling, etas, beta, problem=PROBLEM):
    """E F(x̄), E disagreement and E mean_i F_i(x_i) after the rounds of `laws`."""
    x = np.array(X0, float)[None]
    level = [(Fraction(1), x, 0 * x)]
    for law, eta in zip(laws, etas, strict=True):
        level = after(packed(level), law, coupling, problem, float(eta), float(beta))
    H, b = problem.H.astype(float), problem.b.astype(float)
    total = [Fraction(0)] * 3
    for weight, x, _ in level:
        centre = x.mean(axis=1, keepdims=True)
        F = (H * centre**2 / 2 + b * centre).sum() / 4
        local = (H * x**2 / 2 + b * x).sum() / 4
        told = F, ((x - centre) ** 2).sum() / 4, local
        total = [kept + weight * Fraction(float(value)) for kept, value in zip(total, told, strict=True)]
    return tuple(total)
