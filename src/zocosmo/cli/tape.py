"""zocosmo tape …: what the public tape draws."""

from typing import Annotated

from zocosmo.cli.common import (
    GRAPH_HELP,
    DOption,
    QOption,
    SeedOption,
    add_group,
    as_graph,
    as_numbers,
    as_seed,
    print_json,
)
from zocosmo.cli.options import DegreeOption, ProbabilityOption, option
from zocosmo.core.balanced import balanced_support
from zocosmo.core.support import SupportRule, check_size, draw_signs, draw_support
from zocosmo.core.tape import Tape
from zocosmo.errors import check_known, check_whole
from zocosmo.graphs.matching import SCHEDULES, matching

MOST_PRINTED = 10_000_000  # coordinates or signs

tape_app = add_group("tape", "What the public tape draws, as JSON.")

IdsOption = Annotated[str, option("Ids: t for a round; t,i,j for an edge; t,i for a node.")]


@tape_app.command("support")
def tape_support(
    d: DOption,
    q: QOption,
    ids: IdsOption = "0",
    seed: SeedOption = "0",
    balanced: Annotated[bool, option("Every coordinate once in d/q rounds.", "--balanced")] = False,
) -> None:
    """Print the coordinates of one support.

    Example: zocosmo tape support --seed 0 --d 20 --q 4 --ids 7
    """
    check_size(d, q)
    check_whole("--q here, where all are printed,", q, 1, MOST_PRINTED)
    rule: SupportRule = balanced_support if balanced else draw_support
    t, *rest = as_numbers(ids)
    support = rule(Tape(as_seed(seed)), t, *rest, d=d, q=q)
    print_json({"d": d, "q": support.q, "ids": [t, *rest], "support": support.index.tolist()})


@tape_app.command("signs")
def tape_signs(q: QOption, ids: IdsOption = "0", seed: SeedOption = "0") -> None:
    """Print the signs of one direction, 1 or -1.

    Example: zocosmo tape signs --seed 0 --q 5 --ids 3,1,2
    """
    check_whole("--q", q, 1, MOST_PRINTED)
    t, *rest = as_numbers(ids)
    signs = draw_signs(Tape(as_seed(seed)), t, *rest, q=q)
    print_json({"q": q, "ids": [t, *rest], "signs": signs.tolist()})


@tape_app.command("matching")
def tape_matching(
    graph: Annotated[str, option(GRAPH_HELP)],
    schedule: Annotated[str, option(f"{', '.join(SCHEDULES)}.")],
    n: Annotated[int | None, option("Number of nodes; not needed with edges.", "--n")] = None,
    round_: Annotated[int, option("The round t.", "--round")] = 0,
    p: ProbabilityOption = 0.4,
    degree: DegreeOption = 4,
    seed: SeedOption = "0",
) -> None:
    """Print the pairs of one round, and the nodes that idle.

    Example: zocosmo tape matching --graph ring --n 6 --round 3 --schedule iid
    """
    check_known("schedule", schedule, SCHEDULES)
    built = as_graph(graph, n, p=p, degree=degree, seed=as_seed(seed))
    pairs, idle = matching(SCHEDULES[schedule](built), Tape(as_seed(seed)), round_)
    about = {"graph": built.name, "n": built.n, "schedule": schedule, "round": round_}
    print_json({**about, "pairs": pairs, "idle": idle})
