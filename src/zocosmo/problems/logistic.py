"""Logistic regression on real data split over nodes: convex, and strongly convex with l2 > 0."""

from typing import Literal

import numpy as np

from zocosmo.core.tape import Seed
from zocosmo.problems.data import DataProblem, check_batch, check_rows, load
from zocosmo.problems.draws import Array, private
from zocosmo.problems.split import check_positive
from zocosmo.problems.split import split as split_examples


class Logistic(DataProblem):
    """Scores are linear in the features: one for two classes, otherwise one per class, with a softmax."""

    @property
    def x0(self) -> Array:
        """Zero: all classes are equally likely."""
        return np.zeros(self.d)

    def scores(self, features: Array, x: Array) -> Array:
        """W a for every example a, where x holds the rows of W."""
        W = x.reshape(*x.shape[:-1], -1, features.shape[-1])
        scores: Array = W @ features.swapaxes(-1, -2)
        return scores


def logistic(
    n: int,
    seed: Seed,
    *,
    data: str = "breast_cancer",
    split: str = "iid",
    alpha: float = 1.0,
    batch: int | None = None,
    l2: float = 1e-3,
    rows: Literal["shared", "split"] | None = None,
) -> Logistic:
    """Logistic regression over n nodes: breast_cancer (2 classes, d = 31) or digits (10 classes, d = 650).

    batch = None uses all examples of a node in every query. With `rows` the log counts examples; split gives
    each direction of a query its own block of the batch.

    >>> problem = logistic(4, 0)
    >>> problem.local(np.zeros((4, problem.d))).round(4).tolist()
    [0.6931, 0.6931, 0.6931, 0.6931]
    """
    loaded, tape, batch = load(data), private(seed), check_batch(batch)
    ridge = np.array(check_positive("l2", l2, zero=True))
    parts = split_examples(loaded.labels, n, how=split, alpha=alpha, tape=tape)
    d, how = loaded.columns * loaded.features.shape[1], check_rows(rows, batch)
    return Logistic(data, len(parts), d, parts, tape, batch, ridge, rows=how)
