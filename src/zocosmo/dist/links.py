"""Links: connections from this process to others, one for each pair of processes that share an edge.

A connection is a process group of two, so sockets exist only along edges, and one that breaks leaves the
others intact. Exchanges go through the peers in the order of an edge colouring (`graphs.colouring`).
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.dist.deadline import Deadline
from zocosmo.dist.rendezvous import NOTICE, Job
from zocosmo.dist.seal import fresh_salt
from zocosmo.dist.torched import c10d, torch
from zocosmo.errors import InputError, PeerLost, check_known
from zocosmo.files import say
from zocosmo.graphs.colouring import edge_colours

BACKENDS = ("gloo", "nccl", "mpi")

Pair = tuple[int, int]
Bytes = NDArray[np.uint8]


def check_backend(name: str) -> None:
    """Raise an error unless this machine has the backend."""
    check_known("backend", name, BACKENDS)
    if name == "nccl" and not (c10d.is_nccl_available() and torch.cuda.is_available()):
        raise InputError("backend nccl needs a GPU and a torch built with NCCL; use gloo")
    if name == "mpi" and not c10d.is_mpi_available():
        raise InputError("this torch was built without MPI; use backend gloo")


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
        """The current bytes; copy them before the next message arrives."""
        if self.tensor is not self.here:
            self.here.copy_(self.tensor)
        return self.view


@dataclass(slots=True)
class Waiting:
    """The peer we are waiting for, read by the thread that reports it."""

    peer: int = -1
    round: int = 0
    since: float = 0.0


class Inbox:
    """Messages of one length from one peer: while one is read, the next can arrive in the other buffer."""

    __slots__ = ("buffers", "turn", "work")

    def __init__(self, size: int, device: torch.device) -> None:
        self.buffers = Buffer(size, device), Buffer(size, device)
        self.turn = 0  # which of them the next message fills
        self.work: Any = None  # a receive that was started into it


class Links:
    """Moves bytes between this process and its peers, and reports lost peers."""

    def __init__(
        self, job: Job, *, deadline: Deadline | None = None, backend: str = "gloo", quiet: bool = False
    ) -> None:
        check_backend(backend)
        self.job, self.deadline, self.backend = job, deadline or Deadline(), backend
        self.device = torch.device("cpu")
        if backend == "nccl":
            self.device = torch.device("cuda", torch.cuda.current_device())
        self._groups: dict[int, tuple[Any, int]] = {}  # by peer: the group of two, the peer's rank in it
        self.salts: dict[int, tuple[bytes, bytes]] = {}  # by peer: ours and theirs, new with each connection
        self._colour: dict[Pair, int] = {}
        self._inboxes: dict[tuple[int, int], Inbox] = {}  # by peer and length
        self._outgoing: dict[tuple[int, int], Buffer] = {}
        self._gloo_device: Any = None
        self.waited = 0.0  # seconds spent waiting for peers
        self.waited_for: defaultdict[int, float] = defaultdict(float)  # by peer
        self._waiting = Waiting()
        self._closed = threading.Event()
        if not quiet:
            threading.Thread(target=self._notice, daemon=True).start()

    @property
    def rank(self) -> int:
        return self.job.rank

    @property
    def waits_for(self) -> tuple[int, float]:
        """The peer that this process waits for now, −1 if none, and since when; for other threads."""
        return self._waiting.peer, self._waiting.since

    def open(self, edges: Iterable[Pair]) -> None:
        """Connect this process to its peers among these pairs; existing connections are kept."""
        self._colour = edge_colours(edges)
        for peer in self.in_order(self.peers()):
            if peer not in self._groups:
                self.connect(peer)

    def peers(self) -> list[int]:
        rank = self.job.rank
        return sorted({a + b - rank for a, b in self._colour if rank in (a, b)})

    def in_order(self, peers: Iterable[int]) -> list[int]:
        """Peers by the colour of their edge, so that processes agree on the order of edges."""
        rank = self.job.rank
        return sorted(peers, key=lambda peer: self._colour[min(rank, peer), max(rank, peer)])

    def connect(self, peer: int) -> None:
        """A group of two with a peer, which must call this too."""
        low, high = min(self.job.rank, peer), max(self.job.rank, peer)
        store = c10d.PrefixStore(f"link/{low}-{high}", self.job.store)
        since = time.monotonic()
        self._waiting.peer, self._waiting.round, self._waiting.since = peer, -1, since
        try:
            store.set(f"salt/{self.job.rank}", mine := fresh_salt())
            group = self._group(store, int(self.job.rank == high))
            self.salts[peer] = mine, store.get(f"salt/{peer}")
        except (RuntimeError, ValueError) as error:
            raise self.lost(peer, None, time.monotonic() - since, error) from error
        finally:
            self._waiting.peer = -1
        self._groups[peer] = group, peer if self.backend == "mpi" else int(peer == high)

    def exchange(
        self, make: Callable[[], Mapping[int, Sequence[bytes]]], sizes: Mapping[int, int], t: int
    ) -> dict[int, memoryview]:
        """Send what `make` returns to the peers, and receive `sizes[peer]` bytes from each peer.

        Gloo sends once the other end has posted a receive. So receives are posted before `make` builds the
        messages, and after each message the receive of the next one of its length is posted. The length is
        the tag: messages of one length arrive in order and identify themselves. The returned views are valid
        until the exchange after next.
        """
        since = time.monotonic()
        if self.backend != "gloo":
            return self._in_turn(make(), sizes, t, since)
        peers = self.in_order(sizes) if len(sizes) > 1 else list(sizes)
        inboxes = [self._ready(peer, sizes[peer], t) for peer in peers]
        sends = [(peer, self._send(peer, parts, t)) for peer, parts in make().items()]
        got = {}
        for peer, inbox in zip(peers, inboxes, strict=True):
            self._wait(peer, inbox.work, t, since)
            got[peer] = inbox.buffers[inbox.turn].read()
            inbox.turn ^= 1
            inbox.work = self._be_ready(peer, inbox.buffers[inbox.turn])
        for peer, work in sends:
            self._wait(peer, work, t, since)
        self.waited += time.monotonic() - since
        return got

    @property
    def lean(self) -> "Links | None":
        return self if self.backend == "gloo" else None

    def swap_with(self, peer: int, size: int) -> "GlooSwap":
        """Messages of one length to and from one peer, one each way at a time."""
        return GlooSwap(self, peer, size)

    def _in_turn(
        self, out: Mapping[int, Sequence[bytes]], sizes: Mapping[int, int], t: int, since: float
    ) -> dict[int, memoryview]:
        """For backends that run operations in sequence: the lower rank of an edge sends first."""
        got, works = {}, []
        for peer in self.in_order({*out, *sizes}):
            for sends in (self.job.rank < peer, self.job.rank > peer):
                if sends and peer in out:
                    works.append((peer, self._send(peer, out[peer], t)))
                elif not sends and peer in sizes:
                    got[peer] = Buffer(sizes[peer], self.device)
                    works.append((peer, self._receive(peer, got[peer], t)))
        for peer, work in works:
            self._wait(peer, work, t, since)
        self.waited += time.monotonic() - since
        return {peer: buffer.read() for peer, buffer in got.items()}

    def _inbox(self, peer: int, size: int) -> Inbox:
        inbox = self._inboxes.get((peer, size))
        if inbox is None:
            inbox = self._inboxes[peer, size] = Inbox(size, self.device)
        return inbox

    def _ready(self, peer: int, size: int, t: int) -> Inbox:
        """The inbox of the next message of a peer, with a receive posted."""
        inbox = self._inbox(peer, size)
        if inbox.work is None:
            inbox.work = self._receive(peer, inbox.buffers[inbox.turn], t)
        return inbox

    def _outbox(self, peer: int, size: int) -> Buffer:
        buffer = self._outgoing.get((peer, size))
        if buffer is None:
            buffer = self._outgoing[peer, size] = Buffer(size, self.device)
        return buffer

    def _receive(self, peer: int, buffer: Buffer, t: int) -> Any:
        group, place = self._groups[peer]
        try:
            return group.recv([buffer.tensor], place, len(buffer.view))
        except RuntimeError as error:
            raise self.lost(peer, t, 0.0, error) from error

    def _be_ready(self, peer: int, buffer: Buffer) -> Any:
        """Post a receive before it is needed; None if the peer has ended, an error only once it is needed."""
        group, place = self._groups[peer]
        try:
            return group.recv([buffer.tensor], place, len(buffer.view))
        except RuntimeError:
            return None

    def _send(self, peer: int, parts: Sequence[bytes], t: int) -> Any:
        group, place = self._groups[peer]
        size = sum(map(len, parts))
        try:
            return group.send([self._outbox(peer, size).fill(parts)], place, size)
        except RuntimeError as error:
            raise self.lost(peer, t, 0.0, error) from error

    def _wait(self, peer: int, work: Any, t: int, since: float) -> None:
        waiting, began = self._waiting, time.monotonic()
        waiting.peer, waiting.round, waiting.since = peer, t, since
        try:
            work.wait(self._time_left(since))
        except RuntimeError as error:
            raise self.lost(peer, t, time.monotonic() - since, error) from error
        finally:
            waiting.peer = -1
            self.waited_for[peer] += time.monotonic() - began

    def _time_left(self, since: float) -> timedelta:
        """Until the deadline of what began at `since`; at the start, nearly always, one that is kept."""
        deadline, elapsed = self.deadline, time.monotonic() - since
        if elapsed < 0.001 * deadline.seconds:
            return deadline.whole
        return timedelta(seconds=max(0.001, deadline.seconds - elapsed))

    def lost(self, peer: int, t: int | None, elapsed: float, error: Exception) -> PeerLost:
        """The error with peer, round and time, and the reason of the first process that ended."""
        late = elapsed >= 0.99 * self.deadline.seconds or "imed out" in str(error)
        how = "did not answer" if late else "closed the connection"
        when = "before the first round" if t is None else f"in round {t}"
        text = f"rank {peer} {how} {when}, after {elapsed:.1f} s (deadline {self.deadline.seconds:.1f} s)"
        if self.backend != "gloo":
            text += f": {str(error).splitlines()[0][:120]}"  # NCCL reports its own reasons
        first = self.job.tell(why=text)
        if first is not None and first["rank"] != self.job.rank:
            text += f"; the first to end was rank {first['rank']}: {first['why']}"
        return PeerLost(text, rank=peer, t=t, waited=elapsed)

    def close(self) -> None:
        self._closed.set()
        self._groups.clear()
        self._inboxes.clear()
        self._outgoing.clear()

    def _group(self, store: Any, place: int) -> Any:
        timeout = timedelta(seconds=self.job.join_within)
        if self.backend == "mpi":
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
        """Print peer, round and time every NOTICE seconds while this process waits."""
        while not self._closed.wait(1.0):
            now, waiting = time.monotonic(), self._waiting
            elapsed = now - waiting.since
            if waiting.peer >= 0 and elapsed >= NOTICE and elapsed % NOTICE < 1.0:
                when = "to connect" if waiting.round < 0 else f"in round {waiting.round}"
                limit = self.job.join_within if waiting.round < 0 else self.deadline.seconds
                whom = f"rank {self.job.rank} waits for rank {waiting.peer}"
                say(f"{whom} {when}, {elapsed:.0f} s of {limit:.0f} s")


class GlooSwap:
    """Messages of one length to and from one peer, one each way at a time: what a round of pairs does.

    The steps of `Links.exchange`, with buffers, groups and arguments looked up once.
    """

    __slots__ = ("_group", "_inbox", "_links", "_peer", "_place", "_received", "_sent", "_size", "ins", "out")

    def __init__(self, links: Links, peer: int, size: int) -> None:
        self._links, self._peer, self._size = links, peer, size
        self._group, self._place = links._groups[peer]
        outgoing, self._inbox = links._outbox(peer, size), links._inbox(peer, size)
        self._sent = [outgoing.tensor]
        self._received = tuple([each.tensor] for each in self._inbox.buffers)
        self.out: Bytes = outgoing.here.numpy()
        self.ins: tuple[Bytes, Bytes] = tuple(each.here.numpy() for each in self._inbox.buffers)  # type: ignore[assignment]

    def go(self, t: int) -> int:
        """Send `out` and receive the peer's message; gives the one of `ins` that holds it until the exchange
        after next."""
        links, inbox, peer, place, size = self._links, self._inbox, self._peer, self._place, self._size
        waiting, deadline, since, came = links._waiting, links.deadline, time.monotonic(), inbox.turn
        waiting.peer, waiting.round, waiting.since = peer, t, since
        try:
            if inbox.work is None:
                inbox.work = self._group.recv(self._received[came], place, size)
            sent = self._group.send(self._sent, place, size)
            inbox.work.wait(deadline.whole)
            elapsed = time.monotonic() - since
            inbox.turn = 1 - came
            try:
                inbox.work = self._group.recv(self._received[1 - came], place, size)
            except RuntimeError:  # a peer that has ended is an error once it is needed
                inbox.work = None
            sent.wait(deadline.whole if elapsed < 0.001 * deadline.seconds else links._time_left(since))
        except RuntimeError as error:
            raise links.lost(peer, t, time.monotonic() - since, error) from error
        finally:
            waiting.peer = -1
        links.waited += elapsed
        links.waited_for[peer] += elapsed
        return came
