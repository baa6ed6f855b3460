"""A job: this process among the others, and what they tell each other through torch's store.

All that the processes must agree on goes to rank 0, which answers once: store operations grow with the number
of processes, not with its square.
"""

import contextlib
import json
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from zocosmo.dist.torched import c10d
from zocosmo.errors import InputError, ManifestMismatch, MessageError, PeerLost, ZocosmoError
from zocosmo.files import say

JOIN = 120.0  # seconds for all processes to join
NOTICE = 10.0  # seconds between messages about waiting
POLL, SLOWEST = 0.005, 0.1  # seconds between polls of the store: the first, and the longest
TELL = 2.0  # seconds that an ending process waits for the store
LEAVE = timedelta(seconds=10)  # for which rank 0 waits until the others know that the job is done
LINGER = 3.0  # seconds for which rank 0, if it hosts the store, stays after an error: others read it there

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Job:
    """This process in a job: `rank` of `world`, after `attempt` restarts."""

    store: Any
    rank: int
    world: int
    attempt: int
    address: str  # where this process listens
    join_within: float = JOIN
    hosts: bool = False  # this process hosts the store

    def part(self, name: str) -> "Job":
        """The same processes with a separate namespace in the store."""
        return replace(self, store=c10d.PrefixStore(name, self.store))

    # What processes tell each other

    def publish(self, what: str, content: bytes) -> list[bytes]:
        """Exchange contents between all processes; returns them in order of rank."""
        posted = self.collect(what, content)
        answer = self.share(what, None if posted is None else _joined(posted))
        found = _parted(answer, self.world) if posted is None else posted
        found[self.rank] = content  # not read back from the store
        return found

    def collect(self, what: str, content: bytes) -> list[bytes] | None:
        """The contents of all processes, in order of rank, at rank 0; None elsewhere."""
        self.put(f"{what}/{self.rank}", content)
        if self.rank:
            return None
        keys = {rank: f"{what}/{rank}" for rank in range(1, self.world)}
        self._await(keys)
        with of_the_store():
            return [content, *(self.store.multi_get(list(keys.values())) if keys else ())]

    def share(self, what: str, content: bytes | None) -> bytes:
        """The content of rank 0, at every process; the others give None."""
        if self.rank:
            return self.fetch(f"{what}/answer", 0, after=what)
        assert content is not None
        self.put(f"{what}/answer", content)
        return content

    def fetch(self, key: str, rank: int, *, after: str = "") -> bytes:
        """Wait for a value that a process puts into the store; PeerLost if one ends first or it is late.

        With `after` the value is an answer to what all processes post under that name.
        """
        self._await({rank: key}, after)
        with of_the_store():
            data: bytes = self.store.get(key)
        return data

    def _await(self, keys: dict[int, str], after: str = "") -> None:
        """Wait until the store has these keys, by the rank that sets each."""
        since, noticed, pause = time.monotonic(), 0.0, POLL
        while keys and not self.has(*keys.values()):
            waited = time.monotonic() - since
            if waited - noticed > NOTICE:
                noticed += NOTICE
                rank, key = self._missing(keys, after)
                text = f"rank {self.rank} waits for rank {rank} ({key}), {noticed:.0f} s"
                say(f"{text} of {self.join_within:g} s")
            if self.has("ended") and not self.has(*keys.values()):
                raise self._first_end()
            if waited > self.join_within:
                raise self._late(*self._missing(keys, after))
            time.sleep(pause)
            pause = min(1.5 * pause, SLOWEST)

    def _missing(self, keys: dict[int, str], after: str) -> tuple[int, str]:
        """The first rank that has not set its key, or not posted what the awaited answer is about."""
        posts = {rank: f"{after}/{rank}" for rank in range(self.world)} if after else {}
        absent = (each for each in {**posts, **keys}.items() if not self.has(each[1]))
        return next(absent, next(iter(keys.items())))

    def _late(self, rank: int, key: str) -> PeerLost:
        return PeerLost(
            f"rank {rank} did not join within {self.join_within:g} s ({key}); start all {self.world} "
            "processes, or check their logs",
            rank=rank,
            waited=self.join_within,
        )

    # Endings

    def finish(self) -> None:
        """Wait until rank 0 declares the job done; it may host the store, so it leaves last."""
        if self.rank:
            self.fetch("finished", 0)
            self.put(f"seen/{self.rank}", b"")
            return
        self.put("finished", b"")
        with contextlib.suppress(RuntimeError, ValueError):  # a process that is gone needs no answer
            self.store.wait([f"seen/{rank}" for rank in range(1, self.world)], LEAVE)

    def tell(self, **about: Any) -> dict[str, Any] | None:
        """Report to the others why this process ends; returns the first report of any process."""
        mine, first = json.dumps({"rank": self.rank, **about}), []

        def report() -> None:
            with contextlib.suppress(RuntimeError, ValueError):  # the store ended with its host
                first.append(self.store.compare_set("ended", "", mine))

        thread = threading.Thread(target=report, daemon=True)  # a cut link never answers
        thread.start()
        thread.join(TELL)
        return as_report(first[0]) if first else None

    def report(self, error: Exception, *, began: bool = False) -> None:
        """Tell the others which error ends this process; `began`: after the first round."""
        why = str(error) if isinstance(error, ZocosmoError) else repr(error)
        refused = isinstance(error, InputError | ManifestMismatch) and not began
        self.tell(why=why, **({"refused": True} if refused else {}))  # the same command would fail again

    def fail(self, error: Exception) -> None:
        """Report the error that ends this process; one that hosts the store stays until the others know."""
        self.report(error)
        with contextlib.suppress(PeerLost):
            self.put(f"left/{self.rank}", b"")
            until = time.monotonic() + LINGER
            others = [f"left/{rank}" for rank in range(1, self.world)]
            while self.hosts and others and not self.has(*others) and time.monotonic() < until:
                time.sleep(POLL)

    def _first_end(self) -> PeerLost:
        first = as_report(self.read("ended"))
        return PeerLost(f"the first to end was rank {first['rank']}: {first['why']}", rank=first["rank"])

    # The store

    def put(self, key: str, content: bytes) -> None:
        """Set a key in the store."""
        with of_the_store():
            self.store.set(key, content)

    def has(self, *keys: str) -> bool:
        """Whether the store has all these keys."""
        with of_the_store():
            return bool(self.store.check(list(keys)))

    def read(self, key: str, default: bytes = b"") -> bytes:
        """The value of a key in the store, if it is there."""
        if not self.has(key):
            return default
        with of_the_store():
            data: bytes = self.store.get(key)
        return data


