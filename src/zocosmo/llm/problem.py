"""A language model as the problem of a study: a node's loss is that of its adapter on its examples."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import DTypeLike

from zocosmo.core.support import Direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import InputError
from zocosmo.llm.backbone import pick_device
from zocosmo.llm.batches import Index
from zocosmo.llm.forwards import Forwards
from zocosmo.llm.record import Record
from zocosmo.llm.sampling import Sampler, blocks
from zocosmo.llm.subject import Subject
from zocosmo.oracle import Arrays, Asks, Mask, Problem, Query, Values, ask_points
from zocosmo.oracle import norm as norm_of
from zocosmo.problems.draws import private, together
from zocosmo.problems.nodes import check_nodes
from zocosmo.state import read_ahead
from zocosmo.torch.aside import Aside
from zocosmo.torch.lifted import LiftedRows
from zocosmo.torch.rows import Rows

Launched = tuple[Query, Index]  # a query whose forwards are running, and its rows


class LanguageModel(Problem):
    """f_i(x; ξ) = mean loss of adapter x on a batch of node i's examples, drawn by its coins of the round.

    Nodes share the validation examples: each measures its part of them, scaled so that the mean over nodes is
    the mean over all examples. With queries `one_by_one` every forward has one adapter, so the simulator and
    separate processes give the same bits; `fused` runs everything in one forward, and rounding depends on the
    batch.

    With `rows` the log counts the examples evaluated. "split": direction k of K sees the k-th of K blocks of
    the batch, on both sides, and all directions are asked at once.
    """

    asynchronous = True
    has_note = True
    notes_visits: ClassVar[bool] = True  # the record has a flag for each coordinate

    def __init__(self, subject: Subject, nodes: Sequence[int], parts: Sequence[Sequence[Index]], tape: Tape):
        self.subject, self.nodes, self.parts, self.tape = subject, tuple(nodes), parts, tape
        self.n, self.d = len(self.nodes), subject.d
        self.of = len(parts[0])  # nodes of the whole graph
        self._record = Record((*tape.shape, self.n), self.d if self.notes_visits else 1)
        self._size = math.prod(self._record.shape)
        self._seen = np.zeros(self._record.shape, np.int64)  # examples evaluated by each node
        self._told: tuple[Values, Values, Index] | None = None  # answers not yet in the record
        self.sampler = Sampler(subject, self.nodes, parts, tape)
        self.forwards = Forwards(subject, self.sampler, self._record.shape, self._size)

    @classmethod
    def build(cls, subject: Subject, n: int, seed: Seed) -> Self:
        tape = private(seed)
        return cls(subject, range(n), [subject.shards(n, tape)], tape)

    @property
    def structure(self) -> tuple[Any, ...]:
        return self.subject.setting, self.nodes

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        return self.subject.shapes

    @property
    def x0(self) -> Values:
        return np.broadcast_to(self.subject.x0, (*self.tape.shape, self.d))

    def states(self, method: Asks, lead: tuple[int, ...], dtype: DTypeLike) -> Any:
        """Rows on the GPU for float32 methods on supports; otherwise an array."""
        self._open(method)
        device = torch.device(pick_device(self.subject.setting.device))
        if method.on_supports and device.type == "cuda" and np.dtype(dtype) == np.float32:
            return Rows(np.broadcast_to(self.x0[..., None, :], (*lead, self.n, self.d)), device)
        return super().states(method, lead, dtype)

    def admit(self, method: Asks) -> None:
        if method.is_one_sided and (method.on_supports or self._splits):
            raise InputError("a language model answers on both sides of x; use sides 2, not 1")
        setting = self.subject.setting
        if setting.rows == "split" and method.vectors > setting.batch:
            raise InputError(
                f"{method.vectors} directions cannot split a batch of {setting.batch}; "
                "lower directions, or raise batch"
            )

    def lifted(self, lifting: Any, z: Values, x: Any) -> Any:
        """States that are lifted on the device, if x is there."""
        return LiftedRows(lifting, z, x) if isinstance(x, Rows) else None

    def _open(self, method: Asks) -> None:
        """Make room for the answers of K directions on one batch, and see that their adapters fit."""
        if not self._splits or method.vectors == 1:
            return
        self._record = Record(self._record.shape, self._record.d, method.vectors)
        self.subject.check_points(self._size, method.vectors)

    # Answering

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Values:
        """One query of each active node; nan for the others."""
        return self._ask(x, t, active)

    def part(self, k: int, of: int) -> Callable[..., Values]:
        if not self._splits:
            return self
        return lambda x, t, *, active=None: self._ask(x, t, active, k, of)

    def _ask(self, x: Any, t: int, active: Mask | None, k: int = 0, of: int = 1) -> Values:
        """Mean losses on block k of the `of` blocks of the batch."""
        rows = self._asked(active)
        self._count(blocks(self.subject.setting.batch, of)[k : k + 1], rows)
        found = np.full(self._size, np.nan)
        found[rows] = self.forwards.losses(x, t, rows, (k, of)).cpu().numpy()
        return found.reshape(self.record.shape)

    def slopes(self, query: Query, t: int) -> Values:
        return self.finish(self.start(query, t))

    def start(self, query: Query, t: int) -> tuple[list[Values], Launched | None]:
        """Launch the forwards of the last direction, once the ones before it are answered; or of all
        directions, if each has rows of its own."""
        if self._splits:
            return [], self._launch(query, t)
        if query.sides == 1:
            return [self._one_side(query, t)], None
        *before, last = query.each()
        return [self._finish(self._launch(one, t)) for one in before], self._launch(last, t)

    def finish(self, started: tuple[list[Values], Launched | None]) -> Values:
        before, launched = started
        if launched is None:
            return before[0]
        return np.concatenate([*before, self._finish(launched)], axis=-1)

    def look_ahead(self, coming: Direction, query: Query, t: int, more: tuple[Direction, ...] = ()) -> None:
        rows = self._asked(query.active)
        if query.sides == 1:
            return
        if self.subject.setting.clip:
            self.record.limit(self.subject.setting.clip)
        if self.forwards.is_fused and len(rows):
            self.sampler.prepare(t, rows, 2)
        asked = (coming, *more) if self._splits else (coming,)
        self.forwards.look_ahead(query._replace(directions=asked), query, rows)

    def _one_side(self, query: Query, t: int) -> Values:
        """Slopes from x and x + μu of every direction, point by point; nothing is clipped."""
        answers = ask_points(query, lambda x: self._ask(x, t, query.active))
        rows, clip = self._asked(query.active), self.subject.setting.clip
        for plus in answers[1:]:
            self.record.add(plus, answers[0], clip, rows)
        self.record.visit(None, rows)
        return query.slopes(answers)

    def _launch(self, query: Query, t: int) -> Launched:
        """Launch both queries; the host prepares the record and the next round while the device computes."""
        rows = self._asked(query.active)
        answers, at = self.forwards.both_sides(query, t, rows)
        self._count(blocks(self.subject.setting.batch, len(query.directions)) * 2, rows)
        self._answers.take(answers)
        read_ahead(query.x, query.u)  # the method reads it next
        self.record.visit(at, rows)
        return query, rows

    def _finish(self, launched: Launched) -> Values:
        """Wait for the device; slopes are 0 at nodes that were not asked."""
        query, rows = launched
        each, shape = len(query.directions), self._record.shape
        both = np.full((2, each, self._size), np.nan)
        both[:, :, rows] = self._answers.array().reshape(2, -1, each).swapaxes(1, 2)
        plus, minus = both.reshape(2, each, *shape)
        step = self.record.clip(plus - minus, self.subject.setting.clip)
        self._told = plus, minus, rows
        slope = np.moveaxis(query.slope(step, np.zeros_like(step))[..., 0], 0, -1)
        if query.active is None:
            return slope
        return np.where(np.broadcast_to(query.active, shape)[..., None], slope, slope.dtype.type(0))

    @property
    def _splits(self) -> bool:
        return self.subject.setting.rows == "split"

    def _count(self, cuts: Sequence[slice], rows: Index) -> None:
        """Count the examples of some blocks at the rows that were asked."""
        if self.subject.setting.rows is not None:
            self._seen.reshape(-1)[rows] += sum(cut.stop - cut.start for cut in cuts)

    @property
    def counted(self) -> Arrays:
        """Examples evaluated by each node, if they are counted."""
        return {} if self.subject.setting.rows is None else {"examples": self._seen.astype(np.float64)}

    def _asked(self, active: Mask | None) -> Index:
        """Rows (trial · n + node) that are asked."""
        if active is None:
            return np.arange(self._size)
        return np.flatnonzero(np.broadcast_to(active, self._record.shape))

    @cached_property
    def _answers(self) -> Aside:
        return Aside(self.subject.backbone.device)

    # The record

    @property
    def record(self) -> Record:
        """All queries so far. The last answers are added on access, usually while the device computes."""
        if self._told is not None:
            (plus, minus, rows), self._told = self._told, None
            self._record.add(plus, minus, self.subject.setting.clip, rows)
        return self._record

    def note(self) -> str:
        return self.record.note(self.subject.setting.noise)

    def snapshot(self) -> Arrays:
        return {**self.record.arrays(), **({"examples": self._seen} if self.counted else {})}

    def restore(self, arrays: Mapping[str, Values]) -> None:
        self.record.restore(arrays)
        if self.counted:
            self._seen[...] = arrays["examples"]

    # Measuring

    def local(self, x: Values) -> Values:
        """The mean loss of each node's last queries, which costs no further query."""
        return self.record.loss()

    def measures(self, x: Values) -> Arrays:
        """Label NLL and accuracy of x (…, n, d) on validation examples, and statistics of the queries."""
        x = np.ascontiguousarray(x, np.float32).reshape(-1, self.d)
        examples, device = self.subject.validation, self.subject.backbone.device
        order = np.argsort(examples.lengths, kind="stable")
        parts = [order[i :: self.of] for i in self.nodes] * (len(x) // self.n)
        sums = np.zeros((2, len(x)))
        everyone = np.arange(len(x))
        for rows in [everyone] if self.forwards.is_fused else everyone[:, None]:
            adapters = torch.from_numpy(x[rows]).to(device)
            sums[:, rows] = self._evaluate(adapters, [parts[r] for r in rows])
        sums *= self.of / len(examples)
        nll, accuracy = sums.reshape(2, *self.record.shape)
        scores = self.record.scores(self.subject.setting.noise)
        return {"objective": nll, "accuracy": accuracy, **scores, **self.counted}

    def report(self, centre: Values) -> Arrays:
        """‖x̄‖, and its distance from the start."""
        centre = np.asarray(centre, np.float64)
        return {"norm": norm_of(centre), "moved": norm_of(centre - self.subject.x0)}

    # Splitting and stacking

    def at(self, nodes: Sequence[int]) -> Self:
        """The losses of some nodes only, with the numbers and examples they have here."""
        chosen = [self.nodes[i] for i in check_nodes(nodes, self.n)]
        return type(self)(self.subject, chosen, self.parts, self.tape)

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        first = problems[0]
        if len({p.structure for p in problems}) != 1 or any(p.tape.shape for p in problems):
            raise InputError("only single problems of one setting and the same nodes stack")
        parts = [part for p in problems for part in p.parts]
        return cls(first.subject, first.nodes, parts, together([p.tape for p in problems]))

    def _evaluate(self, adapters: torch.Tensor, parts: Sequence[Index]) -> Values:
        """Sums of loss and of right answers of each adapter over its part of the validation examples."""
        backbone, each = self.subject.backbone, self.subject.setting.eval_batch
        sums = torch.zeros((2, len(parts)), dtype=torch.float64, device=backbone.device)
        longest = max(map(len, parts))
        for first in range(0, longest, each):
            wide = min(each, longest - first)
            some = [part[first : first + wide] if first < len(part) else part[-1:] for part in parts]
            rows = np.concatenate([np.resize(part, wide) for part in some])
            real = np.stack([np.arange(wide) < len(part) - first for part in parts])
            kept = torch.from_numpy(real).to(backbone.device)
            batch = self.subject.validation.batch(rows, backbone.device)
            losses, right = backbone.judge(adapters, batch)
            for k, column in enumerate((losses, right)):
                sums[k] += torch.where(kept, column.view(kept.shape).double(), 0.0).sum(dim=1)
        return sums.cpu().numpy()
