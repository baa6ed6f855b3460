"""Asynchronous copies to and from a device."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SHORT = 2**16  # bytes that CUDA copies asynchronously from any memory
MOST = 2**24  # bytes; pinned memory is scarce, and torch does not give it back

Values = NDArray[Any]


def to_device(array: NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """An array as a tensor on the device.

    A copy from pageable memory to a GPU waits for all earlier work on its stream, such as a forward, unless
    it is short. So values go through pinned memory, which torch reuses after the copy. Large arrays are
    copied on a separate stream, and later work waits for them.
    """
    if isinstance(array, torch.Tensor):
        here = array
    else:
        here = torch.from_numpy(
            np.require(array, requirements=("C", "W"))
        )  # torch warns about read-only arrays
    if device.type != "cuda" or here.device.type == "cuda":
        return here.to(device)
    if here.nbytes <= SHORT:
        return here.to(device, non_blocking=True)
    if here.nbytes <= MOST:
        return here.pin_memory().to(device, non_blocking=True)
    stream, now = _aside(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(stream):
        there = here.to(device)
    now.wait_stream(stream)
    there.record_stream(now)
    return there


class Aside:
    """A pinned buffer for asynchronous copies to or from a GPU; the host waits only before reusing it."""

    def __init__(self, device: torch.device) -> None:
        self.memory, self.device = torch.empty((0, 0)), device
        self._moved = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def fill(self, values: Values) -> None:
        self._sized(values.shape, torch.float32).numpy()[...] = values

    def give(self) -> torch.Tensor:
        """Start copying the filled values; returns the tensor on the device."""
        there = self.memory.to(self.device, non_blocking=True)
        self._mark()
        return there

    def take(self, values: torch.Tensor) -> None:
        """Start copying values from the device."""
        self._sized(values.shape, values.dtype).copy_(values, non_blocking=True)
        self._mark()

    def array(self) -> Values:
        """Wait for the values taken; the next `take` overwrites them."""
        self._wait()
        found: Values = self.memory.numpy()
        return found

    def _sized(self, shape: tuple[int, ...], kind: torch.dtype) -> torch.Tensor:
        if self.memory.shape != shape or self.memory.dtype != kind:
            self.memory = torch.empty(shape, dtype=kind, pin_memory=self._moved is not None)
        else:
            self._wait()
        return self.memory

    def _mark(self) -> None:
        if self._moved is not None:
            self._moved.record(torch.cuda.current_stream(self.device))

    def _wait(self) -> None:
        if self._moved is not None:
            self._moved.synchronize()


@lru_cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
