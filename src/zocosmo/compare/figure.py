"""All methods in one figure: a panel per problem, its metric against bits per node, ours thicker.

Where settings are chosen at each limit, a line is a family of methods, with its best at each budget.
"""

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from zocosmo.compare.contest import Limit
from zocosmo.compare.standing import Standing
from zocosmo.compare.standings import Standings, best_of, foremost
from zocosmo.compare.tables import OURS, ContestResult
from zocosmo.methods import METHODS
from zocosmo.report.budget import GREATER_IS_BETTER
from zocosmo.report.curves import BUDGET, COLOURS, NAMES, curves_of
from zocosmo.report.figures import new_panels, save_figure

DASHES = {False: ("-", ":"), True: ("--", "-.")}  # by whether the method has a server
PANEL = 4.4  # inches
COLUMNS = 3
OTHERS: dict[str, Any] = {"color": "#bbbbbb", "linewidth": 0.9, "zorder": 1}  # who never leads


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


def draw_budgets(results: Sequence[ContestResult], to: Path) -> None:
    """A column for each problem: metric against budget, below it the same within the limit of queries.

    Ours are thick; other families that lead at some budget have colours, the rest are grey.
    """
    kinds = [bits_alone, within_queries] if any(r.contest.most_queries for r in results) else [bits_alone]
    looks = family_styles(results)
    size = (max(3.4 * len(results), 7.0), 3.1 * len(kinds) + 0.22 * -(-(len(looks) + 1) // 4) + 0.3)
    canvas, panels = new_panels(to, size, len(results) * len(kinds), len(results))
    for k, (axes, (kind, result)) in enumerate(zip(panels, product(kinds, results), strict=True)):
        draw_families(axes, [s for s in result.standings if kind(s[0])], looks)
        beside = f", within {result.contest.queries:,} queries" if kind is within_queries else ""
        axes.set_title(f"{result.contest.name}{beside}", fontsize=10)
        axes.set_xlabel("bits per node" if k >= len(results) * (len(kinds) - 1) else "", fontsize=9)
        axes.set_ylabel(NAMES.get(result.contest.metric, result.contest.metric), fontsize=9)
    handles = [panels[0].plot([], [], **look)[0] for look in [*looks.values(), OTHERS]]
    canvas.legend(handles, [*looks, "others"], loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save_figure(canvas, to, dpi=160)


def bits_alone(limit: Limit) -> bool:
    return limit.what == "bits" and limit.within is None


def within_queries(limit: Limit) -> bool:
    return limit.within is not None


def draw_families(axes: Any, found: Standings, looks: dict[str, dict[str, Any]]) -> None:
    lines = family_lines(found)
    axes.set_xscale("log")
    shown = [each for line in lines.values() for each in line]
    if shown and shown[0].metric not in GREATER_IS_BETTER and all(each.mean > 0 for each in shown):
        axes.set_yscale("log")
    for family, line in lines.items():
        at = [each.limit.most for each in line]
        axes.plot(at, [each.mean for each in line], **looks.get(family, OTHERS))
    axes.tick_params(labelsize=8, which="both")
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def family_lines(found: Standings) -> dict[str, list[Standing]]:
    """By family: at each limit the member that the pilot prefers, unless it is still at the start."""
    lines: dict[str, list[Standing]] = {}
    for _, some in found:
        for family in dict.fromkeys(each.family for each in some):
            best = foremost(each for each in some if each.family == family and not each.at_start)
            if best is not None:
                lines.setdefault(family, []).append(best)
    return lines


def family_styles(results: Sequence[ContestResult]) -> dict[str, dict[str, Any]]:
    """Styles of our families and of those that lead somewhere, ours first."""
    found = [some for result in results for _, some in result.standings]
    ours = {each.family: each.server for some in found for each in some if each.ours}
    leading = {best.family: best.server for some in found if (best := best_of(some)) is not None}
    looks = {}
    for k, (family, server) in enumerate({**ours, **leading}.items()):
        looks[family] = {
            "color": COLOURS[k % len(COLOURS)],
            "linestyle": DASHES[server][k // len(COLOURS) % 2],
            "linewidth": 3.0 if family in ours else 1.4,
            "marker": "o" if family in ours else None,
            "markersize": 4,
            "zorder": 3 if family in ours else 2,
        }
    return looks
