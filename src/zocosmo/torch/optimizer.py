"""Cosmo: an optimizer for torch that needs no gradients.

It runs `methods.Cosmo`, `methods.EdgeLocal` or `methods.TreeMean` as the simulator does, on the parameters of
a network, of which it reads and writes q entries at a time.
"""

import hashlib
import itertools
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.channel import Channel, MemoryChannel
from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.ledger import Ledger
from zocosmo.core.subspace import check_subspace
from zocosmo.core.support import check_size
from zocosmo.core.tape import Seed, Tape
from zocosmo.dist.peer import Peer
from zocosmo.dist.rendezvous import is_launched, join
from zocosmo.errors import InputError, check_known
from zocosmo.graphs.graph import Graph
from zocosmo.methods import cosmo, edge_local, tree_mean
from zocosmo.methods.base import RULES, World, check_number
from zocosmo.methods.several import Several
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import Rounds
from zocosmo.torch.coordinates import UNLIKE, Parameters, Tensors, fingerprint
from zocosmo.torch.flat import HALF, Flat
from zocosmo.torch.losses import Losses
from zocosmo.torch.space import LiftedParameters

SHARED = ("lr", "mu", "momentum")  # options that must be equal in all parameter groups
DEFAULTS = {"directions": 1, "signs": "independent", "sides": 2, "step_rule": "plain", "correction": 0.0}
NOT_GIVEN = {"subspace": None, "rows": None, "tree": False}
LARGE = 2**26  # parameters above which only visited ones have momentum

_sessions = itertools.count()  # numbers the sessions of this process: each has its own keys in the store

Values = NDArray[Any]
OurMethod = cosmo.Cosmo | edge_local.EdgeLocal | tree_mean.TreeMean


