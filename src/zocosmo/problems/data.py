"""Real data sets, and the loss of a model on each node's share of one."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.oracle import Asks, Problem, Query, ask_slopes
from zocosmo.problems.draws import Array, together, uniforms
from zocosmo.problems.nodes import check_nodes

Index = NDArray[np.int64]

DATA_SETS = ("breast_cancer", "digits")
ROWS = ("shared", "split")
BLOCK = 32  # examples per matrix product


class Data(NamedTuple):
    """Examples as rows of features, the last one 1 for the bias, and their classes 0…C−1."""

    features: Array
    labels: Index

    @property
    def columns(self) -> int:
        """Scores per example: one for two classes, otherwise one for each class."""
        classes = int(self.labels.max()) + 1
        return 1 if classes == 2 else classes


@functools.cache
def load(name: str) -> Data:
    """A data set that ships with scikit-learn: nothing is downloaded."""
    check_known("data set", name, DATA_SETS)
    try:
        from sklearn import datasets  # here: importing it takes a second
    except ModuleNotFoundError:
        raise InputError(f"data set {name!r} needs scikit-learn; run: pip install scikit-learn") from None
    if name == "digits":
        features, labels = datasets.load_digits(return_X_y=True)
        features = features / 16.0  # grey levels 0…16
    else:
        features, labels = datasets.load_breast_cancer(return_X_y=True)
        features = (features - features.mean(axis=0)) / features.std(axis=0)
    data = Data(np.column_stack([features, np.ones(len(labels))]), labels.astype(np.int64))
    for array in data:
        array.flags.writeable = False  # shared by all problems of the process
    return data


class Shards(NamedTuple):
    """The examples of all nodes of all trials in blocks of equal size; a node's last block is padded.

    The rounding of a matrix product may depend on its size. With blocks of one size a node's loss has the
    same bits whatever other nodes and trials are computed with it.
    """

    features: Array  # (blocks, BLOCK, features)
    labels: Index  # (blocks, BLOCK)
    owner: Index  # (blocks,) trial · n + node
    real: Index  # positions in all blocks without the padding, in order of owner
    start: Index  # (trials · n,) where each owner starts in `real`

    @classmethod
    def of(cls, data: Data, parts: Sequence[Index]) -> "Shards":
        sizes = np.array([part.size for part in parts])
        blocks = -(-sizes // BLOCK)
        rooms = blocks * BLOCK - sizes
        padded = [np.pad(part, (0, room), mode="edge") for part, room in zip(parts, rooms, strict=True)]
        rows = np.concatenate(padded).reshape(-1, BLOCK)
        owner = np.repeat(np.arange(len(parts)), blocks)
        first = (np.cumsum(blocks) - blocks) * BLOCK
        real = np.concatenate([at + np.arange(size) for at, size in zip(first, sizes, strict=True)])
        return cls(data.features[rows], data.labels[rows], owner, real, np.cumsum(sizes) - sizes)

    def sums(self, values: Array) -> Array:
        """Sum over each owner's examples of values (…, blocks, BLOCK)."""
        flat = values.reshape(*values.shape[:-2], -1)
        return np.add.reduceat(np.take(flat, self.real, axis=-1), self.start, axis=-1)


@functools.cache
def whole(source: str) -> Shards:
    """All examples of a data set, as if one node held them."""
    data = load(source)
    return Shards.of(data, [np.arange(data.labels.size)])


