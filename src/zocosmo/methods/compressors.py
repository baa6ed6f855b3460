"""Compressors of published methods, and how receivers read their output."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]
Index = NDArray[np.int64]


def top_q(v: Values, q: int) -> tuple[Index, Values]:
    """The q entries of largest magnitude in ascending order, ties to the lower index: (index, values).

    >>> top_q(np.array([1.0, -3.0, 3.0, -3.0]), 2)[0].tolist()
    [1, 2]
    """
    size = np.nan_to_num(np.abs(v), nan=-1.0, posinf=np.inf)
    bar = np.partition(size, -q, axis=-1)[..., -q, None]
    above, level = size > bar, size == bar
    room = q - above.sum(axis=-1, keepdims=True)
    taken = above | (level & (level.cumsum(axis=-1) <= room))
    index = np.nonzero(taken)[-1].reshape(*v.shape[:-1], q)
    return index, np.take_along_axis(v, index, axis=-1)


def rand_q(v: Values, index: Index, *, unbiased: bool) -> Values:
    """The entries of v on a uniform support, (…, q) of (…, d).

    Unscaled they are a contraction: E‖C(v) − v‖² = (1 − q/d) ‖v‖². Scaled by d/q they are `unbiased`,
    E C(v) = v, with variance (d/q − 1) ‖v‖².
    """
    entries = np.take_along_axis(v, index, axis=-1)
    return entries * (v.shape[-1] / index.shape[-1]) if unbiased else entries


def mean_magnitude(v: Values) -> Values:
    """‖v‖₁/d of every row, (…, 1)."""
    mean: Values = np.abs(np.ascontiguousarray(v)).sum(axis=-1, keepdims=True) / v.shape[-1]
    return mean


def scaled_signs(v: Values, scale: Values) -> Values:
    """scale · sign(v) with sign(0) = +1, so that a bit can hold it.

    With scale ‖v‖₁/d it is a contraction: ‖C(v) − v‖² = ‖v‖² − ‖v‖₁²/d.

    >>> v = np.array([3.0, 0.0, -6.0])
    >>> scaled_signs(v, mean_magnitude(v)).tolist()
    [3.0, 3.0, -3.0]
    """
    return np.where(v < 0, -scale, scale)


def lift(values: Values, index: Index, d: int) -> Values:
    """Σ_k v_k e_{s_k} of every row: (…, d), 0 off the support."""
    lifted = np.zeros((*values.shape[:-1], d), values.dtype)
    np.put_along_axis(lifted, index, values, axis=-1)
    return lifted


def mean_of_nodes(v: Values) -> Values:
    """(1/n) Σ_i v_i, added in ascending order of nodes: (…, 1, d) of (…, n, d)."""
    total = v[..., :1, :].copy()
    for i in range(1, v.shape[-2]):
        total += v[..., i : i + 1, :]
    total /= v.shape[-2]
    return total


def weighted_sum(scalars: Values, z: Values) -> Values:
    """Σ_k s_k z_k, added in ascending order of k: (…, d) of scalars (…, K) and z (…, K, d)."""
    z = z.astype(scalars.dtype, copy=False)
    total: Values = scalars[..., :1] * z[..., 0, :]
    for k in range(1, scalars.shape[-1]):
        total += scalars[..., k, None] * z[..., k, :]
    return total


def union(index: Index, d: int) -> NDArray[np.bool_]:
    """Which of d coordinates are in the index of at least one node: (…, 1, d) of (…, n, q)."""
    flat = index.reshape(*index.shape[:-2], 1, -1)
    named = np.zeros((*flat.shape[:-1], d), bool)
    np.put_along_axis(named, flat, True, axis=-1)
    return named


def folded(k: Values, bits: int) -> Values:
    """The number of k + 2^b ℤ that lies in [−2^(b−1), 2^(b−1)); exact where k has a few fractional bits."""
    half = 2.0 ** (bits - 1)
    return np.mod(k + half, 2 * half) - half
