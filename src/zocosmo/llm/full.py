"""The weights of a model itself, all of them or some by name, as the state of one node.

Nothing here has d entries but the model: what was visited is kept in sparse maps, and so are snapshots.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.support import Direction, Support
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.llm.models import find_model, skeleton
from zocosmo.llm.problem import LanguageModel, Launched
from zocosmo.llm.record import Record
from zocosmo.llm.select import FULL, Named, select, size
from zocosmo.llm.subject import ModelSetting, Subject
from zocosmo.llm.tasks import load_task
from zocosmo.methods.cosmo import Cosmo
from zocosmo.oracle import Asks, Mask, Measured, Query, both_sides
from zocosmo.state import Coordinates, Loan
from zocosmo.torch.flat import Flat
from zocosmo.torch.visited import Column, Visited, join_pairs, split_pairs

NO_ADAPTER = torch.empty((1, 0))
ONE = np.arange(1)  # the only row
WHERE_ELSE = "for several, one process each: zocosmo.torch.Cosmo or zocosmo.llm.CosmoTrainer under torchrun"

Values = NDArray[Any]


class ModelWeights(Coordinates):
    """Weights as one d-vector, and what they were before a run first visited them.

    As an array it is what was visited, (1, 2, visited): coordinates, ascending, and their values.
    """

    def __init__(self, flat: Flat) -> None:
        self.flat, self.d, self.dtype = flat, flat.d, flat.dtype
        self.origin = Visited({"x": np.nan}, flat.dtype)
        squares = (torch.linalg.vector_norm(each, dtype=torch.float64).item() ** 2 for each in flat.tensors)
        self._square = sum(squares)  # ‖x_0‖²

    def restrict(self, support: Support) -> Values:
        return self.flat.restrict(support)

    def lend(self, support: Support) -> Loan:
        return self.flat.lend(support)

    def put(self, support: Support, values: Values) -> Self:
        """Take a step, remembering what stood where no step has been before."""
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
        """Back to where all runs begin."""
        kept = self.origin.arrays()
        if kept["keys"].size:
            self.flat.put(Support(kept["keys"], self.d), kept["x"])
        for visited in (self.origin, self.flat.visited):
            visited.restore({name: np.empty(0) for name in ("keys", *visited.columns)})
        return self

    def load(self, snapshot: Values) -> Self:
        """Become the state of a snapshot, from wherever this is."""
        self.undo()
        keys, values = split_pairs(snapshot)
        return self.put(Support(keys, self.d), values.astype(self.dtype)) if keys.size else self

    def now_and_then(self) -> tuple[Values, Values]:
        """Values of all that was visited, now and at the start, in float64."""
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


def alone() -> InputError:
    """Why there is no array of d entries, and no share of the nodes."""
    return InputError(f"a whole model is the state of one node under zocosmo run; {WHERE_ELSE}")


class NoLayout(NamedTuple):
    """No adapter enters the model."""

    sites: tuple[Any, ...] = ()


class Whole(Subject):
    """A model whose own weights are trained: all but its vocabulary, or those whose names fit a pattern."""

    def __init__(self, setting: ModelSetting, coordinates: str) -> None:
        self.setting, self.coordinates = setting, coordinates
        self.model = find_model(setting.model)
        self.task = load_task(setting.task, setting.data or None)
        self.layout: Any = NoLayout()
        self.d = size(self._chosen(skeleton(self.model)))

    @cached_property
    def weights(self) -> ModelWeights:
        """One for all trials of a study, which take it back to its start."""
        return ModelWeights(Flat(list(self._chosen(self.backbone.model).values())))

    def _chosen(self, model: Any) -> Named:
        """`full`, or patterns separated by commas; those that begin with ! leave out."""
        words = [word.strip() for word in self.coordinates.split(",")]
        wanted, left_out = (
            [w for w in words if not w.startswith("!")],
            [w[1:] for w in words if w.startswith("!")],
        )
        return select(model, FULL if wanted in ([FULL], []) else wanted, exclude=left_out)


@lru_cache(maxsize=1)  # weights are large
def open_whole(setting: ModelSetting, coordinates: str) -> Whole:
    return Whole(setting, coordinates)


class Lean(Record):
    """Without a flag for each coordinate: the state knows where it has been."""

    def __init__(self, shape: tuple[int, ...], d: int) -> None:
        super().__init__(shape, 1)


class FullModel(LanguageModel):
    """f(x; ξ) = mean loss of a model with weights x on a batch of one node's examples.

    The state is the model that answers, so one run at a time has it.
    """

    subject: Whole
    records = Lean
    overheard = True

    @classmethod
    def build(cls, subject: Subject, n: int, seed: Seed) -> Self:
        if n != 1:
            assert isinstance(subject, Whole)
            what = subject.coordinates
            raise InputError(
                f"coordinates {what!r} are those of one model and one node, got {n}; {WHERE_ELSE}"
            )
        return super().build(subject, n, seed)

    @property
    def structure(self) -> tuple[Any, ...]:
        return *super().structure, self.subject.coordinates

    @property
    def x0(self) -> Values:
        raise alone()

    def states(self, method: Asks, lead: tuple[int, ...], dtype: DTypeLike) -> ModelWeights:
        """The model itself, as it was at the start."""
        if method.kind != Cosmo.kind:
            raise InputError(f"one node with a whole model runs cosmo, got {method.kind}; take method cosmo")
        if np.dtype(dtype) != np.float32:
            raise InputError(
                f"weights are read as float32, got dtype {np.dtype(dtype)}; set the study's dtype to float32"
            )
        return self.subject.weights.undo()

    def __call__(self, x: Any, t: int, *, active: Mask | None = None) -> Values:
        """The loss of the model as it is."""
        mean = self.subject.backbone.losses(NO_ADAPTER, self.sampler.batch(t, ONE, 1))[0].mean()
        return np.full(self.record.shape, mean.item())

    def _launch(self, query: Query, t: int) -> Launched:
        """Two forwards of the model itself; its weights are put back to the bit."""
        backbone, batch = self.subject.backbone, self.sampler.batch(t, ONE, 1)
        found = both_sides(query, lambda _: backbone.losses(NO_ADAPTER, batch)[0].mean())
        return Launched(query, ONE, found)

    def look_ahead(self, coming: Direction, query: Query, t: int) -> None:
        query.x.look_ahead(coming, query.u)
        self.sampler.prepare(t, ONE, 1)

    def _finish(self, launched: Launched) -> Values:
        query, rows, found = launched
        plus, minus = (np.full(self.record.shape, each) for each in torch.stack(found).tolist())
        step = self.record.clip(plus - minus, self.subject.setting.clip)
        self.record.add(plus, minus, self.subject.setting.clip, rows)
        return query.slope(step, np.zeros_like(step))

    def measure(self, x: ModelWeights, centre: Callable[[], Values]) -> Measured:
        """What a checkpoint records; the model is the centre."""
        examples = self.subject.validation
        order = np.argsort(examples.lengths, kind="stable")
        sums = self._evaluate(NO_ADAPTER, [order]) / len(examples)
        asked = {name: each.mean(axis=-1) for name, each in self.record.scores(self._noise).items()}
        norm, moved = (np.array([length]) for length in x.norms())
        asked["coverage"] = np.array([len(x.origin) / self.d])
        apart = np.where(np.isfinite(moved), 0.0, np.nan)
        extra = {"accuracy": sums[1], **asked, "norm": norm, "moved": moved}
        return Measured(sums[0], self.record.loss().mean(axis=-1), apart, norm, extra)

    @property
    def _noise(self) -> float:
        return self.subject.setting.noise

    def at(self, nodes: Sequence[int]) -> Self:
        raise alone()

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        if len(problems) != 1:
            raise InputError(f"a whole model has one trial at a time, got {len(problems)}; set together to 1")
        return super().stack(problems)
