"""Wires: how values are written on a link.

The sender calls `encode`, every receiver `decode`; nothing else in the package rounds a value that crosses.
Both know the round, the sender and the public coins of the message. A wire may put one `scale` into each
message, and may read a message against the values that the receiver holds in their place.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.tape import Coins, Tape
from zocosmo.core.values import BF16, F16, F32, F64, ValueType
from zocosmo.errors import InputError, check_known

Values = NDArray[Any]
Index = NDArray[np.int64]


class Envelope(NamedTuple):
    """What both ends of a link know of some messages before they read them, one message a row."""

    t: int
    rows: Index  # run · n + sender of each message
    n: int
    tape: Tape | None  # of the runs

    @property
    def sender(self) -> Index:
        """Who wrote each message."""
        return self.rows % self.n

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

    def take(self, rows: Any) -> "Letters":
        """Some of the messages, as new arrays."""
        scale = None if self.scale is None else self.scale.take(rows, axis=0)
        return Letters(self.values.take(rows, axis=0), scale)


class Wire(ABC):
    """How values cross a link, and what they are charged as."""

    charged: ValueType
    by_receiver: ClassVar[bool] = False  # `decode` reads the receiver's own values

    @abstractmethod
    def crosses_as(self, dtype: DTypeLike) -> ValueType:
        """The type of values on the link, for states of `dtype`."""

    @abstractmethod
    def is_lossless(self, dtype: DTypeLike) -> bool:
        """Whether states of this type cross unchanged."""

    @abstractmethod
    def encode(self, values: Values, envelope: Envelope) -> Letters:
        """Values (rows, q) as they cross."""

    @abstractmethod
    def decode(self, letters: Letters, envelope: Envelope, *, dtype: DTypeLike, own: Values | None) -> Values:
        """Values (rows, q) as they are read; `own` is what the receiver holds there, if `by_receiver`."""

    def pack_scale(self, scale: Values) -> bytes:
        """The scale of one message, in `charged.scale_bits` bits."""
        raise AssertionError(f"{type(self).__name__} sends no scale")

    def unpack_scale(self, data: bytes) -> Values:
        """Back from `pack_scale`, of shape (1, 1)."""
        raise AssertionError(f"{type(self).__name__} sends no scale")


@dataclass(frozen=True)
class FloatWire(Wire):
    """Each value rounded to a floating-point type; with None, values cross in the type of the states."""

    value: ValueType | None
    charged: ValueType

    def crosses_as(self, dtype: DTypeLike) -> ValueType:
        return self.value or (F64 if np.dtype(dtype) == np.float64 else F32)

    def is_lossless(self, dtype: DTypeLike) -> bool:
        return self.value is None or (self.value.dtype == dtype and self.value is not BF16)

    def encode(self, values: Values, envelope: Envelope) -> Letters:
        if self.value is None or self.is_lossless(values.dtype):
            return Letters(values)
        return Letters(self.value.round(values))

    def decode(self, letters: Letters, envelope: Envelope, *, dtype: DTypeLike, own: Values | None) -> Values:
        if letters.values.dtype == dtype:
            return letters.values
        with np.errstate(over="ignore", invalid="ignore"):
            return letters.values.astype(dtype)


WIRES: dict[str, Wire] = {
    **{value.name: FloatWire(value, value) for value in (F64, F32, F16, BF16)},
    "nominal_f32": FloatWire(None, F32),  # computed in full precision, charged at 32 bits: the paper's bill
}


def check_wire(wire: str, dtype: DTypeLike) -> None:
    """Refuse an unknown wire, and one that spends bits for nothing."""
    check_known("wire", wire, WIRES)
    if WIRES[wire].crosses_as(dtype) is F64 and np.dtype(dtype) == np.float32:
        raise InputError("wire f64 spends 64 bits on states of float32; use wire f32 or dtype float64")
