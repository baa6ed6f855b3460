"""An exchange of 8,192 float32 between two members over ZeroMQ, against bare sockets.

bare     two sockets of pyzmq, each process sends and receives in one thread, not encrypted
curve    the same, encrypted and authenticated as members' sockets are
framed   `NetChannel`: the same with envelopes, frames, sequence numbers, checks, and heartbeats in between

Medians of several blocks, in microseconds for both ways at once. `zocosmo bench-link` has the same exchange
beside bare tensors over Gloo.

    python benchmarks/zmq_link.py
"""

import argparse
import multiprocessing
import socket
import sys
import time

import numpy as np

from zocosmo.net.bench import KEYS, SECRETS, Member
from zocosmo.net.sockets import Gate, make_socket, zmq

SIZE, BLOCKS = 8192, 21


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


def framed(rank, ports, pipe, exchanges):
    """A member's channel."""
    member = Member(rank, f"127.0.0.1:{ports[rank]}")
    once = member.swaps(member.meet(ports, SIZE), np.arange(SIZE, dtype=np.float32))
    measure(lambda t: once(), rank, pipe, exchanges)
    member.post.close()


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
    "bare": (bare, {"curve": False}),
    "curve": (bare, {"curve": True}),
    "framed": (framed, {}),
}


def free_ports():
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in (one, other))


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


if __name__ == "__main__":
    main()
