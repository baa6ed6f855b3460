"""A small neural network on the digits: smooth and not convex."""

import math
from typing import Literal

import numpy as np

from zocosmo.core.tape import Seed
from zocosmo.errors import check_whole
from zocosmo.problems.data import DataProblem, check_batch, check_rows, load
from zocosmo.problems.draws import Array, normals, private
from zocosmo.problems.split import check_positive
from zocosmo.problems.split import split as split_examples

INPUTS, CLASSES = 65, 10  # 8 × 8 grey levels and the bias


class Network(DataProblem):
    """One layer of h tanh units, then a softmax: x holds A (h × 65), then B (10 × (h + 1)), by rows."""

    @property
    def hidden(self) -> int:
        return (self.d - CLASSES) // (INPUTS + CLASSES)

    @property
    def x0(self) -> Array:
        """Gaussian weights of variance 1 / inputs, zero biases; the same for all seeds."""
        h, tape = self.hidden, private("start of the network")
        A = normals(tape, "start", 0, size=h * INPUTS).reshape(h, INPUTS) / math.sqrt(INPUTS - 1)
        B = normals(tape, "start", 1, size=CLASSES * (h + 1)).reshape(CLASSES, h + 1) / math.sqrt(h)
        A[:, -1], B[:, -1] = 0.0, 0.0
        return np.concatenate([A.ravel(), B.ravel()])

    def scores(self, features: Array, x: Array) -> Array:
        """B (tanh(A a), 1) for every example a."""
        h, lead = self.hidden, x.shape[:-1]
        A, B = np.split(x, [h * INPUTS], axis=-1)
        units = np.tanh(A.reshape(*lead, h, INPUTS) @ features.swapaxes(-1, -2))
        B = B.reshape(*lead, CLASSES, h + 1)
        scores: Array = B[..., :-1] @ units + B[..., -1:]
        return scores


def network(
    n: int,
    seed: Seed,
    *,
    hidden: int = 16,
    split: str = "iid",
    alpha: float = 1.0,
    batch: int | None = 32,
    l2: float = 0.0,
    rows: Literal["shared", "split"] | None = None,
) -> Network:
    """A network of `hidden` units on the digits, split over n nodes: d = 75 · hidden + 10.

    batch = None uses all examples of a node in every query. With `rows` the log counts examples; split gives
    each direction of a query its own block of the batch.

    >>> network(4, 0).d
    1210
    """
    d = check_whole("hidden", hidden, 1) * (INPUTS + CLASSES) + CLASSES
    tape, batch, ridge = private(seed), check_batch(batch), np.array(check_positive("l2", l2, zero=True))
    parts = split_examples(load("digits").labels, n, how=split, alpha=alpha, tape=tape)
    return Network("digits", len(parts), d, parts, tape, batch, ridge, rows=check_rows(rows, batch))
