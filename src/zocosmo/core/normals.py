"""Uniforms and normals from a tape, for private noise and for baselines with Gaussian directions."""

import math

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Ids, Tape
from zocosmo.errors import check_whole

Array = NDArray[np.float64]


def uniforms(tape: Tape, label: str, *ids: Ids, size: int) -> Array:
    """`size` uniforms of each stream, shape (…, size): odd multiples of 2⁻⁵³, never 0 or 1.

    They are exact, with mean exactly 1/2: midpoints of 2⁵² equal cells, from the top 52 bits of a word.

    >>> uniforms(Tape(0), "noise", 3, 1, size=2).shape
    (2,)
    """
    words = tape.coins(label, *ids).words(check_whole("a number of draws", size))
    middles: Array = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return middles


def normals(tape: Tape, label: str, *ids: Ids, size: int) -> Array:
    """`size` standard normals of each stream, shape (…, size), by the Box–Muller transform.

        z_2k = √(−2 ln u_2k) · cos(2π u_2k+1)        z_2k+1 = √(−2 ln u_2k) · sin(2π u_2k+1)

    A larger size keeps the earlier draws. |z| < 8.6, since u ≥ 2⁻⁵³. The last bits depend on the platform's
    log and cos, so use these only for values that no peer rebuilds, or if all nodes run the same platform.
    """
    pairs = -(-check_whole("a number of draws", size) // 2)
    drawn = uniforms(tape, label, *ids, size=2 * pairs)
    radius = np.sqrt(-2.0 * np.log(np.ascontiguousarray(drawn[..., 0::2])))
    angle = 2.0 * math.pi * np.ascontiguousarray(drawn[..., 1::2])
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return both.reshape(*drawn.shape[:-1], 2 * pairs)[..., :size]
