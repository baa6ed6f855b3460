"""CUDA graphs of short forwards: each shape is recorded once, then replayed."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from zocosmo.llm.batches import Batch
from zocosmo.llm.quiet import first_line

MOST_TOKENS = 2**13  # longer forwards take more time than launching their kernels

Answers = tuple[torch.Tensor, ...]
Forward = Callable[..., Answers]  # takes tensors, then a batch


class Recorded(NamedTuple):
    """A recorded forward of one shape, with its input and output buffers."""

    graph: Any  # torch.cuda.CUDAGraph
    inputs: tuple[torch.Tensor, ...]
    answers: Answers


class Replay:
    """Replays a forward if it is short and on a GPU; calls it otherwise.

    The choice depends on shapes alone, so a resumed run makes the same one. A forward that cannot be
    recorded, because it reads values on the host, is called, with a warning.
    """

    def __init__(self, forward: Forward) -> None:
        self.forward, self.fails = forward, False
        self._recorded: dict[tuple[Any, ...], Recorded] = {}
        self._lead: dict[Any, tuple[torch.Tensor, ...]] = {}  # shared by all batch shapes
        self._held: dict[int, tuple[torch.Tensor, int]] = {}  # by buffer: the tensor loaded, its version
        self._pool: Any = None

    def __call__(self, *given: Any) -> Answers:
        """forward(*given) of tensors and then a batch; all but the first may be on the host."""
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
                said = f"the model's forward cannot be recorded as a CUDA graph ({first_line(error)[:120]})"
                warnings.warn(f"{said}; running it without", stacklevel=2)
                self.fails = True
                return self.forward(*given)
        found = self._recorded[shape]
        pairs = zip(found.inputs, (*lead, *batch), strict=True)
        copy_all([(mine, new) for mine, new in pairs if not self._holds(mine, new)])
        self._held = {}
        found.graph.replay()
        return tuple(part.clone() for part in found.answers)  # other shapes share this memory

    @torch.inference_mode()
    def load(self, *given: Any) -> None:
        """Copy the inputs of the next call ahead, while the device is busy.

        The call copies again any tensor that was replaced, written to, or is on the host.
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
        with torch.cuda.stream(aside):  # warm up: libraries' first-call setup must not be recorded
            self.forward(*mine, examples)
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph, pool=self._pool):
            answers = self.forward(*mine, examples)
        return Recorded(graph, (*mine, *examples), answers)


def _shape(lead: Sequence[torch.Tensor], batch: Batch) -> tuple[Any, Any]:
    """Keys of the shared lead buffers, and of the recorded forward."""
    kind = tuple((part.shape, part.dtype) for part in lead)
    return kind, (kind, batch.tokens.shape)


def copy_all(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Copy the second of each pair into the first, with one call per dtype."""
    for kind in {mine.dtype for mine, _ in pairs}:
        alike = [pair for pair in pairs if pair[0].dtype == kind]
        torch._foreach_copy_([mine for mine, _ in alike], [new for _, new in alike], non_blocking=True)
