"""zocosmo audit: whether a trajectory depends on where its backbone is."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from zocosmo.cli.common import needing_llm, output, print_json
from zocosmo.cli.options import ConfigArgument, JsonOption, SeedsOption, SetOption, as_seeds, option

if TYPE_CHECKING:
    from zocosmo_paper.audit import PlacementVerdict


def audit(
    config: ConfigArgument,
    rounds: Annotated[int, option("Rounds of each trajectory; the config's, if fewer.")] = 10,
    seeds: SeedsOption = "",
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run each trajectory on one copy of the backbone, on two, again, and evaluated once more; compare bits.

    Exit code 0 if all query values, final states and measures are equal, else 1.

    \b
    Example: zocosmo example model/placement_audit >a.yaml && zocosmo audit a.yaml --set problem.model=smollm2
    """
    from zocosmo.experiments.plan import load_plan

    with needing_llm("audit"):
        from zocosmo_paper.audit import audit as run_audit
    plan = load_plan(config, as_seeds(seeds), set_)
    found = list(run_audit(plan, rounds=rounds))
    equal = all(verdict.is_equal for verdict in found)
    if as_json:
        print_json({"equal": equal, "runs": [{**v._asdict(), "equal": v.is_equal} for v in found]})
    else:
        output().print(listing(found))
        print("all equal to the bit" if equal else "NOT equal")
    if not equal:
        raise typer.Exit(1)


def listing(found: "list[PlacementVerdict]") -> Table:
    names = ("graph", "method", "seed", "run", "queries", "states", "measures", "equal")
    table = Table(*names, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for each in found:
        queries = f"{each.queries_differ} of {each.queries} differ" if each.queries_differ else each.queries
        measures = ", ".join(each.measures_differ[:3]) + " differ" if each.measures_differ else "same"
        about = each.graph, each.method, each.seed, each.run, str(queries), each.states, measures
        table.add_row(*about, "yes" if each.is_equal else "NO")
    return table
