"""Copies to a device and from it that nobody waits for."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

SHORT = 2**16  # bytes that CUDA takes along at the call, from wherever they lie
MOST = 2**24  # bytes: memory that a device can read by itself is scarce, and kept once it was asked for

Values = NDArray[Any]


def to_device(array: NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of an array, where it is needed.

    A copy from ordinary memory to a GPU waits for all that its stream was given before, such as a forward,
    unless it is short. So values go by way of memory that the GPU reads by itself, which torch uses again
    when it was read. Large arrays have a stream of their own, and what is computed next waits for them.
    """
    if isinstance(array, torch.Tensor):
        here = array
    else:
        here = torch.from_numpy(
            np.require(array, requirements=("C", "W"))
        )  # torch frowns on what is read-only
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
    """Values on their way to a GPU or from it, in memory that it reads and writes by itself: nobody waits
    before the memory is used again."""

    def __init__(self, device: torch.device) -> None:
        self.memory, self.device = torch.empty((0, 0)), device
        self._moved = torch.cuda.Event() if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def fill(self, values: Values) -> None:
        self._sized(values.shape, torch.float32).numpy()[...] = values

    def give(self) -> torch.Tensor:
        """What was filled in, on the device."""
        there = self.memory.to(self.device, non_blocking=True)
        self._mark()
        return there

    def take(self, values: torch.Tensor) -> None:
        """Begin to fetch what stands on the device."""
        self._sized(values.shape, values.dtype).copy_(values, non_blocking=True)
        self._mark()

    def array(self) -> Values:
        """What was taken, when it is here; the next `take` is into the same memory."""
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
