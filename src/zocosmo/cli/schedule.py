"""zocosmo schedule: the law of matchings that mixes a graph fastest."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from zocosmo.cli.common import (
    GRAPH_HELP,
    SeedOption,
    app,
    as_graph,
    as_seed,
    check_targets,
    graph_options,
    is_watched,
    output,
    print_json,
)
from zocosmo.cli.options import DegreeOption, JsonOption, ProbabilityOption, option
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.files import write_text
from zocosmo.graphs.edge_file import load_graph
from zocosmo.graphs.graph import GRAPHS, Graph

MOST_NODES = 128

GraphOption = Annotated[str | None, option(GRAPH_HELP)]
EdgesOption = Annotated[
    Path | None, option("Instead of --graph: a .csv of lines i,j or a .json list of [i, j].")
]
PerOption = Annotated[str, option("What the best law maximises: mixing per round or per scalar.")]


@app.command("schedule")
def schedule_command(
    graph: GraphOption = None,
    nodes: Annotated[int | None, option("Number of nodes; not needed with edges.")] = None,
    edges: EdgesOption = None,
    q: Annotated[int, option("Coordinates in a support.", "--q")] = 1,
    d: Annotated[int, option("Dimension of the shared vector.", "--d")] = 1,
    per: PerOption = "round",
    p: ProbabilityOption = 0.4,
    degree: DegreeOption = 4,
    seed: SeedOption = "0",
    tolerance: Annotated[float, option("Relative gap to the bound at which to stop.")] = 1e-9,
    total: Annotated[int, option("Whole weights add up to this, or to a small number.")] = 2**40,
    figure: Annotated[Path | None, option("Also draw it: .svg, .png or .pdf.")] = None,
    out: Annotated[Path | None, option("Write the block for a config: .yaml.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the law of matchings that mixes a graph fastest, and compare it with the named schedules.

    Example: zocosmo schedule --graph grid --nodes 16
    """
    from zocosmo.planner.schedule import schedule_report

    _check(q, d, per, tolerance, total, figure, out)
    built, entry = _graph(graph, nodes, edges, p=p, degree=degree, seed=seed)
    check_whole("the number of nodes", built.n, 2, MOST_NODES)
    note = f"searching the laws of {built.n} nodes: seconds for 20, a minute or more for 50"
    with Console(stderr=True).status(note) if is_watched() else nullcontext():
        report = schedule_report(built, entry, q=q, d=d, per=per, tolerance=tolerance, total=total)
    _show(report, figure, out, as_json)


def _check(
    q: int, d: int, per: str, tolerance: float, total: int, figure: Path | None, out: Path | None
) -> None:
    """Refuse what would otherwise fail only at the end."""
    from zocosmo.report.schedule import is_config_block

    check_whole("--d", d, 1)
    if q > d == 1:
        raise InputError(f"--q {q} needs --d, the dimension of the shared vector, as γ = qλ₂/2d")
    check_whole("--q", q, 1, d)
    check_known("--per", per, ("round", "scalar"))
    check_whole("--total", total, 1, 2**62)
    if not 1e-14 <= tolerance < 1:
        raise InputError(f"--tolerance lies from 1e-14 to below 1, got {tolerance:g}")
    check_targets(figure, out)
    if out is not None and out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out ends in .yaml, got {out.name!r}")
    if out is not None and out.exists() and not is_config_block(out):
        raise InputError(f"--out {out} holds more than a schedule; name another file, and paste from it")


def _graph(
    graph: str | None, nodes: int | None, edges: Path | None, *, p: float, degree: int, seed: str
) -> tuple[Graph, dict[str, Any]]:
    """The graph, and its entry in a config: its name and parameters, or its edges."""
    if (graph is None) == (edges is None):
        raise InputError("give either --graph, such as grid or 0-1,1-2, or --edges with a file")
    if edges is not None:
        built = load_graph(edges, nodes)
    else:
        built = as_graph(str(graph), nodes, p=p, degree=degree, seed=as_seed(seed), option="--nodes")
    if graph not in GRAPHS or seed.startswith("hex:"):
        listed = ",".join(f"{i}-{j}" for i, j in built.edges)
        return built, {"kind": "edges", "n": built.n, "edges": listed}
    number = int(seed) if seed.isdigit() else seed
    options = graph_options(str(graph), p=p, degree=degree, seed=number)
    return built, {"kind": graph, "n": built.n, **options}


def _show(report: dict[str, Any], figure: Path | None, out: Path | None, as_json: bool) -> None:
    from zocosmo.report.schedule import config_block, schedule_figure, schedule_tables

    block = config_block(report)
    if figure is not None:
        schedule_figure(report, figure)
    if out is not None:
        write_text(out, block + "\n")
    if as_json:
        print_json(report)
        return
    console = output()
    console.print(*schedule_tables(report, console.width), sep="\n")
    print(f"For a config, written to {out}." if out is not None else f"For a config:\n\n{block}")
