"""Two channels joined by nothing: what one sends lies in a tin, and the other hears what a test hands it."""

import numpy as np

from zocosmo.core.fields import Message
from zocosmo.core.frame import Header, frame
from zocosmo.core.tape import Tape
from zocosmo.dist.channel import Awaited, Sent, TorchChannel
from zocosmo.dist.place import Place
from zocosmo.graphs import path

SESSION, KEY = bytes(range(32)), b"\x5a" * 32
D, VALUES = 8, np.array([1.5, -2.0], np.float32)
TAPE = Tape("tins")
SALTS = b"\xaa" * 32, b"\xbb" * 32  # of rank 0 and of rank 1


class Tin:
    """Stands for `Links` of one rank of two."""

    lean = None

    def __init__(self, rank):
        self.rank = rank
        self.salts = {1 - rank: (SALTS[rank], SALTS[1 - rank])}
        self.sent, self.next = [], b""

    def open(self, edges):
        assert edges == [(0, 1)]

    def peers(self):
        return [1 - self.rank]

    def exchange(self, make, sizes, t):
        self.sent += [head + body for parts in make().values() for head, body in batched(parts, 2)]
        return dict.fromkeys(sizes, self.next)


class LeanTin(Tin):
    """A tin that swaps in place, as Gloo does, and counts how often."""

    swaps = 0

    @property
    def lean(self):
        return self

    def swap_with(self, peer, size):
        return TinSwap(self, size)


class TinSwap:
    """What is handed to the tin comes into one buffer and then into the other."""

    def __init__(self, tin, size):
        self.tin, self.out = tin, np.zeros(size, np.uint8)
        self.ins = np.zeros(size, np.uint8), np.zeros(size, np.uint8)

    def go(self, t):
        self.tin.sent.append(self.out.tobytes())
        turn, self.tin.swaps = self.tin.swaps % 2, self.tin.swaps + 1
        self.ins[turn][:] = np.frombuffer(self.tin.next, np.uint8)
        return turn


def batched(parts, n):
    return zip(*[iter(parts)] * n, strict=True)


def channel(rank, *, key=None, codec="values", session=SESSION, wire="f32", dtype="float32", tin=Tin):
    return TorchChannel(
        *(Place(path(2), 2), tin(rank)),
        **{"d": D, "wire": wire, "codec": codec, "dtype": dtype, "session": session, "key": key},
        tape=TAPE,
    )


def honest(t, *, sequence=0, values=VALUES, support=None, **options):
    """The frame that node 1 sends as message `sequence` of round t."""
    peer = channel(1, **options)
    peer.begin(t)
    for _ in range(sequence + 1):
        peer._exchange([Sent((1, 0), 1, peer._message(peer._encode(values[None]), 0, support))], [])
    return peer.links.sent[-1]


def forged(t, values, **options):
    """A frame that says what `honest` would refuse to say."""
    peer = channel(1, **options)
    header = Header(peer._layout(len(values), peer.value), peer.value, t, 1, len(values))
    return frame(header, Message(values), d=D, session=SESSION, seal=peer._lines[0].closing)


def hear(data, t, *, support=None, **options):
    """What node 0 makes of these bytes when it mixes for the first time in round t."""
    ours = channel(0, **options)
    ours.begin(t)
    ours.links.next = data
    return ours.mix(VALUES[None], support)[0]


def accept(data, t, **options):
    """As `hear`, for bytes that are not as many as node 0 would have read."""
    ours = channel(0, **options)
    ours.begin(t)
    return ours._accept(data, Awaited((1, 0), 1, len(VALUES)), 1, ours.value)
