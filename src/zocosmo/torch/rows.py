"""States of many nodes as rows of one tensor, read and written on their device."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Support, same_support
from zocosmo.errors import InputError
from zocosmo.state import Coordinates
from zocosmo.torch.aside import Aside, to_device

Values = NDArray[Any]
Owed = tuple[torch.Tensor, torch.Tensor]  # coordinates and values, (rows, q)


class Rows(Coordinates):
    """States (…, n, d) of float32 on a device. A round copies q values of each row, never d.

    Nothing is computed here, so the bits equal those of states in an array. Values that are put are buffered
    on the host until the rows are read, so that the device is not idle at the end of a round. Do not modify
    an array after putting it.
    """

    def __init__(self, x: Values, device: torch.device) -> None:
        rows = torch.from_numpy(np.array(x, np.float32, order="C").reshape(-1, x.shape[-1]))
        self._begin(rows.to(device), Places(x.shape, device), [])
        keep_freed_memory()

    def _begin(self, tensor: torch.Tensor, places: "Places", kin: "list[Rows]") -> None:
        self.shape, self.dtype, self.device = places.shape, np.dtype(np.float32), tensor.device
        self._tensor, self.places, self._kin = tensor, places, kin
        kin.append(self)
        self._arrives = Aside(self.device)  # what is read ahead
        self._coming: Support | None = None
        self._owed: Support | None = None  # of the last put, until it is written
        self._put: Values | None = None  # values put, until they are in pinned memory
        self._leaves = Aside(self.device)

    @property
    def tensor(self) -> torch.Tensor:
        """All rows, (rows, d), pending values included."""
        if self._owed is not None:
            self._fill()
            self._tensor.scatter_(1, self.places(self._owed), self._leaves.give())
            self._owed = None
        return self._tensor

    def debt(self, support: Support) -> tuple[torch.Tensor, Owed]:
        """All rows without the pending values; and those, on the host.

        A caller may write them itself: writing them again later changes nothing. If none are pending, the
        values on `support` are returned.
        """
        if self._owed is None:
            self.put(support, self.restrict(support))
        assert self._owed is not None
        self._fill()
        return self.debt_after(self._owed)

    def debt_after(self, support: Support) -> tuple[torch.Tensor, Owed]:
        """What `debt` will return once values are put on this support, in the same memory."""
        return self._tensor, (self.places(support), self._leaves.memory)

    def restrict(self, support: Support) -> Values:
        """Res_S of every row, shape (…, n, q)."""
        if self._coming is not None and same_support(self._coming, support):
            found = self._arrives.array()  # valid until the next `read_ahead`
        else:
            found = self.tensor.gather(1, self.places(support)).cpu().numpy()
        return found.reshape(*self.shape[:-1], support.q)

    def read_ahead(self, support: Support) -> None:
        """Start copying Res_S of these rows and their kin to the host, without waiting."""
        if self.device.type != "cuda":
            return
        now = [(rows, rows.tensor) for rows in self._kin]  # pending values may be in the memory read into
        for rows, tensor in now:
            rows._arrives.take(tensor.gather(1, self.places(support)))
            rows._coming = support

    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of every row."""
        _ = self.tensor, self.places(support)  # writes pending values; checks the support
        self._put = np.broadcast_to(values, (*self.shape[:-1], support.q)).reshape(-1, support.q)
        self._owed, self._coming = support, None
        return self

    def _fill(self) -> None:
        if self._put is not None:
            self._leaves.fill(self._put)
            self._put = None

    def zeros_like(self) -> "Rows":
        """Rows of zeros, kin of these: both are read together."""
        zeros = object.__new__(Rows)
        zeros._begin(torch.zeros_like(self._tensor), self.places, self._kin)
        return zeros

    def load(self, snapshot: Values) -> Self:
        """Overwrite all entries."""
        self._coming = self._owed = self._put = None
        self._tensor.copy_(
            torch.from_numpy(np.ascontiguousarray(snapshot, np.float32)).view(self._tensor.shape)
        )
        return self

    def become(self, tensor: torch.Tensor) -> Self:
        """Overwrite all entries with rows on the device, (rows, d)."""
        self._coming = self._owed = self._put = None
        self._tensor.copy_(tensor)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        whole: Values = self.tensor.cpu().numpy().reshape(self.shape)
        return np.array(whole, dtype, copy=copy)  # on the CPU `whole` shares the tensor's memory


class Places:
    """Coordinates of supports for every row, on the device; cached for this round and the next."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self.shape, self.device = shape, device
        self._kept: list[tuple[Support, torch.Tensor]] = []

    def __call__(self, support: Support) -> torch.Tensor:
        for kept, places in self._kept:
            if same_support(kept, support):
                return places
        if support.d != self.shape[-1]:
            raise InputError(f"states have {self.shape[-1]} coordinates, got {support!r}")
        index = np.broadcast_to(support.index, (*self.shape[:-1], support.q)).reshape(-1, support.q)
        self._kept = [*self._kept[-1:], (support, to_device(index, self.device))]
        return self._kept[-1][1]


def both_points(x: torch.Tensor, at: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """x + shift of every row, then x − shift, (2 · rows, d) in float32.

    Shifts (rows · K, q) along K directions of each row give 2 · rows · K points, in their order.
    """
    each, (rows, q) = len(shift) // len(x), at.shape
    here = x.gather(1, at)[:, None]
    points = x.float()[None, :, None].repeat(2, 1, each, 1).view(2, rows * each, -1)
    places, by = at[:, None].expand(rows, each, q).reshape(-1, q), shift.view(rows, each, q)
    points[0].scatter_(1, places, (here + by).float().view(-1, q))
    points[1].scatter_(1, places, (here - by).float().view(-1, q))
    return points.view(2 * rows * each, -1)


def keep_freed_memory() -> None:
    """Make glibc keep freed pages for the next round, which it does after freeing a block of this size, just
    below its limit of 32 MB."""
    np.empty(2**25 - 2**16, np.uint8)
