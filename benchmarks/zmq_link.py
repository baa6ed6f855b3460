"""An exchange of 8,192 float32 between two members over ZeroMQ, against Gloo and against bare sockets.

gloo     bare tensors of torch.distributed, neither encrypted nor checked: the floor of `zocosmo bench-link`
bare     two sockets of pyzmq, each process sends and receives in one thread, not encrypted
curve    the same, encrypted and authenticated as members' sockets are
framed   `NetChannel`: the same with envelopes, frames, sequence numbers, checks, and heartbeats in between

Aim: framed at most 2 times gloo. Medians of several blocks, in microseconds for both ways at once.

    python benchmarks/zmq_link.py
"""

import argparse
import multiprocessing
import socket
import sys
import time

import numpy as np

from zocosmo.core.tape import Tape
from zocosmo.dist.place import Place
from zocosmo.graphs.graph import complete
from zocosmo.net.channel import NetChannel
from zocosmo.net.links import ZmqLinks
from zocosmo.net.post import Peer, Post
from zocosmo.net.sockets import Gate, make_socket, public_of, zmq
from zocosmo.net.soft import SoftDeadline

SIZE, BLOCKS = 8192, 21
SECRETS = [bytes([k + 1]) * 32 for k in range(2)]
KEYS = [public_of(each) for each in SECRETS]
SALT = bytes(32)


def gloo(rank, ports, pipe, exchanges):
    """Bare tensors."""
    import torch
    from torch import distributed as c10d

    torch.set_num_threads(1)
    store = c10d.TCPStore("127.0.0.1", ports[0], 2, rank == 0)
    options = c10d.ProcessGroupGloo._Options()
    options._devices = [c10d.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
    options._threads = 1
    group = c10d.ProcessGroupGloo(store, rank, 2, options)
    ours, theirs = torch.zeros(SIZE), torch.zeros(SIZE)

    def once(t):
        received = group.recv([theirs], 1 - rank, 0)
        group.send([ours], 1 - rank, 0).wait()
        received.wait()

    measure(once, rank, pipe, exchanges)


def bare(rank, ports, pipe, exchanges, *, curve):
    """Send, then receive, in one thread."""
    context = zmq.Context()
    gate = Gate(context) if curve else None
    if curve:
        end = make_socket(context, zmq.PAIR, SECRETS[rank], None if rank == 0 else KEYS[0])
    else:
        end = context.socket(zmq.PAIR)
    end.bind(f"tcp://127.0.0.1:{ports[0]}") if rank == 0 else end.connect(f"tcp://127.0.0.1:{ports[0]}")
    if gate is not None and rank == 0:
        gate.serve(lambda key, address: 200)
    values = np.arange(SIZE, dtype=np.float32)

    def once(t):
        end.send(values.tobytes())
        np.frombuffer(end.recv(), np.float32)

    measure(once, rank, pipe, exchanges)
    context.destroy(linger=0)


class Silent:
    """A desk that has nothing to say."""

    def report(self):
        return {}

    def take_word(self, word):
        pass

    def take_notes(self, peer, notes):
        pass


def framed(rank, ports, pipe, exchanges):
    """A member's channel."""
    post = Post(SECRETS[rank], ("tcp://127.0.0.1:1", KEYS[0]), f"127.0.0.1:{ports[rank]}", print)
    post.salt = SALT
    post.start(Silent())
    peers = {k: Peer(k, KEYS[k], f"tcp://127.0.0.1:{ports[k]}", SALT) for k in range(2)}
    post.meet(peers, [1 - rank])
    links = ZmqLinks(post, 0, rank, peers, SoftDeadline(60.0), skips=True)
    about = {"d": SIZE, "wire": "f32", "dtype": "float32", "codec": "values", "tape": Tape(1)}
    channel = NetChannel(Place(complete(2), 2), links, session=SALT, **about, repair=True, ids=np.arange(2))
    channel.skips = True
    channel.listen_for(lambda *missed: sys.exit(f"missed {missed}"))
    while next(post._ways(KEYS[1 - rank]), None) is None:
        time.sleep(0.01)
    values, partners = np.arange(SIZE, dtype=np.float32)[None], np.array([1 - rank])
    letters = channel.wire.encode(values, channel.envelope(channel.senders))

    def once(t):
        post.position = post.position._replace(round=t)
        channel.begin(t)
        channel.swap(letters, partners, None)

    measure(once, rank, pipe, exchanges)
    post.close()


def measure(once, rank, pipe, exchanges):
    """Blocks of exchanges; rank 0 sends the time of each."""
    t = 0
    for block in range(BLOCKS + 1):
        began = time.perf_counter()
        for _ in range(exchanges):
            once(t)
            t += 1
        if rank == 0 and block:
            pipe.send((time.perf_counter() - began) / exchanges)
    if rank == 1:
        time.sleep(0.3)  # what the other still waits for goes out


KINDS = {
    "gloo": (gloo, {}),
    "bare": (bare, {"curve": False}),
    "curve": (bare, {"curve": True}),
    "framed": (framed, {}),
}


def free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in (one, other)]


def time_of(kind, exchanges):
    target, more = KINDS[kind]
    spawn = multiprocessing.get_context("spawn")
    (mine, theirs), ports = spawn.Pipe(), free_ports()
    both = [
        spawn.Process(target=target, args=(rank, ports, theirs, exchanges), kwargs=more, daemon=True)
        for rank in range(2)
    ]
    for each in both:
        each.start()
    times = [mine.recv() for _ in range(BLOCKS) if mine.poll(60) or sys.exit(f"{kind}: no answer")]
    for each in both:
        each.join()
    return 1e6 * float(np.median(times))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--exchanges", type=int, default=200)
    options = parser.parse_args()
    took = {kind: time_of(kind, options.exchanges) for kind in KINDS}
    for kind, micros in took.items():
        print(f"{kind:8s}{micros:10.0f} µs")
    print(f"framed against bare sockets under keys: {took['framed'] / took['curve']:.2f}")
    print(f"framed against bare tensors over Gloo: {took['framed'] / took['gloo']:.2f}, at most 2")
    sys.exit(took["framed"] > 2 * took["gloo"])


if __name__ == "__main__":
    main()
