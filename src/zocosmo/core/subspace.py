"""A public subspace: P of shape d × m, drawn from the tape once for a whole run.

P_{c,h(c)} = σ_c √(m/d) and 0 elsewhere, with public signs σ and h(c) = π(c) mod m, π the keyed permutation of
`balanced`. Each of the m columns has d/m entries, rounded down or up. docs/protocol.md gives the exact bits.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.balanced import permuted
from zocosmo.core.support import MAX_D
from zocosmo.core.tape import Coins, Tape
from zocosmo.errors import InputError, check_whole

BLOCK = 2**18  # coordinates that are hashed at once

Index = NDArray[np.int64]


class Subspace:
    """The columns of P: which coordinates each has, and their signs.

    A stacked tape gives a subspace for each of its seeds: "(…)" below is its shape. Nothing is drawn before
    it is used.

    >>> space = Subspace(Tape(0), d=6, m=3)
    >>> space.column.tolist(), space.signs.tolist(), space.members.tolist()
    ([2, 0, 0, 1, 1, 2], [1, -1, 1, 1, 1, 1], [[1, 2], [3, 4], [0, 5]])
    """

    def __init__(self, tape: Tape, *, d: SupportsIndex, m: SupportsIndex) -> None:
        self.tape = tape
        self.d, self.m = check_subspace(d, m)
        self.scale = math.sqrt(self.m / self.d)  # √(m/d), each operation rounded once

    @property
    def lead(self) -> tuple[int, ...]:
        return self.tape.shape

    @property
    def wide(self) -> int:
        """⌈d/m⌉, the most coordinates of a column."""
        return -(-self.d // self.m)

    @property
    def sizes(self) -> Index:
        """The number of coordinates of each column, (m,): the first d mod m columns have one more."""
        sizes: Index = self.d // self.m + (np.arange(self.m) < self.d % self.m)
        return sizes

    @cached_property
    def column(self) -> Index:
        """h(c) of every coordinate, (…, d)."""
        coins = self.tape.coins("subspace")

        def draw(block: Coins) -> Index:
            starts = range(0, self.d, BLOCK) if self.d > BLOCK else (0,)
            parts = [self._hashed(block, at, min(at + BLOCK, self.d)) for at in starts]
            return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

        return coins.by_block(1, draw)

    def _hashed(self, coins: Coins, start: int, stop: int) -> Index:
        points = np.broadcast_to(np.arange(start, stop, dtype=np.uint64), (*coins.shape, stop - start))
        hashed: Index = (permuted(coins, points, self.d) % np.uint64(self.m)).view(np.int64)
        return hashed

    @cached_property
    def signs(self) -> NDArray[np.int8]:
        """σ_c of every coordinate, (…, d)."""
        return self.tape.coins("subspace sign").signs(self.d)

    @cached_property
    def members(self) -> Index:
        """The coordinates of every column, ascending, (…, m, ⌈d/m⌉); a shorter column repeats its last."""
        order, sizes = np.argsort(self.column, axis=-1, kind="stable"), self.sizes
        place = np.minimum(np.arange(self.wide), sizes[:, None] - 1)
        place += (np.cumsum(sizes) - sizes)[:, None]
        return order[..., place]

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The diagonal of PᵀP, (m,): 1 where m divides d, else the number of coordinates · m/d."""
        weights: NDArray[np.float64] = self.sizes * self.m / self.d
        return weights

    @classmethod
    def stack(cls, spaces: "Sequence[Subspace]") -> "Subspace":
        """Several as one, on a leading axis."""
        first = spaces[0]
        joined = cls(Tape.stack([each.tape.keys.tobytes() for each in spaces]), d=first.d, m=first.m)
        joined.column = np.stack([each.column for each in spaces])  # each was drawn once, for all its trials
        joined.signs = np.stack([each.signs for each in spaces])
        joined.members = np.stack([each.members for each in spaces])
        return joined


def check_subspace(d: SupportsIndex, m: SupportsIndex) -> tuple[int, int]:
    """d and m as Python integers, or an error unless 1 ≤ m < d."""
    whole_d, whole_m = check_whole("d", d, 1, MAX_D), check_whole("the size of a subspace", m, -MAX_D)
    if not 1 <= whole_m < whole_d:
        raise InputError(
            f"a subspace of size {whole_m} does not fit d = {whole_d}; its size must be from 1 to d − 1"
        )
    return whole_d, whole_m
