"""One frozen language model that answers for many adapters: row r of a forward has adapter r."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.errors import InputError, check_known
from zocosmo.llm.adapters import Layout, Site
from zocosmo.llm.batches import Batch
from zocosmo.llm.replay import Replay
from zocosmo.torch.rows import Owed

LOSSES = ("label", "vocabulary")


class Backbone:
    """A model and the places where adapters enter it.

    Queries of many nodes are one forward: of R rows of adapters and R · b examples, example k has adapter
    k // b, and ΔW x of all of them is a batched product. With R = 1 this is an ordinary LoRA forward.
    Adapters are float32 whatever the type of the model, as in PEFT. How products of float32 are rounded is
    one switch for all of torch, so every forward sets it to what this model was asked for.
    """

    def __init__(
        self,
        model: Any,
        layout: Layout,
        words: NDArray[np.int64],
        *,
        loss: str = "label",
        tf32: bool = False,
    ) -> None:
        check_known("loss", loss, LOSSES)
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
        """Loss of every example, and whether the right label has the highest score; adapters (R, d).

        Of several adapters on a GPU the forward is recorded and replayed, see `Replay`; of one it is not, as
        it is to give the bits of a process that has one only.
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
        """Mean losses of adapters x + shift, then of x − shift, (2 · rows,); shifts (rows, q) stand on the
        coordinates `at`, and the batch has the examples of all of them. What is `owed`, coordinates and
        values (rows, q), is written to x first. What is replayed does it all."""
        (mean,) = self.replay_both(x, at, shift, *owed, batch)
        return mean

    def both_ahead(
        self,
        x: torch.Tensor,
        at: torch.Tensor,
        shift: torch.Tensor,
        batch: Batch,
        owed: Owed | tuple[()] = (),
    ) -> None:
        """Begin what `both` will do with the same arguments."""
        self.replay_both.load(x, at, shift, *owed, batch)

    def _both(
        self, x: torch.Tensor, at: torch.Tensor, shift: torch.Tensor, *rest: Any
    ) -> tuple[torch.Tensor]:
        *owed, batch = rest
        if owed:
            x.scatter_(1, owed[0], owed[1].to(x.device))
        points = both_points(x, at, shift)
        return (self._losses(points, batch)[0].view(len(points), -1).mean(dim=1),)

    def _losses(self, adapters: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self._logits(adapters, batch)
        nll, right = self._judged(logits, batch)
        if self.loss == "label":
            return nll, right
        target = self.words[batch.labels]
        return torch.nn.functional.cross_entropy(logits, target, reduction="none"), right

    @torch.inference_mode()
    def judge(self, adapters: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Label NLL of every example, whatever the loss, and whether the right label scores highest."""
        return self._judged(self._logits(adapters, batch), batch)

    def _judged(self, logits: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        scores = logits[:, self.words]
        nll = torch.nn.functional.cross_entropy(scores, batch.labels, reduction="none")
        return nll, scores.argmax(dim=-1) == batch.labels

    def _logits(self, adapters: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Scores of every word after each example."""
        torch.set_float32_matmul_precision(self.precision)
        self._rows = [self._matrices(adapters, site) for site in self.layout.sites]
        more = {"position_ids": batch.places, "logits_to_keep": 1}  # where they are known
        try:
            logits = self.model(
                input_ids=batch.tokens,
                attention_mask=batch.mask,
                use_cache=False,
                **{name: more[name] for name in self._knows},
            ).logits[:, -1]
        finally:
            self._rows = []
        doubled: torch.Tensor = logits.double()  # two losses differ by little: no more rounding than there is
        return doubled

    def _matrices(self, adapters: torch.Tensor, site: Site) -> tuple[torch.Tensor, torch.Tensor]:
        rank, rows = self.layout.rank, len(adapters)
        middle, end = site.a + rank * site.wide, site.a + rank * (site.wide + site.tall)
        return (
            adapters[:, site.a : middle].view(rows, rank, site.wide),
            adapters[:, middle:end].view(rows, site.tall, rank),
        )


def both_points(x: torch.Tensor, at: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """x + shift of every row, then x − shift, (2 · rows, d) in float32."""
    here, points = x.gather(1, at), x.float().repeat(2, 1)
    points[: len(x)].scatter_(1, at, (here + shift).float())
    points[len(x) :].scatter_(1, at, (here - shift).float())
    return points


def check_tf32(device: str) -> None:
    """Refuse tf32 where no GPU multiplies: a CPU would round in another way, or not at all."""
    if not device.startswith("cuda"):
        raise InputError(f"tf32 is a GPU's; use float32 (the device is {device})")


def pick_device(given: str) -> str:
    """`auto` is a GPU where there is one: of a process under torchrun, the one of its local rank."""
    import os

    if given != "auto":
        if given.startswith("cuda") and not torch.cuda.is_available():
            raise InputError(f"device {given!r} was asked for and torch sees no GPU; use cpu, or auto")
        return given
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}"
