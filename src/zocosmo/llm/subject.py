"""The model, task, examples and adapter layout that the trials of a study share."""

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.llm.adapters import Adapter, Layout
from zocosmo.llm.backbone import Backbone, pick_device
from zocosmo.llm.batches import Examples
from zocosmo.llm.memory import check_adapters, check_memory
from zocosmo.llm.models import find_model, load_model, load_tokenizer, skeleton
from zocosmo.llm.rows import shards
from zocosmo.llm.tasks import encode, load_task
from zocosmo.problems.language import ModelSetting

KEEP = 4  # parts of each kind on a shelf

Words = NDArray[np.int64]


class Shelf:
    """A cache of expensive parts by kind and key, with the last few of each kind."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Hashable, Any]] = {}

    def get(self, kind: str, key: Hashable, make: Callable[[], Any]) -> Any:
        """The cached part, or a new one, which is cached."""
        kept = self._kept.setdefault(kind, {})
        part = kept.pop(key) if key in kept else make()
        kept[key] = part  # most recent last
        if len(kept) > KEEP:
            del kept[next(iter(kept))]
        return part


class Subject:
    """A model and a task. The adapter's layout is read at once; examples and weights on first use.

    Subjects on one shelf share equal parts: settings that differ only in noise, clip or batch have the same
    weights and examples.
    """

    def __init__(self, setting: ModelSetting, shelf: Shelf | None = None) -> None:
        self.setting, self.shelf = setting, shelf or Shelf()
        self.model = find_model(setting.model)
        self.task = load_task(setting.task, setting.data or None)
        self.layout, self.d = self._lay_out(skeleton(self.model))

    def __copy__(self) -> Self:
        """A copy with the parts made so far; it makes the others itself, on a new shelf."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), shelf=Shelf())
        return twin

    def _lay_out(self, skeleton: Any) -> tuple[Layout, int]:
        """Where adapters enter the model, and d."""
        given = self.setting
        layout = Layout(skeleton, rank=given.rank, alpha=given.alpha, targets=given.targets)
        return layout, layout.d

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shapes of the matrices in x, A and B site by site; () without an adapter."""
        return tuple(shape for site in self.layout.sites for shape in site.shapes(self.setting.rank))

    @cached_property
    def tokenizer(self) -> Any:
        return self.shelf.get("tokenizer", self.model, lambda: load_tokenizer(self.model))

    @cached_property
    def train(self) -> Examples:
        return self._encoded("train")[0]

    @cached_property
    def validation(self) -> Examples:
        return self._encoded("validation")[0]

    @cached_property
    def x0(self) -> Adapter:
        return self.layout.start(self.setting.start)

    @cached_property
    def backbone(self) -> Backbone:
        """The model with its weights on the device, loaded on first use."""
        given, device = self.setting, pick_device(self.setting.device, self.setting.dtype)
        if given.threads:
            torch.set_num_threads(given.threads)

        def load() -> Backbone:
            check_memory(skeleton(self.model), dtype=given.dtype, device=device)
            model = load_model(self.model, dtype=given.dtype, device=device)
            return Backbone(model, self.layout, self.words, loss=given.loss, tf32=given.dtype == "tf32")

        adapter = given.rank, given.alpha, given.targets
        key = self.model, given.dtype, device, *adapter, given.loss, tuple(self.words.tolist())
        backbone: Backbone = self.shelf.get("backbone", key, load)
        return backbone

    def check_points(self, rows: int, directions: int) -> None:
        """Refuse adapters of a round, one for each row, direction and side, that do not fit on the device."""
        given, device = self.setting, pick_device(self.setting.device, self.setting.dtype)
        loaded = "backbone" in vars(self)
        check_adapters(
            None if loaded else skeleton(self.model),
            self.d,
            rows,
            directions,
            dtype=given.dtype,
            device=device,
        )

    @cached_property
    def words(self) -> Words:
        """Tokens of the label words, found while encoding."""
        return self._encoded("train")[1]

    def _encoded(self, split: str) -> tuple[Examples, Words]:
        given, training = self.setting, split == "train"
        longest = (given.train_tokens if training else 0) or given.max_tokens
        limit = given.train_rows if training else given.validation_rows

        def make() -> tuple[Examples, Words]:
            found = encode(self.task, split, self.tokenizer, max_tokens=longest, limit=limit or None)
            return Examples(found.tokens, found.labels), np.asarray(found.words)

        key = self.model, given.task, given.data, longest, limit
        encoded: tuple[Examples, Words] = self.shelf.get(split, key, make)
        return encoded

    def shards(self, n: int, tape: Any) -> list[Any]:
        """The training examples of each node."""
        return shards(self.train.labels, n, how=self.setting.split, alpha=self.setting.skew, tape=tape)


class Opener(Shelf):
    """Caches subjects, so that all trials of a study share one, and subjects share equal parts."""

    def __call__(self, setting: ModelSetting) -> Subject:
        subject: Subject = self.get("subject", setting, lambda: Subject(setting, self))
        return subject

    def cache_clear(self) -> None:
        """Drop all cached subjects and parts."""
        self._kept.clear()


open_subject = Opener()
