"""What a setting buys: tables of each method's costs and effects, and a figure."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from zocosmo.graphs.graph import Graph
from zocosmo.planner.costs import MethodCost
from zocosmo.planner.crossover import Family
from zocosmo.planner.outlook import Outlook
from zocosmo.planner.sweep import sweep
from zocosmo.planner.units import show_bits, show_seconds
from zocosmo.report.figures import new_panels, save_figure

LOOKS = {  # by method: its name and its colour
    "cosmo": ("global", "#1b6ca8"),
    "edge_local": ("edge-local", "#3f9142"),
    "flood": ("flooding", "#d1495b"),
    "dense": ("dense", "#9aa5b1"),
    "cosmo indexed": ("indexed", "#edae49"),
    "marina_type": ("MARINA-type", "#7b5ea7"),
}
PARTS = {"queries": "#9aa5b1", "latency": "#edae49", "transfer": "#1b6ca8"}
BITS = ("bits a round", "× values", "rounds", "bits in all")
CLOCK = ("stages", "time a round", "time in all")
LONGEST = 3  # bars longer than this multiple of the shortest are cut


def outlook_tables(out: Outlook, console: Console, wide: int) -> list[Table]:
    """Costs, then effects; costs are two tables if one is too wide for the console."""
    effects = _table(out, ("contraction a round", "per Mbit", "exposure", "coverage"), _effects)
    costs = _table(out, (*BITS, *CLOCK), _costs)
    if console.measure(costs, options=console.options.update(width=wide)).maximum <= console.width:
        return [costs, effects]
    bits = _table(out, BITS, lambda *row: _costs(*row)[: len(BITS)])
    return [bits, _table(out, CLOCK, lambda *row: _costs(*row)[len(BITS) :]), effects]


def _table(out: Outlook, names: tuple[str, ...], cells: Callable[[Outlook, MethodCost], list[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in out.rows:
        table.add_row(LOOKS[row.method][0], *cells(out, row))
    return table


def outlook_title(out: Outlook) -> str:
    setting, graph = out.setting, out.net.graph
    values = f"values of {setting.value_bits} bits"
    sizes = f"d = {setting.d:,}, q = {out.q:,}, {values}, {_kind(graph)} of {graph.n} nodes"
    link = f"{show_bits(setting.bandwidth)}/s, latency {show_seconds(setting.latency)}"
    budget = "bits without limit" if out.is_free else f"{show_bits(setting.budget)} per node"
    time = "" if out.wish.seconds is None else f", at most {show_seconds(out.wish.seconds)}"
    return f"{sizes}\n{budget}, {link}, a query {show_seconds(setting.query_time)}{time}"


def _kind(graph: Graph) -> str:
    """The graph's name before "of 4 nodes": a ring, but a complete graph."""
    if graph.name in ("ring", "path", "star", "grid", "torus", "hypercube"):
        return graph.name
    return "graph" if graph.name == "edges" else f"{graph.name} graph"


def _costs(out: Outlook, row: MethodCost) -> list[str]:
    return [
        _about(out, row) + show_bits(row.bits),
        "–" if row.link_ratio is None else _times(float(row.link_ratio)),
        f"{row.rounds:,}",
        show_bits(row.total_bits),
        f"{row.stages}",
        show_seconds(row.seconds),
        show_seconds(row.total_seconds),
    ]


def _effects(out: Outlook, row: MethodCost) -> list[str]:
    per, about = row.contraction_per_mbit, _about(out, row)
    return [
        "exact agreement" if row.agrees else f"{about}{row.contraction:.3g}",
        "–" if per is None else f"{about}{per:.3g}",
        f"{float(row.exposure):,.3g}",
        f"{row.coverage:.2%}",
    ]


def _about(out: Outlook, row: MethodCost) -> str:
    """A mark for numbers of a schedule whose law was only estimated."""
    return "≈ " if row.method == "edge_local" and not out.pairs.exact else ""


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:.2e}"


def outlook_figure(out: Outlook, to: Path, family: Family | None) -> None:
    """Left: bits per round against the number of nodes. Right: what the time of a round is spent on."""
    figure, (left, right) = new_panels(to, (10, 3.9), 2, 2)
    _draw_bits(left, out, family)
    _draw_times(right, out)
    save_figure(figure, to, dpi=110)


def _draw_bits(axes: Any, out: Outlook, family: Family | None) -> None:
    for method, points in sweep(out, family).items():
        if points:
            sizes, bits = zip(*points, strict=True)
            name, shade = LOOKS[method]
            axes.loglog(sizes, [float(b) for b in bits], color=shade, label=name)
    n, slice_bits = out.cross.bits, out.q * out.setting.value_bits
    axes.plot([n], [slice_bits], "o", color="black", markersize=5)
    axes.annotate(f"{n:,}", (n, slice_bits), (8, -13), textcoords="offset points", fontsize=9)
    axes.axvline(out.net.graph.n, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="nodes N (dotted: yours)", ylabel="bits per node and round")
    axes.tick_params(which="minor", labelbottom=False, labelleft=False)
    axes.legend(frameon=False, fontsize=8, loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.0))


def _draw_times(axes: Any, out: Outlook) -> None:
    rows = list(reversed(out.rows))
    names, left = [LOOKS[row.method][0] for row in rows], [0.0] * len(rows)
    edge = LONGEST * float(min(row.seconds for row in rows)) or 1.0
    for part, shade in PARTS.items():
        widths = [float(row.parts[part]) for row in rows]
        axes.barh(names, widths, left=left, color=shade, label=part, height=0.62)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    for k, row in enumerate(rows):
        is_cut = left[k] > edge
        at, side, shade = (edge, "right", "white") if is_cut else (left[k], "left", "black")
        text = f" {show_seconds(row.seconds)}{' →' if is_cut else ''}"
        axes.text(at, k, text, va="center", ha=side, color=shade, fontsize=9)
    axes.set(xlim=(0, 1.2 * min(edge, max(left)) or 1.0), xlabel="seconds of a round")
    axes.legend(frameon=False, fontsize=8, loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.0))
