"""Losses near the start of fine-tuning, and the rounding in their differences."""

import math
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Direction, draw_direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.errors import OracleError
from zocosmo.llm.subject import Subject
from zocosmo.problems.draws import private, uniforms

FAR = 2**63  # round ids of the probe's directions; no run gets there
NUDGES = (1e-6, 1e-5, 1e-4, 1e-3)  # μ at which changes are rounding once slopes cancel
WIDE = 0.1  # μ at which curvature shows
ENOUGH = 20.0  # least signal-to-noise ratio of a difference
AGREE = 0.1  # largest relative difference of slopes at a μ and at the next
NEGLIGIBLE = 1 / 3  # curvature's share of a spread below which it is ignored
QUIET_BATCHES = 4  # whose loss is evaluated repeatedly
LONGEST_OF = 64  # examples searched for a long one, to pad others

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Level(NamedTuple):
    """Effect of ±μu on a batch's loss: root mean squares over directions, each with its own batch."""

    mu: float
    difference: float  # f(x + μu) − f(x − μu)
    slope: float  # that over 2μ
    snr: float  # difference over √2 σ, its rounding
    apart: float  # ‖s − s'‖ / ‖s'‖ with s' the slopes at the next larger μ; nan at the largest
    curvature: float  # mean of uᵀHu
    bend: float  # its standard deviation over directions


