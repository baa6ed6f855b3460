"""A language model as the problem of a study: a node's loss is that of its adapter on its examples."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError
from zocosmo.llm.backbone import both_points, pick_device
from zocosmo.llm.batches import Batch
from zocosmo.llm.queries import Record
from zocosmo.llm.subject import Subject
from zocosmo.methods.base import Draw
from zocosmo.oracle import Mask, TwoQuery
from zocosmo.problems.draws import private, together, uniforms
from zocosmo.problems.nodes import check_nodes
from zocosmo.torch.aside import Aside, to_device
from zocosmo.torch.rows import Rows

Values = NDArray[Any]
Index = NDArray[np.int64]


class Ready(NamedTuple):
    """Examples that were made ready for a round, and for whom."""

    t: int
    rows: Index
    times: int
    batch: Batch


class LanguageModel:
    """f_i(x; ξ) = mean loss of adapter x on a batch of node i's examples, drawn by its coins of the round.

    Validation examples are dealt out to nodes, so that processes share the work: `measures` at the network
    average has node i's part of the sum, scaled so that the mean over nodes is that over all examples. With
    queries `one_by_one` every forward has one adapter, in the simulator as in a process of its own, and gives
    the same bits; `fused` asks all at once, and rounds as its company does.
    """

    def __init__(self, subject: Subject, nodes: Sequence[int], parts: Sequence[Sequence[Index]], tape: Tape):
        self.subject, self.nodes, self.parts, self.tape = subject, tuple(nodes), parts, tape
        self.n, self.d = len(self.nodes), subject.d
        self.of = len(parts[0])  # nodes of the whole graph
        self._record = self.records((*tape.shape, self.n), self.d)
        self._size = math.prod(self._record.shape)
        self._told: tuple[Values, Values, Index] | None = None  # answers that the record does not have yet
        self._owned = [part[i] for part in parts for i in self.nodes]  # examples of each row
        self._next: Ready | None = None
        self._shifts: tuple[Direction, float, torch.Tensor] | None = None

    @classmethod
    def build(cls, subject: Subject, n: int, seed: Seed) -> Self:
        tape = private(seed)
        return cls(subject, range(n), [subject.shards(n, tape)], tape)

    @property
    def record(self) -> Record:
        """What was asked so far. The last answers are noted when somebody looks, or while a forward runs: not
        while a device is waiting."""
        if self._told is not None:
            (plus, minus, rows), self._told = self._told, None
            self._record.add(plus, minus, self.subject.setting.clip, rows)
        return self._record

    @cached_property
    def _answers(self) -> Aside:
        return Aside(self.subject.backbone.device)

    @property
    def structure(self) -> tuple[Any, ...]:
        """What problems that stack have in common, beside their size."""
        return self.subject.setting, self.nodes

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the matrices that x is made of, in its order."""
        return self.subject.shapes

    records = Record

    prepare: Callable[[], Draw] | None = None  # the next round's draw, to be asked for while a forward runs

    @property
    def x0(self) -> Values:
        return np.broadcast_to(self.subject.x0, (*self.tape.shape, self.d))

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values:
        """One query of each active node; others are answered by nan."""
        rows = self._asked(active)
        found = np.full(self._size, np.nan)
        adapters = self._tensor(x)[torch.from_numpy(rows)].float()
        found[rows] = self._ask(adapters, t, rows).cpu().numpy()
        return found.reshape(self.record.shape)

    def two_query(self, query: TwoQuery, t: int) -> Values:
        """The slopes that a method asked for, from both queries at once; 0 where none was asked."""
        rows, shape = self._asked(query.active), self._record.shape
        answers, at = self._ask_both(query, t, rows)
        self._answers.take(answers)
        if isinstance(query.x, Rows):
            query.x.read_ahead(query.u)  # the method will ask for it, with the answers
        self.record.visit(at, rows)
        self._look_ahead(query, t + 1, rows)
        both = np.full((2, self._size), np.nan)
        both[:, rows] = self._answers.array().reshape(2, -1)  # waits
        plus, minus = both.reshape(2, *shape)
        self._told = plus, minus, rows
        step = self._record.clip(plus - minus, self.subject.setting.clip)
        slope = query.slope(step, np.zeros_like(step)).reshape(*shape, 1)
        if query.active is None:
            return slope
        return np.where(np.broadcast_to(query.active, shape)[..., None], slope, slope.dtype.type(0))

    def states(self, x0: Values, dtype: np.dtype[Any]) -> Any:
        """States where the forwards are: on a GPU they stay there, elsewhere they are an array."""
        device = torch.device(pick_device(self.subject.setting.device))
        if device.type == "cuda" and dtype == np.float32:
            return Rows(x0, device)
        return np.array(x0, dtype, order="C")

    def local(self, x: Values) -> Values:
        """The mean loss of each node's last queries: what it has seen itself, at no cost."""
        return self.record.loss()

    def measures(self, x: Values) -> dict[str, Values]:
        """Label NLL and accuracy of x (…, n, d) on validation examples, and what the queries were like."""
        x = np.ascontiguousarray(x, np.float32).reshape(-1, self.d)
        examples, device = self.subject.validation, self.subject.backbone.device
        order = np.argsort(examples.lengths, kind="stable")
        parts = [order[i :: self.of] for i in self.nodes] * (len(x) // self.n)
        sums = np.zeros((2, len(x)))
        for rows in self._groups(len(x)):
            adapters = torch.from_numpy(x[rows]).to(device)
            sums[:, rows] = self._evaluate(adapters, [parts[r] for r in rows])
        sums *= self.of / len(examples)
        nll, accuracy = sums.reshape(2, *self.record.shape)
        return {"objective": nll, "accuracy": accuracy, **self.record.scores(self.subject.setting.noise)}

    def report(self, centre: Values) -> dict[str, Values]:
        """‖x̄‖, and how far x̄ has come from the start."""
        centre = np.asarray(centre, np.float64)
        return {
            "norm": np.sqrt((centre * centre).sum(axis=-1)),
            "moved": np.sqrt(((centre - self.subject.x0) ** 2).sum(axis=-1)),
        }

    def note(self) -> str:
        """A word for the progress bar."""
        return self.record.note(self.subject.setting.noise)

    def memory(self) -> dict[str, Values]:
        """What an exact continuation needs beside the states."""
        return self.record.arrays()

    def recall(self, arrays: Mapping[str, Values]) -> None:
        self.record.restore(arrays)

    def at(self, nodes: Sequence[int]) -> Self:
        """The losses of some nodes only, which keep their numbers and their part of the examples."""
        return type(self)(
            self.subject, [self.nodes[i] for i in check_nodes(nodes, self.n)], self.parts, self.tape
        )

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        """The same losses for many trials at once, on a leading axis."""
        first = problems[0]
        if len({p.structure for p in problems}) != 1 or any(p.tape.shape for p in problems):
            raise InputError("only single problems of one setting and the same nodes stack")
        parts = [part for p in problems for part in p.parts]
        return cls(first.subject, first.nodes, parts, together([p.tape for p in problems]))

    def _asked(self, active: Mask | None) -> Index:
        """Rows (trial · n + node) that are asked."""
        if active is None:
            return np.arange(self._size)
        return np.flatnonzero(np.broadcast_to(active, self._record.shape))

    def _shift(self, query: TwoQuery) -> torch.Tensor:
        """μ ε of every row, on the device; made ready in the round before, if it was asked to."""
        if self._shifts is not None and self._shifts[0] is query.u and self._shifts[1] == query.mu:
            return self._shifts[2]
        wide = (*self._record.shape, query.u.q)
        return self._moved(np.broadcast_to(query.shift(), wide).reshape(-1, query.u.q))

    def _tensor(self, x: Any) -> torch.Tensor:
        """States as rows on the device, in the type they have."""
        if isinstance(x, Rows):
            return x.tensor
        return self._moved(np.asarray(x).reshape(-1, self.d))

    def _moved(self, array: Values) -> torch.Tensor:
        return to_device(array, self.subject.backbone.device)

    def _sample(self, t: int) -> Index:
        """Which training examples each row sees in a round, (rows, batch), drawn with replacement."""
        batch = self.subject.setting.batch
        drawn = uniforms(self.tape[..., None], "batch", t, np.array(self.nodes), size=batch).reshape(
            -1, batch
        )
        return np.stack(
            [part[(row * len(part)).astype(np.int64)] for part, row in zip(self._owned, drawn, strict=True)]
        )

    def _ask_both(self, query: TwoQuery, t: int, rows: Index) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Mean losses of the rows at x + μu on their examples of round t, then at x − μu; and the coordinates
        that were asked about, (rows, q), None for all of them."""
        fused, everyone = self.subject.setting.queries == "fused", len(rows) == self._size
        if isinstance(query.x, Rows) and query.u.q < self.d and fused and everyone:
            (x, owed), at = query.x.debt(query.u), query.x.places(query.u)
            return self.subject.backbone.both(x, at, self._shift(query), self._ready(t, rows, 2), owed), at
        x, at, shift = self._shifted(query, rows)
        if at is None:
            return self._ask(torch.cat([x + shift, x - shift]).float(), t, rows, times=2), at
        if not fused or len(rows) == 0:
            return self._ask(both_points(x, at, shift), t, rows, times=2), at
        return self.subject.backbone.both(x, at, shift, self._ready(t, rows, 2)), at

    def _shifted(
        self, query: TwoQuery, rows: Index
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """x of the rows on the device, the coordinates that are asked about (None: all), and by how much."""
        u, x = query.u, self._tensor(query.x)
        shift, at = self._shift(query).to(x.dtype), None
        if u.q < self.d and isinstance(query.x, Rows):
            at = query.x.places(u)
        elif u.q < self.d:
            at = self._moved(np.broadcast_to(u.index, (*self._record.shape, u.q)).reshape(-1, u.q))
        if len(rows) == self._size:
            return x, at, shift
        kept = torch.from_numpy(rows).to(x.device)
        return x[kept], None if at is None else at[kept], shift[kept]

    def _ask(self, adapters: torch.Tensor, t: int, rows: Index, times: int = 1) -> torch.Tensor:
        """Mean losses of adapters on their rows' examples of round t; several times over, if asked."""
        backbone = self.subject.backbone
        if not len(rows):  # the only node here has no partner in this round
            return torch.empty(0)
        if self.subject.setting.queries == "one_by_one":
            batches = [self.subject.train.batch(each, backbone.device) for each in self._sample(t)[rows]]
            each = [
                backbone.losses(adapters[k : k + 1], batches[k % len(rows)])[0].mean()
                for k in range(len(adapters))
            ]
            return torch.stack(each)
        losses, _ = backbone.losses(adapters, self._ready(t, rows, times))
        return losses.view(len(adapters), -1).mean(dim=1)

    def _look_ahead(self, query: TwoQuery, t: int, rows: Index) -> None:
        """Make ready what round t will need, while the device is busy: its draw and its examples."""
        if self.subject.setting.clip:
            self.record.limit(self.subject.setting.clip)
        if self.subject.setting.queries == "fused" and len(rows):
            self._make_ready(t, rows, 2)
        if self.prepare is None:
            return
        coming = query._replace(u=self.prepare().u)
        if isinstance(query.x, Rows):  # of a method that asks along what was drawn, and along nothing else
            at, shift = query.x.places(coming.u), self._shift(coming)
            self._shifts = coming.u, coming.mu, shift
            if self._next is not None and len(rows) == len(shift):
                x, owed = query.x.debt_after(query.u)
                self.subject.backbone.both_ahead(x, at, shift, self._next.batch, owed)

    def _make_ready(self, t: int, rows: Index, times: int) -> None:
        self._next = Ready(t, rows, times, self._batch(t, rows).repeat(times))

    def _ready(self, t: int, rows: Index, times: int) -> Batch:
        """The examples of some rows in round t, several times over."""
        made = self._next
        if made and (made.t, made.times) == (t, times) and np.array_equal(made.rows, rows):
            return made.batch
        return self._batch(t, rows).repeat(times)

    def _batch(self, t: int, rows: Index) -> Batch:
        """The examples of some rows. On a GPU their length is a multiple of 8, so that few shapes occur."""
        device = self.subject.backbone.device
        multiple = 8 if device.type == "cuda" else 1
        return self.subject.train.batch(self._sample(t)[rows].reshape(-1), device, multiple)

    def _groups(self, rows: int) -> list[Index]:
        """Rows that share a forward: all, or each alone."""
        everyone = np.arange(rows)
        return [everyone] if self.subject.setting.queries == "fused" else list(everyone[:, None])

    def _evaluate(self, adapters: torch.Tensor, parts: Sequence[Index]) -> Values:
        """Sums of loss and of right answers of each adapter over its part of the validation examples."""
        backbone, examples, each = (
            self.subject.backbone,
            self.subject.validation,
            self.subject.setting.eval_batch,
        )
        sums = torch.zeros((2, len(parts)), dtype=torch.float64, device=backbone.device)
        longest = max(map(len, parts))
        for first in range(0, longest, each):
            wide = min(each, longest - first)
            rows = np.stack(
                [
                    np.resize(part[first : first + wide] if first < len(part) else part[-1:], wide)
                    for part in parts
                ]
            )
            real = np.stack([np.arange(wide) < len(part) - first for part in parts])
            losses, right = backbone.judge(adapters, examples.batch(rows.reshape(-1), backbone.device))
            kept = torch.from_numpy(real).to(backbone.device)
            for k, column in enumerate((losses, right)):
                sums[k] += torch.where(kept, column.view(kept.shape).double(), 0.0).sum(dim=1)
        return sums.cpu().numpy()
