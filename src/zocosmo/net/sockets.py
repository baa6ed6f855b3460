"""pyzmq, or an error that says how to install it; sockets whose two ends prove their keys."""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from zocosmo.errors import InputError
from zocosmo.extras import missing

try:
    import zmq as zmq
    from zmq.utils import z85
    from zmq.utils.monitor import parse_monitor_message
except ModuleNotFoundError:
    raise missing("a network", "zmq") from None

MOST_BYTES = 2**26  # of one part of a message
HANDSHAKE = 5000  # milliseconds within which a connection must prove its key
BACKLOG = 1024  # connections that wait to be accepted
QUEUED = 4096  # messages that wait for one peer
AGAIN = zmq.Again


def public_of(secret: bytes) -> bytes:
    """The public key, 32 bytes, of a secret one."""
    return z85.decode(zmq.curve_public(z85.encode(secret)))


def make_socket(context: "zmq.Context[Any]", kind: int, secret: bytes, server: bytes | None) -> Any:
    """A socket under our key: it accepts connections, or connects to the one whose public key is `server`."""
    socket: Any = context.socket(kind)
    socket.linger, socket.maxmsgsize, socket.handshake_ivl = 0, MOST_BYTES, HANDSHAKE
    socket.sndhwm = socket.rcvhwm = QUEUED
    socket.curve_secretkey = z85.encode(secret)
    if server is None:
        socket.curve_server, socket.backlog, socket.zap_domain = True, BACKLOG, b"zocosmo"
    else:
        socket.curve_publickey = zmq.curve_public(z85.encode(secret))
        socket.curve_serverkey = z85.encode(server)
        socket.immediate = True  # nothing is queued for a peer that is not connected
        socket.reconnect_ivl, socket.reconnect_ivl_max = 100, 2000
    return socket


class Gate:
    """Decides whose connections are accepted, by the key that they proved; served by the caller's loop."""

    def __init__(self, context: "zmq.Context[Any]") -> None:
        self.socket: Any = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind("inproc://zeromq.zap.01")

    def serve(self, admit: Callable[[bytes, str], int]) -> None:
        """Answer one connection: `admit(key, address)` says 200 to stay, 300 for later, 400 for never."""
        version, request, _, address, _, mechanism, *credentials = self.socket.recv_multipart()
        key = credentials[0] if mechanism == b"CURVE" and credentials else b""
        code = admit(key, address.decode()) if key else 400
        who = key.hex().encode() if code == 200 else b""
        self.socket.send_multipart([version, request, str(code).encode(), b"", who, b""])


class Strangers:
    """Counts connections to a socket that do not prove a key in time."""

    def __init__(self, socket: Any, say: Callable[[str], None]) -> None:
        self.socket = socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self._say, self._accepted, self._proved = say, deque[float](), 0
        self._late = 0  # accepted so long ago that their time is up
        self.number = 0

    def count(self, *, at_end: bool = False) -> None:
        """Take note of what happened; says so when the number of strangers has doubled, and at the end."""
        with contextlib.suppress(AGAIN):
            while True:
                found = parse_monitor_message(self.socket.recv_multipart(zmq.NOBLOCK))
                if found["event"] == zmq.EVENT_ACCEPTED:
                    self._accepted.append(time.monotonic())
                else:
                    self._proved += 1
        limit = time.monotonic() - (0 if at_end else 1.2 * HANDSHAKE / 1000)
        while self._accepted and self._accepted[0] <= limit:
            self._accepted.popleft()
            self._late += 1
        now = self._late - self._proved
        if now > (self.number if at_end else 2 * self.number):
            self.number = now
            self._say(f"refused {now} connections that did not prove a key")


def try_send(socket: Any, data: bytes) -> bool:
    """Send, unless nobody is there or the queue is full."""
    try:
        socket.send(data, zmq.NOBLOCK)
    except zmq.ZMQError:
        return False
    return True


def try_send_all(socket: Any, parts: list[bytes]) -> bool:
    """As `try_send`, for a message of several parts."""
    try:
        socket.send_multipart(parts, zmq.NOBLOCK)
    except zmq.ZMQError:
        return False
    return True


def receive_all(socket: Any, most: int = 1000, *, waits: bool = False) -> list[list[Any]]:
    """The messages that are there, as frames that know their sender; perhaps waits for the first."""
    found: list[list[Any]] = []
    with contextlib.suppress(AGAIN):
        while not found or (len(found) < most and socket.get(zmq.EVENTS) & zmq.POLLIN):
            found.append(socket.recv_multipart(0 if waits and not found else zmq.NOBLOCK, copy=False))
    return found


def key_of(part: Any) -> bytes:
    """The public key of the sender of a message, of which `part` is a frame."""
    return bytes.fromhex(str(part.get("User-Id")))


def parse_address(text: str) -> tuple[str, bytes]:
    """Where the host is, tcp://ADDR:PORT, and its public key, from ADDR:PORT/KEY."""
    where, _, key = text.partition("/")
    _, colon, port = where.rpartition(":")
    if not colon or not port.isdecimal() or len(key) != 64 or not set(key) <= set("0123456789abcdef"):
        raise InputError(f"an address is ADDR:PORT/KEY, as zocosmo host prints it; got {text!r}")
    return f"tcp://{where}", bytes.fromhex(key)