@contextlib.contextmanager
def of_the_store() -> Iterator[None]:
    """What torch raises when its store is gone is a PeerLost."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        raise PeerLost("the store is gone: the process that hosts it has ended; see its log") from error


def decoded(data: bytes, what: str, *kinds: type) -> Any:
    """JSON from the store, of one of these types; a MessageError for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"{what} in the store is not JSON ({error}); start all ranks again") from None
    if not isinstance(found, kinds):
        raise MessageError(f"{what} in the store is {type(found).__name__}; start all ranks again")
    return found


def as_report(data: bytes) -> dict[str, Any]:
    """What the first process to end said of it."""
    found: dict[str, Any] = decoded(data, "the report of the first to end", dict)
    rank, why = found.get("rank"), found.get("why")
    if not isinstance(rank, int) or not isinstance(why, str):
        raise MessageError(f"the report of the first to end has rank {rank!r} and reason {why!r}")
    return found


def _joined(parts: Sequence[bytes]) -> bytes:
    """Several contents in one, each after its length."""
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _parted(data: bytes, count: int) -> list[bytes]:
    """Back from `_joined`."""
    parts, at = [], 0
    for _ in range(count):
        if at + _LENGTH.size > len(data):
            break
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + size
        parts.append(data[at - size : at])
    if len(parts) != count or at != len(data):
        raise MessageError(f"{len(data)} bytes of an answer do not hold {count} contents; start again")
    return parts
