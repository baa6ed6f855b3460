"""All joint draws of the pairs of a round, each as likely as any other."""

from itertools import combinations, product

import numpy as np


def directions(d, q):
    """Every direction, by its support: lists of d-vectors of −1, 0 and 1."""
    for support in combinations(range(d), q):
        found = []
        for signs in product((-1, 1), repeat=q):
            u = np.zeros(d, int)
            u[list(support)] = signs
            found.append(u)
        yield found


def joint_directions(coupling, d, q, pairs):
    """Every draw of directions for all pairs, (pairs, d): written from the words of the three couplings."""
    by_support = list(directions(d, q))
    if coupling == "G":
        draws = ([u] * pairs for found in by_support for u in found)
    elif coupling == "S":
        draws = (own for found in by_support for own in product(found, repeat=pairs))
    else:
        draws = product([u for found in by_support for u in found], repeat=pairs)
    return np.array(list(draws))


def mapped(u, a, q):
    """D_e a_e for each draw, times q so that whole numbers stay whole: (draws, pairs, d)."""
    return u * (u * a).sum(axis=-1, keepdims=True) * u.shape[-1]


def perfect_matchings(nodes):
    """Every perfect matching of a list of nodes."""
    if not nodes:
        return [[]]
    first, rest = nodes[0], nodes[1:]
    return [
        [(first, other), *more]
        for other in rest
        for more in perfect_matchings([node for node in rest if node != other])
    ]
