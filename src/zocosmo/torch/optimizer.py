"""Cosmo: an optimizer for torch that never asks for a gradient.

The update is that of `methods.Cosmo` or `methods.EdgeLocal`, run by the same lines as in the simulator; here
the state is the parameters of a network, read and written q entries at a time.
"""

import hashlib
import itertools
import math
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.channel import Channel, MemoryChannel
from zocosmo.core.coupling import COUPLINGS
from zocosmo.core.ledger import Ledger
from zocosmo.core.support import Direction, check_size
from zocosmo.core.tape import Seed, Tape
from zocosmo.dist.peer import Peer
from zocosmo.dist.rendezvous import Job, is_launched, join
from zocosmo.errors import InputError, OracleError, check_known
from zocosmo.graphs.graph import Graph
from zocosmo.methods import cosmo, edge_local
from zocosmo.methods.base import RULES, State, World, check_number
from zocosmo.oracle import Mask, Oracle, Query, both_sides
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import Rounds
from zocosmo.state import Coordinates
from zocosmo.torch.coordinates import Parameters, Tensors
from zocosmo.torch.flat import HALF, Flat

SHARED = ("lr", "mu", "momentum")  # options that all parameter groups have in common
LARGE = 2**26  # parameters beyond which momentum is kept for those that were visited only

_sessions = itertools.count()  # of this process: each has keys of its own in the store

Values = NDArray[Any]


Arraylike = torch.Tensor | np.ndarray | np.generic


class Losses(Oracle):
    """A closure as the oracle of one node in one round. Both queries see the same random numbers of torch.

    Without that, dropout would be another function at x + μu than at x − μu, and the slope would be noise.
    Losses that are tensors are read after both forwards were launched, so that a GPU never waits in between.
    """

    asynchronous = True

    def __init__(
        self, closure: Callable[[], Any], *, node: int, t: int, devices: Iterable[torch.device]
    ) -> None:
        self.closure, self.where, self.found = closure, f"node {node} in round {t}", list[float]()
        self._cuda = sorted({device.index for device in devices if device.type == "cuda"})
        self._coins = torch.get_rng_state(), [torch.cuda.get_rng_state(k) for k in self._cuda]

    def __call__(self, x: Any, t: int, *, active: Mask | None = None) -> Values:
        """The loss of the model as it is, (1, 1)."""
        return np.array([[self._number(self._ask(again=True))]])

    def slopes(self, query: Query, t: int) -> Values:
        return self.finish(self.start(query, t))

    def start(self, query: Query, t: int) -> tuple[Query, tuple[Any, Any] | None]:
        """Launch both forwards; a node without a partner asks nothing."""
        if query.active is not None and not query.active.any():
            return query, None
        again = iter((False, True))
        return query, both_sides(query, lambda _: self._ask(again=next(again)))

    def look_ahead(self, coming: Direction, query: Query, t: int) -> None:
        if query.active is None or query.active.any():
            query.x.look_ahead(coming, query.u)

    def finish(self, started: tuple[Query, tuple[Any, Any] | None]) -> Values:
        query, answers = started
        if answers is None:
            return np.zeros((1, 1, 1), query.x.dtype)
        plus, minus = (np.array([[self._number(answer)]]) for answer in answers)
        return query.slope(plus, minus)

    def _ask(self, *, again: bool) -> Any:
        if again:
            torch.set_rng_state(self._coins[0])
            for k, coins in zip(self._cuda, self._coins[1], strict=True):
                torch.cuda.set_rng_state(coins, k)
        answer = self.closure()
        is_short = isinstance(answer, torch.Tensor) and answer.numel() == 1
        if is_short:  # the next call may answer in the same memory
            return answer.detach().reshape(()).clone()
        return answer

    def _number(self, answer: Any) -> float:
        loss = one_number(answer)
        if loss is None:
            shape = f" of shape {tuple(answer.shape)}" if isinstance(answer, Arraylike) else ""
            what = f"a {type(answer).__name__}{shape}"
            raise OracleError(f"the closure of {self.where} gave {what}; it must return one number")
        if not math.isfinite(loss):
            query = len(self.found) + 1
            raise OracleError(
                f"the closure of {self.where} gave {loss} at query {query} of 2; lower lr or mu"
            )
        self.found.append(loss)
        return loss


def one_number(answer: Any) -> float | None:
    """What a closure gave as a number; None where it is none, or several."""
    if isinstance(answer, torch.Tensor) and not answer.ndim:
        return float(answer.item())
    if isinstance(answer, Arraylike):
        flat = answer.reshape(-1)
        return float(flat[0].item()) if len(flat) == 1 else None
    return float(answer) if isinstance(answer, int | float) else None


