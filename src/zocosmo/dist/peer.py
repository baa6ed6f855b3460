"""Peer: this process as one node, for training loops outside zocosmo."""

import itertools
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.ledger import Ledger
from zocosmo.core.manifest import Scalar
from zocosmo.core.message import CODECS
from zocosmo.core.support import MAX_D, Support
from zocosmo.core.tape import Seed, Tape
from zocosmo.core.wires import check_wire
from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.deadline import Deadline
from zocosmo.dist.handshake import agree, common_salt, hand_out
from zocosmo.dist.links import Links, check_backend
from zocosmo.dist.manifests import make_manifest
from zocosmo.dist.place import Place
from zocosmo.dist.rendezvous import JOIN, Job, join
from zocosmo.dist.torched import torch
from zocosmo.errors import InputError, ZocosmoError, check_known
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Chosen
from zocosmo.methods.base import World

Values = NDArray[Any]
Row = Values | torch.Tensor

SUMS = "scalars"  # the codec of sums, which are written anew on every link

_count = itertools.count()  # numbers the peers of this process: each has its own keys in the store


class Peer:
    """This process as one node of a graph: sends values and gets them back mixed.

        with Peer(graph=ring(4), seed=7, d=1000, q=10) as peer:
            for t in range(100):
                support = draw_support(peer.tape, t, d=1000, q=10)
                …
                values = peer.mix(t, values)

    All processes create their peers and call their methods in the same order. Entering joins the others and
    compares manifests: graph, seed (by its commitment), d, q, schedule, wire, code, and all of `about`.
    With `share_seed=True` at all processes rank 0 sends its seed to the others, which pass `seed=None`.
    Values are arrays, or tensors on any device, of float32 or float64, of the same length at all peers in a
    round; wires f16 and bf16 round them.
    """

    def __init__(
        self,
        *,
        graph: Graph,
        seed: Seed | None = None,
        d: int = MAX_D,
        q: int = 1,
        schedule: Chosen = "auto",
        wire: str = "f32",
        dtype: str = "float32",
        codec: str = "values",
        about: Mapping[str, Scalar] | None = None,
        share_seed: bool = False,
        key: bytes | None = None,
        deadline: float | None = None,
        listen: str | None = None,
        backend: str = "gloo",
        join_within: float = JOIN,
        job: Job | None = None,
    ) -> None:
        if seed is None and not share_seed:
            raise InputError("a peer needs the seed of all peers; pass it, or share_seed=True at all of them")
        if not isinstance(graph, Graph):
            raise InputError(f"graph must be a Graph, such as GRAPHS['ring'](4); got {graph!r}")
        check_known("codec", codec, (*CODECS, SUMS))
        check_known("dtype", dtype, ("float32", "float64"))
        check_wire(wire, dtype)
        check_backend(backend)
        self.graph, self.world = graph, World(graph, d, schedule)
        self.q, self.wire, self.dtype, self.codec = q, wire, dtype, codec
        self._seed, self._share, self._key = seed, share_seed, key
        self._about = {"about." + name: value for name, value in (about or {}).items()}
        self._deadline, self._backend, self._job = Deadline(deadline), backend, job
        self._links: Links | None = None
        self._began: float | None = None
        self._join: dict[str, Any] = {"listen": listen, "within": join_within}

    def __enter__(self) -> Self:
        self.job = self._job or join(**self._join).part(f"peer/{next(_count)}")
        try:
            self._enter()
        except ZocosmoError as error:
            self.job.fail(error)
            self.close()
            raise
        return self

    def _enter(self) -> None:
        if self.job.world != self.graph.n:
            raise InputError(
                f"a graph of {self.graph.n} nodes needs {self.graph.n} processes, got {self.job.world}; "
                "start one per node"
            )
        self.node = self.job.rank
        if self._share:
            self._seed = hand_out(self.job, None if self._seed is None else [self._seed], self._key)[0]
        assert self._seed is not None
        values: dict[str, Any] = {"wire": self.wire, "codec": self.codec, "dtype": self.dtype}
        sealed, about = self._key is not None, self._about
        named: dict[str, Any] = {
            "q": self.q,
            "method": "peer",
            "salt": common_salt(self.job) if sealed else b"",
        }
        manifest = make_manifest(self.world, self._seed, sealed=sealed, parameters=about, **named, **values)
        agree(self.job, [manifest])
        self.tape, place = Tape(self._seed), Place(self.graph, self.job.world)
        self._links = Links(self.job, deadline=self._deadline, backend=self._backend)
        values |= {"d": self.world.d, "session": manifest.fingerprint(), "tape": self.tape}
        self.channel = TorchChannel(place, self._links, key=self._key, **values)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.job.tell(why=f"{type(error).__name__}: {error}")
        self.close()

    def close(self) -> None:
        """Close all connections. Peers that still expect messages from this node get PeerLost."""
        if self._links is not None:
            self._links.close()

    def mix(self, t: int, values: Row, support: Support | None = None) -> Any:
        """Σ_j w_ij values_j over this node and its neighbours, with Metropolis weights."""
        self._check_codec(sums=False)
        self.begin(t)
        return _back(self.channel.mix(self._row(values), support)[0], values)

    def mix_pair(self, t: int, values: Row, support: Support | None = None) -> Any:
        """The average with this round's partner; unchanged values in a round without one."""
        self._check_codec(sums=False)
        self.begin(t)
        partners = np.array([self.partner(t)])
        return _back(self.channel.mix_pairs(self._row(values), partners, support)[0], values)

    def sum(self, t: int, values: Row) -> Any:
        """Σ_j values_j over all nodes, along a spanning tree, to the same bits at each; codec "scalars"."""
        self._check_codec(sums=True)
        self.begin(t)
        return _back(self.channel.sum_values(self._row(values)[None])[0, 0], values)

    def partner(self, t: int) -> int:
        """The node that the schedule pairs with this one in round t; this node itself if it is idle."""
        return int(self.world.schedule.partners(self.tape, t)[self.node])

    @property
    def ledger(self) -> Ledger:
        """Bits sent by this node, by link."""
        return self.channel.ledger(self.channel.codec)

    def begin(self, t: int) -> None:
        """Begin round t and adapt the deadline to the duration of the last round; `mix` calls this itself."""
        if self._links is None:
            raise InputError("this peer has not joined; use it as `with Peer(...) as peer:`")
        now = time.monotonic()
        if t > self.channel.t and self._began is not None:
            self._links.deadline.observe(now - self._began)
        self._began = now
        self.channel.begin(t)

    def _check_codec(self, *, sums: bool) -> None:
        if sums != (self.codec == SUMS):
            raise InputError(
                f"a peer of codec {self.codec!r} cannot do this: codec {SUMS!r} is for sum, the others are "
                "for mix and mix_pair; create the peer with the right one"
            )

    def _row(self, values: Row) -> Values:
        row = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
        if row.ndim != 1 or row.dtype != self.channel.dtype:
            raise InputError(
                f"values must be one row of {self.channel.dtype}, got {row.dtype} of shape {row.shape}; "
                "convert them, or create the peer with another dtype"
            )
        return np.ascontiguousarray(row)[None]


def _back(row: Values, like: Row) -> Row:
    """A row of the same kind as `like`: an array, or a tensor on the same device."""
    return torch.from_numpy(row).to(like.device) if isinstance(like, torch.Tensor) else row
