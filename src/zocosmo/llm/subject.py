"""The model, task, examples and adapter layout that the trials of a study share."""

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.llm.adapters import Adapter, Layout
from zocosmo.llm.backbone import LOSSES, Backbone, check_tf32, pick_device
from zocosmo.llm.batches import Examples
from zocosmo.llm.memory import DTYPES, check_memory
from zocosmo.llm.models import find_model, load_model, load_tokenizer, skeleton
from zocosmo.llm.rows import SHARDS, shards
from zocosmo.llm.tasks import encode, load_task

QUERIES = ("fused", "one_by_one")
KEEP = 4  # parts of each kind on a shelf

Words = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class ModelSetting:
    """The config of a language model problem; `problems.language` explains the keys."""

    model: str
    task: str
    data: str
    rank: int
    alpha: float
    targets: str
    batch: int
    max_tokens: int
    train_tokens: int  # max_tokens of training prompts; 0: the same
    loss: str
    split: str
    skew: float
    dtype: str
    device: str
    queries: str
    threads: int
    train_rows: int
    validation_rows: int
    eval_batch: int
    start: int | str
    clip: float
    noise: float
    together: int

    def __post_init__(self) -> None:
        given = vars(self)
        for name, known in (("loss", LOSSES), ("queries", QUERIES), ("dtype", DTYPES), ("split", SHARDS)):
            check_known(name, given[name], known)
        for name in ("rank", "batch", "max_tokens", "eval_batch", "together"):
            check_whole(name, given[name], 1)
        for name in ("threads", "train_tokens", "train_rows", "validation_rows"):
            check_whole(name, given[name], 0)
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device):
            raise InputError(f"device must be auto, cpu, cuda, or such as cuda:1; got {self.device!r}")
        if not 0 <= self.clip < 1:
            raise InputError(f"clip must be a quantile from 0 (off) to below 1, got {self.clip}")
        if not self.alpha > 0 or not self.noise >= 0:
            raise InputError(f"alpha must be above 0 and noise at least 0, got {self.alpha} and {self.noise}")


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
        self.setting = setting
        if shelf is not None:
            self.shelf = shelf
        self.model = find_model(setting.model)
        self.task = load_task(setting.task, setting.data or None)
        self.layout = Layout(
            skeleton(self.model), rank=setting.rank, alpha=setting.alpha, targets=setting.targets
        )
        self.d = self.layout.d

    def __copy__(self) -> Self:
        """A copy with the parts made so far; the others it makes itself, on a new shelf."""
        twin = object.__new__(type(self))
        vars(twin).update({name: part for name, part in vars(self).items() if name != "shelf"})
        return twin

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Shapes of the matrices in x, A and B site by site; () without an adapter."""
        return tuple(shape for site in self.layout.sites for shape in site.shapes(self.setting.rank))

    @cached_property
    def shelf(self) -> Shelf:
        return Shelf()

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
        given, device = self.setting, pick_device(self.setting.device)
        tf32 = given.dtype == "tf32"
        if tf32:
            check_tf32(device)
        if given.threads:
            torch.set_num_threads(given.threads)

        def load() -> Backbone:
            check_memory(skeleton(self.model), dtype=given.dtype, device=device)
            model = load_model(self.model, dtype=given.dtype, device=device)
            return Backbone(model, self.layout, self.words, loss=given.loss, tf32=tf32)

        adapter = given.rank, given.alpha, given.targets
        key = self.model, given.dtype, device, *adapter, given.loss, tuple(self.words.tolist())
        backbone: Backbone = self.shelf.get("backbone", key, load)
        return backbone

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


class Opener:
    """Caches subjects, so that all trials of a study share one, and subjects share equal parts."""

    def __init__(self) -> None:
        self._shelf = Shelf()

    def __call__(self, setting: ModelSetting) -> Subject:
        shelf = self._shelf
        subject: Subject = shelf.get("subject", setting, lambda: Subject(setting, shelf))
        return subject

    def cache_clear(self) -> None:
        """Drop all cached subjects."""
        self._shelf = Shelf()


open_subject = Opener()
