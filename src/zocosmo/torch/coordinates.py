"""The parameters of a network as one d-vector."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Support, same_support
from zocosmo.errors import InputError
from zocosmo.state import Coordinates

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
UNLIKE = (
    "and rank 0 start from different weights; load the same ones, or set one seed before creating the model"
)
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

Values = NDArray[Any]
Index = NDArray[np.int64]
Kind = tuple[torch.device, torch.dtype]


class TensorPart(NamedTuple):
    """The entries of a support in the tensors of one type on one device."""

    where: Index  # positions in the support
    tensors: list[int]
    at: tuple[torch.Tensor, ...]  # positions in each of these tensors, row by row


class Tensors(Coordinates):
    """Tensors one after the other as one d-vector, each counted row by row whatever its strides.

    Values are read as float32, or as float64 if one of the tensors is.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        for k, tensor in enumerate(tensors):
            check_tensor(k, tensor)
        self.tensors = list(tensors)
        self.offsets: Index = np.cumsum([0, *(tensor.numel() for tensor in tensors)], dtype=np.int64)
        self.d = int(self.offsets[-1])
        wide = any(tensor.dtype == torch.float64 for tensor in tensors)
        self.value = torch.float64 if wide else torch.float32
        self.dtype: np.dtype[Any] = np.dtype(np.float64 if wide else np.float32)

    @property
    def devices(self) -> set[torch.device]:
        """Where the tensors are stored."""
        return {tensor.device for tensor in self.tensors}

    @torch.no_grad()
    def load(self, snapshot: Values) -> Self:
        for tensor, piece in zip(self.tensors, np.split(snapshot, self.offsets[1:-1]), strict=True):
            tensor.copy_(torch.from_numpy(piece).view(tensor.shape))
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        """All entries, (d,)."""
        pieces = [tensor.detach().cpu().to(self.value).numpy().reshape(-1) for tensor in self.tensors]
        return np.concatenate(pieces).astype(dtype or self.dtype, copy=False)

    def visits(self) -> dict[str, Values]:
        """Masters and momentum of visited entries, as arrays."""
        return {}

    def restore_visits(self, arrays: Mapping[str, Values]) -> None:
        """Continue from what `visits` returned."""

    def alike(self, which: Iterable[int]) -> list[tuple[Kind, list[int]]]:
        """Tensors by device and type."""
        found: dict[Kind, list[int]] = {}
        for k in which:
            found.setdefault((self.tensors[k].device, self.tensors[k].dtype), []).append(k)
        return list(found.items())

    def index(self, support: Support) -> Index:
        """The coordinates of a support, which must have one row."""
        if support.d != self.d or math.prod(support.index.shape[:-1]) != 1:
            raise InputError(f"the support must be one row of {self.d} coordinates, got {support!r}")
        return support.index.reshape(-1).astype(np.int64, copy=False)

    def row(self, support: Support, values: Values) -> Values:
        """The q values for a support, as one row in the type of the values."""
        if values.size != support.index.size:
            raise InputError(f"{support.index.size} coordinates need as many values, got {values.shape}")
        return np.ascontiguousarray(values, self.dtype).reshape(-1)


class Parameters(Tensors):
    """The parameters of a network as one d-vector, read and written in place, q entries at a time.

    Values are rounded to each tensor's type when written. An entry keeps its bits if the value written equals
    it, or if both are NaN: so values put back are restored to the bit, −0.0 and NaN payloads included.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__(tensors)
        check_apart([tensor for tensor in tensors if tensor.is_contiguous()])  # others may interleave
        self._last: tuple[Support, list[TensorPart]] | None = None

    @torch.no_grad()
    def restrict(self, support: Support) -> Values:
        """Res_S of the parameters, in the shape of the support: one transfer for each device and type."""
        out = np.empty(support.index.size, self.dtype)
        for part in self._parts(support):
            out[part.where] = self._read(part).to(self.value).cpu().numpy()
        return out.reshape(support.index.shape)

    @torch.no_grad()
    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of a support; one transfer for each device and type."""
        row, has_nan = self.row(support, values), bool(np.isnan(values).any())
        for part in self._parts(support):
            now = self._read(part)
            new = torch.from_numpy(row[part.where]).to(now.device, now.dtype)
            same = (new == now) | (new.isnan() & now.isnan()) if has_nan else new == now
            self._write(part, torch.where(same, now, new))
        return self

    def zeros_like(self) -> "Parameters":
        return Parameters([torch.zeros_like(tensor, dtype=self.value) for tensor in self.tensors])

    def _read(self, part: TensorPart) -> torch.Tensor:
        return torch.cat([self.tensors[k].take(at) for k, at in zip(part.tensors, part.at, strict=True)])

    def _write(self, part: TensorPart, values: torch.Tensor) -> None:
        pieces = torch.split(values, [len(at) for at in part.at])
        for k, at, piece in zip(part.tensors, part.at, pieces, strict=True):
            tensor = self.tensors[k]
            if tensor.is_contiguous():
                tensor.view(-1).index_copy_(0, at, piece)
            else:
                tensor.index_put_(tuple(torch.unravel_index(at, tensor.shape)), piece)

    def _parts(self, support: Support) -> list[TensorPart]:
        """The entries of a support, cached because a round needs them several times."""
        if self._last is None or not same_support(self._last[0], support):
            self._last = support, self._cut(support)
        return self._last[1]

    def _cut(self, support: Support) -> list[TensorPart]:
        index, order = self.index(support), None
        if (np.diff(index) < 0).any():  # as the columns of a subspace stand
            order = np.argsort(index, kind="stable")
            index = index[order]
        cuts = np.searchsorted(index, self.offsets)
        sizes = np.diff(cuts)
        local = index - np.repeat(self.offsets[:-1], sizes)
        parts = []
        for (device, _), tensors in self.alike(np.flatnonzero(sizes).tolist()):
            where = np.concatenate([np.arange(cuts[k], cuts[k + 1]) for k in tensors])
            at = torch.from_numpy(local[where]).to(device)  # one transfer
            places = where if order is None else order[where]
            parts.append(TensorPart(places, tensors, torch.split(at, sizes[tensors].tolist())))
        return parts


def check_tensor(k: int, tensor: torch.Tensor) -> None:
    """Refuse a tensor that is not dense and of a float type, or whose entries share memory."""
    if tensor.dtype not in DTYPES or tensor.layout != torch.strided or tensor.is_meta:
        found = f"{tensor.dtype}, {tensor.layout}, on {tensor.device}"
        raise InputError(
            f"parameter {k} is {found}; it must be dense and float32, float16, bfloat16 or float64"
        )
    if any(size > 1 and step == 0 for size, step in zip(tensor.shape, tensor.stride(), strict=True)):
        raise InputError(f"entries of parameter {k}, {tuple(tensor.shape)}, share memory; pass its clone()")


def check_apart(tensors: Sequence[torch.Tensor]) -> None:
    """Refuse tensors that share memory."""
    spans = sorted((t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for t in tensors if t.numel())
    for (_, end), (start, _) in itertools.pairwise(spans):
        if start < end:
            raise InputError("two of the parameters share memory; pass only one of them")


def fingerprint(tensors: Sequence[torch.Tensor]) -> str:
    """Equal for equal bits on any device: integer sums do not depend on the order."""
    sums = [int(p.detach().contiguous().view(BITS[p.element_size()]).sum(dtype=torch.int64)) for p in tensors]
    return hashlib.blake2b(repr(sums).encode(), digest_size=8).hexdigest()
