"""Examples as rows of token ids, padded on the left so that the answer follows the last column."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.torch.aside import to_device

Index = NDArray[np.int64]


class Batch(NamedTuple):
    """Examples on a device."""

    tokens: torch.Tensor  # (rows, longest)
    mask: torch.Tensor  # 1 for tokens, 0 for padding
    places: torch.Tensor  # position of each token in its example
    labels: torch.Tensor  # (rows,)

    def repeat(self, times: int) -> "Batch":
        """The batch, repeated."""
        if times == 1:
            return self
        tokens, mask, places = (part.repeat(times, 1) for part in self[:3])
        return Batch(tokens, mask, places, self.labels.repeat(times))

    def part(self, rows: slice) -> "Batch":
        """Some of the examples."""
        return Batch(*(each[rows] for each in self))


class Examples:
    """A split of a task in memory; batches are padded to their longest example."""

    def __init__(self, tokens: list[NDArray[np.int32]], labels: Index, filler: int = 0) -> None:
        self.lengths = np.array([len(row) for row in tokens], np.int64)
        self.labels = np.asarray(labels, np.int64)
        self.tokens = np.full((len(tokens), int(self.lengths.max(initial=0))), filler, np.int32)
        for row, given in zip(self.tokens, tokens, strict=True):
            row[len(row) - len(given) :] = given

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, rows: Index, device: torch.device, multiple: int = 1) -> Batch:
        """The examples with these indices, padded to a multiple, or to the longest example of the split."""
        lengths = self.lengths[rows]
        longest = min(-(-int(lengths.max()) // multiple) * multiple, self.tokens.shape[1])
        places = np.arange(longest) - (longest - lengths)[:, None]
        tokens = self.tokens[rows, self.tokens.shape[1] - longest :].astype(np.int64)
        labels = np.broadcast_to(self.labels[rows, None], tokens.shape)
        stacked = np.stack([tokens, places >= 0, np.maximum(places, 0), labels])
        packed = to_device(stacked, device)  # one copy
        return Batch(packed[0], packed[1], packed[2], packed[3, :, 0])

    def by_length(self, each: int, device: torch.device) -> Iterator[tuple[Index, Batch]]:
        """Indices and batches of all examples, sorted by length to keep padding short."""
        order = np.argsort(self.lengths, kind="stable")
        for first in range(0, len(order), each):
            rows = order[first : first + each]
            yield rows, self.batch(rows, device)
