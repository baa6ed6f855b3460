"""The trainable tensors of a model in one buffer, so that one call reads or writes q entries."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Support, same_support
from zocosmo.errors import InputError
from zocosmo.state import Loan
from zocosmo.torch.aside import to_device
from zocosmo.torch.coordinates import Kind, Tensors, check_apart
from zocosmo.torch.visited import Column, Visited

HALF = (torch.float16, torch.bfloat16)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

Values = NDArray[Any]
Index = NDArray[np.int64]


class BufferPart(NamedTuple):
    """The entries of a support in one buffer."""

    where: Any  # positions in the support
    kind: torch.dtype
    bits: torch.Tensor  # the buffer as integers, so that copies keep the bits of a NaN
    at: torch.Tensor  # positions in the buffer


class Flat(Tensors):
    """Tensors as one d-vector, moved into one buffer for each device and type.

    The tensors become views of the buffers. A model that uses them works as before, but other views of their
    old memory, such as CUDA graphs, are not updated. Tensors move one by one, those on a GPU through the CPU,
    so there is never a second copy.

    float16 and bfloat16 weights cannot hold small steps. Where a step has written, column "x" of `visited`
    keeps the exact value as the weight's master: weight = round(master). `restrict` returns masters where
    they exist; a weight that other code has written since overrides its master.
    """

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__(tensors)
        self.has_masters = any(tensor.dtype in HALF for tensor in tensors)
        self.visited = Visited({"x": np.nan, "m": 0.0} if self.has_masters else {"m": 0.0}, self.dtype)
        self.buffers, self._moves = self._move()
        self._homes = [(tensor.data_ptr(), tensor.dtype) for tensor in self.tensors]
        self._now: tuple[Support, list[BufferPart]] | None = None
        self._coming: tuple[Support, list[BufferPart]] | None = None
        self._seen: tuple[Support, list[torch.Tensor], Values] | None = None  # weights just lent
        self._checks = 0

    @torch.no_grad()
    def restrict(self, support: Support) -> Values:
        """Res_S of the vector, in the shape of the support; one transfer for each buffer."""
        return self._read(support)[1].copy()

    @torch.no_grad()
    def put(self, support: Support, values: Values) -> Self:
        """Take a step to these values on a support: masters keep them, weights round them.

        An entry keeps its bits if the value written equals it. If nothing changes, as in a round without a
        partner, nothing counts as visited.
        """
        parts, row = self._parts(support), self.row(support, values)
        now, here = self._read(support)
        self._seen = None
        if row.tobytes() == here.tobytes():
            return self
        for part, old, new in zip(parts, now, _rounded(parts, row), strict=True):
            bits = BITS[old.element_size()]
            _write(part, torch.where(_same(old, new, row), old.view(bits), new.view(bits)))
        if self.has_masters:
            self.visited.set(support.index, "x", row)
        return self

    @torch.no_grad()
    def lend(self, support: Support) -> Loan:
        """The entries of a support for queries, which touch no master and count as no visit."""
        parts, self._seen = self._parts(support), None
        saved = [part.bits.index_select(0, part.at) for part in parts]
        now = [bits.cpu().view(part.kind) for part, bits in zip(parts, saved, strict=True)]
        here = self._values(support, parts, now)

        def put(values: Values) -> "Flat":
            for part, new in zip(parts, _rounded(parts, self.row(support, values)), strict=True):
                _write(part, new.view(part.bits.dtype))
            return self

        def put_back() -> None:
            for part, bits in zip(parts, saved, strict=True):
                _write(part, bits)
            self._seen = support, now, here  # no other code writes before the step

        return Loan(here.copy(), put, put_back)

    def look_ahead(self, coming: Support, after: Support) -> None:
        """Look up the next support while a device computes; its weights are read later, as other code may
        still write them."""
        self._coming = coming, self._cut(coming)
        self.visited.look_ahead(coming.index, after.index)

    def load(self, snapshot: Values) -> Self:
        self._seen = None
        super().load(snapshot)
        if self.has_masters:
            rounded = np.flatnonzero(super().__array__() != snapshot)
            keys = np.union1d(self.visited.arrays()["keys"], rounded).astype(np.int64)
            if keys.size:
                self.visited.set(keys, "x", snapshot[keys])
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        whole, keys = super().__array__(dtype, copy), self.visited.arrays()["keys"]
        if keys.size:
            whole[keys] = self.restrict(Support(keys, self.d))
        return whole

    def visits(self) -> dict[str, Values]:
        return self.visited.arrays()

    def restore_visits(self, arrays: Mapping[str, Values]) -> None:
        self.visited.restore(arrays)

    def zeros_like(self) -> Column:
        """Momentum of visited coordinates."""
        return Column(self.visited, "m")

    def _read(self, support: Support) -> tuple[list[torch.Tensor], Values]:
        """Weights on a support, on the CPU, and their values; those just lent are cached."""
        if self._seen is not None and same_support(self._seen[0], support):
            return self._seen[1:]
        parts = self._parts(support)
        now = [part.bits.index_select(0, part.at).cpu().view(part.kind) for part in parts]
        return now, self._values(support, parts, now)

    def _values(self, support: Support, parts: list[BufferPart], now: list[torch.Tensor]) -> Values:
        """The values of weights: their masters, if they still round to these weights."""
        out = np.empty(support.index.size, self.dtype)
        for part, weights in zip(parts, now, strict=True):
            out[part.where] = weights.to(self.value).numpy()
        if self.has_masters and len(known := np.flatnonzero(self.visited.known(support.index))):
            masters = self.visited.get(support.index, "x").reshape(-1)
            for part, weights in zip(parts, now, strict=True):
                mine, at = _of_part(part, known)
                rounded = torch.from_numpy(masters[at]).to(part.kind)
                kept = at[_same(weights[mine], rounded, out[at]).numpy()]
                out[kept] = masters[kept]
        return out.reshape(support.index.shape)

    def _parts(self, support: Support) -> list[BufferPart]:
        """The entries of a support, cached because a round needs them several times."""
        if self._now is None or not same_support(self._now[0], support):
            self._check_homes()
            if self._coming is not None and same_support(self._coming[0], support):
                self._now, self._coming = self._coming, None
            else:
                self._now = support, self._cut(support)
        return self._now[1]

    def _check_homes(self) -> None:
        """Refuse a model that has moved away from the buffers."""
        for k in {0, self._checks % len(self.tensors)}:  # .to() and the like move all tensors
            tensor = self.tensors[k]
            if (tensor.data_ptr(), tensor.dtype) != self._homes[k]:
                raise InputError(
                    f"parameter {k} has moved, to {tensor.dtype} on {tensor.device}, since the optimizer was "
                    "made; make the optimizer after .to(), .half() and the like"
                )
        self._checks += 1

    def _cut(self, support: Support) -> list[BufferPart]:
        index = self.index(support)
        if len(self.buffers) == 1:
            return [_part(slice(None), self.buffers[0], index)]
        sizes = np.diff(np.searchsorted(index, self.offsets))
        kind, places = np.repeat(self._moves[0], sizes), index + np.repeat(self._moves[1], sizes)
        touched = [(buffer, np.flatnonzero(kind == k)) for k, buffer in enumerate(self.buffers)]
        return [_part(where, buffer, places[where]) for buffer, where in touched if where.size]

    def _move(self) -> tuple[list[torch.Tensor], tuple[Index, Index]]:
        """The buffers; and for each tensor the number of its buffer and its offset there."""
        number, shift = np.zeros((2, len(self.tensors)), np.int64)
        buffers: list[torch.Tensor] = []
        for kind, members in self.alike(range(len(self.tensors))):
            tensors = [self.tensors[k] for k in members]
            starts = np.cumsum([0, *(tensor.numel() for tensor in tensors)], dtype=np.int64)
            number[members], shift[members] = len(buffers), starts[:-1] - self.offsets[members]
            buffers.append(one_buffer(tensors, kind, starts.tolist()))
        return buffers, (number, shift)


@torch.no_grad()
def one_buffer(tensors: Sequence[torch.Tensor], kind: Kind, starts: Sequence[int]) -> torch.Tensor:
    """Make these tensors views of one buffer, in this order, unless they are already."""
    check_apart(tensors)
    device, dtype = kind
    if _lie_in_a_row(tensors, starts):
        return tensors[0].detach().as_strided((starts[-1],), (1,))
    if device.type != "cpu":
        for tensor in tensors:
            tensor.data = tensor.data.cpu()
    if device.type == "cuda":
        torch.cuda.empty_cache()  # the buffer needs contiguous memory
    buffer = torch.empty(starts[-1], dtype=dtype, device=device)
    for tensor, start in zip(tensors, starts, strict=False):
        view = buffer[start : start + tensor.numel()].view(tensor.shape)
        view.copy_(tensor.data)
        tensor.data = view  # frees the old memory
    return buffer


def _lie_in_a_row(tensors: Sequence[torch.Tensor], starts: Sequence[int]) -> bool:
    first = tensors[0]
    memory, base, size = first.untyped_storage().data_ptr(), first.data_ptr(), first.element_size()
    return all(
        tensor.is_contiguous()
        and tensor.untyped_storage().data_ptr() == memory
        and (tensor.data_ptr() == base + start * size or not tensor.numel())
        for tensor, start in zip(tensors, starts, strict=False)
    )


def _part(where: Any, buffer: torch.Tensor, places: Index) -> BufferPart:
    bits = buffer.view(BITS[buffer.element_size()])
    return BufferPart(where, buffer.dtype, bits, to_device(places, buffer.device))


def _of_part(part: BufferPart, places: Index) -> tuple[Index, Index]:
    """The entries of a part that are among these places of its support, and their places."""
    if isinstance(part.where, slice):
        return places, places
    mine = np.flatnonzero(np.isin(part.where, places))
    return mine, part.where[mine]


def _write(part: BufferPart, bits: torch.Tensor) -> None:
    part.bits.index_copy_(0, part.at, to_device(bits, part.bits.device))


def _rounded(parts: list[BufferPart], row: Values) -> list[torch.Tensor]:
    """Values as weights, on the CPU."""
    return [torch.from_numpy(row[part.where]).to(part.kind) for part in parts]


def _same(one: torch.Tensor, other: torch.Tensor, values: Values) -> torch.Tensor:
    """Where two tensors are equal or both NaN; `values` says whether either can be NaN."""
    same = one == other
    return same | (one.isnan() & other.isnan()) if np.isnan(values).any() else same
