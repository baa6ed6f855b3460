"""What the answers of the rounds say about success, without a further query."""

import numpy as np
from numpy.typing import NDArray

from zocosmo.oracle import Query, Values, along

LEFT = 0.1  # a slope that fell to this share of its largest: on a parabola 1 % of the loss is left


class Progress:
    """Slopes of F along each coordinate: the largest seen, and the last.

    A round shows, for every coordinate of its supports, the average of Σ_k s_k ε_k / K over the nodes that
    asked there. A run without a tolerance counts as a success if F fell and the last slope along every
    coordinate is at most a tenth of the largest.
    """

    def __init__(self, d: int) -> None:
        self.largest, self.last = np.zeros(d), np.zeros(d)
        self.touched = np.zeros(d, np.int64)
        self.losses: tuple[float, float] = (float("nan"), float("nan"))  # of the first round and of the last

    def see(self, query: Query, slopes: Values) -> None:
        """Take the slopes of a query, (n, K)."""
        n, u = len(slopes), query.u
        active = np.ones(n, bool) if query.active is None else query.active
        with np.errstate(all="ignore"):
            rest = [each.entries for each in query.directions[1:]]
            more = np.stack(rest, axis=-3) if rest else None
            shares = along(u, more, np.asarray(slopes, np.float64)) / len(query.directions)
            index = np.broadcast_to(u.index, shares.shape)[active]
            places, where, count = np.unique(index, return_inverse=True, return_counts=True)
            slope = np.abs(np.bincount(where.reshape(-1), shares[active].reshape(-1)) / count)
        self.largest[places] = np.fmax(self.largest[places], slope)
        self.last[places] = slope
        self.touched[places] += 1

    def hear(self, loss: float) -> None:
        """The mean of a round's answers."""
        first = loss if np.isnan(self.losses[0]) else self.losses[0]
        self.losses = (first, loss)

    def doubts(self, free: NDArray[np.bool_] | None) -> str:
        """Why this may not be a minimum; "" if nothing speaks against it."""
        free = np.ones(len(self.last), bool) if free is None or len(free) != len(self.last) else free
        if few := int((self.touched < 2)[free].sum()):
            return f"{_coordinates(few)} hardly asked about"
        if still := int((self.largest == 0)[free].sum()):
            return f"F does not answer to {_coordinates(still, '')}"
        if not self.losses[1] < self.losses[0]:
            return "F did not fall"
        if steep := int((self.last > LEFT * self.largest)[free].sum()):
            return f"the slope along {_coordinates(steep, '')} is still above a tenth of its largest"
        return ""


def _coordinates(count: int, verb: str | None = None) -> str:
    word = "coordinate" if count == 1 else "coordinates"
    tail = (" was" if count == 1 else " were") if verb is None else verb
    return f"{count} {word}{tail}"
