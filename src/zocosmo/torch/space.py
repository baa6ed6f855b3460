"""The parameters of a network in a public subspace: x = x0 + P z   [subspace]"""

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.subspace import Subspace
from zocosmo.core.tape import Seed, Tape
from zocosmo.subspace import LiftedState, Lifting
from zocosmo.torch.coordinates import Parameters

Values = NDArray[Any]


class LiftedParameters(LiftedState):
    """z (1, 1, m) of one node on the host, and x in the network, wherever that is.

    x0 is what the parameters were when this was made. A round writes the parameters that its q axes move, and
    each of them depends on z alone, so float16 and bfloat16 need no masters. P and x0 stay on the host.
    """

    def __init__(self, x: Parameters, size: int, seed: Seed) -> None:
        self.space, self.origin = Subspace.stack([Subspace(Tape(seed), d=x.d, m=size)]), np.asarray(x)
        self.lifting, self._x = Lifting(self.space, self.origin), x
        self.z = np.zeros((1, 1, self.space.m), x.dtype)
        self.dtype, self.shape = self.z.dtype, self.z.shape

    def load(self, snapshot: Values) -> Self:
        self.z[...] = snapshot
        self._x.load(self.lifting.lift(self.z).reshape(-1))
        return self

    def arrays(self) -> dict[str, torch.Tensor]:
        """z and x0, which weights alone do not tell."""
        return {"z": torch.from_numpy(self.z.copy()), "x0": torch.from_numpy(self.origin.copy())}

    def restore(self, arrays: dict[str, torch.Tensor]) -> None:
        """Become what `arrays` returned, weights included."""
        self.origin = arrays["x0"].cpu().numpy().astype(self.dtype)
        self.lifting = Lifting(self.space, self.origin)
        self.load(arrays["z"].cpu().numpy())
