"""States of many nodes as rows of one tensor: supports read and write them on their device."""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Support, same_draw
from zocosmo.errors import InputError
from zocosmo.state import Coordinates
from zocosmo.torch.aside import Aside, to_device

Values = NDArray[Any]
Owed = tuple[torch.Tensor, torch.Tensor]  # coordinates and values, (rows, q)


class Rows(Coordinates):
    """States (…, n, d) of float32 on a device. A round moves q values of each row over, never d.

    Entries are copied and nothing is computed here, so the bits are those of states in an array. What is put
    waits with the host until somebody looks: a round's last lines would else keep the device idle. So an
    array that was put must not be changed afterwards.
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
        self._owed: Support | None = None  # where the last put was, until it is written
        self._put: Values | None = None  # what was put, until it is where it leaves from
        self._leaves = Aside(self.device)

    @property
    def tensor(self) -> torch.Tensor:
        """All rows, (rows, d), with what was put."""
        if self._owed is not None:
            self._fill()
            self._tensor.scatter_(1, self.places(self._owed), self._leaves.give())
            self._owed = None
        return self._tensor

    def debt(self, support: Support) -> tuple[torch.Tensor, Owed]:
        """All rows but for what is owed to them; and that, its values with the host.

        Who needs the rows at once may write it himself: that it is written again when somebody looks does no
        harm. Where nothing is owed, it is what stands on `support` already.
        """
        if self._owed is None:
            self.put(support, self.restrict(support))
        assert self._owed is not None
        self._fill()
        return self.debt_after(self._owed)

    def debt_after(self, support: Support) -> tuple[torch.Tensor, Owed]:
        """What `debt` will be when values were put on this support; they are in that memory then."""
        return self._tensor, (self.places(support), self._leaves.memory)

    def restrict(self, support: Support) -> Values:
        """Res_S of every row, shape (…, n, q)."""
        if self._coming is not None and same_draw(self._coming, support):
            found = self._arrives.array()  # until the next round reads into the same memory
        else:
            found = self.tensor.gather(1, self.places(support)).cpu().numpy()
        return found.reshape(*self.shape[:-1], support.q)

    def read_ahead(self, support: Support) -> None:
        """Begin to bring Res_S of these rows and their kin to the host; nobody waits for it here."""
        if self.device.type != "cuda":
            return
        now = [(rows, rows.tensor) for rows in self._kin]  # what was put may lie where the next will arrive
        for rows, tensor in now:
            rows._arrives.take(tensor.gather(1, self.places(support)))
            rows._coming = support

    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of every row."""
        _ = self.tensor, self.places(support)  # what was put before; whether the support fits
        self._put = np.broadcast_to(values, (*self.shape[:-1], support.q)).reshape(-1, support.q)
        self._owed, self._coming = support, None
        return self

    def _fill(self) -> None:
        if self._put is not None:
            self._leaves.fill(self._put)
            self._put = None

    def zeros_like(self) -> "Rows":
        """Rows of zeros beside these: their kin, read together with them."""
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        whole: Values = self.tensor.cpu().numpy().reshape(self.shape)
        return np.array(whole, dtype, copy=copy)  # on the CPU `whole` is the tensor's own memory


class Places:
    """Coordinates of supports on the device, for every row. A round asks several times, and may ask ahead."""

    def __init__(self, shape: tuple[int, ...], device: torch.device) -> None:
        self.shape, self.device = shape, device
        self._kept: list[tuple[Support, torch.Tensor]] = []  # of this round and the next

    def __call__(self, support: Support) -> torch.Tensor:
        for kept, places in self._kept:
            if same_draw(kept, support):
                return places
        if support.d != self.shape[-1]:
            raise InputError(f"states have {self.shape[-1]} coordinates, got {support!r}")
        index = np.broadcast_to(support.index, (*self.shape[:-1], support.q)).reshape(-1, support.q)
        self._kept = [*self._kept[-1:], (support, to_device(index, self.device))]
        return self._kept[-1][1]


def keep_freed_memory() -> None:
    """Have the C library keep what the arrays of a round leave behind, rather than give pages back and ask
    for them again. glibc does so once it has freed a block as large as this, and no larger than 32 MB."""
    np.empty(2**25 - 2**16, np.uint8)
