"""Copies to a device that wait for nobody."""

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_device(array: NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor of an array, where it is needed.

    A copy from ordinary memory to a GPU waits for all that its stream was given before, such as a forward. So
    these copies have a stream of their own, and what is computed next waits for them.
    """
    if isinstance(array, torch.Tensor):
        here = array
    else:
        here = torch.from_numpy(
            np.require(array, requirements=("C", "W"))
        )  # torch frowns on what is read-only
    if device.type != "cuda" or here.device.type == "cuda":
        return here.to(device)
    stream, now = _aside(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(stream):
        there = here.to(device)
    now.wait_stream(stream)
    there.record_stream(now)
    return there


@lru_cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
