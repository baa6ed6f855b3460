"""What methods with a server share: the model, participation, and how the server averages."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_whole
from zocosmo.methods.base import Draw, Method, Rounds, Values, World

Mask = NDArray[np.bool_]


class Served(Method):
    """A method whose nodes all hold the server's model."""

    server: ClassVar[bool] = True

    def model(self, state: Any) -> Values:
        return np.asarray(state.x[..., 0, :], np.float64)


class Federated(Served):
    """A method in which the tape picks `participants` nodes for each round; 0 means all."""

    limits: ClassVar = {"participants": check_whole}
    participants: int  # each method declares this field after its own, since labels keep the order

    def check(self, world: World) -> None:
        super().check(world)
        count, n = self.participants, world.graph.n
        if count > n:
            raise InputError(f"participants = {count} of n = {n} nodes cannot take part; 0 means all")


@dataclass(frozen=True, eq=False)
class ActiveDraw(Draw):
    active: Mask | None  # (…, n) nodes that take part; None: all


def participants(tape: Tape, t: Rounds, n: int, count: int) -> Mask | None:
    """Which `count` of n nodes take part in rounds t, uniform over all such sets: (…, n); None: all.

    >>> participants(Tape(0), np.array(3), 5, 2).tolist()
    [True, False, False, False, True]
    """
    if count == 0:
        return None
    order = tape.coins("participants", t).permutation(n)
    taking = np.zeros(order.shape, bool)
    np.put_along_axis(taking, order[..., :count], True, axis=-1)
    return taking


def average(heard: Values, active: Mask | None) -> Values:
    """The mean of values (…, n, q) over active nodes, added in ascending order: (…, 1, q).

    Entries of other nodes are ignored and may be nan.
    """
    total, n = np.zeros_like(heard[..., :1, :]), heard.shape[-2]
    for i in range(n):
        here = heard[..., i, None, :]
        total += here if active is None else np.where(active[..., i, None, None], here, 0)
    count = n if active is None else active.sum(axis=-1).astype(heard.dtype)[..., None, None]
    mean: Values = total / count
    return mean
