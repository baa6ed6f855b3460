"""What a channel needs of the links between processes; torch.distributed is one kind, ZeroMQ another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
Bytes = NDArray[np.uint8]


class Carrying(Protocol):
    """Moves bytes between this process and its peers, which are numbered by rank."""

    @property
    def rank(self) -> int: ...
    @property
    def salts(self) -> Mapping[int, tuple[bytes, bytes]]:
        """By peer: ours and theirs, new with each connection."""
        ...

    def open(self, edges: Iterable[Pair]) -> None:
        """Connect this process to its peers among these pairs."""
        ...

    def peers(self) -> list[int]: ...
    @property
    def lean(self) -> "Swapping | None":
        """A shorter way to swap one message with one peer, where there is one."""
        ...

    def exchange(
        self, make: Callable[[], Mapping[int, Sequence[bytes]]], sizes: Mapping[int, int], t: int
    ) -> Mapping[int, memoryview]:
        """Send what `make` returns to the peers, and receive `sizes[peer]` bytes from each peer.

        Links that can do without a peer leave it out of what they return.
        """
        ...


class Swapping(Protocol):
    """A shorter way to exchange messages with one peer."""

    def swap_with(self, peer: int, size: int) -> "Swap":
        """For messages of this many bytes."""
        ...


class Swap(Protocol):
    """One message each way at a time, all of one length."""

    out: Bytes  # what is sent next
    ins: tuple[Bytes, Bytes]

    def go(self, t: int) -> int:
        """Send `out` and receive the peer's message; gives the one of `ins` that holds it until the exchange
        after next."""
        ...
