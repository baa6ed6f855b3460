"""zocosmo probe: before fine-tuning, how large rounding is, and which μ, η, q and dtype follow."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from zocosmo.cli.common import (
    SeedOption,
    app,
    as_fields,
    as_seed,
    check_targets,
    is_watched,
    needing_llm,
    print_report,
    say,
)
from zocosmo.cli.options import JsonOption, option
from zocosmo.errors import InputError, check_whole
from zocosmo.files import write_text

if TYPE_CHECKING:
    from zocosmo.llm.probe import Proposal
    from zocosmo.llm.probe_report import Found

ROUNDS = 1540  # the paper's longest

DtypeOption = Annotated[str, option("float32, tf32, bfloat16, float16; all compares the first three.")]
MoreOption = Annotated[
    list[str] | None, option("A further key of the problem: problem.rank=16. Repeatable.", "--set")
]
ToOption = Annotated[Path | None, option("Write a config for zocosmo run and zocosmo finetune.", "--to")]


@app.command("probe")
def probe_command(
    model: Annotated[str, option("A stored model, a folder, or a name on the hub.")] = "smollm2",
    task: Annotated[str, option("toy, sst2, qnli, boolq, mrpc, rte, or a YAML file.")] = "toy",
    data: Annotated[str, option("Folder with TASK/train.jsonl.")] = "",
    nodes: Annotated[int, option("Number of nodes.")] = 4,
    graph: Annotated[str, option("ring, complete, path, …: a graph given by its size.")] = "ring",
    method: Annotated[
        str | None,
        option("edge_local, …: see zocosmo methods.  [default: tree_mean; edge_local with --exact]"),
    ] = None,
    momentum: Annotated[float | None, option("beta, if the method has it.  [default: 0.9]")] = None,
    q: Annotated[int | None, option("Coordinates in a support.", "--q")] = None,
    mu: Annotated[float | None, option("Judge only this mu.")] = None,
    batch: Annotated[int, option("Examples in a query.")] = 4,
    dtype: DtypeOption = "float32",
    device: Annotated[str, option("cpu, cuda, cuda:1, or auto.")] = "auto",
    directions: Annotated[int, option("Number of directions to probe.")] = 16,
    examples: Annotated[int | None, option("Examples whose single slopes are measured.")] = None,
    pilots: Annotated[bool, option("Choose eta by short runs.", "--pilots/--no-pilots")] = True,
    rounds: Annotated[int | None, option("Rounds of a pilot.  [default: 60, on a CPU 12]")] = None,
    for_rounds: Annotated[
        int, option("Rounds of the run to come, which eta depends on and --to writes.")
    ] = ROUNDS,
    exact: Annotated[
        bool, option("The paper's method, as --q, --mu and --momentum imply.", "--exact")
    ] = False,
    seed: SeedOption = "0",
    more: MoreOption = None,
    as_json: JsonOption = False,
    figure: Annotated[Path | None, option("Draw differences against mu: .svg, .png, .pdf.")] = None,
    to: ToOption = None,
) -> None:
    """Measure rounding and slopes of a model's loss, and propose a recipe for it with reasons.

    That is mu, eta, dtype, subspace, q, directions, bits and coupling of the second generation, or mu, eta, q
    and dtype of another method. Reads training examples only. Exit code 0 with a proposal, 1 if there is
    none: rounding drowns the differences at every mu.

    \b
    Example: zocosmo model get smollm2 && zocosmo probe --task toy --dtype all --no-pilots
    """
    with needing_llm("probe"):
        from zocosmo.llm.probe import named_graph, setting_of
        from zocosmo.llm.probe_config import as_config
        from zocosmo.llm.probe_dtypes import momentum_of, probe_dtypes, settings_for
        from zocosmo.llm.second import RECIPES, USUAL

    _check_numbers(for_rounds, rounds, mu, 0.9 if momentum is None else momentum)
    check_targets(figure, to)
    web, tape_seed = named_graph(graph, nodes), as_seed(seed)
    given = {"model": model, "task": task, "data": data, "batch": batch, "device": device}
    second = method in (None, *RECIPES) and not exact and q is None and mu is None and momentum is None
    method = method or (USUAL if second else "edge_local")
    given |= {"rows": "split"} if second else {}
    settings = settings_for(setting_of(**{**given, **_further(more or [])}), dtype)
    probing: dict[str, Any] = {"q": q, "directions": directions, "examples": examples, "seed": tape_seed}
    if mu is not None:
        probing["mus"] = (mu, 3 * mu)
    beta = {} if second else momentum_of(method, 0.9 if momentum is None else momentum)
    piloting = {"graph": web, "planned": for_rounds, "rounds": rounds, "seed": tape_seed, **beta}
    told = say if is_watched() else None
    shaping = {"kind": method, "graph": web, "planned": for_rounds} if second else None
    found, best = probe_dtypes(settings, method, probing, piloting if pilots else None, told, shaping)
    _report(found, best, figure, as_json=as_json)
    if best is None:
        raise typer.Exit(1)
    chosen = found[best][1]
    if to is not None:
        kinds = {"kind": graph, "n": web.n}, {"kind": method, **beta}
        write_text(to, as_config(settings[best], chosen, *kinds, for_rounds))
    if not as_json:
        print(f"\nnext: zocosmo finetune {_again(chosen) if to is None else to}")


def _again(chosen: "Proposal") -> str:
    if chosen.shape is not None:
        return "with the same model, task, rounds and nodes; or write a config with --to FILE"
    numbers = f"--eta {chosen.eta:.3g} --mu {chosen.mu:.3g}"
    return f"{numbers}, with the same other options; or write a config with --to FILE"


def _report(found: list["Found"], best: int | None, figure: Path | None, *, as_json: bool) -> None:
    from zocosmo.llm.probe_report import as_report, probe_figure, probe_tables

    def show(console: Console) -> None:
        for part in probe_tables(found, best):
            console.print(part, soft_wrap=isinstance(part, str))

    print_report(as_report(found, best), as_json, show)
    if figure is not None:
        probe_figure(found, figure)


def _check_numbers(for_rounds: int, rounds: int | None, mu: float | None, momentum: float) -> None:
    """Refuse what would otherwise fail only after the work."""
    check_whole("--for-rounds", for_rounds, 1)
    if rounds is not None:
        check_whole("--rounds", rounds, 1)
    if mu is not None and not mu > 0:
        raise InputError(f"--mu must be above 0, got {mu}")
    if not 0 <= momentum < 1:
        raise InputError(f"--momentum must be at least 0 and below 1, got {momentum}")


def _further(texts: list[str]) -> dict[str, Any]:
    names = [text.removeprefix("problem.") for text in texts]
    return as_fields(names, "a further key of the problem, such as problem.rank=16", ("dtype", "noise"))
