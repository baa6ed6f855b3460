"""All methods in one figure: a panel per problem, its metric against bits per node, ours thicker."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from zocosmo.compare.tables import OURS, ContestResult
from zocosmo.methods import METHODS
from zocosmo.report.budget import GREATER_IS_BETTER
from zocosmo.report.curves import BUDGET, COLOURS, NAMES, curves_of
from zocosmo.report.figures import new_panels, save_figure

DASHES = {False: ("-", ":"), True: ("--", "-.")}  # by whether the method has a server
PANEL = 4.4  # inches
COLUMNS = 3


def draw_field(results: Sequence[ContestResult], to: Path) -> None:
    """Means over seeds on log axes; the y axis is linear for metrics where more is better."""
    columns = min(COLUMNS, len(results))
    looks = styles(results)
    across = 2 * columns
    height = 3.8 * -(-len(results) // columns) + 0.22 * -(-(len(looks) + 1) // across)
    canvas, panels = new_panels(to, (max(PANEL * columns, 7.0), height), len(results), columns)
    for axes, result in zip(panels, results, strict=True):
        draw_panel(axes, result, looks)
    handles = [panels[0].plot([], [], **look)[0] for look in [*looks.values(), BUDGET]]
    canvas.legend(
        handles, [*looks, "budgets"], loc="outside lower center", ncols=across, frameon=False, fontsize=9
    )
    save_figure(canvas, to, dpi=160)


def draw_panel(axes: Any, result: ContestResult, looks: dict[str, dict[str, Any]]) -> None:
    metric = result.contest.metric
    curves = {method: paid(points) for method, (points, _) in curves_of(result.rows, metric).items()}
    lines = {method: points for method, points in curves.items() if len(points)}
    axes.set_xscale("log")
    if metric not in GREATER_IS_BETTER and all((points["mean"] > 0).all() for points in lines.values()):
        axes.set_yscale("log")
    for method, points in lines.items():
        axes.plot(points["bits"], points["mean"], **looks[method])
    for bits in result.contest.budgets:
        axes.axvline(bits, **BUDGET)
    axes.set_title(result.contest.name, fontsize=10)
    axes.set_xlabel("bits per node", fontsize=9)
    axes.set_ylabel(NAMES.get(metric, metric), fontsize=9)
    axes.tick_params(labelsize=8, which="both")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def paid(points: pd.DataFrame) -> pd.DataFrame:
    """Without round 0, whose 0 bits cannot be drawn on a log axis."""
    return points[points["bits"] > 0]


def styles(results: Sequence[ContestResult]) -> dict[str, dict[str, Any]]:
    """A style for each method that sends anything, the same in all panels: ours thick, servers dashed."""
    kinds = {
        c.candidate.label: c.candidate.kind
        for result in results
        for c in result.chosen
        if c.setting is not None and c.candidate.label not in result.silent
    }
    looks: dict[str, dict[str, Any]] = {}
    for server, dashes in DASHES.items():
        group = [label for label, kind in kinds.items() if METHODS[kind].server is server]
        for k, label in enumerate(sorted(group, key=lambda label: kinds[label] not in OURS)):
            looks[label] = {
                "color": COLOURS[k % len(COLOURS)],
                "linestyle": dashes[k // len(COLOURS) % len(dashes)],
                "linewidth": 3.0 if kinds[label] in OURS else 1.3,
                "zorder": 3 if kinds[label] in OURS else 2,
            }
    return looks
