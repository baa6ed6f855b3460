"""Where a run of the simulator may end before its rounds are over."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError, check_whole


@dataclass(frozen=True, kw_only=True)
class Until:
    """A run ends at its first checkpoint with `bits` spent and `queries` asked, or with `most` queries asked;
    all per node. One that has sent nothing when it has asked `queries` ends there: it never will.

    Each run ends by its own bill, so the log does not depend on what shares its batch.
    """

    bits: int
    queries: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        check_whole("until.bits", self.bits, 1)
        check_whole("until.queries", self.queries)
        if self.most is not None and check_whole("until.most", self.most, 1) < self.queries:
            raise InputError(f"until.most = {self.most} is below until.queries = {self.queries}; raise it")

    def reached(self, bits: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.bool_]:
        """Which runs end here, from what they spent and asked per node.

        >>> Until(bits=100, queries=8, most=20).reached(np.array([100, 99, 500, 0]), np.array([8, 20, 7, 8]))
        array([ True,  True, False,  True])
        """
        silent = (bits == 0) & (queries > 0)
        over: NDArray[np.bool_] = ((bits >= self.bits) | silent) & (queries >= self.queries)
        return over if self.most is None else over | (queries >= self.most)
