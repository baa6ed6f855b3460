"""A process's share of a run: the nodes that live here, advanced by the simulator's own method code."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.dist.channel import TorchChannel
from zocosmo.methods.base import Draw, World, drive
from zocosmo.oracle import TwoQuery, disagreement, two_query
from zocosmo.sim.draws import DrawAhead
from zocosmo.sim.engine import Checkpoint, Run, is_fine

Values = NDArray[Any]
Arrays = dict[str, NDArray[Any]]


class Host:
    """The nodes of `run` that live in this process; states have shape (1, nodes here, d).

    Advanced side by side with its peers it computes the bits of `Simulation([run])`, node for node.
    """

    def __init__(self, run: Run, channel: TorchChannel, *, bound: float = 1e12) -> None:
        self.run, self.channel, self.bound, self.t = run, channel, bound, 0
        world = World(run.graph, run.problem.d, run.schedule, channel.nodes)
        run.method.check(world)
        self.method, self.whole = run.method, run.problem
        self.problem = type(run.problem).stack([run.problem.at(channel.nodes.tolist())])
        self._draws = DrawAhead(self.method, [world], [run.seed], channel.dtype)
        here = len(channel.nodes)
        x0 = np.broadcast_to(np.asarray(self.problem.x0)[..., None, :], (1, here, world.d))
        self.state = self.method.init(np.array(x0, channel.dtype, order="C"))
        self.queries = np.zeros(here, np.int64)
        self.stages = self.method.stages(world)
        self.alive = True
        self._first: Values | None = None  # F at the start; rank 0 alone knows

    def round(self) -> None:
        """Advance the nodes here by one round."""
        self.channel.begin(self.t)
        self.step(self._draws.at(self.t))

    def step(self, draw: Draw) -> None:
        """This round along a draw; whatever stops it leaves the states as they were."""
        with np.errstate(all="ignore"):
            step = self.method.step(self.t, self.state, draw, self.channel)
            self.state = drive(step, self._answer)
        self.t += 1

    def idle(self) -> None:
        """Pass this round: a node without a partner asks nothing, sends nothing and keeps its state."""
        self.t += 1

    def draw(self) -> Draw:
        """What the tape says about this round."""
        return self._draws.at(self.t)

    def _answer(self, query: TwoQuery) -> Values:
        self.queries += 2 if query.active is None else 2 * query.active[0]
        return two_query(self.problem, query, self.t)

    def checkpoint(self) -> tuple[Checkpoint, Values] | None:
        """Measure the run with all other processes: at rank 0 the checkpoint and the states of all nodes."""
        with np.errstate(all="ignore"):
            x = self.state.x.astype(np.float64, copy=False)
            whole = self.channel.collect(x[0])
            centre = np.empty(x.shape[::2]) if whole is None else whole[None].mean(axis=-2)
            centre = self.channel.spread(centre)
            everywhere = np.broadcast_to(centre[..., None, :], x.shape)
            losses = [self.problem.local(np.ascontiguousarray(each)) for each in (everywhere, x)]
            measured = self.channel.collect(np.stack([loss[0] for loss in losses], axis=-1))
            bill = self.channel.ledger(self.channel.codec).by_node(self.channel.n)[0, self.channel.nodes]
            counted = self.channel.collect(np.column_stack([self.queries, bill]))
            found = None
            if whole is not None and measured is not None and counted is not None:
                found = self._measured(whole[None], centre, measured, counted), whole
            flag = np.array([float(found is None or not found[0].diverged[0])])
            self.alive = bool(self.channel.spread(flag)[0])
        return found

    def _measured(self, x: Values, centre: Values, losses: Values, counted: Values) -> Checkpoint:
        """As `Simulation.checkpoint`, from what all processes sent."""
        value, local = (np.ascontiguousarray(losses.T[k])[None].mean(axis=-1) for k in (0, 1))
        apart = disagreement(x, centre)
        extra = self.problem.report(centre) if hasattr(self.problem, "report") else {}
        self._first = value if self._first is None else self._first
        fine = is_fine(value, apart, self._first, self.bound)
        totals = counted.sum(axis=0)
        return Checkpoint(
            self.t,
            value,
            local,
            apart,
            extra,
            totals[:1],
            np.array([self.t * self.stages]),
            {self.channel.codec: totals[None, 1:]},
            np.array([True]),
            ~fine,
        )

    def arrays(self) -> Arrays:
        """All that an exact continuation needs, to be saved before the next round."""
        state = {f"state.{name}": part for name, part in self.state._asdict().items() if part is not None}
        bill = {"bits": self.channel.ledger(self.channel.codec).counts, "queries": self.queries}
        first = {} if self._first is None else {"first": self._first}
        return {**state, **bill, **first, "t": np.array([self.t])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `arrays` gave, at the same nodes of the same run."""
        parts = {name: arrays[f"state.{name}"] for name in self.state._fields if f"state.{name}" in arrays}
        self.state = self.state._replace(**parts)
        self.channel.ledger(self.channel.codec).counts[...] = arrays["bits"]
        self.queries, self._first = arrays["queries"], arrays.get("first")
        self.t = int(arrays["t"][0])
