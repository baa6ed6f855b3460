"""Links: connections from this process to others, one for each pair of processes that share an edge.

A connection is a process group of two, so sockets exist along edges only, and one that breaks takes no other
with it. Exchanges go through the peers in the order of an edge colouring (`graphs.colouring`).
"""

import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed

from zocosmo.dist.deadline import Deadline
from zocosmo.dist.rendezvous import Job
from zocosmo.dist.seal import fresh_salt
from zocosmo.errors import InputError, PeerLost, check_known
from zocosmo.graphs.colouring import edge_colours

c10d: Any = torch.distributed  # half of what we use has no types

BACKENDS = ("gloo", "nccl", "mpi")
NOTICE = 10.0  # seconds of waiting after which a line says so
TAGS = 2**20

Pair = tuple[int, int]


class Buffer:
    """Bytes that torch sends or fills."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.here = torch.empty(size, dtype=torch.uint8)
        self.tensor = self.here if device.type == "cpu" else torch.empty_like(self.here, device=device)
        self.view = memoryview(self.here.numpy())  # type: ignore[arg-type]

    def fill(self, parts: Iterable[bytes]) -> torch.Tensor:
        at = 0
        for part in parts:
            self.view[at : at + len(part)] = part
            at += len(part)
        if self.tensor is not self.here:
            self.tensor.copy_(self.here)
        return self.tensor

    def read(self) -> memoryview:
        """What is in it now; to be copied before the next message comes."""
        if self.tensor is not self.here:
            self.here.copy_(self.tensor)
        return self.view


@dataclass
class Waiting:
    """Whom we wait for, read by the thread that says so."""

    peer: int = -1
    round: int = 0
    since: float = 0.0


@dataclass
class Pending:
    """What is expected of peers in round t, and since when."""

    t: int
    since: float
    sizes: dict[int, int]
    works: dict[int, Any] = field(default_factory=dict)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.since


class Links:
    """Moves bytes between this process and its peers, and says who is lost."""

    def __init__(
        self, job: Job, *, deadline: Deadline | None = None, backend: str = "gloo", quiet: bool = False
    ) -> None:
        check_known("backend", backend, BACKENDS)
        self.job, self.deadline, self.backend = job, deadline or Deadline(), backend
        self.device = torch.device("cpu")
        if backend == "nccl":
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._groups: dict[int, tuple[Any, int]] = {}  # by peer: the group of two, the peer's place in it
        self.is_final = True  # whether a lost peer is the end of the job
        self.salts: dict[int, tuple[bytes, bytes]] = {}  # by peer: ours and theirs, new with each connection
        self._colour: dict[Pair, int] = {}
        self._buffers: dict[tuple[int, int, bool], Buffer] = {}
        self._gloo_device: Any = None
        self.waited = 0.0  # seconds spent waiting for peers
        self._waiting = Waiting()
        self._closed = threading.Event()
        if not quiet:
            threading.Thread(target=self._notice, daemon=True).start()

    def open(self, edges: Iterable[Pair], *, connect: bool = True) -> None:
        """Connect to the peers of this process among pairs of processes; those already open stay."""
        self._colour = edge_colours(edges)
        if not connect:
            return
        for peer in self.in_order(self.peers()):
            if peer not in self._groups:
                self.connect(peer)

    def peers(self) -> list[int]:
        rank = self.job.rank
        return sorted({a + b - rank for a, b in self._colour if rank in (a, b)})

    def in_order(self, peers: Iterable[int]) -> list[int]:
        """By colour: the same order at all processes, as seen from each edge."""
        rank = self.job.rank
        return sorted(peers, key=lambda peer: self._colour[min(rank, peer), max(rank, peer)])

    def connect(self, peer: int, generation: str = "0") -> None:
        """A new group of two with a peer, who must call this too."""
        low, high = min(self.job.rank, peer), max(self.job.rank, peer)
        store = c10d.PrefixStore(f"link/{low}-{high}/{generation}", self.job.store)
        self.drop(peer)
        within = self.job.join_within if generation == "0" else self.deadline.seconds
        since = time.monotonic()
        self._waiting = Waiting(peer, -1, since)
        try:
            store.set(f"salt/{self.job.rank}", mine := fresh_salt())
            group = self._group(store, int(self.job.rank == high), within)
            self.salts[peer] = mine, store.get(f"salt/{peer}")
        except (RuntimeError, ValueError) as error:
            raise self.lost(peer, None, time.monotonic() - since, error) from error
        finally:
            self._waiting = Waiting()
        self._groups[peer] = group, peer if self.backend == "mpi" else int(peer == high)

    def drop(self, peer: int) -> None:
        """Forget the connection to a peer."""
        self._groups.pop(peer, None)
        self._buffers = {key: kept for key, kept in self._buffers.items() if key[0] != peer}

    def expect(self, sizes: Mapping[int, int], t: int) -> "Pending":
        """Get ready for as many bytes from peers as `sizes` says, before we have anything to send.

        Gloo sends when the other end is ready: the sooner it is, the less anyone waits.
        """
        pending = Pending(t, time.monotonic(), dict(sizes))
        for peer in self.in_order(sizes) if len(sizes) > 1 else sizes:
            pending.works[peer] = self._call(
                peer, pending, "recv", self._buffer(peer, sizes[peer], False).tensor
            )
        return pending

    def exchange(self, out: Mapping[int, Sequence[bytes]], pending: "Pending") -> dict[int, memoryview]:
        """Send to peers what is in `out`, and get what is expected of them."""
        order = (
            self.in_order({*out, *pending.sizes})
            if len(out) + len(pending.sizes) > 2
            else {**out, **pending.sizes}
        )
        sent = {}
        for peer in order:
            if peer in out:
                parts = out[peer]
                filled = self._buffer(peer, sum(map(len, parts)), True).fill(parts)
                sent[peer] = self._call(peer, pending, "send", filled)
        for peer in order:
            self._waiting = Waiting(peer, pending.t, pending.since)
            try:
                for work in (sent.get(peer), pending.works.get(peer)):
                    if work is not None:
                        work.wait(timedelta(seconds=max(0.001, self.deadline.seconds - pending.elapsed)))
            except RuntimeError as error:
                raise self.lost(peer, pending.t, pending.elapsed, error) from error
            finally:
                self._waiting = Waiting()
        self.waited += pending.elapsed
        return {peer: self._buffers[peer, size, False].read() for peer, size in pending.sizes.items()}

    def _call(self, peer: int, pending: "Pending", what: str, tensor: torch.Tensor) -> Any:
        group, place = self._groups[peer]
        try:
            return getattr(group, what)([tensor], place, pending.t % TAGS)
        except RuntimeError as error:
            raise self.lost(peer, pending.t, pending.elapsed, error) from error

    def lost(self, peer: int, t: int | None, elapsed: float, error: Exception) -> PeerLost:
        """The error that names peer, round and time, and what the first to end had to say."""
        late = elapsed >= 0.99 * self.deadline.seconds or "imed out" in str(error)
        how = "did not answer" if late else "closed the connection"
        when = "before the first round" if t is None else f"in round {t}"
        text = f"rank {peer} {how} {when}, after {elapsed:.1f} s (deadline {self.deadline.seconds:.1f} s)"
        first = self.job.tell(why=text) if self.is_final else None
        if first is not None and first["rank"] != self.job.rank:
            text += f"; the first to end was rank {first['rank']}: {first['why']}"
        found = PeerLost(text)
        found.rank = peer  # type: ignore[attr-defined]
        return found

    def close(self) -> None:
        self._closed.set()
        self._groups.clear()
        self._buffers.clear()

    def _buffer(self, peer: int, size: int, outgoing: bool) -> Buffer:
        key = peer, size, outgoing
        if key not in self._buffers:
            self._buffers[key] = Buffer(size, self.device)
        return self._buffers[key]

    def _group(self, store: Any, place: int, within: float) -> Any:
        timeout = timedelta(seconds=within)
        if self.backend == "mpi":
            if not c10d.is_mpi_available():
                raise InputError("this torch was built without MPI; use backend gloo")
            if not c10d.is_initialized():
                c10d.init_process_group("mpi")
            return c10d.distributed_c10d._get_default_group()
        if self.backend == "nccl":
            options = c10d.ProcessGroupNCCL.Options()
            options._timeout = timeout
            return c10d.ProcessGroupNCCL(store, place, 2, options)
        options = c10d.ProcessGroupGloo._Options()
        if self._gloo_device is None:
            self._gloo_device = c10d.ProcessGroupGloo.create_device(hostname=self.job.address)
        options._devices, options._threads, options._timeout = [self._gloo_device], 1, timeout
        return c10d.ProcessGroupGloo(store, place, 2, options)

    def _notice(self) -> None:
        """Every so often a line that names peer, round and time, while this process waits."""
        while not self._closed.wait(1.0):
            now, waiting = time.monotonic(), self._waiting
            elapsed = now - waiting.since
            if waiting.peer >= 0 and elapsed >= NOTICE and elapsed % NOTICE < 1.0:
                when = "to connect" if waiting.round < 0 else f"in round {waiting.round}"
                limit = self.job.join_within if waiting.round < 0 else self.deadline.seconds
                print(
                    f"zocosmo: rank {self.job.rank} waits for rank {waiting.peer} {when}, "
                    f"{elapsed:.0f} s of {limit:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
