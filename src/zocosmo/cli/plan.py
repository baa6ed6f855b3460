"""zocosmo plan: what a setting buys, before anything is run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import WIDTH, DOption, SeedOption, app, as_graph, as_seed, output, print_json
from zocosmo.cli.options import JsonOption
from zocosmo.core.values import VALUE_TYPES
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph

if TYPE_CHECKING:
    from fractions import Fraction

    from zocosmo.planner.costs import MethodCost
    from zocosmo.planner.crossover import Family
    from zocosmo.planner.outlook import Outlook

    Cells = Callable[[Outlook, MethodCost], list[str]]  # of one row of a table

TITLES = {
    "cosmo": "global",
    "edge_local": "edge-local",
    "flood": "flooding",
    "dense": "dense",
    "cosmo indexed": "indexed",
    "marina_type": "MARINA-type",
}
SHADES = {
    "cosmo": "#1b6ca8",
    "edge_local": "#3f9142",
    "flood": "#d1495b",
    "dense": "#9aa5b1",
    "cosmo indexed": "#edae49",
    "marina_type": "#7b5ea7",
}
PARTS = {"queries": "#9aa5b1", "latency": "#edae49", "transfer": "#1b6ca8"}
BITS = ("bits a round", "× values", "rounds", "bits in all")
CLOCK = ("stages", "time a round", "time in all")
LONGEST = 3  # bars longer than so many times the shortest are cut

NodesOption = Annotated[int | None, typer.Option(help="Number of nodes; not needed with edges.")]
GraphOption = Annotated[str, typer.Option(help=f"{', '.join(GRAPHS)}; or edges such as 0-1,1-2.")]
RateOption = Annotated[str, typer.Option(help="Bits a second of a node's uplink: 100M, 1Gbit/s.")]
LatencyOption = Annotated[str, typer.Option(help="Of one link: 20ms, 0.1s.")]
QueryOption = Annotated[str, typer.Option(help="One query: 0.5s, 3ms.")]
BudgetOption = Annotated[str | None, typer.Option(help="Bits per node: 100M, 2.5G; not needed with --time.")]
WantedOption = Annotated[int | None, typer.Option(help="Rounds that are wanted at least.  [default: 1000]")]
TimeOption = Annotated[str | None, typer.Option("--time", help="At most so long, instead of rounds: 2h, 1d.")]


@app.command("plan")
def plan_command(
    d: DOption,
    budget: BudgetOption = None,
    nodes: NodesOption = None,
    graph: GraphOption = "ring",
    bandwidth: RateOption = "100M",
    latency: LatencyOption = "20ms",
    query_time: QueryOption = "0.5s",
    q: Annotated[
        int | None, typer.Option("--q", help="Coordinates in a support; proposed if not given.")
    ] = None,
    value: Annotated[str, typer.Option(help=f"Value type: {', '.join(VALUE_TYPES)}.")] = "f32",
    schedule: Annotated[str, typer.Option(help="Of matchings; auto proposes one.")] = "auto",
    rounds: WantedOption = None,
    time: TimeOption = None,
    period: Annotated[int, typer.Option(help="Rounds from one dense round to the next, MARINA-type.")] = 25,
    p: Annotated[float, typer.Option("--p", help="Probability of an edge, or of rewiring one.")] = 0.4,
    degree: Annotated[int, typer.Option(help="Degree in random_regular and small_world.")] = 4,
    seed: SeedOption = "0",
    figure: Annotated[Path | None, typer.Option(help="Also draw it: .svg, .png or .pdf.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what each method costs in a setting, and propose q and a schedule, with reasons.

    \b
    Example: zocosmo plan --d 2523136 --nodes 8 --graph ring --budget 100M --bandwidth 100M --latency 20ms
    """
    from zocosmo.core.tape import Tape
    from zocosmo.planner.costs import Deployment
    from zocosmo.planner.outlook import Wish, as_report, outlook
    from zocosmo.planner.units import as_bits, as_rate, as_seconds

    check_known("value type", value, VALUE_TYPES)
    check_whole("--d", d, 1)
    check_whole("--period", period, 1)
    _check_wish(d, q, rounds, figure)
    rate, seconds = as_rate("--bandwidth", bandwidth), None if time is None else as_seconds("--time", time)
    setting = Deployment(
        d=d,
        bandwidth=rate,
        latency=as_seconds("--latency", latency),
        query_time=as_seconds("--query-time", query_time),
        budget=_all_bits(rate, seconds) if budget is None else as_bits("--budget", budget),
        value_bits=VALUE_TYPES[value].bits,
        period=period,
    )
    wish = Wish(q=q, schedule=schedule, rounds=rounds, seconds=seconds)
    tape_seed = as_seed(seed)

    def build(n: int | None) -> Graph:
        return as_graph(graph, n, p=p, degree=degree, seed=tape_seed, option="--nodes")

    family = build if graph in GRAPHS else None
    try:
        out = outlook(setting, build(nodes), wish, tape=Tape(tape_seed), family=family)
    except ValueError as error:  # of the theory; ours pass as they are
        raise InputError(str(error)) from None
    if figure is not None:
        draw(out, figure, family)
    if as_json:
        print_json(as_report(out))
    else:
        show(out)