@dataclass(eq=False)
class DataProblem(Problem):
    """F_i(x) = mean over node i's examples of the model's loss + l2/2 ‖x‖²; `scores` defines the model.

    With a batch, f_i(x; ξ_{i,t}) is the mean over that many of the node's examples, drawn with replacement
    from its private coins of the round. Arithmetic is in double precision. A diverged state gets inf or nan
    without a warning: trials run together, and the others continue.

    With `rows` the log counts the examples evaluated. "shared": all directions of a query see the batch.
    "split": direction k of K sees the k-th of K blocks of it, on both sides, so K directions cost one batch.
    """

    source: str
    n: int
    d: int
    parts: list[Index]  # examples of each node; when stacked, trial after trial
    tape: Tape  # private; its shape is that of the stack
    batch: int | None
    l2: Array  # () or (trials, 1)
    nodes: tuple[int, ...] = ()  # which of the nodes that share the data; all by default
    rows: str | None = None  # None: shared, and not counted
    _sample: dict[int, tuple[Array, Index]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self.nodes = self.nodes or tuple(range(self.n))
        self._seen = np.zeros((*self.tape.shape, self.n), np.int64)  # examples evaluated by each node

    @property
    def structure(self) -> tuple[Any, ...]:
        return self.source, self.batch, self.nodes, self.rows

    def admit(self, method: Asks) -> None:
        if self.rows != "split":
            return
        if method.is_one_sided:
            raise InputError("with rows split each direction has its own examples; use sides 2, not 1")
        if method.vectors > (self.batch or 0):
            raise InputError(
                f"{method.vectors} directions cannot split a batch of {self.batch}; "
                "lower directions, or raise batch"
            )

    @abstractmethod
    def scores(self, features: Array, x: Array) -> Array:
        """Scores of examples (…, m, features) under parameters (…, d): shape (…, columns, m)."""

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        kinds = {(type(p), p.d, p.tape.shape, p.structure) for p in problems}
        if len(kinds) != 1 or problems[0].tape.shape != ():
            found = sorted(
                f"{p.source} nodes {p.nodes[0]}…{p.nodes[-1]} d={p.d} batch={p.batch} {p.tape.shape}"
                for p in problems
            )
            raise InputError(f"only single problems that differ in seed, split and l2 stack, got {found}")
        parts = [part for problem in problems for part in problem.parts]
        tape, l2 = together([p.tape for p in problems]), np.array([[p.l2] for p in problems])
        return replace(problems[0], parts=parts, tape=tape, l2=l2)

    def at(self, nodes: Sequence[int]) -> Self:
        some = check_nodes(nodes, self.n)
        parts = [self.parts[first + i] for first in range(0, len(self.parts), self.n) for i in some]
        return replace(self, n=len(some), parts=parts, nodes=tuple(self.nodes[i] for i in some))

    def __call__(self, x: NDArray[Any], t: int, *, active: NDArray[np.bool_] | None = None) -> Array:
        """f_i(x_i; ξ_{i,t}), shape (…, n). All nodes are evaluated, active or not."""
        return self._ask(x, t, active)

    def slopes(self, query: Query, t: int) -> Array:
        if self.rows != "split":
            return super().slopes(query, t)
        of = len(query.directions)
        each = [ask_slopes(self.part(k, of), one, t) for k, one in enumerate(query.each())]
        return np.concatenate(each, axis=-1)

    def part(self, k: int, of: int) -> Callable[..., Array]:
        if self.rows != "split":
            return self

        def ask(x: NDArray[Any], t: int, *, active: NDArray[np.bool_] | None = None) -> Array:
            return self._ask(x, t, active, k, of)

        return ask

    def _ask(
        self,
        x: NDArray[Any],
        t: int,
        active: NDArray[np.bool_] | None,
        k: int = 0,
        of: int = 1,
    ) -> Array:
        """f on block k of the `of` blocks of the batch: examples ⌊kB/of⌋ … ⌊(k + 1)B/of⌋ − 1."""
        if self.batch is None:
            self._count(self._sizes.reshape(self._seen.shape).astype(np.int64), active)
            return self.local(x)
        first, last = k * self.batch // of, (k + 1) * self.batch // of
        x, (features, labels) = self._states(x), self._examples(t)
        self._count(last - first, active)
        if of > 1:
            features = np.ascontiguousarray(features[..., first:last, :])
            labels = np.ascontiguousarray(labels[..., first:last])
        with np.errstate(over="ignore", invalid="ignore"):
            losses = example_losses(self.scores(features, x), labels)
            answers: Array = losses.mean(axis=-1) + self._ridge(x)
        return answers

    def local(self, x: NDArray[Any]) -> Array:
        """F_i(x_i) over all examples of node i, shape (…, n)."""
        x, shards = self._states(x), self._shards
        rows = x.reshape(*x.shape[: x.ndim - 2 - len(self.tape.shape)], len(self.parts), self.d)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.scores(shards.features, np.take(rows, shards.owner, axis=-2))
            means = shards.sums(example_losses(scores, shards.labels)) / self._sizes
            return means.reshape(x.shape[:-1]) + self._ridge(x)

    def _count(self, examples: Any, active: NDArray[np.bool_] | None) -> None:
        if self.rows is not None:
            self._seen = self._seen + (examples if active is None else examples * active)

    def measures(self, x: NDArray[Any]) -> dict[str, Array]:
        counted = {} if self.rows is None else {"examples": self._seen.astype(np.float64)}
        return {**super().measures(x), **counted}

    def snapshot(self) -> dict[str, NDArray[Any]]:
        return {} if self.rows is None else {"examples": self._seen}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if self.rows is not None:
            self._seen = np.array(arrays["examples"])

    def report(self, x: NDArray[Any]) -> dict[str, Array]:
        """The accuracy of one shared point (…, d) of each run over all examples."""
        shards, x = whole(self.source), np.ascontiguousarray(x, np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            right = is_right(self.scores(shards.features, x[..., None, :]), shards.labels)
        return {"accuracy": shards.sums(right.astype(np.float64))[..., 0] / shards.real.size}

    def _states(self, x: NDArray[Any]) -> Array:
        shape = (*self.tape.shape, self.n, self.d)
        if np.shape(x)[-len(shape) :] != shape:
            raise InputError(f"states of this problem have a shape that ends in {shape}, got {np.shape(x)}")
        return np.ascontiguousarray(x, np.float64)  # other layouts may round differently

    def _ridge(self, x: Array) -> Array:
        ridge: Array = self.l2 / 2 * (x * x).sum(axis=-1)
        return ridge

    @functools.cached_property
    def _shards(self) -> Shards:
        return Shards.of(load(self.source), self.parts)

    @functools.cached_property
    def _sizes(self) -> Array:
        return np.array([part.size for part in self.parts], np.float64)

    @functools.cached_property
    def _pool(self) -> Index:
        return np.concatenate(self.parts)

    def _examples(self, t: int) -> tuple[Array, Index]:
        """The sample ξ_t of all nodes. The last one is cached: a round uses it at least twice."""
        found = self._sample.get(t)
        if found is None:
            batch, data = check_whole("batch", self.batch or 0, 1), load(self.source)
            u = uniforms(self.tape[..., None], "batch", t, np.array(self.nodes), size=batch)
            sizes = self._sizes.reshape(*u.shape[:-1], 1)
            rows = self._pool[(u * sizes).astype(np.int64) + self._shards.start.reshape(sizes.shape)]
            found = data.features[rows], data.labels[rows]
            self._sample.clear()
            self._sample[t] = found
        return found


def example_losses(scores: Array, labels: Index) -> Array:
    """−ln of the probability that scores (…, columns, m) give to labels (…, m), without overflow."""
    if scores.shape[-2] == 1:
        s = scores[..., 0, :]
        loss: Array = np.logaddexp(0.0, np.where(labels == 1, -s, s))
        return loss
    top = scores.max(axis=-2)
    own = np.take_along_axis(scores, np.broadcast_to(labels, top.shape)[..., None, :], axis=-2)[..., 0, :]
    loss = np.log(np.exp(scores - top[..., None, :]).sum(axis=-2)) + (top - own)
    return loss


def is_right(scores: Array, labels: Index) -> NDArray[np.bool_]:
    """Whether the label has the highest score; never when a score is nan."""
    guess = scores[..., 0, :] > 0 if scores.shape[-2] == 1 else scores.argmax(axis=-2)
    right: NDArray[np.bool_] = (guess == labels) & ~np.isnan(scores.max(axis=-2))
    return right


def check_rows(rows: str | None, batch: int | None) -> str | None:
    """How the directions of a query share its examples; None if nobody says."""
    if rows is None:
        return None
    check_known("rows", rows, ROWS)
    if rows == "split" and batch is None:
        raise InputError("rows split divides a batch among directions, and there is none; set batch")
    return rows


def check_batch(batch: int | None) -> int | None:
    """A number of examples, or None for all examples of a node."""
    return None if batch is None else check_whole("batch", batch, 1)
