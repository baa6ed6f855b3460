"""Forwards on a GPU without their thousand calls: a shape is recorded once, and replayed from then on."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from zocosmo.llm.batches import Batch

MOST_TOKENS = 2**13  # a forward of more keeps a GPU busy for longer than the host takes to start its kernels

Answers = tuple[torch.Tensor, ...]
Forward = Callable[..., Answers]  # of some tensors, and a batch after them


class Recorded(NamedTuple):
    """A forward of one shape: what is copied into `inputs` comes out as `answers`."""

    graph: Any  # torch.cuda.CUDAGraph
    inputs: tuple[torch.Tensor, ...]
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
        self._held: dict[int, tuple[torch.Tensor, int]] = {}  # by input: what was loaded, and its version
        self._pool: Any = None

    def __call__(self, *given: Any) -> Answers:
        """The answers of forward(*given): tensors, and a batch last. All but the first may be the host's."""
        lead, batch = given[:-1], given[-1]
        if self.fails or lead[0].device.type != "cuda" or batch.tokens.numel() > MOST_TOKENS:
            return self.forward(*given)
        kind, shape = _shape(lead, batch)
        if shape not in self._recorded:
            try:
                self._recorded[shape] = self._record(kind, lead, batch)
            except torch.OutOfMemoryError:
                raise
            except RuntimeError as error:
                said = str(error).splitlines()[0][:120]
                warnings.warn(
                    f"the model's forward cannot be recorded ({said}); its kernels are started one by one",
                    stacklevel=2,
                )
                self.fails = True
                return self.forward(*given)
        found = self._recorded[shape]
        pairs = zip(found.inputs, (*lead, *batch), strict=True)
        copy_all([(mine, new) for mine, new in pairs if not self._holds(mine, new)])
        self._held = {}
        found.graph.replay()
        return tuple(part.clone() for part in found.answers)  # other shapes use the same memory

    @torch.inference_mode()
    def load(self, *given: Any) -> None:
        """Copy in what the next call will have: whoever waits for the last one has the time for it.

        The call copies again what is another tensor by then, or was written to; and what lies with the host.
        """
        found = self._recorded.get(_shape(given[:-1], given[-1])[1])
        if found is None:
            return
        pairs = zip(found.inputs, (*given[:-1], *given[-1]), strict=True)
        there = [(mine, new) for mine, new in pairs if new.device == mine.device and not new.is_inference()]
        copy_all(there)
        self._held = {id(mine): (new, new._version) for mine, new in there}

    def _holds(self, mine: torch.Tensor, new: torch.Tensor) -> bool:
        loaded, version = self._held.get(id(mine), (None, 0))
        return loaded is new and new._version == version

    def _record(self, kind: Any, lead: tuple[torch.Tensor, ...], batch: Batch) -> Recorded:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        device = lead[0].device
        mine = self._lead.setdefault(kind, tuple(part.to(device, copy=True) for part in lead))
        copy_all(list(zip(mine, lead, strict=True)))
        examples = Batch(*(part.clone() for part in batch))
        aside = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):  # what libraries set up at their first call must not be recorded
            self.forward(*mine, examples)
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=self._pool):
            answers = self.forward(*mine, examples)
        return Recorded(graph, (*mine, *examples), answers)


def _shape(lead: Sequence[torch.Tensor], batch: Batch) -> tuple[Any, Any]:
    """What calls have in common that share memory for all but the batch; and those that share a record."""
    kind = tuple((part.shape, part.dtype) for part in lead)
    return kind, (kind, batch.tokens.shape)


def copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy into the first of each pair what is in the second, with one call for all of a type."""
    for kind in {mine.dtype for mine, _ in pairs}:
        alike = [pair for pair in pairs if pair[0].dtype == kind]
        torch._foreach_copy_([mine for mine, _ in alike], [new for _, new in alike], non_blocking=True)
