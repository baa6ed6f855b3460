"""The weights of a model itself, all of them or some by name, as the state of one node.

Nothing here has d entries but the model: what was visited is kept in sparse maps, and so are snapshots.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from zocosmo.channel import MemoryChannel
from zocosmo.core.ledger import Ledger
from zocosmo.core.support import Support
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError
from zocosmo.graphs.graph import complete
from zocosmo.llm.models import find_model, skeleton
from zocosmo.llm.problem import LanguageModel
from zocosmo.llm.queries import Record
from zocosmo.llm.select import FULL, Named, select, size
from zocosmo.llm.subject import ModelSetting, Subject
from zocosmo.llm.tasks import load_task
from zocosmo.methods.base import Method
from zocosmo.methods.cosmo import Cosmo
from zocosmo.oracle import Loan, Mask, TwoQuery, both_sides
from zocosmo.torch.flat import Flat
from zocosmo.torch.visited import Column, Visited
from zocosmo.traffic import Traffic

NO_ADAPTER = torch.empty((1, 0))
ONE = np.arange(1)  # the only row
WHERE_ELSE = "for several, one process each: zocosmo.torch.Cosmo or zocosmo.llm.CosmoTrainer under torchrun"

Values = NDArray[Any]


class Weights:
    """Weights as one d-vector (`Coordinates`), and what they were before a run first visited them.

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

    def look_ahead(self, support: Support, after: Support) -> None:
        """Make ready for a support after another."""
        self.flat.look_ahead(support, after)
        self.origin.look_ahead(support.index, after.index)

    def zeros_like(self) -> "Momentum":
        return Momentum(self.flat.visited, "m")

    def undo(self) -> Self:
        """Back to where all runs begin."""
        kept = self.origin.arrays()
        if kept["keys"].size:
            self.flat.put(Support(kept["keys"], self.d), kept["x"])
        for visited in (self.origin, self.flat.visited):
            visited.restore({name: np.empty(0) for name in ("keys", *visited.columns)})
        return self

    def load(self, pairs: Values) -> Self:
        """Become what an array of these was, from wherever this is."""
        self.undo()
        keys, values = _apart(pairs)
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
        return _pairs(self.origin.arrays()["keys"], self.now_and_then()[0], dtype)


class Momentum(Column):
    """Momentum of what was visited; as an array, as `Weights` are."""

    def load(self, pairs: Values) -> Self:
        keys, values = _apart(pairs)
        if keys.size:
            self.visited.set(keys, self.name, values)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        kept = self.visited.arrays()
        return _pairs(kept["keys"], kept[self.name], dtype)


def _pairs(keys: Values, values: Values, dtype: Any) -> Values:
    """float64 holds every coordinate below 2^53, and every float32."""
    return np.stack([keys.astype(np.float64), values.astype(np.float64)])[None].astype(dtype or np.float64)


def _apart(pairs: Values) -> tuple[NDArray[np.int64], Values]:
    return pairs[0, 0].astype(np.int64), pairs[0, 1]


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
    def weights(self) -> Weights:
        """One for all trials of a study, which take it back to its start."""
        return Weights(Flat(list(self._chosen(self.backbone.model).values())))

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


class Overheard(MemoryChannel):
    """The channel of a node that is alone, charged as if one other listened: what its updates would cost."""

    def __init__(self, graphs: Any, *, codecs: Sequence[str], **options: Any) -> None:
        super().__init__(graphs, codecs=codecs, **options)
        self._bills = {name: Ledger([(0, 1)], (1,)) for name in codecs}
        self._traffic = Traffic([complete(2)], [(0, 1)])


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
    channel = Overheard

    @classmethod
    def build(cls, subject: Subject, n: int, seed: Seed) -> Self:
        if n != 1:
            what = getattr(subject, "coordinates", FULL)
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

    def begin(self, method: Method, dtype: DTypeLike) -> Weights:
        """The state at its start, for methods that touch nothing but supports."""
        if not isinstance(method, Cosmo):
            raise InputError(f"one node with a whole model runs cosmo, got {method.kind}; take method cosmo")
        if np.dtype(dtype) != np.float32:
            raise InputError(
                f"weights are read as float32, got dtype {np.dtype(dtype)}; set the study's dtype to float32"
            )
        return self.subject.weights.undo()

    def __call__(self, x: Any, t: int, *, active: Mask | None = None) -> Values:
        """The loss of the model as it is."""
        mean = self.subject.backbone.losses(NO_ADAPTER, self._ready(t, ONE, 1))[0].mean()
        return np.full(self.record.shape, mean.item())

    def two_query(self, query: TwoQuery, t: int) -> Values:
        """The slope, from two forwards of the model itself; its weights are put back to the bit."""
        x: Any = query.x
        backbone, batch = self.subject.backbone, self._ready(t, ONE, 1)
        found = both_sides(query, lambda _: backbone.losses(NO_ADAPTER, batch)[0].mean())
        if self.prepare is not None:  # while a device computes
            x.look_ahead(self.prepare().u, query.u)
            self._make_ready(t + 1, ONE, 1)
        plus, minus = (np.full(self.record.shape, each) for each in torch.stack(found).tolist())
        step = self.record.clip(plus - minus, self.subject.setting.clip)
        self.record.add(plus, minus, self.subject.setting.clip, ONE)
        return query.slope(step, np.zeros_like(step))

    def measure(self, x: Weights) -> dict[str, Values]:
        """All that a checkpoint says, by run."""
        examples = self.subject.validation
        order = np.argsort(examples.lengths, kind="stable")
        sums = self._evaluate(NO_ADAPTER, [order]) / len(examples)
        asked = {name: each.mean(axis=-1) for name, each in self.record.scores(self._noise).items()}
        norm, moved = x.norms()
        asked["coverage"] = np.array([len(x.origin) / self.d])
        return {
            "objective": sums[0],
            "local": self.record.loss().mean(axis=-1),
            "disagreement": np.zeros(1) if np.isfinite(moved) else np.full(1, np.nan),
            "accuracy": sums[1],
            **asked,
            "norm": np.array([norm]),
            "moved": np.array([moved]),
        }

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
