"""Curves of a log: a panel per graph, a line per method, mean over seeds with a band of one std.

On a log axis a band ends at the lowest run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from zocosmo.errors import InputError, check_known
from zocosmo.report.budget import GREATER_IS_BETTER, check_metric
from zocosmo.report.figures import new_panels, save_figure

# Okabe and Ito's colours, distinct for all kinds of colour vision; without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "-.", ":")
BUDGET: dict[str, Any] = {"color": "#555555", "linestyle": "--", "linewidth": 1, "zorder": 0}
ACROSS = ("bits", "round", "examples")
NAMES = {
    "objective": r"objective $F(\bar{x})$",
    "local": r"mean of $F_i(x_i)$",
    "disagreement": r"disagreement",
}
WIDTH = 8.0  # inches, so that 9-point text is readable in a README


class Curve(NamedTuple):
    """One line: round, bits, mean, std, least, and examples if counted; the number of diverged runs."""

    points: pd.DataFrame
    diverged: int


def figure(
    log: pd.DataFrame,
    to: Path,
    *,
    x: str = "bits",
    metric: str = "objective",
    budgets: Sequence[float] = (),
    note: str = "",
) -> None:
    """Draw a metric against bits per node, rounds, or examples per node. Budgets are dashed vertical lines;
    the axis ends just after the largest. A `note` stands above all panels."""
    check_known("x", x, ACROSS)
    if x not in log:
        raise InputError(f"the log does not count {x}; set rows of its problem to shared or split")
    check_metric(log, metric)
    if log.empty:
        raise InputError("the log has 0 rows to draw; run its trials first")
    if budgets and x != "bits":
        raise InputError(f"budgets need x='bits', got x={x!r}; drop one of them")
    groups = dict(iter(log.groupby(["problem", "graph"], sort=False, observed=True)))
    columns = len(groups) if len(groups) <= 3 else 2 if len(groups) == 4 else 3
    rows = -(-len(groups) // columns)
    methods = list(log["method"].unique())
    height = (3.2 if columns * rows < 3 else 2.6) * rows + 0.3 * -(-len(methods) // 4)
    canvas, panels = new_panels(to, (WIDTH, height), len(groups), columns)
    unit, name = unit_of(log, x, budgets)
    curves = {labels: curves_of(part, metric) for labels, part in groups.items()}
    for k, (axes, (labels, lines)) in enumerate(zip(panels, curves.items(), strict=True)):
        draw(axes, lines, styles(methods), x, unit, linear=metric in GREATER_IS_BETTER)
        for bits in budgets:
            axes.axvline(bits / unit, **BUDGET)
        if budgets:
            end = min(axes.get_xlim()[1], 1.15 * max(budgets) / unit)
            axes.set_xlim(-0.03 * end, end)
        axes.set_title(title(labels, log), fontsize=10)
        axes.set_xlabel(name, fontsize=9)
        if k % columns == 0:
            axes.set_ylabel(NAMES.get(metric, metric), fontsize=9)
    legend(canvas, methods, curves, budgets)
    if note:
        canvas.suptitle(note, fontsize=9, color="#B3261E")
    save_figure(canvas, to, dpi=160)


def curves_of(log: pd.DataFrame, metric: str) -> dict[str, Curve]:
    return {
        str(method): curve(part, metric) for method, part in log.groupby("method", sort=False, observed=True)
    }


def curve(log: pd.DataFrame, metric: str) -> Curve:
    """Mean, std and minimum over the runs of one method, at every round that all of them logged.

    A diverged run is left out from that row on. A round that some other run did not log is left out, so that
    steps in a line never come from a change of seeds.
    """
    lost = log.loc[log["diverged"], "round"]
    rounds = log[~log["diverged"]].groupby("round")
    points = rounds.agg(
        bits=("bits", "mean"),
        **({"examples": ("examples", "mean")} if "examples" in log else {}),
        mean=(metric, "mean"),
        std=(metric, "std"),
        least=(metric, "min"),
        runs=("trial", "count"),
    ).reset_index()
    going = [log["trial"].nunique() - int((lost <= t).sum()) for t in points["round"]]
    return Curve(points[points["runs"] == going].drop(columns="runs"), len(lost))


def draw(
    axes: Any, lines: dict[str, Curve], looks: dict[str, dict[str, Any]], x: str, unit: float, *, linear: bool
) -> None:
    """The lines of one panel, on a log axis if every value from round 1 on is positive, unless `linear`.

    Disagreement may be 0 at round 0, which is then not drawn.
    """
    later = [points.loc[points["round"] > 0, "least"].min() for points, _ in lines.values()]
    log_axis = not linear and all(least > 0 for least in later if not pd.isna(least))
    if log_axis:
        axes.set_yscale("log")
    for method, (points, _) in lines.items():
        if log_axis:
            points = points[points["least"] > 0]
        at, style, low = points[x] / unit, looks[method], points["mean"] - points["std"]
        if log_axis:  # mean − std may be negative or nearly 0; no run is
            low = low.clip(lower=points["least"])
        axes.plot(at, points["mean"], linewidth=1.6, **style)
        high = points["mean"] + points["std"]
        axes.fill_between(at, low, high, color=style["color"], alpha=0.16, linewidth=0)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def styles(methods: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The same colour for a method in every panel; dashes distinguish methods of the same colour."""
    return {
        method: {
            "color": COLOURS[k % len(COLOURS)],
            "linestyle": DASHES[k // len(COLOURS) % len(DASHES)],
        }
        for k, method in enumerate(methods)
    }


def legend(
    canvas: Any, methods: Sequence[str], curves: dict[Any, dict[str, Curve]], budgets: Sequence[float]
) -> None:
    """One legend below all panels, with the number of diverged runs."""
    looks = [*styles(methods).values(), *([BUDGET] if budgets else [])]
    handles = [canvas.axes[0].plot([], [], **style)[0] for style in looks]
    labels = [method + losses(method, curves) for method in methods]
    labels += ["budget" if len(budgets) == 1 else "budgets"] if budgets else []
    across = min(4 if max(map(len, labels)) <= 24 else 2, len(labels))
    canvas.legend(handles, labels, loc="outside lower center", ncols=across, frameon=False, fontsize=9)


def losses(method: str, curves: dict[Any, dict[str, Curve]]) -> str:
    """The number of diverged runs of a method, by graph if there are several panels."""
    lost = {labels: lines[method].diverged for labels, lines in curves.items() if method in lines}
    several = len({problem for problem, _ in curves}) > 1
    parts = [
        f"{count} diverged" + (f" on {problem + ', ' if several else ''}{graph}" if len(curves) > 1 else "")
        for (problem, graph), count in lost.items()
        if count
    ]
    return f" ({', '.join(parts)})" if parts else ""


def unit_of(log: pd.DataFrame, x: str, budgets: Sequence[float]) -> tuple[float, str]:
    """The unit of the x axis and its label."""
    if x == "round":
        return 1.0, "round $t$"
    if x == "examples":
        return 1.0, "examples evaluated per node"
    most = max(float(log["bits"].max()), *budgets, 0.0)
    for unit, name in ((1e9, "Gbit"), (1e6, "Mbit"), (1e3, "kbit")):
        if most >= unit:
            return unit, f"{name} per node"
    return 1.0, "bits per node"


def title(labels: Any, log: pd.DataFrame) -> str:
    problem, graph = labels
    return str(graph) if log["problem"].nunique() == 1 else f"{problem}, {graph}"
