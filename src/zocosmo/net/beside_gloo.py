"""Frames between two members of a network, beside Gloo: `zocosmo bench-link` where pyzmq is installed."""

import sys

import numpy as np

from zocosmo.core.frame import FRAME_BITS
from zocosmo.dist.bench import Timed, main
from zocosmo.dist.rendezvous import Job
from zocosmo.net.bench import Member
from zocosmo.net.envelope import HEAD_BYTES


def members(job: Job, q: int) -> list[Timed]:
    """Both processes become members, and learn each other's port from the job."""
    member = Member(job.rank)
    first, second = (int(port) for port in job.publish("ports", str(member.post.port).encode()))
    once = member.swaps(member.meet((first, second), q), np.zeros(q, np.float32))
    size = 4 * q + FRAME_BITS.total // 8 + HEAD_BYTES + 1
    return [Timed("members", "value-only over ZeroMQ, under keys", size, "raw", once)]


if __name__ == "__main__":
    main(sys.argv[1:], members)