def _check_wish(d: int, q: int | None, rounds: int | None, figure: Path | None) -> None:
    """Refuse before anything is computed what could only fail at its end."""
    from zocosmo.report.figures import check_figure

    if q is not None:
        check_whole("--q", q, 1, d)
    if rounds is not None:
        check_whole("--rounds", rounds, 1)
    if figure is not None:
        check_figure(figure)


def _all_bits(rate: "Fraction", seconds: "Fraction | None") -> int:
    """Without a budget: what an uplink sends in the time, so that bits limit nothing."""
    if seconds is None:
        raise InputError("say what may be spent: --budget, bits per node, or --time, for how long; or both")
    return max(1, int(rate * seconds))


def show(out: "Outlook") -> None:
    """What it costs and what it does, in tables no wider than the terminal, and the reasons below them."""
    console = output()
    console.print(_title(out), highlight=False)
    costs = _table(out, (*BITS, *CLOCK), _costs)
    if console.measure(costs, options=console.options.update(width=WIDTH)).maximum <= console.width:
        console.print(costs)
    else:  # a cut number is a wrong one
        console.print(_table(out, BITS, lambda *row: _costs(*row)[: len(BITS)]))
        console.print(_table(out, CLOCK, lambda *row: _costs(*row)[len(BITS) :]))
    console.print(_table(out, ("contraction a round", "per Mbit", "exposure", "coverage"), _effects))
    for reason in out.why:
        console.print(reason, soft_wrap=True, highlight=False)


def _table(
    out: "Outlook", names: tuple[str, ...], cells: Callable[["Outlook", "MethodCost"], list[str]]
) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for row in out.rows:
        table.add_row(TITLES[row.method], *cells(out, row))
    return table


def _title(out: "Outlook") -> str:
    from zocosmo.planner.units import show_bits, show_seconds

    setting, graph = out.setting, out.net.graph
    values = f"values of {setting.value_bits} bits"
    sizes = f"d = {setting.d:,}, q = {out.q:,}, {values}, {_kind(graph)} of {graph.n} nodes"
    link = f"{show_bits(setting.bandwidth)}/s, latency {show_seconds(setting.latency)}"
    budget = "bits without limit" if out.is_free else f"{show_bits(setting.budget)} per node"
    time = "" if out.wish.seconds is None else f", at most {show_seconds(out.wish.seconds)}"
    return f"{sizes}\n{budget}, {link}, a query {show_seconds(setting.query_time)}{time}"


def _kind(graph: Graph) -> str:
    """What to call it before "of 4 nodes": a ring, but a complete graph."""
    if graph.name in ("ring", "path", "star", "grid", "torus", "hypercube"):
        return graph.name
    return "graph" if graph.name == "edges" else f"{graph.name} graph"


def _costs(out: "Outlook", row: "MethodCost") -> list[str]:
    from zocosmo.planner.units import show_bits, show_seconds

    return [
        _about(out, row) + show_bits(row.bits),
        "–" if row.link_ratio is None else _times(float(row.link_ratio)),
        f"{row.rounds:,}",
        show_bits(row.total_bits),
        f"{row.stages}",
        show_seconds(row.seconds),
        show_seconds(row.total_seconds),
    ]


def _effects(out: "Outlook", row: "MethodCost") -> list[str]:
    per, about = row.contraction_per_mbit, _about(out, row)
    return [
        "exact agreement" if row.agrees else f"{about}{row.contraction:.3g}",
        "–" if per is None else f"{about}{per:.3g}",
        f"{float(row.exposure):,.3g}",
        f"{row.coverage:.2%}",
    ]


def _about(out: "Outlook", row: "MethodCost") -> str:
    """Pairs of a schedule whose law was only measured."""
    return "≈ " if row.method == "edge_local" and not out.pairs.exact else ""


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1000 else f"{ratio:.2e}"


def draw(out: "Outlook", to: Path, family: "Family | None") -> None:
    """Left: bits of a round against the number of nodes. Right: where the time of a round goes."""
    from zocosmo.report.figures import new_panels, save_figure

    figure, (left, right) = new_panels(to, (10, 3.9), 2, 2)
    _draw_bits(left, out, family)
    _draw_times(right, out)
    save_figure(figure, to, dpi=110)


def _draw_bits(axes: Any, out: "Outlook", family: "Family | None") -> None:
    from zocosmo.planner.sweep import sweep

    for method, points in sweep(out, family).items():
        if points:
            sizes, bits = zip(*points, strict=True)
            axes.loglog(sizes, [float(b) for b in bits], color=SHADES[method], label=TITLES[method])
    n, slice_bits = out.cross.bits, out.q * out.setting.value_bits
    axes.plot([n], [slice_bits], "o", color="black", markersize=5)
    axes.annotate(f"{n:,}", (n, slice_bits), (8, -13), textcoords="offset points", fontsize=9)
    axes.axvline(out.net.graph.n, color="black", linestyle=":", linewidth=1)
    axes.set(xlabel="nodes N (dotted: yours)", ylabel="bits per node and round")
    axes.tick_params(which="minor", labelbottom=False, labelleft=False)
    axes.legend(frameon=False, fontsize=8, loc="lower center", ncols=3, bbox_to_anchor=(0.5, 1.0))


def _draw_times(axes: Any, out: "Outlook") -> None:
    from zocosmo.planner.units import show_seconds

    rows = list(reversed(out.rows))
    names, left = [TITLES[row.method] for row in rows], [0.0] * len(rows)
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
