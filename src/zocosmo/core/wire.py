"""Wires: how values are written on a link.

The sender calls `encode`, every receiver `decode`; nothing else in the package rounds a value that crosses.
Both know the round, the sender and the public coins of the message. A wire may put one `scale` into each
message, and may read a message against the values that the receiver holds in their place.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.noise import Noise
from zocosmo.core.tape import Coins, Tape
from zocosmo.core.values import ValueType
from zocosmo.errors import InputError

Values = NDArray[Any]
Index = NDArray[np.int64]


class Envelope(NamedTuple):
    """What both ends of a link know of some messages before they read them, one message a row."""

    t: int
    rows: Index  # run · n + sender of each message
    n: int
    tape: Tape | None  # of the runs
    noise: Noise | None = None  # of wires with public dither
    # What the sender chose, on wires that keep a memory of each link:
    exponent: Index | None = None  # (rows,) of the step Δ = 2^e of its messages
    wide: NDArray[np.bool_] | None = None  # (rows,) which of them have a second part
    ids: Index | None = None  # of nodes, in draws; None: their numbers

    @property
    def sender(self) -> Index:
        """Who wrote each message, as draws name it."""
        return self.rows % self.n if self.ids is None else self.ids[self.rows % self.n]

    def dither(self, q: int) -> Values:
        """r of each message, (rows, q)."""
        assert self.noise is not None
        return self.noise.dither(self.t, self.rows, q)

    def drawn(self, q: int) -> tuple[Values, Values]:
        """The dither and the check factors of each message, (rows, q)."""
        assert self.noise is not None
        return self.dither(q), self.noise.factors(self.rows, q)

    def coins(self, label: str) -> Coins:
        """Public coins of each message, keyed by the round and its sender."""
        if self.tape is None:
            raise InputError("this wire draws public coins; make the channel with the tape of its runs")
        keys = self.tape.keys.reshape(-1, self.tape.keys.shape[-1])[self.rows // self.n]
        return Tape.of_keys(keys).coins(label, self.t, self.sender)


class Letters(NamedTuple):
    """Messages as they cross a link: values of the wire's type, one row a message."""

    values: Values  # (rows, q)
    scale: Values | None = None  # (rows, 1), where the wire sends one
    rest: Values | None = None  # (rows, q): the second part, where some messages have one

    def take(self, rows: Any) -> "Letters":
        """Some of the messages, as new arrays."""
        return Letters(*(None if part is None else part.take(rows, axis=0) for part in self))  # type: ignore[arg-type]

    def blank(self) -> "Letters":
        """One message of zeros, in place of one that did not come."""
        return Letters(*(None if part is None else np.zeros_like(part[:1]) for part in self))  # type: ignore[arg-type]

    @classmethod
    def stack(cls, letters: "Sequence[Letters]") -> "Letters":
        """Letters one under the other, as new arrays."""
        scales = [each.scale for each in letters if each.scale is not None]
        values = np.concatenate([each.values for each in letters])
        scale = np.concatenate(scales) if scales else None
        if all(each.rest is None for each in letters):
            return Letters(values, scale)
        rests = [np.zeros_like(each.values) if each.rest is None else each.rest for each in letters]
        return Letters(values, scale, np.concatenate(rests))


class Wire(ABC):
    """How values cross a link, and what they are charged as."""

    charged: ValueType
    by_receiver: ClassVar[bool] = False  # `decode` reads the receiver's own values
    dithered: ClassVar[bool] = False  # `encode` and `decode` draw public dither of each message
    linked: ClassVar[bool] = False  # ends of a link remember earlier messages; see `zocosmo.meetings`

    @abstractmethod
    def crosses_as(self, dtype: DTypeLike) -> ValueType:
        """The type of values on the link, for states of `dtype`."""

    @abstractmethod
    def is_lossless(self, dtype: DTypeLike) -> bool:
        """Whether states of this type cross unchanged."""

    def sends_as_is(self, dtype: DTypeLike) -> bool:
        """Whether `encode` and `decode` give back what they are given, for states of `dtype`."""
        return False

    @abstractmethod
    def encode(self, values: Values, envelope: Envelope) -> Letters:
        """Values (rows, q) as they cross."""

    @abstractmethod
    def decode(self, letters: Letters, envelope: Envelope, *, dtype: DTypeLike, own: Values | None) -> Values:
        """Values (rows, q) as they are read; `own` is what the receiver holds there, if `by_receiver`."""

    def is_readable(self, scale: bytes) -> bool:
        """Whether a message with this packed scale has values; one without is refused where it arrives."""
        return True

    def pack_scale(self, scale: Values) -> bytes:
        """The scale of one message, in `charged.scale_bits` bits."""
        raise AssertionError(f"{type(self).__name__} sends no scale")

    def unpack_scale(self, data: bytes) -> Values:
        """Back from `pack_scale`, of shape (1, 1)."""
        raise AssertionError(f"{type(self).__name__} sends no scale")
