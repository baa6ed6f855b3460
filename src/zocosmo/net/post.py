"""Post: the sockets of a member, and the thread that serves them while the main thread computes.

It carries envelopes to and from peers, by the best way there is: over our connection to a peer, over the
peer's connection to us, or relayed by the host. It sends heartbeats, and exchanges reports and words with the
host. During an exchange the main thread has the sockets (`turns`) and does all this itself. Whatever both
threads read is under one lock.
"""

import json
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from zocosmo.dist.seal import fresh_salt
from zocosmo.errors import MessageError
from zocosmo.net.envelope import ASK, BEAT, DATA, STATE, Envelope, Relayed, Where
from zocosmo.net.sockets import AGAIN, Gate, make_socket, public_of, receive_all, try_send_all, zmq
from zocosmo.net.trail import Trail
from zocosmo.net.turns import Turns
from zocosmo.net.ways import BRIEF, PULSE, Way, Ways

PIECE, PIECES = 2**18, 16  # bytes of a piece of a state, and pieces that are sent at once
STRANGE = 10.0  # seconds after which one who still knocks is a stranger
MALFORMED = (ValueError, KeyError, TypeError, RecursionError)  # what notes and questions may raise
HELD = 20_000  # messages of one peer that may wait to be read
EARLY = 4096  # relayed messages of those of whom the host has yet to tell us


class Peer(NamedTuple):
    """A member as the host describes it."""

    id: int
    key: bytes
    address: str  # tcp://…, or nothing if it accepts no connections
    salt: bytes


class Desk(Protocol):
    """What the post serves; called by whoever has the sockets, with the lock held."""

    def report(self) -> dict[str, Any]: ...
    def take_word(self, word: dict[str, Any]) -> None: ...
    def take_notes(self, peer: int, notes: bytes) -> None: ...


