"""Levels: the logarithm of a positive number in 16 bits, exact on every machine   [PROTOCOL.md, "Levels"]

The logarithm to base 2 is replaced by its chords between powers of two, L(v) = e + (2m − 1) for v = m 2^e
with ½ ≤ m < 1: it needs no transcendental function, and is inverted exactly.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.values import ValueType

PER_UNIT = 256  # codes for a doubling
STEPS = 2**16  # a mean of levels is rounded to a multiple of 1/STEPS away from the own one
MOST = 2**15 - 1  # the largest code; the smallest is its negative
NONE = -(2**15)  # the code of 0, which has no logarithm

LEVEL = ValueType("level", 16, 16, np.dtype(np.int16))

Values = NDArray[Any]
Codes = NDArray[np.int16]


def level_codes(v: NDArray[np.float64]) -> Codes:
    """L(v) in units of 1/256, ties to even, at most 2^15 − 1 either way; `NONE` where v is 0.

    >>> level_codes(np.array([0.0, 1.0, 2.0, 3.0, np.inf])).tolist()
    [-32768, 256, 512, 640, 32767]
    """
    m, e = np.frexp(np.where(v < np.inf, v, np.finfo(np.float64).max))  # nan is taken as large
    codes = np.clip(np.rint((e + (2 * m - 1)) * PER_UNIT), -MOST, MOST)
    return np.where(v == 0, NONE, codes).astype(np.int16)


def from_levels(levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """v with L(v) = levels, exactly.

    >>> from_levels(np.array([1.0, 2.0, 2.5])).tolist()
    [1.0, 2.0, 3.0]
    """
    e = np.floor(levels)
    return np.ldexp((levels - e + 1) / 2, e.astype(np.int64))
