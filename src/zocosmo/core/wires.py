"""The table of wires: floating-point types, and a few bits of each value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.grid import GRID
from zocosmo.core.modulo import MODULO
from zocosmo.core.values import BF16, F16, F32, F64, ValueType
from zocosmo.core.wire import Envelope, Letters, Wire
from zocosmo.entries import Table
from zocosmo.errors import InputError, check_known

Values = NDArray[Any]


@dataclass(frozen=True)
class FloatWire(Wire):
    """Each value rounded to a floating-point type; with None, values cross in the type of the states."""

    value: ValueType | None
    charged: ValueType

    def crosses_as(self, dtype: DTypeLike) -> ValueType:
        return self.value or (F64 if np.dtype(dtype) == np.float64 else F32)

    def is_lossless(self, dtype: DTypeLike) -> bool:
        return self.value is None or (self.value.dtype == dtype and self.value is not BF16)

    def sends_as_is(self, dtype: DTypeLike) -> bool:
        return self.is_lossless(dtype) and self.crosses_as(dtype).dtype == dtype

    def encode(self, values: Values, envelope: Envelope) -> Letters:
        if self.value is None or self.is_lossless(values.dtype):
            return Letters(values)
        return Letters(self.value.round(values))

    def decode(self, letters: Letters, envelope: Envelope, *, dtype: DTypeLike, own: Values | None) -> Values:
        if letters.values.dtype == dtype:
            return letters.values
        with np.errstate(over="ignore", invalid="ignore"):
            return letters.values.astype(dtype)


FEW_BITS: dict[str, ValueType] = {  # types of values that wires of a few bits send
    **{value.name: value for wire in MODULO.values() for value in (wire.charged, wire.rest)},
    **{wire.charged.name: wire.charged for wire in GRID.values()},
}
WITH_SCALE = ("values", "dense", "indexed", "plain", "delta", "scalars")  # codecs with room for a scale


def _as_wire(name: str, found: Any) -> Wire:
    """A user's wire: an object, or a class that needs no argument."""
    made = found() if isinstance(found, type) and issubclass(found, Wire) else found
    if not isinstance(made, Wire):
        raise InputError(f"{name} is no wire; give a class under zocosmo.core.wire.Wire, or an object of one")
    return made


WIRES: Table[Wire] = Table(
    {
        **{value.name: FloatWire(value, value) for value in (F64, F32, F16, BF16)},
        "nominal_f32": FloatWire(
            None, F32
        ),  # computed in full precision, charged at 32 bits: the paper's bill
        **MODULO,
        **GRID,
    },
    "zocosmo.wires",
    _as_wire,
)


def check_wire(wire: str, dtype: DTypeLike) -> None:
    """Refuse an unknown wire, and one that spends bits for nothing."""
    check_known("wire", wire, WIRES)
    if WIRES[wire].crosses_as(dtype) is F64 and np.dtype(dtype) == np.float32:
        raise InputError("wire f64 spends 64 bits on states of float32; use wire f32 or dtype float64")
