"""Forwards on a GPU without their thousand calls: a shape is recorded once, and replayed from then on."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from zocosmo.llm.batches import Batch

MOST_TOKENS = 2**13  # a forward of more keeps a GPU busy for longer than the host takes to start its kernels

Answers = tuple[torch.Tensor, ...]
Forward = Callable[..., Answers]  # of some tensors, and a batch after them


class Recorded(NamedTuple):
    """A forward of one shape: what is copied into `lead` and `batch` comes out as `answers`."""

    graph: Any  # torch.cuda.CUDAGraph
    lead: tuple[torch.Tensor, ...]
    batch: Batch
    answers: Answers


class Replay:
    """A forward that is replayed where it is short and on a GPU, and called as it is elsewhere.

    Which of the two depends on shapes alone, so a resumed run does as the run did. A model whose forward
    cannot be recorded, because it looks at numbers on the way, is called; a warning says so.
    """

    def __init__(self, forward: Forward) -> None:
        self.forward, self.fails = forward, False
        self._recorded: dict[tuple[Any, ...], Recorded] = {}
        self._lead: dict[Any, tuple[torch.Tensor, ...]] = {}  # shared by forwards of all lengths
        self._pool: Any = None

    def __call__(self, *given: Any) -> Answers:
        """The answers of forward(*given): tensors, and a batch last."""
        lead, batch = given[:-1], given[-1]
        if self.fails or lead[0].device.type != "cuda" or batch.tokens.numel() > MOST_TOKENS:
            return self.forward(*given)
        kind = tuple((part.shape, part.dtype) for part in lead)
        shape = kind, batch.tokens.shape
        if shape not in self._recorded:
            try:
                self._recorded[shape] = self._record(kind, lead, batch)
            except RuntimeError as error:
                said = str(error).splitlines()[0][:120]
                warnings.warn(
                    f"the model's forward cannot be recorded ({said}); its kernels are started one by one",
                    stacklevel=2,
                )
                self.fails = True
                return self.forward(*given)
        found = self._recorded[shape]
        for mine, new in zip((*found.lead, *found.batch), (*lead, *batch), strict=True):
            mine.copy_(new)
        found.graph.replay()
        return tuple(part.clone() for part in found.answers)  # other shapes use the same memory

    def _record(self, kind: Any, lead: tuple[torch.Tensor, ...], batch: Batch) -> Recorded:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        mine, device = self._lead.setdefault(kind, tuple(part.clone() for part in lead)), lead[0].device
        for old, new in zip(mine, lead, strict=True):
            old.copy_(new)
        examples = Batch(*(part.clone() for part in batch))
        aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):  # what libraries set up at their first call must not be recorded
            self.forward(*mine, examples)
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=self._pool):
            answers = self.forward(*mine, examples)
        return Recorded(graph, mine, examples, answers)
