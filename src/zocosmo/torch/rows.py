"""States of many nodes as rows of one tensor: supports read and write them on their device."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Support
from zocosmo.errors import InputError
from zocosmo.torch.aside import to_device

Values = NDArray[Any]


class Rows:
    """States (…, n, d) of float32 on a device. A round moves q values of each row over, never d.

    Entries are copied and nothing is computed here, so the bits are those of states in an array.
    """

    def __init__(self, x: Values, device: torch.device) -> None:
        self.shape, self.dtype = x.shape, np.dtype(np.float32)
        self.tensor = torch.from_numpy(np.array(x, np.float32, order="C").reshape(-1, x.shape[-1])).to(device)
        self.places = Places(self.shape, device)
        self._kin = [self]
        self._host, self._staged = torch.empty(0), Staged()  # where what is read ahead arrives; what is put
        self._coming: tuple[Support, torch.cuda.Event] | None = None

    def restrict(self, support: Support) -> Values:
        """Res_S of every row, shape (…, n, q)."""
        if self._coming is not None and self._coming[0] is support:
            self._coming[1].synchronize()
            found: Values = self._host.numpy()  # until the next round reads into the same memory
        else:
            found = self.tensor.gather(1, self.places(support)).cpu().numpy()
        return found.reshape(*self.shape[:-1], support.q)

    def read_ahead(self, support: Support) -> None:
        """Begin to bring Res_S of these rows and their kin to the host; nobody waits for it here."""
        if self.tensor.device.type != "cuda":
            return
        for rows in self._kin:
            now = rows.tensor.gather(1, self.places(support))
            if rows._host.shape != now.shape:
                rows._host = torch.empty(now.shape, pin_memory=True)
            rows._host.copy_(now, non_blocking=True)
            rows._coming = support, torch.cuda.Event()  # type: ignore[no-untyped-call]
            rows._coming[1].record()

    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of every row."""
        wide = np.broadcast_to(values, (*self.shape[:-1], support.q)).reshape(-1, support.q)
        self.tensor.scatter_(1, self.places(support), self._staged(wide, self.tensor.device))
        self._coming = None
        return self

    def zeros_like(self) -> "Rows":
        """Rows of zeros beside these: their kin, read together with them."""
        zeros = object.__new__(Rows)
        zeros.shape, zeros.dtype, zeros.tensor = self.shape, self.dtype, torch.zeros_like(self.tensor)
        zeros.places, zeros._kin, zeros._host, zeros._coming = self.places, self._kin, torch.empty(0), None
        zeros._staged = Staged()
        self._kin.append(zeros)
        return zeros

    def load(self, x: Values) -> Self:
        """Take the place of all entries."""
        self._coming = None
        self.tensor.copy_(torch.from_numpy(np.ascontiguousarray(x, np.float32)).view(self.tensor.shape))
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        whole: Values = self.tensor.cpu().numpy().reshape(self.shape)
        return np.array(whole, dtype, copy=copy)  # on the CPU `whole` is the tensor's own memory


class Staged:
    """Values on their way to a device, by memory that it can read by itself: the host does not wait."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)
        self._read: torch.cuda.Event | None = None  # the last copy has left the memory

    def __call__(self, values: Values, device: torch.device) -> torch.Tensor:
        if device.type != "cuda":
            return torch.from_numpy(np.require(values, np.float32, requirements=("C", "W"))).to(device)
        if self._memory.shape != values.shape:
            self._memory, self._read = torch.empty(values.shape, pin_memory=True), None
        if self._read is not None:
            self._read.synchronize()
        self._memory.numpy()[...] = values
        there = self._memory.to(device, non_blocking=True)
        self._read = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._read.record()
        return there


class Places:
    """Coordinates of supports on the device, for every row. A round asks several times, and may ask ahead."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self.shape, self.device = shape, device
        self._kept: dict[int, tuple[Support, torch.Tensor]] = {}  # of this round and the next

    def __call__(self, support: Support) -> torch.Tensor:
        if id(support) not in self._kept:
            if support.d != self.shape[-1]:
                raise InputError(f"states have {self.shape[-1]} coordinates, got {support!r}")
            index = np.broadcast_to(support.index, (*self.shape[:-1], support.q)).reshape(-1, support.q)
            while len(self._kept) > 1:
                del self._kept[next(iter(self._kept))]
            self._kept[id(support)] = support, to_device(index, self.device)
        return self._kept[id(support)][1]
