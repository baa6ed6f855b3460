"""Curves of G, S and I in the paper's layout: symmetric-log axis, linear below 10⁻⁵, bands cut at zero."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from zocosmo.report.budget import Cell
from zocosmo.report.curves import COLOURS, DASHES, curve
from zocosmo.report.figures import check_figure, new_panels, save_figure
from zocosmo_paper.item import Picture

Array = NDArray[np.float64]

LINEAR = 1e-5
LOOKS = {name: {"color": COLOURS[k], "linestyle": DASHES[k]} for k, name in enumerate(("G", "S", "I"))}
EXACT = {"color": "#000000", "linestyle": (0, (1, 2)), "linewidth": 1.1}
NAMES = {"objective": "objective gap F(x̄)", "disagreement": "disagreement"}


class Panel(NamedTuple):
    """One panel: curves of a metric by coupling, and expectations, if any."""

    title: str
    metric: str
    parts: Mapping[str, pd.DataFrame]  # by coupling: rows of a log
    exact: Sequence[Array] = ()  # at rounds 0, 1, …


class Drawing:
    """A figure that is built once, saved in each format, and then released."""

    def __init__(self, build: Callable[[Path], Any], saves: int = 3) -> None:
        self._build, self._saves, self._left = build, saves, saves
        self._figure: Any = None

    def __call__(self, to: Path) -> None:
        check_figure(to)
        if self._figure is None:
            self._figure, self._left = self._build(to), self._saves
        save_figure(self._figure, to, dpi=120)
        self._left -= 1
        if not self._left:
            self._figure = None


def picture(name: str, title: str, panels: Sequence[Panel], columns: int) -> Picture:
    """Panels, row by row; those in a row share their y axis."""
    return Picture(name, title, describe(title, panels), Drawing(lambda to: build(to, panels, columns)))


def build(to: Path, panels: Sequence[Panel], columns: int) -> Any:
    rows = -(-len(panels) // columns)
    wide, high = 2.65 * columns + 0.6, 2.15 * rows + 0.6
    figure, axes = new_panels(to, (wide, high), len(panels), columns)
    figure.set_layout_engine(None)  # fixed margins, in inches: a fitted layout doubles the time
    figure.subplots_adjust(0.72 / wide, 0.82 / high, 1 - 0.12 / wide, 1 - 0.28 / high, 0.1, 0.3)
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        top = max(draw(axes[first + k], panel) for k, panel in enumerate(row))
        for k, panel in enumerate(row):
            finish(axes[first + k], panel, top, first=k == 0, last=first + columns >= len(panels))
    handles = [axes[0].plot([], [], linewidth=1.6, **look)[0] for look in LOOKS.values()]
    labels = list(LOOKS)
    if any(panel.exact for panel in panels):
        handles.append(axes[0].plot([], [], **EXACT)[0])
        labels.append("expectation, exact")
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), frameon=False, fontsize=9)
    return figure


def draw(axes: Any, panel: Panel) -> float:
    """Draw lines and bands of one panel; return the highest point."""
    top, at = 0.0, np.zeros(1)
    for coupling, part in panel.parts.items():
        at, mean, spread = points_of(part, panel.metric)
        look, low, high = LOOKS[coupling], (mean - spread).clip(min=0), mean + spread
        axes.plot(at, mean, linewidth=1.5, **look)
        axes.fill_between(at, low, high, color=look["color"], alpha=0.16, linewidth=0)
        top = max(top, float(high.max()))
    for path in panel.exact:
        kept = np.linspace(0, len(path) - 1, len(at)).round().astype(int)  # rounds that are logged
        axes.plot(at, path[kept], **EXACT)
    return top


def points_of(part: pd.DataFrame, metric: str) -> tuple[Array, Array, Array]:
    """kbit per node, mean and std over seeds. Without diverged runs, all have the same rounds."""
    runs = part["trial"].nunique()
    if part["diverged"].any():
        points = curve(part, metric).points.fillna({"std": 0.0})
        return points["bits"].to_numpy() / 1e3, points["mean"].to_numpy(), points["std"].to_numpy()
    values = part[metric].to_numpy().reshape(runs, -1)
    spread = values.std(axis=0, ddof=1) if runs > 1 else np.zeros(values.shape[1])
    return part["bits"].to_numpy().reshape(runs, -1)[0] / 1e3, values.mean(axis=0), spread


def finish(axes: Any, panel: Panel, top: float, *, first: bool, last: bool) -> None:
    """Scales, ticks as plain text, titles."""
    axes.set_yscale("symlog", linthresh=LINEAR)
    axes.set_ylim(0, max(1.3 * top, 1.3 * 10 * LINEAR))
    powers = range(-5, math.floor(math.log10(axes.get_ylim()[1])) + 1)
    names = ["0", *(f"1e{k}" if k < -2 else f"{10.0**k:g}" for k in powers)]
    axes.set_yticks([0.0, *(10.0**k for k in powers)], names if first else [""] * len(names))
    axes.set_yticks([], minor=True)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(panel.title, fontsize=9)
    if first:
        axes.set_ylabel(NAMES[panel.metric], fontsize=9)
    if last:
        axes.set_xlabel("kbit per node", fontsize=9)


def draw_means(axes: Any, cells: Sequence[Cell], *, scale: float = 1.0, **look: Any) -> None:
    """Means of a row of cells, with bars of one std."""
    bars = [0.0 if math.isnan(each.std) else scale * each.std for each in cells]
    means = [scale * each.mean for each in cells]
    axes.errorbar(range(len(cells)), means, bars, marker="o", markersize=4, capsize=3, **look)


def describe(title: str, panels: Sequence[Panel]) -> str:
    """Alternative text: where each curve ends."""
    said = [f"{title}. Mean over seeds at the last round:"]
    for panel in panels:
        ends = []
        for coupling, part in panel.parts.items():
            last = part[(part["round"] == part["round"].max()) & ~part["diverged"]]
            ends.append(f"{coupling} {float(last[panel.metric].mean()):.3g}")
        told = [f"{path[-1]:.3g}" for path in panel.exact]
        ends += [f"exact expectation, dotted, {' and '.join(told)}"] if told else []
        said.append(f"{panel.title}, {panel.metric}: {', '.join(ends)};")
    return " ".join(said).removesuffix(";") + "."
