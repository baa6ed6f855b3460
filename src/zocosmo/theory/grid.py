"""A grid of 2^b points that each message stretches, with public dither; and what sums over a tree lose on it.

The sender has values y and public r in [0, 1). Δ is the least of the steps 2^e, 1¼ · 2^e, 1½ · 2^e and
1¾ · 2^e with |y| ≤ (2^(b−1) − ½) Δ for all values. It sends k = ⌊y/Δ + r − ½⌋, and all who hear it read
ŷ = Δ (k + 1 − r).

Lemma (on the grid). −2^(b−1) ≤ k < 2^(b−1), and ŷ − y lies in (−Δ/2, Δ/2].

Proof. With w = 2^(b−1) − ½, y/Δ + r − ½ is at least −w + r − ½ ≥ −2^(b−1), and below w + ½ = 2^(b−1). With
f = y/Δ + r − ½ − k in [0, 1), ŷ − y = Δ (½ − f).  ∎

If r is uniform, so is f, whatever y is: mean 0, variance Δ²/12. On the tape's grid r = (2m + 1)/2^17 the mean
is 0 where y is a multiple of Δ/2^16, and at most Δ/2^17 elsewhere.

Lemma (sums over a tree). Every node but the root sends the sum of what it read from its children and of its
own value, and the root sends its sum to all. With r uniform and independent between senders, the total T that
all read has E T = Σ_i y_i and, with Δ_i the step of the message of node i, E (T − Σ_i y_i)² = E Σ_i Δ_i²/12.

Proof. T − Σ y is the sum of the errors of all n messages. Take them in the order in which they are sent:
given those before, Δ_i is known, and the error of message i has mean 0 and variance Δ_i²/12. So the partial
sums are a martingale, whose increments are uncorrelated.  ∎

Lemma (what it adds). Let the K numbers of each node be normal with mean 0 and variance 1, independent
between nodes, and let s_i nodes be below node i, itself among them. Messages without the errors of earlier
ones have

    E Σ_i Δ_i²/12 ≤ 25/16 · (2 ln K + 2) / (12 w²) · Σ_i s_i,

where the sum has the variance n; errors that are passed on add terms of higher order in 1/w².

Proof. Message i has K numbers √s_i z_k, z_k standard normal. P(z² > v) ≤ e^(−v/2), so E max_k z_k² ≤ a +
K ∫_a^∞ e^(−v/2) dv = 2 ln K + 2 with a = 2 ln K. Neighbouring steps differ by a factor of 5/4 at most, so
Δ_i ≤ 5/4 · √s_i max_k |z_k| / w.  ∎
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from zocosmo.theory.numbers import whole

HALF = Fraction(1, 2)
PARTS = (Fraction(1), Fraction(5, 4), Fraction(3, 2), Fraction(7, 4))  # of an octave


def grid_step(b: int, largest: Fraction) -> Fraction:
    """The least step that reaches the largest of |y|, which is above 0

    >>> [str(grid_step(3, Fraction(value))) for value in (3, 4, 5)]
    ['7/8', '5/4', '3/2']
    """
    least = Fraction(largest) / (Fraction(2 ** whole("b", b), 2) - HALF)
    if least <= 0:
        raise ValueError(f"the largest value must be above 0, got {largest}")
    e = least.numerator.bit_length() - least.denominator.bit_length() - 1  # 2^e ≤ least < 2^(e+2)
    steps = (part * Fraction(2) ** (e + more) for more in range(3) for part in PARTS)
    return next(step for step in steps if step >= least)


def on_grid(y: Fraction, step: Fraction, r: Fraction) -> Fraction:
    """ŷ = Δ (⌊y/Δ + r − ½⌋ + 1 − r)

    >>> str(on_grid(Fraction(3), Fraction(1), Fraction(1, 4)))
    '11/4'
    """
    return step * (math.floor(y / step + r - HALF) + 1 - r)


def read_row(values: Sequence[Fraction], b: int, r: Sequence[Fraction]) -> tuple[list[Fraction], Fraction]:
    """What is read of one message, and its Δ; zeros cross as zeros, with Δ = 0"""
    largest = max(abs(value) for value in values)
    if not largest:
        return [Fraction(0)] * len(values), Fraction(0)
    step = grid_step(b, largest)
    return [on_grid(y, step, shift) for y, shift in zip(values, r, strict=True)], step


def tree_sum(
    rows: Sequence[Sequence[Fraction]],
    parents: Mapping[int, int],
    b: int,
    r: Sequence[Sequence[Fraction]],
) -> tuple[list[Fraction], list[Fraction]]:
    """T as all nodes read it, and the Δ of each message sent

    `parents` has the parent of each node but the root, node 0, in the order in which they send.
    """
    sums, steps = [list(row) for row in rows], []
    for child, parent in parents.items():
        heard, step = read_row(sums[child], b, r[child])
        sums[parent] = [a + one for a, one in zip(sums[parent], heard, strict=True)]
        steps.append(step)
    total, step = read_row(sums[0], b, r[0])
    return total, [*steps, step]


def error_of_sum(steps: Sequence[Fraction]) -> Fraction:
    """Σ Δ²/12: the mean squared error of one number of a sum, given the steps of its messages

    >>> str(error_of_sum([Fraction(1), Fraction(2)]))
    '5/12'
    """
    return sum((step * step for step in steps), Fraction(0)) / 12


def added_share(sizes: Sequence[int], K: int, b: int) -> float:
    """25/16 · (2 ln K + 2)/(12 w²) · Σ_i s_i/n: what a grid adds to the variance of a sum, at most

    >>> sizes = subtree_sizes({3: 1, 2: 0, 1: 0})
    >>> sizes, [round(added_share(sizes, 16, b), 3) for b in (3, 4)]
    ([4, 2, 1, 1], [0.16, 0.035])
    """
    reach = math.ldexp(1.0, whole("b", b) - 1) - 0.5
    share = 25 / 16 * (2 * math.log(whole("K", K)) + 2) / (12 * reach * reach)
    return share * sum(sizes) / len(sizes)


def subtree_sizes(parents: Mapping[int, int]) -> list[int]:
    """How many nodes are below each node, itself among them; `parents` as in `tree_sum`"""
    sizes = [1] * (len(parents) + 1)
    for child, parent in parents.items():
        sizes[parent] += sizes[child]
    return sizes