class Cosmo(torch.optim.Optimizer):
    """ZO-COSMO over the parameters of a torch model: two losses a round, q values to each neighbour.

        optimizer = Cosmo(model.parameters(), lr=1e-3, q=1000, graph=ring(4), seed=7)
        for inputs, labels in batches:
            loss = optimizer.step(lambda: cross_entropy(model(inputs), labels))

    A closure computes the loss and nothing else: no backward, and the same examples at both calls. Without
    `schedule` all neighbours mix on one support; with one ("auto", or a name) the pairs of a matching do,
    each on its own support, as `coupling` says. `lr`, `mu` and `momentum` are read from the parameter groups
    at every step, so schedulers work. There is one node unless this process was launched as one of several:
    then all processes make their optimizers in the same order, with the same arguments.

    Parameters of half precision get float32 masters where steps have moved them. With `sparse`, only visited
    parameters have momentum; this is the default with half precision or more than 2^26 parameters. Both move
    the parameters into one buffer, see `Flat`.

    `directions` sign vectors share a support, `signs` independent or orthogonal, with slopes from `sides` 1
    or 2: 2K losses a round, or K + 1. With `step` normalised, lr is about the length of a step. With `rows`
    split, closure(k, K) is the loss on block k of K of the batch, and each direction has its own block.
    `correction` is γ of `methods.Corrected`. In a `subspace` of m dimensions the parameters are x0 + P z, x0
    their first values and P public, and z is what moves: q and a message are counted in it. With `tree` all
    nodes step by the mean of their slopes, summed over a spanning tree: weights that start alike stay alike,
    and a message has one number for each direction.
    """

    def __init__(
        self,
        params: Any,
        *,
        lr: float,
        q: int,
        seed: Seed,
        mu: float = 1e-3,
        momentum: float = 0.0,
        graph: Graph | None = None,
        schedule: str | None = None,
        coupling: str = "I",
        rule: str = "uniform",
        directions: int = 1,
        signs: str = "independent",
        sides: int = 2,
        step: str = "plain",
        rows: str | None = None,
        correction: float = 0.0,
        subspace: int | None = None,
        tree: bool = False,
        sparse: bool | None = None,
        wire: str = "f32",
        key: bytes | None = None,
        deadline: float | None = None,
        listen: str | None = None,
        backend: str = "gloo",
    ) -> None:
        check_known("coupling", coupling, COUPLINGS)
        check_known("rule", rule, RULES)
        self._sealed = self._closed = self._is_compared = False
        super().__init__(params, {"lr": lr, "mu": mu, "momentum": momentum})
        self._sealed = True
        tensors = [p for group in self.param_groups for p in group["params"]]
        self.d, self.subspace, self.rows = sum(p.numel() for p in tensors), subspace, rows
        self.size, self.q = check_size(self.d if subspace is None else check_subspace(self.d, subspace)[1], q)
        half = any(p.dtype in HALF for p in tensors)
        usual = subspace is None and (half or self.d > LARGE)
        self.sparse = usual if sparse is None else bool(sparse)
        is_flat = subspace is None and (half or self.sparse)
        self.x: Tensors = Flat(tensors) if is_flat else Parameters(tensors)
        self._check_kinds(correction, sides)
        self.lifted = None if subspace is None else LiftedParameters(Parameters(tensors), subspace, seed)
        self.schedule, self.coupling, self.rule, self.wire = schedule, coupling, rule, wire
        self._several = {"directions": directions, "signs": signs, "sides": sides, "step_rule": step}
        self._several["correction"], self.tree = correction, bool(tree)
        self._v = np.zeros((1, 1, 1))  # running mean of squared slopes, of normalised steps
        self.graph, self.queries = checked_graph(graph, schedule, coupling, tree=tree), 0
        self._beside: dict[str, Any] = {}  # momentum and corrections, once a round has needed them
        self._of: tuple[tuple[float, ...], OurMethod] | None = None
        self._commitment = Tape(seed).commitment()
        method = self._method()
        method.check(World(self.graph, self.size, schedule or "auto"))
        method.wire_for(wire, self.x.dtype)
        self._codec = method.codec
        self.peer: Peer | None = None
        self.channel: Channel
        if self.graph.n > 1:
            about = {"method": method.kind, "lr": method.eta, "mu": method.mu, "momentum": self._momentum}
            about |= {
                "rule": rule,
                "coupling": coupling,
                "shapes": self._shapes(),
                **self._stated(method),
                **self._given(),
            }
            session: dict[str, Any] = {"seed": seed, "key": key, "deadline": deadline, "backend": backend}
            session |= {"d": self.size, "q": self.q, "wire": wire, "dtype": str(self.x.dtype)}
            session |= {"graph": self.graph, "schedule": schedule or "auto", "codec": self._codec}
            session["about"] = about
            job = join(listen=listen).part(f"optimizer/{next(_sessions)}")
            self.peer = Peer(job=job, **session).__enter__()
            self.channel = self.peer.channel
        else:
            alone: dict[str, Any] = {"d": self.size, "wire": wire, "dtype": self.x.dtype, "tape": Tape(seed)}
            self.channel = MemoryChannel([self.graph], codecs=[self._codec], **alone)
        self.node = self.peer.node if self.peer else 0
        world = World(self.graph, self.size, schedule or "auto", np.array([self.node]))
        at_once = 1 if self.sparse else None  # a forward of a large model takes longer than a draw
        draws = DrawAhead(method, [world], [seed], self.x.dtype, at_once=at_once)
        self._rounds = Rounds(method, None, draws, self.channel, lead=(1,))

    def step(self, closure: Callable[[], Any] | None = None) -> float | None:  # type: ignore[override]
        """One round. Returns the mean of its losses, or None if this node has no partner.

        If the closure raises, the parameters are as before, and the round can be tried again.
        """
        if not callable(closure):
            got = "no closure" if closure is None else f"a {type(closure).__name__}"
            raise InputError(f"step() got {got}; call step(closure) with a function that returns the loss")
        if self._closed:
            raise InputError(f"this optimizer was closed after {self.t} rounds; make a new one")
        method = self._method()
        self._compare_starts()
        self._rounds.use(method)
        self._rounds.state = self._state(method)
        lifting = None if self.lifted is None else self.lifted.lifting
        where: dict[str, Any] = {"node": self.node, "t": self.t, "devices": self.x.devices}
        losses = Losses(closure, lifting=lifting, split=self.rows == "split", **where)
        if self.peer is not None:
            self.peer.begin(self.t)
        try:
            with torch.no_grad():
                self._rounds.advance(losses)
        except BaseException:
            self._rounds.drop()
            raise
        if method.is_scaled:
            self._v = self._rounds.state.v
        self.queries += len(losses.found)
        return sum(losses.found) / len(losses.found) if losses.found else None

    @property
    def t(self) -> int:
        """Rounds done."""
        return self._rounds.t

    @property
    def ledger(self) -> Ledger:
        """Bits that this node sent, by link."""
        return self.channel.ledger(self._codec)

    def state_dict(self) -> dict[str, Any]:
        """What an exact continuation needs besides the parameters, and the session it belongs to."""
        ours = {"round": self.t, "queries": self.queries, "bits": torch.tensor(self.ledger.counts)}
        if visits := self.x.visits():
            ours["visited"] = {k: torch.from_numpy(v) for k, v in visits.items()}
        if self._method().is_scaled:
            ours["v"] = torch.from_numpy(self._v.copy())
        if links := self.channel.arrays():
            ours["links"] = {name: torch.from_numpy(np.array(array)) for name, array in links.items()}
        if self.lifted is not None:
            own = {name: torch.from_numpy(array.copy()) for name, array in self._beside.items()}
            ours["subspace"] = {**self.lifted.arrays(), **own}
        return {**super().state_dict(), "zocosmo": {**ours, "of": self._identity()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state of the same node of the same session; best before the first step."""
        if "zocosmo" not in state_dict:
            raise InputError(f"this is not a state of Cosmo: it has {', '.join(state_dict)}, not zocosmo")
        ours = state_dict["zocosmo"]
        usual = {**DEFAULTS, **NOT_GIVEN}
        of = {"sparse": False, **usual, **ours["of"]}
        for name, mine in {**usual, **self._identity()}.items():
            if of.get(name) != mine:
                raise InputError(
                    f"{name}: the state has {of.get(name)}, this optimizer {mine}; make them equal"
                )
        if self.peer is not None and ours["round"] < self.peer.channel.t:
            when = f"round {ours['round']}, before round {self.peer.channel.t} of this session"
            raise InputError(f"the state is of {when}; rounds ascend: load it into a new optimizer")
        super().load_state_dict(state_dict)
        names = [name for group in state_dict["param_groups"] for name in group["params"]]
        for name, p in zip(names, self.x.tensors, strict=True):
            for part, kept in state_dict["state"].get(name, {}).items():  # torch rounds it to p, or shares it
                self.state[p][part] = kept.to(p.device, self.x.value, copy=True)
        self._beside = {}
        self._load_space(ours.get("subspace", {}))
        self.channel.restore({name: part.cpu().numpy() for name, part in ours.get("links", {}).items()})
        self.x.restore_visits({k: v.cpu().numpy() for k, v in ours.get("visited", {}).items()})
        self._rounds.t, self.queries = ours["round"], ours["queries"]
        self._v = ours["v"].cpu().numpy().copy() if "v" in ours else np.zeros((1, 1, 1))
        self.ledger.counts[...] = ours["bits"].numpy()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused after construction, as peers have agreed on d."""
        if self._sealed:
            raise InputError(f"no parameters can be added: all nodes have d = {self.d}; make a new Cosmo")
        super().add_param_group(param_group)

    def close(self) -> None:
        """Close the connections to peers; parameters and ledger stay."""
        self._closed = True
        if self.peer is not None:
            self.peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.peer is not None and error is not None:
            self.peer.__exit__(kind, error, trace)  # reports the error to the others
        self.close()

    def _state(self, method: OurMethod) -> Any:
        """What the method keeps of this node."""
        x = self.x if self.lifted is None else self.lifted
        v = self._v if method.is_scaled else None
        if isinstance(method, tree_mean.TreeMean):
            return tree_mean.TreeMeanState(x, v=v)
        m = self._kept("momentum") if method.beta else None
        return method.state_of(x, m, v, self._kept("correction") if method.is_corrected else None)

    @property
    def _momentum(self) -> float:
        return float(self.param_groups[0]["momentum"])

    def _method(self) -> OurMethod:
        """The method with the current numbers of the parameter groups."""
        for name in SHARED:
            if len(found := {float(group[name]) for group in self.param_groups}) != 1:
                raise InputError(f"parameter groups have {name} {sorted(found)}; give all of them the same")
        now = lr, mu, momentum = tuple(float(self.param_groups[0][name]) for name in SHARED)
        if self._of is None or self._of[0] != now:
            self._of = now, self._with(lr, mu, momentum)
        return self._of[1]

    def _with(self, lr: float, mu: float, momentum: float) -> OurMethod:
        check_number("lr", lr, 0)
        check_number("momentum", momentum, 0, 1, open_above=True)
        given: dict[str, Any] = {"eta": lr, "mu": mu, "q": self.q, "rule": self.rule, **self._several}
        if self.tree:
            if momentum or given.pop("correction"):
                raise InputError("a mean over a tree has neither momentum nor corrections; set both to 0")
            return tree_mean.TreeMean(**given)
        if self.schedule is None:
            return cosmo.Cosmo(beta=momentum, **given)
        return edge_local.EdgeLocal(coupling=self.coupling, beta=momentum, **given)  # type: ignore[arg-type]

    def _compare_starts(self) -> None:
        """Compare weights before the first round: over a tree those that start apart never meet."""
        if self._is_compared or self.peer is None or not self.tree:
            return
        published = self.peer.job.publish("weights", fingerprint(self.x.tensors).encode())
        for rank, theirs in enumerate(published):
            if theirs != published[0]:
                raise InputError(f"rank {rank} {UNLIKE}")
        self._is_compared = True

    def _kept(self, name: str) -> Any:
        """Momentum or corrections of all parameters, or of visited ones, in the type of the values; in a
        subspace those of z."""
        if name not in self._beside:
            self._beside[name] = self._make(name)
        return self._beside[name]

    def _make(self, name: str) -> Any:
        if self.lifted is not None:
            return self.lifted.zeros_like()
        if self.sparse:
            return self.x.zeros_like()
        for p in self.x.tensors:
            if name not in self.state[p]:
                self.state[p][name] = torch.zeros(p.shape, dtype=self.x.value, device=p.device)
        return Parameters([self.state[p][name] for p in self.x.tensors])

    def _load_space(self, arrays: dict[str, torch.Tensor]) -> None:
        """Take z, x0, and what is kept beside z."""
        if self.lifted is not None:
            self.lifted.restore(arrays)
            own = {name: part for name, part in arrays.items() if name not in ("z", "x0")}
            self._beside = {name: part.cpu().numpy().copy() for name, part in own.items()}

    def _check_kinds(self, correction: float, sides: int) -> None:
        """Refuse options that exclude each other."""
        if self.rows is not None:
            check_known("rows", self.rows, ("split",))
            if sides == 1:
                raise InputError("with rows split each direction has its own examples; use sides 2, not 1")
        if self.subspace is not None and self.sparse:
            raise InputError("in a subspace momentum is small; leave sparse out")
        if correction and isinstance(self.x, Flat):
            raise InputError(
                "corrections are kept for all parameters, in float32; leave sparse out, or use a subspace"
            )

    def _identity(self) -> dict[str, Any]:
        """The session and node that a state belongs to."""
        return {
            "seed": self._commitment,
            "d": self.d,
            "q": self.q,
            "schedule": self.schedule,
            "coupling": self.coupling,
            "rule": self.rule,
            "wire": self.wire,
            "node": self.node,
            "sparse": self.sparse,
            "edges": [list(edge) for edge in self.graph.edges],
            "shapes": self._shapes(),
            **self._stated(self._method()),
            **self._given(),
        }

    def _given(self) -> dict[str, Any]:
        """Subspace, rows and tree, where they are given."""
        return {name: vars(self)[name] for name, usual in NOT_GIVEN.items() if vars(self)[name] != usual}

    @staticmethod
    def _stated(method: Several) -> dict[str, Any]:
        """Directions, signs, sides, step and correction, where they are not the defaults."""
        settings = method.settings
        return {name: settings[name] for name in DEFAULTS if name in settings and name not in method.unstated}

    def _shapes(self) -> str:
        """A hash of the shapes of all parameters: equal d does not imply equal coordinates."""
        text = repr([tuple(tensor.shape) for tensor in self.x.tensors])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def checked_graph(graph: Graph | None, schedule: str | None, coupling: str, *, tree: bool = False) -> Graph:
    """The graph, one node by default, with as many nodes as processes were launched."""
    world = int(os.environ["WORLD_SIZE"]) if is_launched() else 1
    if graph is None and world > 1:
        raise InputError(f"{world} processes were launched and no graph was given; pass graph=ring({world})")
    graph = graph or Graph(1, ())
    if not isinstance(graph, Graph):
        raise InputError(f"graph must be a Graph, such as GRAPHS['ring'](4); got {graph!r}")
    if graph.n != world:
        raise InputError(
            f"a graph of {graph.n} nodes needs as many processes, got {world}; launch one per node"
        )
    if schedule is not None and tree:
        raise InputError(
            f"schedule {schedule!r} pairs nodes, and a mean over a tree has no pairs; leave one out"
        )
    if schedule is not None and graph.n == 1:
        raise InputError(f"schedule {schedule!r} pairs nodes, and there is only one; leave it out")
    if schedule is None and coupling != "I":
        raise InputError(f"coupling {coupling!r} applies to pairs; give a schedule, or leave it out")
    return graph