class Cosmo(torch.optim.Optimizer):
    """ZO-COSMO over the parameters of a torch model: two losses a round, q values to each neighbour.

        optimizer = Cosmo(model.parameters(), lr=1e-3, q=1000, graph=ring(4), seed=7)
        for inputs, labels in batches:
            loss = optimizer.step(lambda: cross_entropy(model(inputs), labels))

    A closure computes the loss and nothing else: no backward, and the same examples both times it is called.
    Without `schedule` all neighbours mix on one support; with one ("auto", or a name) pairs of a matching do,
    each on its own, as `coupling` says. `lr`, `mu` and `momentum` stand in the parameter groups and are read
    at every step, so schedulers work. Unless this process was launched as one of several there is one node.
    Else all processes make their optimizers, in the same order, with the same arguments.

    Parameters of half precision get float32 masters where steps have moved them. `sparse` momentum is kept
    for parameters that were visited, and is the default with half precision or more than 2^26 parameters.
    Either moves the parameters into one buffer, see `Flat`.
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
        sparse: bool | None = None,
        wire: str = "f32",
        key: bytes | None = None,
        deadline: float | None = None,
        listen: str | None = None,
        backend: str = "gloo",
    ) -> None:
        check_known("coupling", coupling, COUPLINGS)
        check_known("rule", rule, RULES)
        self._sealed = self._closed = False
        super().__init__(params, {"lr": lr, "mu": mu, "momentum": momentum})
        self._sealed = True
        tensors = [p for group in self.param_groups for p in group["params"]]
        half = any(p.dtype in HALF for p in tensors)
        self.sparse = half or sum(p.numel() for p in tensors) > LARGE if sparse is None else bool(sparse)
        self.d, self.q = check_size(sum(p.numel() for p in tensors), q)
        self.x: Tensors = Flat(tensors) if half or self.sparse else Parameters(tensors)
        self.schedule, self.coupling, self.rule, self.wire = schedule, coupling, rule, wire
        self.graph, self.queries = checked_graph(graph, schedule, coupling), 0
        self._m: Coordinates | None = None
        self._of: tuple[tuple[float, ...], cosmo.Cosmo | edge_local.EdgeLocal] | None = None
        self._commitment = Tape(seed).commitment()
        method = self._method()
        method.check(World(self.graph, self.d, schedule or "auto"))
        self.peer: Peer | None = None
        self.channel: Channel
        if self.graph.n > 1:
            about = {"method": method.kind, "lr": method.eta, "mu": method.mu, "momentum": method.beta}
            session = {"seed": seed, "key": key, "deadline": deadline, "backend": backend}
            self.peer = self._join(join(listen=listen), about, session)
            self.channel = self.peer.channel
        else:
            alone = {"d": self.d, "wire": wire, "dtype": self.x.dtype, "tape": Tape(seed)}
            self.channel = MemoryChannel([self.graph], codecs=["values"], **alone)  # type: ignore[arg-type]
        self.node = self.peer.node if self.peer else 0
        world = World(self.graph, self.d, schedule or "auto", np.array([self.node]))
        at_once = 1 if self.sparse else None  # large models leave the time for it
        draws = DrawAhead(method, [world], [seed], self.x.dtype, at_once=at_once)
        self._rounds = Rounds(method, None, draws, self.channel, lead=(1,))

    def step(self, closure: Callable[[], Any] | None = None) -> float | None:  # type: ignore[override]
        """One round. Gives the mean of the two losses, or None if this node has no partner and asked nothing.

        Whatever the closure raises passes through; the parameters are then as they were, and the round may be
        tried again.
        """
        if not callable(closure):
            got = "no closure" if closure is None else f"a {type(closure).__name__}"
            raise InputError(f"step() got {got}; call step(closure) with a function that gives the loss")
        if self._closed:
            raise InputError(f"this optimizer was closed after {self.t} rounds; make another")
        method = self._method()
        state: Any = State(self.x, self._momentum() if method.beta else None)  # type: ignore[arg-type]
        self._rounds.use(method)
        self._rounds.state = state
        losses = Losses(closure, node=self.node, t=self.t, devices=self.x.devices)
        if self.peer is not None:
            self.peer.begin(self.t)
        try:
            with torch.no_grad():
                self._rounds.advance(losses)
        except BaseException:
            self._rounds.drop()
            raise
        self.queries += len(losses.found)
        return sum(losses.found) / 2 if losses.found else None

    @property
    def t(self) -> int:
        """Rounds done."""
        return self._rounds.t

    @property
    def ledger(self) -> Ledger:
        """Bits that this node sent, by link."""
        return self.channel.ledger("values")

    def state_dict(self) -> dict[str, Any]:
        """All that an exact continuation needs beside the parameters, and what it is a state of."""
        ours = {"round": self.t, "queries": self.queries, "bits": torch.tensor(self.ledger.counts)}
        if visits := self.x.visits():
            ours["visited"] = {k: torch.from_numpy(v) for k, v in visits.items()}
        return {**super().state_dict(), "zocosmo": {**ours, "of": self._identity()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state of the same node of the same session; best before the first step."""
        if "zocosmo" not in state_dict:
            raise InputError(f"this is no state of Cosmo: it has {', '.join(state_dict)} and lacks zocosmo")
        ours = state_dict["zocosmo"]
        of = {"sparse": False, **ours["of"]}
        for name, mine in self._identity().items():
            if of.get(name) != mine:
                raise InputError(
                    f"{name}: the state has {of.get(name)}, this optimizer {mine}; make them alike"
                )
        if self.peer is not None and ours["round"] < self.peer.channel.t:
            raise InputError(
                f"the state is of round {ours['round']} and this session is at {self.peer.channel.t}; rounds "
                "ascend: load it into a new optimizer"
            )
        super().load_state_dict(state_dict)
        names = [name for group in state_dict["param_groups"] for name in group["params"]]
        for name, p in zip(names, self.x.tensors, strict=True):
            if name in state_dict["state"]:  # torch has rounded it to the type of p, or shares it
                kept = state_dict["state"][name]["momentum"]
                self.state[p]["momentum"] = kept.to(p.device, self.x.value, copy=True)
        self._m = None
        self.x.restore_visits({k: v.cpu().numpy() for k, v in ours.get("visited", {}).items()})
        self._rounds.t, self.queries = ours["round"], ours["queries"]
        self.ledger.counts[...] = ours["bits"].numpy()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refused once peers have agreed on d."""
        if self._sealed:
            raise InputError(f"no parameters can be added: all nodes have d = {self.d}; make another Cosmo")
        super().add_param_group(param_group)

    def close(self) -> None:
        """Let go of the peers. Parameters and ledger stay."""
        self._closed = True
        if self.peer is not None:
            self.peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.peer is not None and error is not None:
            self.peer.__exit__(kind, error, trace)  # tells the others why
        self.close()

    def _method(self) -> cosmo.Cosmo | edge_local.EdgeLocal:
        """The method with the numbers that stand in the parameter groups now."""
        for name in SHARED:
            if len(found := {float(group[name]) for group in self.param_groups}) != 1:
                raise InputError(
                    f"parameter groups have {name} {sorted(found)}; Cosmo has one for all of them"
                )
        now = lr, mu, momentum = tuple(float(self.param_groups[0][name]) for name in SHARED)
        if self._of is None or self._of[0] != now:
            self._of = now, self._with(lr, mu, momentum)
        return self._of[1]

    def _with(self, lr: float, mu: float, momentum: float) -> cosmo.Cosmo | edge_local.EdgeLocal:
        check_number("lr", lr, 0)
        check_number("momentum", momentum, 0, 1, open_above=True)
        given: dict[str, Any] = {"eta": lr, "mu": mu, "beta": momentum, "q": self.q, "rule": self.rule}
        if self.schedule is None:
            return cosmo.Cosmo(**given)
        return edge_local.EdgeLocal(coupling=self.coupling, **given)  # type: ignore[arg-type]

    def _momentum(self) -> Coordinates:
        """Momentum, zero at first, in the type of the values: of all parameters, or of those visited."""
        if self._m is None and self.sparse:
            self._m = self.x.zeros_like()
        elif self._m is None:
            for p in self.x.tensors:
                if "momentum" not in self.state[p]:
                    self.state[p]["momentum"] = torch.zeros(p.shape, dtype=self.x.value, device=p.device)
            self._m = Parameters([self.state[p]["momentum"] for p in self.x.tensors])
        return self._m

    def _join(self, job: Job, about: dict[str, Any], session: dict[str, Any]) -> Peer:
        """This process as a node, in a part of the store that no other session uses."""
        about |= {"rule": self.rule, "coupling": self.coupling, "shapes": self._shapes()}
        return Peer(
            graph=self.graph,
            d=self.d,
            q=self.q,
            schedule=self.schedule or "auto",
            wire=self.wire,
            dtype=str(self.x.dtype),
            about=about,
            job=job.part(f"optimizer/{next(_sessions)}"),
            **session,
        ).__enter__()

    def _identity(self) -> dict[str, Any]:
        """What a state belongs to."""
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
        }

    def _shapes(self) -> str:
        """The shapes of all parameters in order: equal d alone would not make coordinates mean the same."""
        text = repr([tuple(tensor.shape) for tensor in self.x.tensors])
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def checked_graph(graph: Graph | None, schedule: str | None, coupling: str) -> Graph:
    """The graph that fits how this process was started: one node, or as many as there are processes."""
    world = int(os.environ["WORLD_SIZE"]) if is_launched() else 1
    if graph is None and world > 1:
        raise InputError(
            f"{world} processes were launched and no graph was given; pass graph=ring({world}), say"
        )
    graph = graph or Graph(1, ())
    if not isinstance(graph, Graph):
        raise InputError(f"graph is a Graph, such as GRAPHS['ring'](4); got {graph!r}")
    if graph.n != world:
        raise InputError(
            f"a graph of {graph.n} nodes needs as many processes, got {world}; launch one for each"
        )
    if schedule is not None and graph.n == 1:
        raise InputError(f"schedule {schedule!r} pairs nodes and there is one; leave it out")
    if schedule is None and coupling != "I":
        raise InputError(f"coupling {coupling!r} is what pairs share; give a schedule, or leave it out")
    return graph
