"""Private randomness of nodes: their noise, their data order, how data are shared out.

It comes from a tape too, so that a trial can be repeated from its seed, but from a tape of its own: what is
private is independent of all public coins with the same seed, and no peer rebuilds it.
"""

import hashlib
import math
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Ids, Seed, Tape, tape_key
from zocosmo.errors import InputError, check_whole

Array = NDArray[np.float64]


def private(seed: Seed) -> Tape:
    """The private tape of a seed. Its key is a hash of the public key, so the two share no coins.

    >>> private(0).commitment()[:8] == Tape(0).commitment()[:8]
    False
    """
    return Tape(hashlib.blake2b(tape_key(seed), digest_size=32, person=b"zo-cosmo priv v1").digest())


def together(tapes: Sequence[Tape]) -> Tape:
    """One tape with a leading axis, from tapes of one key each."""
    for tape in tapes:
        if tape.shape != ():
            raise InputError(f"only tapes of one key go together, got one of shape {tape.shape}; index it")
    return Tape.stack([tape.keys.tobytes() for tape in tapes])


def uniforms(tape: Tape, label: str, *ids: Ids, size: int) -> Array:
    """`size` uniforms of each stream, shape (…, size): odd multiples of 2⁻⁵³, never 0 or 1.

    They are exact, with mean exactly 1/2: the middles of 2⁵² equal cells, from the top 52 bits of a word.

    >>> uniforms(private(0), "noise", 3, 1, size=2).shape
    (2,)
    """
    words = tape.coins(label, *ids).words(check_whole("a number of draws", size))
    middles: Array = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return middles


def normals(tape: Tape, label: str, *ids: Ids, size: int) -> Array:
    """`size` standard normals of each stream, shape (…, size), by Box and Muller.

        z_2k = √(−2 ln u_2k) · cos(2π u_2k+1)        z_2k+1 = √(−2 ln u_2k) · sin(2π u_2k+1)

    Asking for more keeps those before. |z| < 8.6, since u ≥ 2⁻⁵³. The last bits follow the machine's log and
    cos: good enough for what no peer rebuilds.
    """
    pairs = -(-check_whole("a number of draws", size) // 2)
    drawn = uniforms(tape, label, *ids, size=2 * pairs)
    radius = np.sqrt(-2.0 * np.log(np.ascontiguousarray(drawn[..., 0::2])))
    angle = 2.0 * math.pi * np.ascontiguousarray(drawn[..., 1::2])
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    return both.reshape(*drawn.shape[:-1], 2 * pairs)[..., :size]


class Scratch(threading.local):
    """Arrays to compute in, kept from call to call: fresh pages cost more than what is computed in them.

    Every thread has its own, and so has every copy.
    """

    def __init__(self) -> None:
        self.t = -1  # the round that the arrays are of, for those who care
        self._kept: dict[str, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...]) -> Array:
        kept = self._kept.get(name)
        if kept is None or kept.shape != shape:
            kept = self._kept[name] = np.empty(shape)
        return kept

    def __reduce__(self) -> tuple[type["Scratch"], tuple[()]]:
        return Scratch, ()
