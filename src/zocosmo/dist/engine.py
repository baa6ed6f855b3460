"""The nodes of a run in this process, advanced by the same driver as in the simulator."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.payload import Bits
from zocosmo.core.price import WRITTEN
from zocosmo.dist.channel import TorchChannel
from zocosmo.errors import InputError
from zocosmo.methods.base import Method, World
from zocosmo.oracle import Measured
from zocosmo.rounds.checkpoint import Bill, Checkpoint
from zocosmo.rounds.draws import DrawAhead
from zocosmo.rounds.driver import MeasuredRounds
from zocosmo.rounds.guard import Guard
from zocosmo.sim.engine import Run, stack

Values = NDArray[Any]


def check_peers(method: Method) -> None:
    """Refuse a method with a server, and a codec without bytes."""
    if method.server:
        raise InputError(f"{method.kind} needs a server and processes are peers; use zocosmo run")
    if method.codec not in WRITTEN:
        other = next((f", or codec {name!r}" for name in method.codecs if name in WRITTEN), "")
        raise InputError(f"codec {method.codec!r} has a price but no bytes; use zocosmo run{other}")


class Host(MeasuredRounds):
    """The nodes of `run` in this process; states have shape (1, nodes here, d).

    All hosts together compute the bits of `Simulation([run])`. Rank 0 measures, and tells the others whether
    the run has diverged and what its step size is.
    """

    channel: TorchChannel

    def __init__(
        self,
        run: Run,
        channel: TorchChannel,
        *,
        bound: float = 1e12,
        guard: Guard | None = None,
        world: World | None = None,
        shares: Sequence[int] | None = None,
    ) -> None:
        """`world` and `shares` are those of a term where members change: what nodes here draw and lose."""
        world = run.world_at(channel.nodes) if world is None else world
        run.method.check(world)
        run.problem.admit(run.method)
        problem = stack([run.problem.at(channel.nodes.tolist() if shares is None else list(shares))])
        at_once = 1 if problem.asynchronous else None
        draws = DrawAhead(run.method, [world], [run.seed], channel.dtype, at_once=at_once)
        stages = run.method.stages(world)
        super().__init__(run.method, problem, draws, channel, stages=stages, bound=bound, guard=guard)

    def checkpoint(self) -> tuple[Checkpoint, Values] | None:
        """Measure the run, with all processes; rank 0 gets the checkpoint and the states of all nodes."""
        found = None
        with np.errstate(all="ignore"):
            x = np.asarray(self.state.x, np.float64)
            whole = self.channel.collect(x[0])
            centre = np.empty(x.shape[::2]) if whole is None else whole[None].mean(axis=-2)
            centre = self.channel.spread(centre)
            here = {**self.problem.at_centre(centre), "local": self.problem.local(x)}
            measured = self.channel.collect(np.stack([each[0] for each in here.values()], axis=-1))
            counted = self.channel.collect(self.counts())
            if whole is not None and measured is not None and counted is not None:
                columns = {
                    name: np.ascontiguousarray(each)[None].mean(axis=-1)
                    for name, each in zip(here, measured.T, strict=True)
                }
                found = self._judged(whole[None], centre, columns, counted), whole
            told = np.array([float(self.alive[0]), self.guarded.scale[0]])
            alive, scale = self.channel.spread(told)
            self.alive = np.array([bool(alive)])
            self.guarded.set(np.array([scale]))
        return found

    def counts(self) -> NDArray[np.int64]:
        """Queries, bits by kind and what went wrong on links, of each node here."""
        bill = self.channel.ledger(self.channel.codec).by_node(self.channel.n)[0, self.channel.nodes]
        return np.column_stack([self.asked[0], bill, *(count[0] for count in self.channel.tally().values())])

    def bill(self, counted: NDArray[np.int64]) -> Bill:
        """The total of all nodes, from the counts of each."""
        totals, kinds = counted.sum(axis=0), 1 + len(Bits._fields)
        tally = dict(zip(self.channel.tally(), totals[kinds:, None], strict=True))
        return Bill(totals[:1], {self.channel.codec: totals[None, 1:kinds]}, tally=tally)

    def _judged(
        self, x: Values, centre: Values, columns: dict[str, Values], counted: NDArray[np.int64]
    ) -> Checkpoint:
        value, local = columns.pop("objective"), columns.pop("local")
        extra = columns | self.problem.report(centre)
        apart, length = self.problem.disagreement(x, centre), self.problem.norm(centre)
        found = Measured(value, local, apart, length, extra)
        return self.judge(found, self.bill(counted))
