"""One frozen language model that serves many adapters in one forward."""

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch

from zocosmo.errors import InputError, check_known
from zocosmo.llm.adapters import Layout, Site
from zocosmo.llm.batches import Batch, Index
from zocosmo.llm.replay import Replay
from zocosmo.problems.language import CHOICES
from zocosmo.torch.rows import Owed, both_points


class Backbone:
    """A model with hooks that add adapters.

    Queries of many nodes share one forward: with R adapters and R · b examples, example k uses adapter
    k // b, and ΔW x is one batched product. With R = 1 this is an ordinary LoRA forward. As in PEFT, adapters
    are float32 whatever the model's dtype. Float32 matmul precision is a global torch setting, so every
    forward sets it.
    """

    def __init__(
        self,
        model: Any,
        layout: Layout,
        words: Index,
        *,
        loss: str = "label",
        tf32: bool = False,
    ) -> None:
        check_known("loss", loss, CHOICES["loss"])
        self.model, self.layout, self.loss = model, layout, loss
        self.device: torch.device = next(model.parameters()).device
        if tf32:
            check_tf32(str(self.device))
        self.precision = "high" if tf32 else "highest"
        known = inspect.signature(model.forward).parameters
        self._knows = [name for name in ("position_ids", "logits_to_keep") if name in known]
        self.words = torch.from_numpy(words).to(self.device)
        self._rows: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.replay, self.replay_both = Replay(self._losses), Replay(self._both)
        for k, site in enumerate(layout.sites):
            model.get_submodule(site.name).register_forward_hook(self._hook(k))

    def _hook(self, k: int) -> Callable[..., Any]:
        def add(module: Any, given: tuple[torch.Tensor, ...], out: torch.Tensor) -> torch.Tensor | None:
            if not self._rows:
                return None
            a, b = self._rows[k]
            rows = given[0].reshape(len(a), -1, a.shape[-1]).to(a.dtype)
            change = torch.bmm(torch.bmm(rows, a.mT), b.mT).mul_(self.layout.scaling)
            return (out + change.view(out.shape)).to(out.dtype)

        return add

    @torch.inference_mode()
    def losses(self, adapters: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss of every example, and whether the right label scores highest; adapters (R, d).

        On a GPU a forward of several adapters is replayed, see `Replay`. A forward of one adapter is not, so
        that its bits equal those of a process that holds one node.
        """
        nll, right = (self.replay if len(adapters) > 1 else self._losses)(adapters, batch)
        return nll, right

    @torch.inference_mode()
    def both(
        self,
        x: torch.Tensor,
        at: torch.Tensor,
        shift: torch.Tensor,
        batch: Batch,
        owed: Owed | tuple[()] = (),
    ) -> torch.Tensor:
        """Mean losses at x + shift, then at x − shift, (2 · rows · K,) with K directions.

        Shifts (rows · K, q) apply at coordinates `at`; the batch holds the examples of all rows. The `owed`
        coordinates and values (rows, q) are written to x first. A replay includes all of this;
        `replay_both.load` copies its inputs ahead.
        """
        (mean,) = self.replay_both(x, at, shift, *owed, batch)
        return mean

    def _both(
        self, x: torch.Tensor, at: torch.Tensor, shift: torch.Tensor, *rest: Any
    ) -> tuple[torch.Tensor]:
        *owed, batch = rest
        if owed:
            x.scatter_(1, owed[0], owed[1].to(x.device))
        return (self.means(both_points(x, at, shift), batch),)

    def means(self, points: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The mean loss of each adapter, on as many examples of the batch each."""
        return self._losses(points, batch)[0].view(len(points), -1).mean(dim=1)

    def _losses(self, adapters: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self._logits(adapters, batch)
        nll, right = self._judged(logits, batch)
        if self.loss == "label":
            return nll, right
        target = self.words[batch.labels]
        return torch.nn.functional.cross_entropy(logits, target, reduction="none"), right

    @torch.inference_mode()
    def judge(self, adapters: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Label NLL of every example, also with another loss, and whether the right label scores highest."""
        return self._judged(self._logits(adapters, batch), batch)

    def _judged(self, logits: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        scores = logits[:, self.words]
        nll = torch.nn.functional.cross_entropy(scores, batch.labels, reduction="none")
        return nll, scores.argmax(dim=-1) == batch.labels

    def _logits(self, adapters: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Next-token logits of each example, in double."""
        torch.set_float32_matmul_precision(self.precision)
        self._rows = [self._matrices(adapters, site) for site in self.layout.sites]
        more = {"position_ids": batch.places, "logits_to_keep": 1}  # if the model accepts them
        try:
            logits = self.model(
                input_ids=batch.tokens,
                attention_mask=batch.mask,
                use_cache=False,
                **{name: more[name] for name in self._knows},
            ).logits[:, -1]
        finally:
            self._rows = []
        doubled: torch.Tensor = logits.double()  # two losses differ by little: add no rounding
        return doubled

    def _matrices(self, adapters: torch.Tensor, site: Site) -> tuple[torch.Tensor, torch.Tensor]:
        rank, rows = self.layout.rank, len(adapters)
        a, b = site.slices(rank)
        return adapters[:, a].view(rows, rank, site.wide), adapters[:, b].view(rows, site.tall, rank)


class ByPoints:
    """Mean losses of a backbone at the points that `make` returns for the tensors before a batch.

    A replay includes the making of the points; `load` copies inputs ahead.
    """

    def __init__(self, backbone: Backbone, make: Callable[..., torch.Tensor]) -> None:
        replay = Replay(lambda *given: (backbone.means(make(*given[:-1]), given[-1]),))
        self._replay, self.load = replay, replay.load

    @torch.inference_mode()
    def __call__(self, *given: Any) -> torch.Tensor:
        (mean,) = self._replay(*given)
        return mean


def check_tf32(device: str) -> None:
    """Refuse tf32 without a GPU: a CPU rounds differently, or not at all."""
    if not device.startswith("cuda"):
        raise InputError(f"tf32 needs a GPU and the device is {device}; use float32")


def pick_device(given: str, dtype: str = "float32") -> str:
    """`auto` is the GPU of this process's local rank, or the CPU without a GPU; tf32 needs a GPU."""
    found = torch.cuda.is_available()
    if given.startswith("cuda") and not found:
        raise InputError(f"device {given!r}: torch sees no GPU; use cpu or auto")
    if given == "auto":
        rank = int(os.environ.get("LOCAL_RANK", "0"))
        given = f"cuda:{rank % torch.cuda.device_count()}" if found else "cpu"
    if dtype == "tf32":
        check_tf32(given)
    return given
