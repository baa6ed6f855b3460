"""Curves: the rows of one trial as they come, and what a screen can show of them."""

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ACROSS = ("round", "bits", "queries", "s")  # what a metric is drawn against; s is seconds
NO_METRICS = {*ACROSS, "trial", "n", "stages", "diverged", "living", "problem", "graph", "method", "seed"}
NO_METRICS |= {"value_bits", "index_bits", "control_bits", "framing_bits", "up_bits", "down_bits"}
COUNTS = ("failures", "repairs", "wide")  # what went wrong on links
GREATER = ("accuracy", "f1")
FIRST = ("accuracy", "objective", "query_loss")  # the metric that is shown first

Values = NDArray[np.float64]


class Labels(NamedTuple):
    """What a curve is of."""

    group: str  # one panel: problem and graph, or a part of a comparison
    method: str
    seed: str
    n: int


class Curve:
    """Columns of numbers that grow by rows; `replace` puts denser ones in their place."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.columns: dict[str, array[float]] = {}
        self.generation = 0  # changes when rows are replaced
        self.is_whole = False  # no row is missing: it was read from a finished part or log

    def __len__(self) -> int:
        return len(self.columns.get("round", ()))

    def append(self, row: Mapping[str, Any]) -> None:
        """A later row; rows of a round that is there already are dropped."""
        if self.is_whole or (len(self) and row["round"] <= self.columns["round"][-1]):
            return
        size = len(self)
        for name in {*row, *self.columns}:
            column = self.columns.setdefault(name, array("d", [math.nan]) * size)
            value = row.get(name)
            column.append(math.nan if value is None else float(value))

    def replace(self, columns: Mapping[str, Values], times: Sequence[tuple[float, float]] = ()) -> None:
        """All rows at once, with the times of the rows that were there, or `times`, interpolated by round."""
        seconds = self._seconds(np.asarray(columns["round"], np.float64), times)
        found = {name: column for name, column in columns.items() if column.dtype.kind in "iufb"}
        self.columns = {
            name: array("d", np.asarray(column, np.float64).tobytes())
            for name, column in {**found, "s": seconds}.items()
        }
        self.generation += 1
        self.is_whole = True

    def _seconds(self, rounds: Values, times: Sequence[tuple[float, float]]) -> Values:
        known = times
        if "s" in self.columns and len(self):
            known = list(zip(self.columns["round"], self.columns["s"], strict=True))
        if not known:
            return np.full(len(rounds), np.nan)
        return np.interp(rounds, *np.array(known, np.float64).T)

    def values(self, name: str, start: int = 0) -> Values:
        """A column from row `start` on; nan where there is none."""
        column = self.columns.get(name)
        return np.full(len(self) - start, np.nan) if column is None else np.array(column[start:])

    def last(self, name: str) -> float:
        column = self.columns.get(name)
        return column[-1] if column else math.nan

    @property
    def is_diverged(self) -> bool:
        return self.last("diverged") == 1.0


def metrics_of(curves: Iterable[Curve]) -> list[str]:
    """Columns that can be drawn, the most telling first."""
    found = dict.fromkeys(name for curve in curves for name in curve.columns)
    names = [name for name in found if name not in NO_METRICS and name not in COUNTS]
    return sorted(names, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))


def thinned(values: Values, most: int) -> NDArray[np.int64]:
    """About `most` rows, ascending: of each stretch the smallest and the largest value, and both ends.

    >>> thinned(np.array([5.0, 4.0, 9.0, 3.0, 2.0, 1.0, 1.0, 0.0]), 4).tolist()
    [0, 2, 3, 4, 7]
    """
    size = len(values)
    if size <= most:
        return np.arange(size)
    stretches = max(1, most // 2)
    edges = np.linspace(0, size, stretches + 1).astype(np.int64)
    starts = edges[:-1]
    filled = np.where(np.isfinite(values), values, 0.0)
    order = np.lexsort((filled, np.repeat(np.arange(stretches), np.diff(edges))))
    return np.unique(np.concatenate([[0], order[starts], order[edges[1:] - 1], [size - 1]]))
