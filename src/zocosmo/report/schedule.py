"""The best schedule of a graph next to the named ones: tables, a config block, a figure."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from zocosmo.report.figures import new_panels, save_figure

SHADE, OTHERS = "#1b6ca8", "#9aa5b1"
MOST_SHOWN = 40  # matchings in a table
COLUMNS = "λ₂", "pairs/per round", "contraction/per round", "per/scalar", "of the/bound"  # / may break a line
WIDE = 102  # columns of a terminal in which headers fit on one line

Points = NDArray[np.float64]


def schedule_tables(report: dict[str, Any], width: int = WIDE) -> list[Any]:
    """The report for a terminal of `width` columns, 80 or more."""
    best = report["best"]
    what = "λ₂" if best["per"] == "round" else "λ₂ / pairs"
    bound = f"No law of this graph has {what} above {best['upper_bound']:.10g}; the best per {best['per']} "
    found = f"has {best['value']:.10g}, within {max(best['gap'], 1e-12):.0e} of that."  # less is rounding
    return [_comparison(report, width), bound + found, _law(report)]


def _comparison(report: dict[str, Any], width: int) -> Table:
    edges = "1 edge" if len(report["edges"]) == 1 else f"{len(report['edges'])} edges"
    title = f"{report['graph']}: {report['n']} nodes, {edges}, q/d = {report['p']:.4g}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("schedule", no_wrap=True)
    for name in COLUMNS:
        table.add_column(name.replace("/", " " if width >= WIDE else "\n"), justify="right", no_wrap=True)
    for row in report["schedules"]:
        about = "" if row["exact"] else "≈ "
        table.add_row(
            row["schedule"],
            f"{about}{row['lambda2']:.6f}",
            f"{about}{row['pairs']:.3f}",
            f"{row['contraction']:.3e}",
            f"{row['per_scalar']:.3e}",
            f"{100 * row['efficiency']:.1f} %",
        )
    return table


def _law(report: dict[str, Any]) -> Table:
    total = sum(report["schedule"]["weights"])
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("pairs")
    listed = list(zip(report["schedule"]["weights"], report["schedule"]["matchings"], strict=True))
    for weight, pairs in listed[:MOST_SHOWN]:
        table.add_row(f"{weight:,}", f"{100 * weight / total:.2f} %", " ".join(f"{i}-{j}" for i, j in pairs))
    if len(listed) > MOST_SHOWN:
        table.add_row("…", "", f"and {len(listed) - MOST_SHOWN} more; --out writes all")
    return table


def config_block(report: dict[str, Any]) -> str:
    """The law and its graph as a block of a config."""
    rows = [f"    - {json.dumps(pairs)}" for pairs in report["schedule"]["matchings"]]
    lines = ["schedule:", "  matchings:", *rows, f"  weights: {json.dumps(report['schedule']['weights'])}"]
    entry = report["config"]
    head = [f"{key}: {json.dumps(value)}" for key, value in entry.items()]
    head[0] = f"kind: {entry['kind']}"
    inside = [*head, *lines]
    return "\n".join(["graphs:", f"  - {inside[0]}", *(f"    {line}" for line in inside[1:])])


def is_config_block(path: Path) -> bool:
    """Whether a file holds only what `config_block` gives, so that no config of a user is overwritten."""
    try:
        keys = set(re.findall(r"^(\w+) *:", path.read_text(encoding="utf-8"), re.M))
    except (OSError, UnicodeDecodeError):
        return False
    return keys in ({"graphs"}, set())


def schedule_figure(report: dict[str, Any], to: Path) -> None:
    """The graph, with edge widths by activity, and bars of λ₂."""
    figure, (left, right) = new_panels(to, (9, 3.4), 2, 2)
    pairs, shares = report["edges"], np.array(report["shares"])
    at = layout(report["n"], pairs)
    for (i, j), share in zip(pairs, shares.tolist(), strict=True):
        left.plot(*at[[i, j]].T, color=SHADE, linewidth=0.4 + 5.6 * share, zorder=1, solid_capstyle="round")
    left.scatter(*at.T, s=110, color="white", edgecolor="black", linewidth=0.8, zorder=2)
    for node, point in enumerate(at.tolist()):
        left.text(*point, str(node), ha="center", va="center", fontsize=6.5, zorder=3)
    left.set_title("how often each edge is active", fontsize=10)
    left.margins(0.1)
    left.set_aspect("equal", adjustable="datalim")
    left.axis("off")
    rows = report["schedules"][::-1]
    names, values = [row["schedule"] for row in rows], [row["lambda2"] for row in rows]
    shades = [SHADE if name.startswith("best") else OTHERS for name in names]
    right.barh(names, values, color=shades, height=0.62)
    for k, row in enumerate(rows):
        text = f" {'' if row['exact'] else '≈ '}{row['lambda2']:.4f}"
        right.text(row["lambda2"], k, text, va="center", fontsize=9)
    right.set(xlim=(0, 1.22 * max(values)), xlabel="λ₂ of the average round")
    right.set_title(f"{report['graph']}, {report['n']} nodes", fontsize=10)
    save_figure(figure, to, dpi=130)


def layout(n: int, edges: list[Any]) -> Points:
    """Positions in the plane that approximate distances in the graph (stress majorisation)."""
    hops = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    for i, j in edges:
        hops[i, j] = hops[j, i] = 1.0
    for k in range(n):
        hops = np.minimum(hops, hops[:, [k]] + hops[[k]])
    angle = 2 * np.pi * np.arange(n) / n
    centre = np.eye(n) - 1 / n
    _, vectors = np.linalg.eigh(-centre @ hops**2 @ centre)  # classical scaling as the initial layout
    start = vectors[:, -2:] if n > 2 else np.eye(n, 2)
    at: Points = n * start + 0.01 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    weights = 1 / np.where(hops > 0, hops, 1) ** 2 * (1 - np.eye(n))
    pull = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    for _ in range(300):
        apart = np.sqrt(((at[:, None] - at[None]) ** 2).sum(axis=-1))
        push = -weights * hops / np.maximum(apart, 1e-9)
        at = pull @ (push - np.diag(push.sum(axis=1))) @ at
    centred: Points = at - at.mean(axis=0)
    return centred
