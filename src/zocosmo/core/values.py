"""Value types: how one real number crosses a link.

`round` is the only lossy step and callers invoke it explicitly; `pack` refuses values it would have to round,
so the receiver decodes exactly what was sent.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError

Values = NDArray[Any]


@dataclass(frozen=True)
class ValueType:
    """B bits on the wire; `dtype` holds the values in memory."""

    name: str
    wire_id: int
    bits: int
    dtype: np.dtype[Any]
    scale_bits: int = 0  # of the number that scales a whole message, where there is one
    as_is: ClassVar[bool] = True  # bytes on the wire are those in memory, little-endian

    @property
    def is_whole(self) -> bool:
        """Whether scale and values take whole bytes."""
        return not (self.bits % 8 or self.scale_bits % 8)

    def round(self, x: Values) -> Values:
        """Q(x): the nearest value of this type, ties to even; values too large become infinite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(x).astype(self.dtype)

    def pack(self, values: Values) -> bytes:
        """The values in order, little-endian."""
        return self._checked(values).astype(self.wire_dtype, copy=False).tobytes()

    def unpack(self, data: bytes | memoryview, count: int) -> Values:
        """The `count` values of `pack`, bit for bit, read-only; a writable buffer is copied."""
        values = np.frombuffer(data, self.wire_dtype)
        if values.flags.writeable:
            values = values.copy()
            values.setflags(write=False)
        return values

    @cached_property
    def wire_dtype(self) -> np.dtype[Any]:
        """`dtype`, little-endian."""
        return self.dtype.newbyteorder("<")

    def _checked(self, values: Values) -> Values:
        if values.dtype != self.dtype:
            raise InputError(
                f"{self.name} messages carry {self.dtype} values, got {values.dtype}; round them first with "
                f"VALUE_TYPES[{self.name!r}].round(values)"
            )
        return values


class _BFloat16(ValueType):
    """NumPy has no bfloat16: values are float32 with the lower 16 bits zero."""

    as_is = False

    def round(self, x: Values) -> Values:
        """Q(x): to float32, then to bfloat16, each to nearest with ties to even (as torch does)."""
        bits = super().round(x).view(np.uint32)
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        rounded = np.where(is_nan, bits | np.uint32(0x00400000), bits + np.uint32(0x7FFF) + odd)
        return (rounded & np.uint32(0xFFFF0000)).view(np.float32)

    def pack(self, values: Values) -> bytes:
        bits = self._checked(values).view(np.uint32)
        if (bits & np.uint32(0xFFFF)).any():
            raise InputError(
                "some values are not bfloat16 numbers; round them first with VALUE_TYPES['bf16'].round"
            )
        return (bits >> np.uint32(16)).astype("<u2").tobytes()

    def unpack(self, data: bytes | memoryview, count: int) -> Values:
        values: Values = (np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)
        values.setflags(write=False)
        return values


F64 = ValueType("f64", 1, 64, np.dtype(np.float64))
F32 = ValueType("f32", 2, 32, np.dtype(np.float32))
F16 = ValueType("f16", 3, 16, np.dtype(np.float16))
BF16 = _BFloat16("bf16", 4, 16, np.dtype(np.float32))

VALUE_TYPES = {value.name: value for value in (F64, F32, F16, BF16)}
