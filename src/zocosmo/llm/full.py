"""The weights of a model itself, all of them or some by name, as the state of one node.

Only the model has d entries: visited coordinates and snapshots are stored in sparse maps.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import DTypeLike

from zocosmo.core.support import Direction, Support
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.llm.adapters import NOWHERE, Layout
from zocosmo.llm.batches import Batch
from zocosmo.llm.problem import LanguageModel, Launched
from zocosmo.llm.sampling import blocks
from zocosmo.llm.select import FULL, Named, select, size
from zocosmo.llm.subject import Subject
from zocosmo.methods.cosmo import Cosmo
from zocosmo.oracle import Asks, Mask, Measured, Query, Values, both_sides
from zocosmo.state import Coordinates, Loan
from zocosmo.torch.flat import Flat
from zocosmo.torch.visited import Column, Visited, join_pairs, split_pairs

NO_ADAPTER = torch.empty((1, 0))
ONE = np.arange(1)  # the only row
WHERE_ELSE = "for several, one process each: zocosmo.torch.Cosmo or zocosmo.llm.CosmoTrainer under torchrun"
ALONE = f"a whole model is the state of one node under zocosmo run; {WHERE_ELSE}"


class ModelWeights(Coordinates):
    """Weights as one d-vector, and their values before a run first visited them.

    As an array, (1, 2, visited): the visited coordinates, ascending, and their values.
    """

    def __init__(self, flat: Flat) -> None:
        self.flat, self.d, self.dtype = flat, flat.d, flat.dtype
        self.shape = 1, 1, flat.d  # of one run and one node
        self.origin = Visited({"x": np.nan}, flat.dtype)
        squares = (torch.linalg.vector_norm(each, dtype=torch.float64).item() ** 2 for each in flat.tensors)
        self._square = sum(squares)  # ‖x_0‖²

    def restrict(self, support: Support) -> Values:
        return self.flat.restrict(support)

    def lend(self, support: Support) -> Loan:
        return self.flat.lend(support)

    def put(self, support: Support, values: Values) -> Self:
        """Take a step, and keep the old values of coordinates that are visited for the first time."""
        first = self.origin.get(support.index, "x")
        new = np.isnan(first)
        if new.any():
            self.origin.set(support.index, "x", np.where(new, self.flat.restrict(support), first))
        self.flat.put(support, values)
        return self

    def look_ahead(self, coming: Support, after: Support) -> None:
        self.flat.look_ahead(coming, after)
        self.origin.look_ahead(coming.index, after.index)

    def zeros_like(self) -> Column:
        return self.flat.zeros_like()

    def undo(self) -> Self:
        """Reset to the start of all runs."""
        kept = self.origin.arrays()
        if kept["keys"].size:
            self.flat.put(Support(kept["keys"], self.d), kept["x"])
        for visited in (self.origin, self.flat.visited):
            visited.restore({name: np.empty(0) for name in ("keys", *visited.columns)})
        return self

    def load(self, snapshot: Values) -> Self:
        """Reset, then take the values of a snapshot."""
        self.undo()
        keys, values = split_pairs(snapshot)
        return self.put(Support(keys, self.d), values.astype(self.dtype)) if keys.size else self

    def now_and_then(self) -> tuple[Values, Values]:
        """Values of the visited coordinates, now and at the start, in float64."""
        kept = self.origin.arrays()
        now = self.restrict(Support(kept["keys"], self.d)) if kept["keys"].size else kept["x"]
        return now.astype(np.float64), kept["x"].astype(np.float64)

    def norms(self) -> tuple[float, float]:
        """‖x‖, and ‖x − x_0‖."""
        now, then = self.now_and_then()
        square = self._square + float((now * now - then * then).sum())
        return max(square, 0.0) ** 0.5, float(((now - then) ** 2).sum()) ** 0.5

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        return join_pairs(self.origin.arrays()["keys"], self.now_and_then()[0], dtype)


class Whole(Subject):
    """A model whose own weights are trained: all but its vocabulary, or those whose names fit a pattern."""

    @cached_property
    def weights(self) -> ModelWeights:
        """Shared by all trials of a study; each resets it to the start."""
        return ModelWeights(Flat(list(self._chosen(self.backbone.model).values())))

    def _lay_out(self, skeleton: Any) -> tuple[Layout, int]:
        return NOWHERE, size(self._chosen(skeleton))

    def _chosen(self, model: Any) -> Named:
        """`full`, or patterns separated by commas; those that begin with ! are left out."""
        words = [word.strip() for word in self.setting.coordinates.split(",")]
        wanted = [word for word in words if not word.startswith("!")]
        left_out = [word[1:] for word in words if word.startswith("!")]
        return select(model, FULL if wanted in ([FULL], []) else wanted, exclude=left_out)


open_whole = lru_cache(maxsize=1)(Whole)  # weights are large


class FullModel(LanguageModel):
    """f(x; ξ) = mean loss of a model with weights x on a batch of one node's examples.

    The state is the model itself, so one run at a time can use it.
    """

    subject: Whole
    notes_visits = False  # the state has them
    overheard = True
    in_place = True

    @classmethod
    def build(cls, subject: Subject, n: int, seed: Seed) -> Self:
        if n != 1:
            what = subject.setting.coordinates
            raise InputError(f"coordinates {what!r} are for one model and one node, got {n}; {WHERE_ELSE}")
        return super().build(subject, n, seed)

    @property
    def x0(self) -> Values:
        raise InputError(ALONE)

    def states(self, method: Asks, lead: tuple[int, ...], dtype: DTypeLike) -> ModelWeights:
        """The model itself, reset to the start."""
        if method.kind != Cosmo.kind:
            raise InputError(f"one node with a whole model runs cosmo, got {method.kind}; take method cosmo")
        if np.dtype(dtype) != np.float32:
            raise InputError(f"weights are float32, got {np.dtype(dtype)}; set the study's dtype to float32")
        self._open(method)
        return self.subject.weights.undo()

    def __call__(self, x: Any, t: int, *, active: Mask | None = None) -> Values:
        """The loss of the model with its present weights."""
        return self._ask(x, t, active)

    def _ask(self, x: Any, t: int, active: Mask | None, k: int = 0, of: int = 1) -> Values:
        cut = blocks(self.subject.setting.batch, of)[k]
        self._count([cut], ONE)
        mean = self._loss(self.sampler.batch(t, ONE, 1).part(cut), x)
        return np.full(self.record.shape, mean.item())

    def _loss(self, batch: Batch, x: Any) -> torch.Tensor:
        """The mean loss of the model with its present weights, which are x."""
        return self.subject.backbone.losses(NO_ADAPTER, batch)[0].mean()

    def _launch(self, query: Query, t: int) -> Launched:
        """Two forwards of the model, whose weights are then restored to the bit."""
        whole, cuts = self.sampler.batch(t, ONE, 1), blocks(self.subject.setting.batch, len(query.directions))
        pairs = zip(query.each(), cuts, strict=True)
        found = [both_sides(one, partial(self._loss, whole.part(cut))) for one, cut in pairs]
        self._count(cuts * 2, ONE)
        self._answers.take(torch.stack([side for sides in zip(*found, strict=True) for side in sides]))
        return query, ONE

    def look_ahead(self, coming: Direction, query: Query, t: int, more: tuple[Direction, ...] = ()) -> None:
        query.x.look_ahead(coming, query.u)
        self.sampler.prepare(t, ONE, 1)

    def measure(self, x: ModelWeights, centre: Callable[[], Values]) -> Measured:
        """What a checkpoint records; the model is the centre."""
        examples = self.subject.validation
        order = np.argsort(examples.lengths, kind="stable")
        sums = self._evaluate(NO_ADAPTER, [order]) / len(examples)
        scores = self.record.scores(self.subject.setting.noise)
        asked = {name: each.mean(axis=-1) for name, each in scores.items()}
        norm, moved = (np.array([length]) for length in x.norms())
        asked["coverage"] = np.array([len(x.origin) / self.d])
        apart = np.where(np.isfinite(moved), 0.0, np.nan)
        seen = {name: each.mean(axis=-1) for name, each in self.counted.items()}
        extra = {"accuracy": sums[1], **asked, **seen, "norm": norm, "moved": moved}
        return Measured(sums[0], self.record.loss().mean(axis=-1), apart, norm, extra)

    def at(self, nodes: Sequence[int]) -> Self:
        raise InputError(ALONE)

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        if len(problems) != 1:
            raise InputError(f"a whole model has one trial at a time, got {len(problems)}; set together to 1")
        return super().stack(problems)
