"""Ways: the connections between a member and its peers, those that it makes and those made to it."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from zocosmo.errors import InputError
from zocosmo.net.sockets import key_of, make_socket, receive_all, try_send, try_send_all, zmq

PULSE = 0.5  # seconds between heartbeats
FRESH = 4 * PULSE  # for which a connection counts as open after something came over it
BRIEF = 0.005  # seconds within which most awaited messages come

Way = bytes | None  # our connection to the peer with this key; None: the connections that peers made to us


class Ways:
    """Sockets to and from peers, which prove their keys; whoever has the turn uses them."""

    def __init__(self, context: "zmq.Context[Any]", secret: bytes, poller: Any) -> None:
        self._context, self._secret, self._poller = context, secret, poller
        self._front: Any = None
        self._out: dict[bytes, Any] = {}  # by key: our connection to a peer
        self._up: dict[bytes, float] = {}  # by key: when something last came over it
        self._in: dict[bytes, tuple[bytes, float]] = {}  # by key: the peer's connection to us, and when
        self.last: dict[bytes, Way] = {}  # by key: where its last data came

    def bind(self, listen: str) -> int:
        """Accept connections at ADDR:PORT; the port, which is a free one for 0."""
        self._front = make_socket(self._context, zmq.ROUTER, self._secret, None)
        self._add(self._front)
        host, _, port = listen.rpartition(":")
        try:
            if port == "0":
                return int(self._front.bind_to_random_port(f"tcp://{host}"))
            self._front.bind(f"tcp://{listen}")
            return int(port)
        except (zmq.ZMQError, ValueError) as error:
            raise InputError(
                f"cannot listen on {listen}: {error}; choose another --listen ADDR:PORT"
            ) from None

    def connect(self, wanted: Mapping[bytes, str]) -> None:
        """Connections to the peers with these keys, at these addresses, and to no one else."""
        self.last.clear()
        for key in [key for key in self._out if key not in wanted]:
            socket = self._out.pop(key)
            self._poller.unregister(socket)
            socket.close(linger=500)
        for key, address in wanted.items():
            if key not in self._out:
                socket = self._out[key] = make_socket(self._context, zmq.DEALER, self._secret, key)
                self._add(socket)
                socket.connect(address)

    def _add(self, socket: Any) -> None:
        socket.rcvtimeo = int(1000 * BRIEF)
        self._poller.register(socket, zmq.POLLIN)

    def close(self) -> None:
        for socket in (*self._out.values(), self._front):
            if socket is not None:
                socket.close(linger=500)

    # Sending

    def is_open(self, key: bytes) -> bool:
        """Whether a peer was heard lately over a connection."""
        return next(self._open(key), None) is not None

    def _open(self, key: bytes) -> Iterator[tuple[Any, bytes | None]]:
        """Open connections to a peer, the best first; an id where the peer made it."""
        now = time.monotonic()
        if key in self._out and now - self._up.get(key, -FRESH) < FRESH:
            yield self._out[key], None
        if key in self._in and now - self._in[key][1] < FRESH:
            yield self._front, self._in[key][0]

    def send(self, key: bytes, data: bytes) -> bool:
        """Over the best connection that is open; False if there is none."""
        for socket, rid in self._open(key):
            if try_send(socket, data) if rid is None else try_send_all(socket, [rid, data]):
                return True
        return False

    def knock(self, key: bytes, data: bytes) -> None:
        """Over all connections, so that the peer knows that they are open."""
        if key in self._out:
            try_send(self._out[key], data)
        if key in self._in:
            try_send_all(self._front, [self._in[key][0], data])

    # Receiving

    def with_news(self, ready: Mapping[Any, int]) -> list[Way]:
        """Those over which something came, by what the poller found."""
        ways: list[Way] = [key for key, socket in self._out.items() if socket in ready]
        return [None, *ways] if self._front is not None and self._front in ready else ways

    def receive(self, way: Way, *, waits: bool = False) -> list[tuple[bytes, list[Any]]]:
        """What came: the sender's key and the parts of each message. May wait, but not for long."""
        found = receive_all(self._front if way is None else self._out[way], waits=waits)
        now = time.monotonic()
        if way is not None:
            if found:
                self._up[way] = now
            return [(way, parts) for parts in found]
        came = []
        for rid, *parts in found:
            key = key_of(parts[0])
            self._in[key] = bytes(rid), now
            came.append((key, parts))
        return came
