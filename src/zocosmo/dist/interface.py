"""What a channel needs of the links between processes; torch.distributed is one kind, ZeroMQ another."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

Pair = tuple[int, int]


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
    """`exchange` with one peer of a message that is ready."""

    def swap(self, peer: int, parts: Sequence[bytes], size: int, t: int) -> memoryview: ...