class Survey:
    """Evaluates losses near the start, many adapters per forward.

    It reads only training examples, drawn from the seed's private tape.
    """

    def __init__(self, subject: Subject, q: int, directions: int, seed: Seed) -> None:
        self.subject, self.tape = subject, private(seed)
        self.seconds = math.inf  # per example, in the fastest forward
        self.x = torch.from_numpy(subject.x0.copy()).to(subject.backbone.device)
        self.us = [draw_direction(Tape(seed), FAR + k, d=subject.d, q=q) for k in range(directions)]
        self.sample = self.draw("probe", directions, subject.setting.batch)
        self.centre: Array = self.ask(self._still(directions), self.sample).mean(axis=1)
        if not np.isfinite(self.centre).all():
            dtype = subject.setting.dtype
            advice = "check the model's weights" if dtype == "float32" else "use float32"
            raise OracleError(f"the loss is {self.centre.mean()} at the start, in {dtype}; {advice}")

    def draw(self, label: str, rows: int, size: int) -> Index:
        """Indices of training examples, (rows, size), with replacement."""
        drawn = uniforms(self.tape, label, np.arange(rows), size=size)
        return (drawn * len(self.subject.train)).astype(np.int64)

    def ask(self, adapters: torch.Tensor, sample: Index) -> Array:
        """The loss of each example under its row's adapter, (rows, examples)."""
        backbone, began = self.subject.backbone, time.perf_counter()
        batch = self.subject.train.batch(sample.reshape(-1), backbone.device)
        found = backbone.losses(adapters, batch)[0].view(sample.shape).cpu().numpy()
        self.seconds = min(self.seconds, (time.perf_counter() - began) / sample.size)
        return np.asarray(found, np.float64)

    def pairs(self, mu: float, sample: Index, us: Sequence[Direction]) -> Array:
        """Losses at x + μu and x − μu, (directions, 2, examples); a pair shares a forward."""
        together = max(1, self.subject.setting.eval_batch // (2 * sample.shape[1]))
        found = []
        for first in range(0, len(us), together):
            some, rows = us[first : first + together], sample[first : first + together]
            found.append(self.ask(self._shifted(mu, some), np.repeat(rows, 2, axis=0)))
        return np.concatenate(found).reshape(len(us), 2, -1)

    def sides(self, mu: float) -> Array:
        """f(x ± μu) of every direction on its own batch, (directions, 2)."""
        sides: Array = self.pairs(mu, self.sample, self.us).mean(axis=2)
        return sides

    def still(self) -> tuple[tuple[str, float], tuple[str, float]]:
        """Spread of one batch's loss with its rows reordered, and with other padding and other rows."""
        batch = self.subject.setting.batch
        others = self.draw("company", 1, LONGEST_OF)[0]
        long = np.full((1, batch), others[np.argmax(self.subject.train.lengths[others])])
        orders, padded = [], []
        for k, base in enumerate(self.draw("still", QUIET_BATCHES, batch)):
            coins = uniforms(self.tape, "order", k, np.arange(4), size=batch)
            turned = base[np.argsort(coins, axis=-1, kind="stable")]
            same = self.ask(self._still(5), np.concatenate([base[None], turned])).mean(axis=1)
            alone = self.ask(self._still(1), base[None]).mean(axis=1)
            wide = self.ask(self._still(2), np.concatenate([base[None], long])).mean(axis=1)
            orders.append(same)
            padded.append(np.concatenate([same[:1], alone, wide[:1]]))
        return ("reordered", _spread(orders)), ("padded", _spread(padded))

    def nudged(self, sides: dict[float, Array], wide: float) -> float:
        """σ of one loss: the largest spread at x ± μu over the μ whose curvature is negligible.

        The slope cancels in [f(x + μu) + f(x − μu)]/2. As every direction has its own batch, f(x) is
        subtracted, which leaves a variance of (½ + 1) σ². A μ counts if curvature, measured at `wide`,
        explains at most a third of the spread.
        """
        bend = float((sides[wide].mean(axis=1) - self.centre).std()) / wide**2
        found = 0.0
        for mu, each in sides.items():
            seen = float((each.mean(axis=1) - self.centre).std(ddof=1))
            if bend * mu**2 <= NEGLIGIBLE * seen:
                found = max(found, seen / math.sqrt(1.5))
        return found

    def single(self, mu: float, size: int) -> tuple[float, float]:
        """Root mean square over directions of the mean slope, and the standard deviation over examples.

        The sampling variance v/size of the mean is subtracted from its square; at least √(2/directions) of
        that variance, which chance alone explains, is left.
        """
        us, lengths = self.us[: max(4, len(self.us) // 2)], self.subject.train.lengths
        rows = np.argsort(uniforms(self.tape, "single", size=len(lengths)), kind="stable")[:size]
        rows = rows[np.argsort(lengths[rows], kind="stable")]
        each = max(1, self.subject.setting.eval_batch // 2)
        parts = [rows[first : first + each] for first in range(0, size, each)]
        found = [self.pairs(mu, np.broadcast_to(part, (len(us), len(part))), us) for part in parts]
        both = np.concatenate(found, axis=2)
        slopes = (both[:, 0] - both[:, 1]) / (2 * mu)
        spare = float(slopes.var(axis=1, ddof=1).mean())
        seen = float((slopes.mean(axis=1) ** 2).mean()) - spare / size
        least = math.sqrt(2 / len(us)) * spare / size
        return math.sqrt(max(seen, least)), math.sqrt(spare)

    def _still(self, rows: int) -> torch.Tensor:
        return self.x.expand(rows, -1)

    def _shifted(self, mu: float, us: Sequence[Direction]) -> torch.Tensor:
        """x + μu and x − μu, direction by direction."""
        points = self.x.repeat(2 * len(us), 1)
        index = torch.from_numpy(np.repeat(np.stack([u.index for u in us]), 2, axis=0)).to(points.device)
        signs = np.stack([sign * u.signs.astype(np.float32) for u in us for sign in (1, -1)])
        shift = torch.from_numpy(np.float32(mu) * signs).to(points.device)
        return points.scatter_add_(1, index, shift)


def read_levels(sides: dict[float, Array], centre: Array, noise: float) -> tuple[Level, ...]:
    """The level of each μ, ascending, from f(x ± μu) (directions, 2) and f(x) (directions,)."""
    slopes = {mu: (each[:, 0] - each[:, 1]) / (2 * mu) for mu, each in sides.items()}
    order, out = sorted(sides), []
    for mu, larger in zip(order, [*order[1:], None], strict=True):
        size, apart = rms(2 * mu * slopes[mu]), math.nan
        curved = 2 * (sides[mu].mean(axis=1) - centre) / mu**2
        if larger is not None:
            base = rms(slopes[larger])
            apart = rms(slopes[mu] - slopes[larger]) / base if base else math.inf
        snr = size / (math.sqrt(2) * noise) if noise else (math.inf if size else 0.0)
        out.append(
            Level(mu, size, rms(slopes[mu]), snr, apart, float(curved.mean()), float(curved.std(ddof=1)))
        )
    return tuple(out)


def pick_level(levels: Sequence[Level]) -> Level | None:
    """The smallest μ that clears the noise and agrees with the next, or None."""
    for level in levels[:-1]:
        if level.snr >= ENOUGH and level.apart <= AGREE:
            return level
    return None


def rms(values: Array) -> float:
    """Root mean square."""
    return math.sqrt(float((values**2).mean()))


def _spread(groups: Sequence[Array]) -> float:
    """Standard deviation within groups, pooled."""
    return math.sqrt(float(np.mean([np.var(group, ddof=1) for group in groups])))
