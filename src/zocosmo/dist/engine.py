"""A process's share of a run: the nodes that live here, advanced by the simulator's own method code."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.message import CODECS
from zocosmo.dist.channel import TorchChannel
from zocosmo.errors import InputError
from zocosmo.methods.base import Draw, Method, World, drive
from zocosmo.oracle import TwoQuery, disagreement, measures, two_query
from zocosmo.sim.draws import DrawAhead
from zocosmo.sim.engine import Checkpoint, Run, draws_ahead, first_states, is_fine, memory, recall, restored
from zocosmo.sim.guard import Guard, Guarded

Values = NDArray[Any]
Arrays = dict[str, NDArray[Any]]


def check_peers(method: Method) -> None:
    """Refuse what peers cannot do among themselves: a method with a server, and a price without bytes."""
    if method.server:
        raise InputError(
            f"{method.kind} needs a server and processes are peers; use zocosmo run, which simulates one"
        )
    if method.codec not in CODECS:
        other = next((f", or codec {name!r}" for name in method.codecs if name in CODECS), "")
        raise InputError(f"{method.codec!r} is a price without a layout in bytes; use zocosmo run{other}")


class Host:
    """The nodes of `run` that live in this process; states have shape (1, nodes here, d).

    Advanced side by side with its peers it computes the bits of `Simulation([run])`, node for node.
    """

    def __init__(
        self, run: Run, channel: TorchChannel, *, bound: float = 1e12, guard: Guard | None = None
    ) -> None:
        self.run, self.channel, self.bound, self.t = run, channel, bound, 0
        shapes = getattr(run.problem, "shapes", ())
        world = World(run.graph, run.problem.d, run.schedule, channel.nodes, shapes)
        run.method.check(world)
        self.method, self.whole = run.method, run.problem
        self.problem = type(run.problem).stack([run.problem.at(channel.nodes.tolist())])
        ahead = draws_ahead(self.problem, lambda: self._draws.prepare(self.t + 1))
        self._draws = DrawAhead(self.method, [world], [run.seed], channel.dtype, **ahead)
        here = len(channel.nodes)
        shape = 1, here, world.d
        self.state = self.method.init(first_states(self.problem, self.method, shape, channel.dtype))
        self.queries = np.zeros(here, np.int64)
        self.stages = self.method.stages(world)
        self.alive = True
        self.guarded = Guarded(self.method, guard, 1, channel.dtype)  # rank 0 sees, all are told
        self._first: Values | None = None  # F at the start; rank 0 alone knows

    def round(self) -> None:
        """Advance the nodes here by one round."""
        self.channel.begin(self.t)
        self.step(self._draws.at(self.t))

    def step(self, draw: Draw) -> None:
        """This round along a draw; whatever stops it leaves the states as they were."""
        with np.errstate(all="ignore"):
            step = self.guarded.now.step(self.t, self.state, draw, self.channel)
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
            x = np.asarray(self.state.x, np.float64)
            whole = self.channel.collect(x[0])
            centre = np.empty(x.shape[::2]) if whole is None else whole[None].mean(axis=-2)
            centre = self.channel.spread(centre)
            here = {**measures(self.problem, centre), "local": self.problem.local(x)}
            measured = self.channel.collect(np.stack([each[0] for each in here.values()], axis=-1))
            bill = self.channel.ledger(self.channel.codec).by_node(self.channel.n)[0, self.channel.nodes]
            counted = self.channel.collect(np.column_stack([self.queries, bill]))
            found = None
            if whole is not None and measured is not None and counted is not None:
                columns = dict(zip(here, measured.T, strict=True))
                found = self._measured(whole[None], centre, columns, counted), whole
            told = np.array([float(found is None or not found[0].diverged[0]), self.guarded.scale[0]])
            alive, scale = self.channel.spread(told)
            self.alive = bool(alive)
            self.guarded.set(np.array([scale]))
        return found

    def _measured(self, x: Values, centre: Values, columns: Arrays, counted: Values) -> Checkpoint:
        """As `Simulation.checkpoint`, from what all processes sent."""
        found = {name: np.ascontiguousarray(each)[None].mean(axis=-1) for name, each in columns.items()}
        value, local = found.pop("objective"), found.pop("local")
        apart = disagreement(x, centre)
        extra = found | (self.problem.report(centre) if hasattr(self.problem, "report") else {})
        extra |= self.guarded.columns()
        self.guarded.see(np.sqrt((centre * centre).sum(axis=-1)), local)
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
        parts = ((name, part) for name, part in self.state._asdict().items() if part is not None)
        state = {f"state.{name}": np.asarray(part) for name, part in parts}
        bill = {"bits": self.channel.ledger(self.channel.codec).counts, "queries": self.queries}
        first = {} if self._first is None else {"first": self._first}
        kept = {f"problem.{name}": array for name, array in memory(self.problem).items()}
        return {**state, **bill, **first, **kept, **self.guarded.arrays(), "t": np.array([self.t])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `arrays` gave, at the same nodes of the same run."""
        self.state = restored(self.state, arrays)
        self.channel.ledger(self.channel.codec).counts[...] = arrays["bits"]
        self.queries, self._first = arrays["queries"], arrays.get("first")
        self.t = int(arrays["t"][0])
        recall(self.problem, arrays)
        self.guarded.restore(arrays)
