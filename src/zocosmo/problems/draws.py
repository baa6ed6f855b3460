"""Private randomness of nodes: their noise, their data order, the split of data.

It comes from a separate private tape, so a trial can be repeated from its seed. Private coins are independent
of all public coins of the same seed, and no peer rebuilds them.
"""

import hashlib
import threading
from collections.abc import Sequence

import numpy as np

from zocosmo.core.normals import Array, normals, uniforms
from zocosmo.core.tape import Seed, Tape, tape_key
from zocosmo.errors import InputError

__all__ = ["Array", "Scratch", "normals", "private", "together", "uniforms"]


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
            raise InputError(f"only tapes of one key can be joined, got shape {tape.shape}; index it")
    return Tape.stack([tape.keys.tobytes() for tape in tapes])


class Scratch(threading.local):
    """Work arrays that are reused between calls: allocating them costs more than the computation.

    Each thread and each copy has its own.
    """

    def __init__(self) -> None:
        self.t = -1  # the round of the arrays, if the caller sets it
        self._kept: dict[str, Array] = {}

    def __call__(self, name: str, shape: tuple[int, ...]) -> Array:
        kept = self._kept.get(name)
        if kept is None or kept.shape != shape:
            kept = self._kept[name] = np.empty(shape)
        return kept

    def __reduce__(self) -> tuple[type["Scratch"], tuple[()]]:
        return Scratch, ()
