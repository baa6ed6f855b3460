"""Which examples a node sees in a round, as batches on the device."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

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

    def each(self, t: int, rows: Index, of: int = 1) -> list[Batch]:
        """A batch for each of some rows in round t, or for each of the `of` blocks of each row."""
        device, cuts = self.subject.backbone.device, blocks(self.subject.setting.batch, of)
        sample = self.sample(t)[rows]
        return [self.subject.train.batch(row[cut], device) for row in sample for cut in cuts]

    def batch(self, t: int, rows: Index, times: int, of: int = 1) -> Batch:
        """The examples of some rows in round t as one batch, repeated `times` times.

        Where a batch cannot be cut into `of` equal blocks, shorter blocks repeat their last example.
        """
        made = self.ready
        if not is_even(self.subject.setting.batch, of):
            return self._make(t, rows, times, of)
        if made and (made.t, made.times) == (t, times) and np.array_equal(made.rows, rows):
            return made.batch
        return self._make(t, rows, times)

    def prepare(self, t: int, rows: Index, times: int) -> None:
        """Make the batch of a coming round while the device is busy."""
        self.ready = ReadyBatch(t, rows, times, self._make(t, rows, times))

    def means(self, losses: torch.Tensor, of: int) -> torch.Tensor:
        """Mean losses of the rows of `batch`, (adapters, examples), `of` adapters to a row of states."""
        size = self.subject.setting.batch
        if is_even(size, of):
            return losses.mean(dim=1)
        sizes = [cut.stop - cut.start for cut in blocks(size, of)] * (len(losses) // of)
        each = torch.tensor(sizes, device=losses.device)[:, None]
        real = torch.arange(losses.shape[1], device=losses.device) < each
        return (torch.where(real, losses, 0.0).sum(dim=1, keepdim=True) / each)[:, 0]

    def _make(self, t: int, rows: Index, times: int, of: int = 1) -> Batch:
        """On a GPU lengths are rounded up to multiples of 8, to limit the number of shapes."""
        device, size = self.subject.backbone.device, self.subject.setting.batch
        multiple, sample = 8 if device.type == "cuda" else 1, self.sample(t)[rows]
        if not is_even(size, of):
            wide, cuts = -(-size // of), blocks(size, of)
            sample = sample[:, [min(cut.start + j, cut.stop - 1) for cut in cuts for j in range(wide)]]
        return self.subject.train.batch(sample.reshape(-1), device, multiple).repeat(times)


def blocks(size: int, of: int) -> list[slice]:
    """A batch in `of` blocks whose sizes differ by at most one.

    >>> blocks(8, 3)
    [slice(0, 2, None), slice(2, 5, None), slice(5, 8, None)]
    """
    return [slice(k * size // of, (k + 1) * size // of) for k in range(of)]


def is_even(size: int, of: int) -> bool:
    """Whether all blocks of a batch have one size."""
    return size % of == 0
