"""States of many nodes as rows of one tensor: supports read and write them on their device."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Support
from zocosmo.errors import InputError

Values = NDArray[Any]


class Rows:
    """States (…, n, d) of float32 on a device. A round moves q values of each row over, never d.

    Entries are copied and nothing is computed here, so the bits are those of states in an array.
    """

    def __init__(self, x: Values, device: torch.device) -> None:
        self.shape, self.dtype = x.shape, np.dtype(np.float32)
        self.tensor = torch.from_numpy(np.array(x, np.float32, order="C").reshape(-1, x.shape[-1])).to(device)
        self._last: dict[str, Any] = {}  # support and its places

    def restrict(self, support: Support) -> Values:
        """Res_S of every row, shape (…, n, q)."""
        found: Values = self.tensor.gather(1, self.places(support)).cpu().numpy()
        return found.reshape(*self.shape[:-1], support.q)

    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of every row."""
        wide = np.broadcast_to(values, (*self.shape[:-1], support.q)).reshape(-1, support.q)
        new = to_device(np.require(wide, np.float32), self.tensor.device)
        self.tensor.scatter_(1, self.places(support), new)
        return self

    def places(self, support: Support) -> torch.Tensor:
        """The coordinates of every row on the device. A round asks several times, so the last is kept."""
        if self._last.get("support") is not support:
            if support.d != self.shape[-1]:
                raise InputError(f"states have {self.shape[-1]} coordinates, got {support!r}")
            index = np.broadcast_to(support.index, (*self.shape[:-1], support.q)).reshape(-1, support.q)
            at = to_device(index, self.tensor.device)
            self._last.update(support=support, at=at)
        at_last: torch.Tensor = self._last["at"]
        return at_last

    def zeros_like(self) -> "Rows":
        """Rows of zeros beside these, which share their places."""
        zeros = object.__new__(Rows)
        zeros.shape, zeros.dtype, zeros.tensor = self.shape, self.dtype, torch.zeros_like(self.tensor)
        zeros._last = self._last
        return zeros

    def load(self, x: Values) -> Self:
        """Take the place of all entries."""
        self.tensor.copy_(torch.from_numpy(np.ascontiguousarray(x, np.float32)).view(self.tensor.shape))
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        whole: Values = self.tensor.cpu().numpy().reshape(self.shape)
        return np.array(whole, dtype, copy=copy)  # on the CPU `whole` is the tensor's own memory


def to_device(array: Values, device: torch.device) -> torch.Tensor:
    """A tensor of an array, where it is needed."""
    ready = np.require(array, requirements=("C", "W"))  # torch frowns on what is read-only
    return torch.from_numpy(ready).to(device)
