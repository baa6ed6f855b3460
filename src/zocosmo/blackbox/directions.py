"""How many directions a round takes, from how many sides, and the curvature that its step must respect.

K orthogonal directions on a support give K times the information of one, for K + 1 queries from one side or
2K from two, and one message. That pays where the step may grow with K: where no single coordinate, and no
few of them together, carry most of the curvature of a support.
"""

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

from zocosmo.blackbox import probes as probing
from zocosmo.core.support import Direction
from zocosmo.methods.several import Sides

MOST = 8  # directions in a round of a run that is not retuned: at most 9 queries of a node
FURTHER = 48  # curvatures that are measured to find out
KNOWN = 4.0  # a block this much stiffer than the stiffest known is looked into; a step of ½/c bears that much
BIAS = 0.01  # of the slope, that a difference from one side may be off
WORTH = 0.75  # the least growth of a step, as a share of that of the queries, with noise
FEWEST = 4  # with noise, on supports of fewer coordinates one direction needs no more queries


class DirectionChoice(NamedTuple):
    """Directions on one support, their sides, and the curvature for the step η = ½ q/(d c)."""

    directions: int
    sides: Sides
    curvature: float
    reason: str


def power_of_two(q: int) -> int:
    """The largest power of two up to q: as many orthogonal directions fit on a support of that size."""
    return 1 << (q.bit_length() - 1)


def stiffest_alone(
    curvature: Callable[[Direction], float], seen: Sequence[tuple[float, Direction]], least: float
) -> float:
    """The largest curvature along a unit vector on the supports seen, up to a factor of `KNOWN`.

    uᵀHu of a block is at least |u|² times the least eigenvalue of H on it and at most |u|² times the largest,
    and on average over signs it is the trace, which no eigenvalue of a convex loss exceeds. So the stiffest
    blocks are halved until none is more than `KNOWN` times as stiff as what is known of unit vectors; if that
    takes too many queries, half of the stiffest that is left counts.
    """
    known = max(least, *(c / u.q for c, u in seen))
    heap = [(-c, k, u) for k, (c, u) in enumerate(seen)]
    heapq.heapify(heap)
    further = 0
    while heap and -heap[0][0] > KNOWN * known and further < FURTHER:
        _, _, u = heapq.heappop(heap)
        for half in probing.halves(u) if u.q > 1 else ():
            further += 1
            c = curvature(half)
            known = max(known, c / half.q)
            heapq.heappush(heap, (-c, len(seen) + further, half))
    return max(known, -heap[0][0] / KNOWN) if heap else known


def choose(q: int, *, quiet: bool, mu: float, slope: float, together: float, alone: float) -> DirectionChoice:
    """Directions for a support of q coordinates whose stiffest uᵀHu is `together`, and `alone` along a unit
    vector.

    A step along K of q orthogonal directions meets at most (q/K) `alone`, and at least `together`/K. It is
    worth its queries where η may grow by more than they do. One side is off by ½ μ uᵀHu in every slope.
    """
    if q < 2 or q & (q - 1):
        return DirectionChoice(1, 2, together, f"directions = 1: q = {q} is no power of two above 1")
    if not together:
        return DirectionChoice(1, 2, together, "directions = 1: no curvature was seen to scale a step by")
    k = min(q, MOST)
    curvature = max(alone * q / k, together / k)
    grows, one_side = together / curvature, quiet and 0.5 * mu * together <= BIAS * slope
    cost = (k + 1) / 2 if one_side else WORTH * k
    if grows < cost or (not one_side and q < FEWEST):
        more = (k + 1) / 2 if one_side else k
        why = f"{k} would let eta grow {grows:.2g} times for {more:.2g} times the queries"
        return DirectionChoice(1, 2, together, f"directions = 1, two sides: {why}")
    sides: Sides = 1 if one_side else 2
    many = f"{k + 1} queries from one side" if one_side else f"{2 * k} queries from two sides"
    reason = f"directions = {k}, orthogonal: {many} a message; eta may grow {grows:.2g} times"
    return DirectionChoice(k, sides, curvature, reason)