class Post:
    """The sockets of one member, and what has arrived for it."""

    def __init__(
        self, secret: bytes, host: tuple[str, bytes], listen: str | None, say: Callable[[str], None]
    ) -> None:
        self.secret, self.key, self.salt, self._say = secret, public_of(secret), fresh_salt(), say
        self.lock = threading.Condition()
        self.position = Where(0, 0)  # the round that the main thread is in
        self.heard: dict[
            int, tuple[float, Where]
        ] = {}  # by member: when something last came, and where it was
        self.trail: defaultdict[int, Trail] = defaultdict(Trail)  # by member: when it came to be where
        self.inbox: dict[tuple[int, Where], memoryview] = {}
        self.pieces: dict[tuple[int, int], dict[int, memoryview]] = {}  # of states, by member and term
        self.offered: dict[int, bytes] = {}  # our state at the start of a term, for those who join
        self.relayed = 0  # messages that went through the host
        self.refused: str | None = None  # why the host does not know our key
        self._peers: dict[bytes, Peer] = {}
        self._neighbours: tuple[Peer, ...] = ()
        self._context: zmq.Context[Any] = zmq.Context()
        self._poller, self._gate = zmq.Poller(), Gate(self._context)
        self._ways = Ways(self._context, secret, self._poller)
        self.port = 0 if listen is None else self._ways.bind(listen)
        self._to_host = make_socket(self._context, zmq.DEALER, secret, host[1])
        self._watch = self._to_host.get_monitor_socket(zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        self._to_host.connect(host[0])
        self._looked = 0.0  # when we last looked at all sockets
        self._sealed: dict[bytes, Relayed] = {}
        self._early: deque[list[bytes]] = deque(maxlen=EARLY)  # key and what is sealed, of strangers so far
        self._orders: Any = self._context.socket(zmq.PULL)
        self._orders.bind("inproc://orders")
        self._ordering: Any = self._context.socket(zmq.PUSH)
        self._ordering.connect("inproc://orders")
        self.turns = Turns(lambda: self._order([b"yield"]))
        self._has_orders = False
        self._desk: Desk | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._told: set[str] = set()
        self._turned_away: dict[bytes, float] = {}  # by key: when it first knocked
        self._due = 0.0  # when the next heartbeat is

    def start(self, desk: Desk) -> None:
        """Serve this desk from now on."""
        self._desk = desk
        for socket in (self._gate.socket, self._to_host, self._watch, self._orders):
            self._poller.register(socket, zmq.POLLIN)
        self._thread.start()

    # For the main thread

    def meet(self, peers: Mapping[int, Peer], neighbours: list[int]) -> None:
        """A new term: who are members, and which of them we exchange messages with."""
        with self.lock:
            since = time.monotonic()
            self._peers = {peer.key: peer for peer in peers.values()}
            self._neighbours = tuple(peers[each] for each in neighbours)
            for each in neighbours:
                self.heard.setdefault(each, (since, Where(0, 0)))
            self._sealed = {key: kept for key, kept in self._sealed.items() if key in self._peers}
        self._order([b"meet"])

    def hears(self, key: bytes) -> bool:
        """Whether a peer was heard lately over a connection."""
        return self._ways.is_open(key)

    def send(self, peer: Peer, envelope: Envelope) -> None:
        """Soon; in an exchange, `send_now`."""
        self._order([b"send", peer.key, envelope.to_bytes()])

    def report_now(self) -> None:
        """Tell the host at once, not at the next heartbeat."""
        self._order([b"report"])

    def report_soon(self) -> None:
        """As `report_now`, for whoever has the sockets."""
        self._due = 0.0

    def forget(self, before: Where) -> None:
        """Drop what came for rounds that are over; the lock is held."""
        for key in [key for key in self.inbox if key[1] < before]:
            del self.inbox[key]

    def close(self) -> None:
        self._order([b"end"])
        self._thread.join()
        self._ordering.close()
        self._context.term()

    def _order(self, parts: list[bytes]) -> None:
        self._ordering.send_multipart(parts)
        self._has_orders = True

    # For the main thread in its turn

    def catch_up(self) -> None:
        """Carry out what was ordered before this turn."""
        if self._has_orders:
            self._obey()

    def send_now(self, peer: Peer, envelope: bytes) -> None:
        self._send_data(peer.key, envelope)

    def wait_for(self, peer: Peer, seconds: float) -> None:
        """As `look`; at first only where this peer's last data came, which takes fewer system calls."""
        last = self._ways.last
        if peer.key in last and time.monotonic() < self._looked + BRIEF < self._looked + seconds:
            self._hear(last[peer.key], waits=True)
        else:
            self.look(seconds)

    def look(self, seconds: float) -> bool:
        """Wait until something comes, this long at most, and see to it; False if an order says to end."""
        wait = min(seconds, self._due - time.monotonic())
        ready = dict(self._poller.poll(max(0, int(1000 * wait) + 1)))
        position = self.position  # before the orders: what was sent in it goes out first
        going = self._obey() if self._orders in ready else True
        self._receive(ready)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PULSE
            self._beat(position)
        self._looked = time.monotonic()
        return going

    # In the thread

    def _serve(self) -> None:
        try:
            going = True
            while going:
                self.turns.take()
                try:
                    going = self.look(PULSE)
                finally:
                    self.turns.give_back()
        except Exception as error:  # or the main thread would wait for ever
            assert self._desk is not None
            with self.lock:
                self._desk.take_word({"ended": f"our own post failed: {error!r}"})
                self.lock.notify_all()
        finally:
            self._close_all()

    def _close_all(self) -> None:
        self._to_host.disable_monitor()
        self._ways.close()
        self._to_host.close(linger=500)
        for socket in (self._watch, self._gate.socket, self._orders):
            socket.close()

    def _obey(self) -> bool:
        """Carry out all orders; False if one says to end."""
        self._has_orders = False
        while True:
            try:
                what, *parts = self._orders.recv_multipart(zmq.NOBLOCK)
            except AGAIN:
                return True
            if what == b"send":
                self._send_data(*parts)
            elif what == b"report":
                self._report()
            elif what == b"meet":
                self._connect()
            elif what == b"end":
                return False

    def _connect(self) -> None:
        """Connections to the neighbours of this term, and to no one else."""
        with self.lock:
            wanted = {peer.key: peer.address for peer in self._neighbours if peer.address}
        self._ways.connect(wanted)
        early, self._early = self._early, deque(maxlen=EARLY)
        for key, sealed in early:
            if key in self._peers:
                self._from_relay(key, sealed)
        self._beat(self.position)

    def _send(self, key: bytes, envelope: Envelope) -> None:
        self._send_data(key, envelope.to_bytes())

    def _send_data(self, key: bytes, data: bytes) -> None:
        """Over the best way that is open, or through the host."""
        if not self._ways.send(key, data) and key in self._peers:
            envelope = Envelope.from_bytes(data)
            try_send_all(self._to_host, [b"relay", key, self._relay(key).close(envelope)])
            self.relayed += envelope.kind == DATA

    def _relay(self, key: bytes) -> Relayed:
        peer = self._peers[key]
        kept = self._sealed.get(key)
        if kept is None or kept.their_salt != peer.salt:
            kept = self._sealed[key] = Relayed(self.secret, self.key, key, self.salt, peer.salt)
        return kept

    def _beat(self, position: Where) -> None:
        with self.lock:
            peers = self._neighbours
        knock = Envelope(BEAT, Where(0, 0)).to_bytes()  # it says nothing but that a connection is open
        for peer in peers:
            self._send(peer.key, Envelope(BEAT, position))
            self._ways.knock(peer.key, knock)
        self._report()

    def _report(self) -> None:
        assert self._desk is not None
        with self.lock:
            report = self._desk.report()
        try_send_all(self._to_host, [b"report", json.dumps(report).encode()])

    def _receive(self, ready: Mapping[Any, int]) -> None:
        if self._gate.socket in ready:
            self._gate.serve(self._admit)
        if self._watch in ready:
            self._watch.recv_multipart()
            with self.lock:
                self.refused = "the host does not know this key"
                self.lock.notify_all()
        if self._to_host in ready:
            for parts in receive_all(self._to_host):
                self._from_host(parts)
        for way in self._ways.with_news(ready):
            self._hear(way)

    def _admit(self, key: bytes, address: str) -> int:
        """Members only. One who is new may come before the host tells us of it, and tries again."""
        now = time.monotonic()
        with self.lock:
            if key in self._peers:
                return 200
        if now - self._turned_away.setdefault(key, now) > STRANGE:
            self._once(f"refused {address}: key {key.hex()[:16]} is no member's")
        return 300

    def _hear(self, way: Way, *, waits: bool = False) -> None:
        for key, parts in self._ways.receive(way, waits=waits):
            if self._take(key, parts) == DATA:
                self._ways.last[key] = way

    def _from_host(self, parts: list[Any]) -> None:
        what, *rest = [bytes(part) for part in parts]
        if what == b"relay" and len(rest) == 2:
            if rest[0] in self._peers:
                self._from_relay(*rest)
            else:
                self._early.append(rest)  # it may be in a term that we are about to enter
        elif what == b"word" and len(rest) == 1:
            self._hear_word(rest[0])

    def _hear_word(self, word: bytes) -> None:
        assert self._desk is not None
        try:
            with self.lock:
                self._desk.take_word(json.loads(word))
                self.lock.notify_all()
        except MALFORMED as error:
            self._once(f"refused a word of the host: {error!r}")

    def _from_relay(self, key: bytes, sealed: bytes) -> None:
        try:
            self._open(key, self._relay(key).open(sealed))
        except (*MALFORMED, MessageError) as error:
            self._once(f"refused a relayed message of {self._who(key)}: {error}")

    def _take(self, key: bytes, parts: list[Any]) -> bytes:
        """File a message; its kind, or nothing if it is none."""
        try:
            (part,) = parts
            envelope = Envelope.from_bytes(part.buffer)
            self._open(key, envelope)
        except (*MALFORMED, MessageError) as error:
            self._once(f"refused a message of {self._who(key)}: {error}")
            return b""
        return envelope.kind

    def _who(self, key: bytes) -> str:
        peer = self._peers.get(key)
        return f"key {key.hex()[:16]}" if peer is None else f"member {peer.id}"

    def _open(self, key: bytes, envelope: Envelope) -> None:
        """File an envelope of the member with this key."""
        kind, where, notes, body = envelope
        with self.lock:
            peer = self._peers.get(key)
            if peer is None:
                return  # of an earlier term
            last = self.heard.get(peer.id, (0.0, Where(0, 0)))[1]
            now, at = time.monotonic(), max(last, where._replace(number=0))
            self.heard[peer.id] = now, at
            self.trail[peer.id].add(now, at)
            if notes and self._desk is not None:
                self._desk.take_notes(peer.id, notes)
            if (
                kind == DATA
                and where.term >= self.position.term
                and len(self.inbox) < HELD * len(self._peers)
            ):
                self.inbox.setdefault((peer.id, where), memoryview(body))
            elif kind == STATE:
                self.pieces.setdefault((peer.id, where.term), {})[where.number] = memoryview(body)
            offered = self.offered.get(where.term, b"") if kind == ASK else b""
            self.lock.notify_all()
        if offered:
            self._hand_over(key, where, json.loads(bytes(body)), offered)

    def _hand_over(self, key: bytes, where: Where, wanted: list[int], state: bytes) -> None:
        """Pieces of our state, to one who joins."""
        for number in wanted[:PIECES]:
            piece = state[PIECE * int(number) : PIECE * (int(number) + 1)]
            self._send(key, Envelope(STATE, where._replace(number=int(number)), b"", piece))

    def _once(self, text: str) -> None:
        """Say a thing once, however often it happens."""
        if text not in self._told and len(self._told) < 1000:
            self._told.add(text)
            self._say(text)
