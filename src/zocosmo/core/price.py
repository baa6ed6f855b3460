"""Prices of messages: those of the codecs, and of messages that no codec encodes.

A codec's price is the length of its encoding. The others are the entropy bound, which no code for a private
support beats, and the short messages of other systems, which the simulator charges but never encodes.
"""

import math
from collections.abc import Callable

from zocosmo.core.levels import LEVEL
from zocosmo.core.message import CODECS
from zocosmo.core.payload import Bits, index_bits, log2_binomial
from zocosmo.core.support import check_size
from zocosmo.core.values import F32, ValueType

Price = Callable[[int, int, ValueType], Bits]
MOST_RESIDUE_BITS = 16


def entropy(d: int, q: int, value: ValueType = F32) -> Bits:
    """q values and ⌈log₂ C(d, q)⌉ bits: the minimum for coordinates that the receiver cannot know

    >>> entropy(20, 1).payload, entropy(2_523_136, 8192).indices
    (37, 79514)
    """
    indices = math.ceil(log2_binomial(d, q))
    return Bits(values=q * value.bits, indices=indices, control=value.scale_bits).padded()


def coordinates(d: int, q: int, value: ValueType = F32) -> Bits:
    """q coordinates of ⌈log₂ d⌉ bits, without values: a support that is sent once and kept"""
    d, q = check_size(d, q)
    return Bits(indices=q * index_bits(d)).padded()


def seeds(d: int, q: int, value: ValueType = F32) -> Bits:
    """q seeds of 64 bits"""
    return Bits(control=64 * q)


def votes(d: int, q: int, value: ValueType = F32) -> Bits:
    """q signs of one bit each

    >>> votes(128, 1)
    Bits(values=1, indices=0, control=0, framing=7)
    """
    return Bits(values=q).padded()


def scaled_signs(d: int, q: int, value: ValueType = F32) -> Bits:
    """q signs of one bit each, and one value that scales them all"""
    return Bits(values=q + value.bits, control=value.scale_bits).padded()


def level(d: int, q: int, value: ValueType = F32) -> Bits:
    """q levels of 16 bits each, see `core.levels`"""
    return Bits(values=q * LEVEL.bits)


def scalars(d: int, q: int, value: ValueType = F32) -> Bits:
    """q values that are sums of other values, and so are written anew on every link"""
    return Bits(values=q * value.bits, control=value.scale_bits).padded()


def residues(bits: int) -> Price:
    """The price of q integers modulo 2^b, b bits each

    >>> residues(4)(128, 3, F32)
    Bits(values=12, indices=0, control=0, framing=4)
    """
    return lambda d, q, value: Bits(values=bits * q).padded()


PRICES: dict[str, Price] = {
    **{name: codec.bits for name, codec in CODECS.items()},
    **{price.__name__: price for price in (entropy, coordinates, seeds, votes, scaled_signs, level, scalars)},
    **{f"residues{bits}": residues(bits) for bits in range(1, MOST_RESIDUE_BITS + 1)},
}
WRITTEN = frozenset(CODECS) | {"scalars"} | {f"residues{bits}" for bits in range(1, MOST_RESIDUE_BITS + 1)}
# prices of messages that cross links as bytes; the others are charged by the simulator only
