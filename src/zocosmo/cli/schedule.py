"""zocosmo schedule: the law of matchings that mixes a graph fastest."""

import csv
import json
import re
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from zocosmo.cli.common import SeedOption, app, as_graph, as_seed, output, print_json
from zocosmo.cli.options import JsonOption
from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.files import replace_file
from zocosmo.graphs.graph import GRAPHS, Graph
from zocosmo.graphs.matching import MAX_EXACT_NODES, SCHEDULES, expected_laplacian, mean_laplacian
from zocosmo.graphs.weights import laplacian_gap

MOST_NODES = 128
ROUNDS = 20_000  # that an estimate is over

GraphOption = Annotated[str | None, typer.Option(help=f"{', '.join(GRAPHS)}; or edges such as 0-1,1-2.")]
EdgesOption = Annotated[
    Path | None, typer.Option(help="Instead of --graph: a .csv of lines i,j or a .json list of [i, j].")
]
PerOption = Annotated[str, typer.Option(help="What the best law is best at: round or scalar.")]
ToleranceOption = Annotated[float, typer.Option(help="Relative gap to the bound at which to stop.")]
TotalOption = Annotated[int, typer.Option(help="Whole weights add up to this, or to a small number.")]


@app.command("schedule")
def schedule_command(
    graph: GraphOption = None,
    nodes: Annotated[int | None, typer.Option(help="Number of nodes; not needed with edges.")] = None,
    edges: EdgesOption = None,
    q: Annotated[int, typer.Option("--q", help="Coordinates in a support.")] = 1,
    d: Annotated[int, typer.Option("--d", help="Dimension of the shared vector.")] = 1,
    per: PerOption = "round",
    p: Annotated[float, typer.Option("--p", help="Probability of an edge, or of rewiring one.")] = 0.4,
    degree: Annotated[int, typer.Option(help="Degree in random_regular and small_world.")] = 4,
    seed: SeedOption = "0",
    tolerance: ToleranceOption = 1e-9,
    total: TotalOption = 2**40,
    figure: Annotated[Path | None, typer.Option(help="Also draw it: .svg, .png or .pdf.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the block for a config: .yaml.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the law of matchings that mixes a graph fastest, beside the schedules that need no search.

    Example: zocosmo schedule --graph grid --nodes 16
    """
    _check(q, d, per, tolerance, total, figure, out)
    built = _graph(graph, nodes, edges, p=p, degree=degree, seed=seed)
    check_whole("the number of nodes", built.n, 2, MOST_NODES)
    entry = _entry(graph, built, p=p, degree=degree, seed=seed)
    with _watched(built.n):
        report = schedule_report(built, entry, q=q, d=d, per=per, tolerance=tolerance, total=total)
    _show(report, figure, out, as_json)


def _check(
    q: int, d: int, per: str, tolerance: float, total: int, figure: Path | None, out: Path | None
) -> None:
    """Refuse before anything is computed what could only fail at its end."""
    from zocosmo.report.figures import check_figure

    check_whole("--d", d, 1)
    if q > d == 1:
        raise InputError(f"--q {q} needs --d, the dimension of the shared vector, as γ = qλ₂/2d")
    check_whole("--q", q, 1, d)
    check_known("--per", per, ("round", "scalar"))
    check_whole("--total", total, 1, 2**62)
    if not 1e-14 <= tolerance < 1:
        raise InputError(f"--tolerance lies from 1e-14 to below 1, got {tolerance:g}")
    if figure is not None:
        check_figure(figure)
    if out is not None and out.suffix not in (".yaml", ".yml"):
        raise InputError(f"--out ends in .yaml, got {out.name!r}")
    for path in (figure, out):
        if path is not None and not path.parent.is_dir():
            raise InputError(f"folder {path.parent} does not exist; make it first")
    if out is not None and out.exists() and not _is_block(out):
        raise InputError(f"--out {out} holds more than a schedule; name another file, and paste from it")


def _is_block(path: Path) -> bool:
    """Whether a file has nothing but what this command writes: a config of the user's is not replaced."""
    try:
        keys = set(re.findall(r"^(\w+) *:", path.read_text(encoding="utf-8"), re.M))
    except (OSError, UnicodeDecodeError):
        return False
    return keys in ({"graphs"}, set())


def _watched(n: int) -> AbstractContextManager[Any]:
    """A line on stderr while the search goes on, if somebody watches."""
    from rich.console import Console

    if not sys.stderr.isatty():
        return nullcontext()
    return Console(stderr=True).status(
        f"searching the laws of {n} nodes: seconds for 20, a minute or more for 50"
    )


def _graph(
    graph: str | None, nodes: int | None, edges: Path | None, *, p: float, degree: int, seed: str
) -> Graph:
    if (graph is None) == (edges is None):
        raise InputError("give either --graph, such as grid or 0-1,1-2, or --edges with a file")
    if edges is not None:
        pairs, n = read_edges(edges)
        if nodes is None and n is None and min(map(min, pairs)) == 1:
            raise InputError(
                f"--edges {edges}: nodes are numbered from 0, and the lowest here is 1; subtract 1"
            )
        known = max(1 + max(map(max, pairs)), n or 0) if nodes is None else nodes
        return Graph.of(known, pairs, edges.stem)
    return as_graph(str(graph), nodes, p=p, degree=degree, seed=as_seed(seed), option="--nodes")


def read_edges(path: Path) -> tuple[list[tuple[int, int]], int | None]:
    """Edges of a file, and its number of nodes if it says one."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a mark before the first line
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--edges {path} cannot be read: {error}") from None
    n: Any = None
    try:
        given: Any = json.loads(text) if path.suffix == ".json" else list(csv.reader(text.splitlines()))
    except (ValueError, RecursionError, csv.Error) as error:
        raise InputError(f"--edges {path} is no list of pairs of nodes: {error}") from None
    if isinstance(given, dict):
        given, n = given.get("edges"), given.get("n")
    if not isinstance(given, list):
        raise InputError(f"--edges {path} is no list of pairs of nodes; give [[0, 1], …], alone or as edges")
    rows = [row for row in given if row != [] and not str(row).lstrip("['\" ").startswith("#")]
    if path.suffix != ".json" and rows and not any(re.match(r"\s*-?[0-9]", cell) for cell in rows[0]):
        rows = rows[1:]  # a line of names
    pairs = [_pair(path, row) for row in rows]
    if not pairs:
        raise InputError(f"--edges {path} has no edges; write one pair of nodes a line, such as 0,1")
    return pairs, None if n is None else check_whole("n", n, 1)


def _pair(path: Path, row: Any) -> tuple[int, int]:
    """Two whole numbers, as JSON has them or as text; 1.5 is no node, and neither is true."""
    cells = row if isinstance(row, list) else [row]
    words = [cell.strip() if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    if len(words) != 2 or not all(re.fullmatch("-?[0-9]{1,9}", word) for word in words):
        found = ",".join(words)[:40]
        said = "an edge is two whole numbers, such as 0,1"
        raise InputError(f"--edges {path} is no list of pairs of nodes: {said}; got {found!r}")
    return int(words[0]), int(words[1])


def _entry(graph: str | None, built: Graph, *, p: float, degree: int, seed: str) -> dict[str, Any]:
    """The graph's own keys in a config: its name and parameters, or its edges."""
    if graph not in GRAPHS or seed.startswith("hex:"):
        return {"kind": "edges", "n": built.n, "edges": ",".join(f"{i}-{j}" for i, j in built.edges)}
    drawn: dict[str, Any] = {"seed": int(seed) if seed.isdigit() else seed}
    more = {
        "erdos_renyi": {"p": p, **drawn},
        "random_regular": {"degree": degree, **drawn},
        "small_world": {"k": degree, "p": p, **drawn},
    }
    return {"kind": graph, "n": built.n, **more.get(str(graph), {})}


def schedule_report(
    graph: Graph,
    entry: dict[str, Any],
    *,
    q: int,
    d: int,
    per: str = "round",
    tolerance: float = 1e-9,
    total: int = 2**40,
) -> dict[str, Any]:
    """Everything that `zocosmo schedule` prints, as plain data."""
    from zocosmo.theory.schedule import best_schedule

    try:
        found = {
            each: best_schedule(graph.n, graph.edges, per=each, tolerance=tolerance, total=total)
            for each in ("round", "scalar")
        }
    except ValueError as error:
        raise InputError(str(error)) from None
    best = found[per]
    laws = {f"best per {each}": (law.lambda2, float(law.pairs), True) for each, law in found.items()}
    laws |= _plain_laws(graph)
    return {
        "graph": graph.name,
        "n": graph.n,
        "q": q,
        "d": d,
        "p": q / d,
        "schedules": [_row(name, graph.n, *law, q=q, d=d) for name, law in laws.items()],
        "best": {"per": per, "value": best.value, "upper_bound": best.upper_bound, "gap": best.gap},
        "edges": [list(pair) for pair in graph.edges],
        "shares": [float(share) for share in best.edge_marginals],
        "schedule": {
            "matchings": [[list(pair) for pair in pairs] for pairs, _ in best.law.listed()],
            "weights": best.whole_weights(),
        },
        "config": entry,
    }


def _plain_laws(graph: Graph) -> dict[str, tuple[float, float, bool]]:
    """λ₂, E|M| and whether both are exact, of the schedules that go by a name; `auto` is one of them."""
    from zocosmo.methods.base import default_schedule

    auto, laws = default_schedule(graph), {}
    for name in dict.fromkeys([auto, "maximal", "round_robin"]):
        if name == "maximal" and auto == "complete":
            continue  # the same law, and slow to count
        schedule = SCHEDULES[name](graph)
        exact = name != "maximal" or graph.n <= MAX_EXACT_NODES
        mean = expected_laplacian(schedule) if exact else mean_laplacian(schedule, Tape("schedule"), ROUNDS)
        label = f"{name} (auto)" if name == auto else name
        laws[label] = laplacian_gap(mean), float(mean.trace()) / 2, exact
    return laws


def _row(name: str, n: int, lambda2: float, pairs: float, exact: bool, *, q: int, d: int) -> dict[str, Any]:
    """γ = qλ₂/2d a round; 2q E|M| scalars cross the links for it."""
    from zocosmo.theory.schedule import mixing_efficiency, round_contraction

    gamma = float(round_contraction(lambda2, q=q, d=d))
    return {
        "schedule": name,
        "lambda2": lambda2,
        "pairs": pairs,
        "contraction": gamma,
        "per_scalar": gamma / (2 * q * pairs),
        "efficiency": float(mixing_efficiency(lambda2, n=n, pairs=pairs)),
        "exact": exact,
    }


def _show(report: dict[str, Any], figure: Path | None, out: Path | None, as_json: bool) -> None:
    from zocosmo.report.schedule import config_block, schedule_figure, schedule_tables

    block = config_block(report)
    if figure is not None:
        schedule_figure(report, figure)
    if out is not None:
        replace_file(out, lambda path: path.write_text(block + "\n", encoding="utf-8"))
    if as_json:
        print_json(report)
        return
    console = output()
    console.print(*schedule_tables(report, console.width), sep="\n")
    print(f"For a config, written to {out}." if out is not None else f"For a config:\n\n{block}")
