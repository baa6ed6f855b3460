"""Records of each node's queries: losses, differences, visited coordinates; and the clip."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.llm.batches import Index
from zocosmo.oracle import Values

WINDOW = 50  # last queries kept of each node; rounds where directions share a batch
FEWEST = 10  # queries before anything is clipped
KEPT = ("count", "losses", "steps", "cut")  # in a snapshot, with the coordinates visited


class Record:
    """The last queries of every node, in arrays of `shape`: (…, n).

    The clip is local to a node: a slope above the given quantile of the node's own last slopes is cut down to
    it, keeping its sign. It only compares numbers, so a resumed run clips to the same bits.
    """

    def __init__(self, shape: tuple[int, ...], d: int, each: int = 1) -> None:
        self.shape, self.d, self.window = shape, d, WINDOW * each  # each: queries that are added at once
        self.count = np.zeros(shape, np.int64)
        self.losses = np.zeros((*shape, self.window))
        self.steps = np.zeros((*shape, self.window))  # |f(x + μu) − f(x − μu)|
        self.cut = np.zeros(shape, np.int64)  # slopes that were clipped
        self._visited = torch.zeros((math.prod(shape), d), dtype=torch.bool)
        self._limits: dict[float, Values] = {}  # of the clip, by quantile, until steps are added

    def clip(self, step: Values, quantile: float) -> Values:
        """f(x + μu) − f(x − μu), cut down to the limit if a quantile is given."""
        if not quantile:
            return step
        limit = self.limit(quantile)
        return np.where(np.abs(step) > limit, np.copysign(limit, step), step)

    def add(self, plus: Values, minus: Values, quantile: float, rows: Index) -> None:
        """Add a round's queries (…, n), or (K, …, n) along K directions."""
        step = (plus - minus).reshape(-1, *self.shape)
        if quantile:
            self.cut += (np.abs(step) > self.limit(quantile)).sum(axis=0)
        self._limits = {}
        each, count = len(step), self.count.reshape(-1)
        places = rows, (count[rows] + np.arange(each)[:, None]) % self.window
        self.losses.reshape(-1, self.window)[places] = ((plus + minus) / 2).reshape(each, -1)[:, rows]
        self.steps.reshape(-1, self.window)[places] = np.abs(step).reshape(each, -1)[:, rows]
        count[rows] += each

    def visit(self, at: torch.Tensor | None, rows: Index) -> None:
        """Mark coordinates (rows, q) as visited, None for all, on the device they are on."""
        if at is None:
            self._visited[torch.from_numpy(rows).to(self._visited.device)] = True
            return
        if self._visited.device != at.device:
            self._visited = self._visited.to(at.device)
        if len(rows) == len(self._visited):
            self._visited.scatter_(1, at, True)
        else:
            self._visited[torch.from_numpy(rows).to(at.device)[:, None], at] = True

    @property
    def visited(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._visited.cpu().numpy().reshape(*self.shape, self.d)
        return found

    def limit(self, quantile: float) -> Values:
        """The order statistic of each node's last steps, infinite before there are a few.

        It is cached until the next steps are added, so it can be computed while the device is busy.
        """
        if quantile not in self._limits:
            self._limits[quantile] = self._order_statistic(quantile)
        return self._limits[quantile]

    def _order_statistic(self, quantile: float) -> Values:
        held = np.minimum(self.count, self.window)
        known = np.arange(self.window) < held[..., None]
        ordered = np.sort(np.where(known, self.steps, np.inf), axis=-1)
        at = np.clip(np.ceil(quantile * held).astype(np.int64) - 1, 0, self.window - 1)
        limit = np.take_along_axis(ordered, at[..., None], axis=-1)[..., 0]
        return np.where(held >= FEWEST, limit, np.inf)

    def loss(self) -> Values:
        """Mean of the last losses; nan before the first query."""
        return self._mean(self.losses)

    def scores(self, noise: float) -> dict[str, Values]:
        """Of each node: signal to noise, share of clipped slopes, share of coordinates visited."""
        return {
            "snr": self.snr(noise),
            "clipped": self.cut / np.maximum(self.count, 1),
            "coverage": self.visited.sum(axis=-1) / self.d,
        }

    def snr(self, noise: float) -> Values:
        """Root mean square of the last differences, over that of rounding alone."""
        if not noise:
            return np.full(self.shape, np.nan)
        return np.sqrt(self._mean(self.steps**2)) / (math.sqrt(2.0) * noise)

    def note(self, noise: float) -> str:
        if not self.count.any():
            return ""
        with np.errstate(all="ignore"):
            signal = f"  snr {np.nanmean(self.snr(noise)):.1f}" if noise else ""
            return f"loss {np.nanmean(self.loss()):.3f}{signal}"

    def arrays(self) -> dict[str, Values]:
        kept = {name: vars(self)[name].copy() for name in KEPT}
        return {**kept, "visited": np.packbits(self.visited, axis=-1)}

    def restore(self, arrays: Mapping[str, Values]) -> None:
        for name in KEPT:
            vars(self)[name][...] = arrays[name]
        self._limits = {}
        flags = np.unpackbits(arrays["visited"], axis=-1, count=self.d).astype(bool)
        self._visited = torch.from_numpy(flags.reshape(-1, self.d))

    def _mean(self, ring: Values) -> Values:
        held = np.minimum(self.count, self.window)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean: Values = np.where(np.arange(self.window) < held[..., None], ring, 0.0).sum(axis=-1) / held
        return mean
