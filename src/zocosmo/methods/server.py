"""What methods with a server share: who takes part in a round, and how the server averages."""

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError
from zocosmo.methods.base import Rounds, Values


def participants(tape: Tape, t: Rounds, n: int, count: int) -> NDArray[np.bool_] | None:
    """Which `count` of n nodes take part in rounds t, uniform among all such sets: (…, n); None: all do.

    Those that come first when nodes are sorted by a word of the tape each.

    >>> participants(Tape(0), np.array(3), 5, 2).tolist()
    [True, False, False, False, True]
    """
    if count == 0:
        return None
    order = tape.coins("participants", t).permutation(n)
    taking = np.zeros(order.shape, bool)
    np.put_along_axis(taking, order[..., :count], True, axis=-1)
    return taking


def average(heard: Values, active: NDArray[np.bool_] | None) -> Values:
    """The mean of values (…, n, q) over those who take part: (…, 1, q).

    Added in ascending order of nodes; what stands in the place of others may be no number.
    """
    total, n = np.zeros_like(heard[..., :1, :]), heard.shape[-2]
    for i in range(n):
        here = heard[..., i, None, :]
        total += here if active is None else np.where(active[..., i, None, None], here, 0)
    count = n if active is None else active.sum(axis=-1).astype(heard.dtype)[..., None, None]
    mean: Values = total / count
    return mean


def check_participants(count: int, n: int) -> None:
    """Refuse more participants than there are nodes."""
    if count > n:
        raise InputError(f"participants = {count} of n = {n} nodes cannot take part; 0 means all")
