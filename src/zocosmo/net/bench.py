"""Two members of a network that need no host: what `zocosmo bench-link` times beside Gloo."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from zocosmo.core.tape import Tape
from zocosmo.dist.place import Place
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete
from zocosmo.net.channel import NetChannel
from zocosmo.net.links import ZmqLinks
from zocosmo.net.post import Peer, Post
from zocosmo.net.sockets import public_of
from zocosmo.net.soft import SoftDeadline

SECRETS = [bytes([k + 1]) * 32 for k in range(2)]  # of members that nobody else can reach
KEYS = [public_of(each) for each in SECRETS]
SALT = bytes(32)
NOBODY = "tcp://127.0.0.1:1"  # in place of a host


class Silent:
    """A desk that has nothing to say."""

    def report(self) -> dict[str, Any]:
        return {}

    def take_word(self, word: dict[str, Any]) -> None:
        pass

    def take_notes(self, peer: int, notes: bytes) -> None:
        pass


class Member:
    """One of two members. Both open their post, learn each other's port, and meet."""

    def __init__(self, rank: int, listen: str = "127.0.0.1:0") -> None:
        self.rank = rank
        self.post = Post(SECRETS[rank], (NOBODY, KEYS[0]), listen, print)
        self.post.salt = SALT
        self.post.start(Silent())

    def meet(self, ports: tuple[int, int], d: int, *, within: float = 30.0) -> NetChannel:
        """A channel to the other one, for messages of up to d float32."""
        peers = {k: Peer(k, KEYS[k], f"tcp://127.0.0.1:{ports[k]}", SALT) for k in range(2)}
        self.post.meet(peers, [1 - self.rank])
        links = ZmqLinks(self.post, 0, self.rank, peers, SoftDeadline(60.0), skips=True)
        about: dict[str, Any] = {"d": d, "wire": "f32", "dtype": np.float32, "codec": "values"}
        about |= {"tape": Tape(1), "repair": True, "ids": np.arange(2)}
        channel = NetChannel(Place(complete(2), 2), links, session=SALT, **about)
        channel.skips = True
        channel.listen_for(_missed)
        since = time.monotonic()
        while not self.post.hears(KEYS[1 - self.rank]):
            if time.monotonic() - since > within:
                raise InputError(f"the other process did not connect within {within:g} s")
            time.sleep(0.01)
        return channel

    def swaps(self, channel: NetChannel, values: Any) -> Callable[[], Any]:
        """An exchange of these values, each time in a new round."""
        letters = channel.wire.encode(values[None], channel.envelope(channel.senders))
        partners = np.array([1 - self.rank])

        def once() -> Any:
            channel.begin(channel.t + 1)
            self.post.position = self.post.position._replace(round=channel.t)
            return channel.swap(letters, partners, None)

        return once


def _missed(t: int, link: tuple[int, int], stage: str, why: str) -> None:
    raise InputError(f"a message of round {t} was missed: {why}; run it on cores that are less busy")
