"""zocosmo plan: what a setting buys, before anything is run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console

from zocosmo.cli.common import (
    GRAPH_HELP,
    WIDTH,
    DOption,
    SeedOption,
    app,
    as_graph,
    as_seed,
    check_targets,
    print_report,
)
from zocosmo.cli.options import DegreeOption, JsonOption, ProbabilityOption, option
from zocosmo.core.values import VALUE_TYPES
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph

if TYPE_CHECKING:
    from zocosmo.planner.outlook import Outlook
    from zocosmo.planner.propose import Proposal, Spending
    from zocosmo.planner.tree import TreeProposal

GraphOption = Annotated[str, option(GRAPH_HELP)]
RateOption = Annotated[str, option("Bits per second of a node's uplink: 100M, 1Gbit/s.")]
BudgetOption = Annotated[str | None, option("Bits per node: 100M, 2.5G; not needed with --time.")]


@app.command("plan")
def plan_command(
    d: DOption,
    budget: BudgetOption = None,
    nodes: Annotated[int | None, option("Number of nodes; not needed with edges.")] = None,
    graph: GraphOption = "ring",
    bandwidth: RateOption = "100M",
    latency: Annotated[str, option("Latency of one link: 20ms, 0.1s.")] = "20ms",
    query_time: Annotated[str, option("Time of one query: 0.5s, 3ms.")] = "0.5s",
    q: Annotated[int | None, option("Coordinates in a support; proposed if not given.", "--q")] = None,
    value: Annotated[str, option(f"Value type: {', '.join(VALUE_TYPES)}.")] = "f32",
    schedule: Annotated[str, option("Schedule of matchings; auto proposes one.")] = "auto",
    rounds: Annotated[int | None, option("Minimum number of rounds.  [default: 1000]")] = None,
    time: Annotated[str | None, option("Time limit, instead of rounds: 2h, 1d.", "--time")] = None,
    queries: Annotated[
        int | None, option("Loss evaluations per node: also propose directions and a wire.")
    ] = None,
    batch: Annotated[int, option("Examples that a query is a mean over, with --queries.")] = 1,
    period: Annotated[int, option("Rounds between dense rounds, MARINA-type.")] = 25,
    p: ProbabilityOption = 0.4,
    degree: DegreeOption = 4,
    seed: SeedOption = "0",
    figure: Annotated[Path | None, option("Also draw it: .svg, .png or .pdf.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare what each method costs in a setting, and propose q and a schedule, with reasons.

    With --queries it also proposes q, the number of directions, sides, wire, coupling and subspace for both
    budgets together; without --budget, for the queries alone.

    \b
    Example: zocosmo plan --d 2523136 --nodes 8 --graph ring --budget 100M --bandwidth 100M --latency 20ms
    Directions and a wire: zocosmo plan --d 32 --nodes 8 --budget 10k --queries 3200
    """
    from zocosmo.core.tape import Tape
    from zocosmo.planner.costs import Deployment
    from zocosmo.planner.outlook import Wish, as_report, outlook
    from zocosmo.planner.units import as_bits, as_rate, as_seconds, uplink_bits
    from zocosmo.report.outlook import outlook_figure

    check_known("value type", value, VALUE_TYPES)
    check_whole("--d", d, 1)
    check_whole("--period", period, 1)
    check_targets(figure)
    if q is not None:
        check_whole("--q", q, 1, d)
    if rounds is not None:
        check_whole("--rounds", rounds, 1)
    if queries is not None:
        check_whole("--queries", queries, 1)
    check_whole("--batch", batch, 1)
    rate, seconds = as_rate("--bandwidth", bandwidth), None if time is None else as_seconds("--time", time)
    each = as_seconds("--query-time", query_time)
    if budget is not None:
        bits = as_bits("--budget", budget)
    elif seconds is not None or queries is not None:
        bits = uplink_bits(rate, seconds if seconds is not None else (queries or 0) * each)
    else:
        raise InputError("give --budget (bits per node), --time (how long), or both")
    setting = Deployment(
        d=d,
        bandwidth=rate,
        latency=as_seconds("--latency", latency),
        query_time=each,
        budget=bits,
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
    except ValueError as error:  # from zocosmo.theory, which raises plain ones
        raise InputError(str(error)) from None
    found = None if queries is None else _proposals(_spending(out, budget is not None, queries, batch), out)
    if figure is not None:
        outlook_figure(out, figure, family)
    report = as_report(out)
    lines: tuple[str, ...] = ()
    if found is not None:
        pairs, tree = found
        report |= {"proposal": pairs.as_report(), "tree": tree and tree.as_report()}
        lines = ("", *pairs.lines, *(() if tree is None else (tree.line,)))
    print_report(report, as_json, lambda console: show(out, console, lines))


def _proposals(spending: "Spending", out: "Outlook") -> "tuple[Proposal, TreeProposal | None]":
    """Settings of edge_local for the schedule of an outlook, and of tree_mean for its graph."""
    from zocosmo.planner.propose import propose
    from zocosmo.planner.tree import propose_tree

    return propose(spending), propose_tree(spending, out.net.graph)


def _spending(out: "Outlook", has_bits: bool, queries: int, batch: int) -> "Spending":
    from zocosmo.planner.propose import Spending

    return Spending(
        d=out.setting.d,
        lambda2=out.pairs.gap,
        pairs=max(1, round(out.pairs.matched * out.net.graph.n / 2)),
        matched=out.pairs.matched,
        bits=out.setting.budget if has_bits else None,
        queries=queries,
        batch=batch,
    )


def show(out: "Outlook", console: Console, proposed: tuple[str, ...] = ()) -> None:
    """The setting, tables no wider than the terminal, and the reasons below them; then proposals."""
    from zocosmo.report.outlook import outlook_tables, outlook_title

    console.print(outlook_title(out), highlight=False)
    for table in outlook_tables(out, console, WIDTH):
        console.print(table)
    for reason in (*out.why, *proposed):
        console.print(reason, soft_wrap=True, highlight=False)
