"""Which examples a node sees in a round, as batches on the device."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zocosmo.core.tape import Tape
from zocosmo.llm.batches import Batch, Index
from zocosmo.llm.subject import Subject
from zocosmo.problems.draws import uniforms


class ReadyBatch(NamedTuple):
    """A batch prepared for round t: the examples of `rows`, repeated `times` times."""

    t: int
    rows: Index
    times: int
    batch: Batch


class Sampler:
    """The training examples of every row in a round; a row is trial · n + node.

    A node draws with replacement from its own examples, by its private coins of the round.
    """

    def __init__(
        self, subject: Subject, nodes: Sequence[int], parts: Sequence[Sequence[Index]], tape: Tape
    ) -> None:
        self.subject, self.nodes, self.tape = subject, np.array(nodes), tape
        self._owned = [part[i] for part in parts for i in nodes]  # examples of each row
        self.ready: ReadyBatch | None = None

    def sample(self, t: int) -> Index:
        """Indices of the examples of each row in round t, (rows, batch)."""
        size = self.subject.setting.batch
        drawn = uniforms(self.tape[..., None], "batch", t, self.nodes, size=size).reshape(-1, size)
        pairs = zip(self._owned, drawn, strict=True)
        return np.stack([owned[(row * len(owned)).astype(np.int64)] for owned, row in pairs])

    def each(self, t: int, rows: Index) -> list[Batch]:
        """A batch for each of some rows in round t."""
        device = self.subject.backbone.device
        return [self.subject.train.batch(each, device) for each in self.sample(t)[rows]]

    def batch(self, t: int, rows: Index, times: int) -> Batch:
        """The examples of some rows in round t as one batch, repeated `times` times."""
        made = self.ready
        if made and (made.t, made.times) == (t, times) and np.array_equal(made.rows, rows):
            return made.batch
        return self._make(t, rows, times)

    def prepare(self, t: int, rows: Index, times: int) -> None:
        """Make the batch of a coming round while the device is busy."""
        self.ready = ReadyBatch(t, rows, times, self._make(t, rows, times))

    def _make(self, t: int, rows: Index, times: int) -> Batch:
        """On a GPU lengths are rounded up to multiples of 8, to limit the number of shapes."""
        device = self.subject.backbone.device
        multiple = 8 if device.type == "cuda" else 1
        return self.subject.train.batch(self.sample(t)[rows].reshape(-1), device, multiple).repeat(times)
