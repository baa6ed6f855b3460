"""The command `zocosmo`: each command parses, calls the library, prints.

Results go to stdout. A user's mistake ends as one line on stderr and exit code 2.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from zocosmo import __version__
from zocosmo.core.balanced import balanced_support
from zocosmo.core.support import SupportRule, check_size, draw_signs, draw_support
from zocosmo.core.tape import Seed, Tape
from zocosmo.core.values import VALUE_TYPES
from zocosmo.errors import InputError, ZocosmoError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph
from zocosmo.graphs.matching import SCHEDULES, matching
from zocosmo.report.figures import payload_figure
from zocosmo.report.payload import payload_report, payload_tables

WIDTH = 120  # columns, where the output is not a terminal
MOST_PRINTED = 10_000_000  # coordinates or signs
MOST_NODES = 2_000
UserMistake: type[Any] = typer.BadParameter.__mro__[2]  # ClickException; typer may carry a click of its own

app = typer.Typer(
    help="Decentralised zeroth-order optimisation over public sparse supports.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
tape_app = typer.Typer(
    help="What the public tape draws, as JSON.", invoke_without_command=True, rich_markup_mode=None
)
app.add_typer(tape_app, name="tape")

DOption = Annotated[int, typer.Option("--d", help="Dimension of the shared vector.")]
QOption = Annotated[int, typer.Option("--q", help="Coordinates in a support.")]
IdsOption = Annotated[str, typer.Option(help="Ids: t for a round; t,i,j for an edge; t,i for a node.")]
SeedOption = Annotated[str, typer.Option(help="A whole number, any text, or hex: and 64 digits.")]


@tape_app.command("support")
def tape_support(
    d: DOption,
    q: QOption,
    ids: IdsOption = "0",
    seed: SeedOption = "0",
    balanced: Annotated[
        bool, typer.Option("--balanced", help="Every coordinate once in d/q rounds.")
    ] = False,
) -> None:
    """Print the coordinates of one support.

    Example: zocosmo tape support --seed 0 --d 20 --q 4 --ids 7
    """
    check_size(d, q)
    check_whole("--q here, where all are printed,", q, 1, MOST_PRINTED)
    rule: SupportRule = balanced_support if balanced else draw_support
    t, *rest = _numbers(ids)
    support = rule(Tape(_seed(seed)), t, *rest, d=d, q=q)
    _print_json({"d": d, "q": support.q, "ids": [t, *rest], "support": support.index.tolist()})


@tape_app.command("signs")
def tape_signs(q: QOption, ids: IdsOption = "0", seed: SeedOption = "0") -> None:
    """Print the signs of one direction, 1 or -1.

    Example: zocosmo tape signs --seed 0 --q 5 --ids 3,1,2
    """
    check_whole("--q", q, 1, MOST_PRINTED)
    t, *rest = _numbers(ids)
    signs = draw_signs(Tape(_seed(seed)), t, *rest, q=q)
    _print_json({"q": q, "ids": [t, *rest], "signs": signs.tolist()})


@tape_app.command("matching")
def tape_matching(
    graph: Annotated[str, typer.Option(help=f"{', '.join(GRAPHS)}; or edges such as 0-1,1-2.")],
    schedule: Annotated[str, typer.Option(help=f"{', '.join(SCHEDULES)}.")],
    n: Annotated[int | None, typer.Option("--n", help="Number of nodes; not needed with edges.")] = None,
    round_: Annotated[int, typer.Option("--round", help="The round t.")] = 0,
    p: Annotated[float, typer.Option("--p", help="Probability of an edge, or of rewiring one.")] = 0.4,
    degree: Annotated[int, typer.Option(help="Degree in random_regular and small_world.")] = 4,
    seed: SeedOption = "0",
) -> None:
    """Print the pairs of one round, and who idles.

    Example: zocosmo tape matching --graph ring --n 6 --round 3 --schedule iid
    """
    check_known("schedule", schedule, SCHEDULES)
    built = _graph(graph, n, p=p, degree=degree, seed=_seed(seed))
    pairs, idle = matching(SCHEDULES[schedule](built), Tape(_seed(seed)), round_)
    about = {"graph": built.name, "n": built.n, "schedule": schedule, "round": round_}
    _print_json({**about, "pairs": pairs, "idle": idle})


@app.command()
def payload(
    d: DOption,
    q: QOption,
    value: Annotated[str, typer.Option(help=f"Value type: {', '.join(VALUE_TYPES)}.")] = "f32",
    reuse: Annotated[str, typer.Option(help="Rounds that one coordinate list is kept for.")] = "1,10,50",
    rounds: Annotated[int, typer.Option(help="Rounds that the seed is spread over.")] = 1000,
    figure: Annotated[Path | None, typer.Option(help="Also draw the bill: .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print what one message costs under every codec, and the bound that no code can beat.

    Example: zocosmo payload --d 6525621760 --q 8192
    """
    check_known("value type", value, VALUE_TYPES)
    kept = tuple(check_whole("--reuse", k, 1) for k in _numbers(reuse))
    check_whole("--rounds", rounds, 1)
    report = payload_report(d, q, value=value, reuse=kept, rounds=rounds)
    if figure is not None:
        payload_figure(report, figure)
    if as_json:
        _print_json(report)
    else:
        console = Console(width=None if sys.stdout.isatty() else WIDTH)
        console.print(*payload_tables(report, about=console.width >= 120), sep="\n")


@app.callback()
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"zocosmo {__version__}")
        raise typer.Exit
    show_help(context)


@tape_app.callback()
def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def main() -> None:
    """Run the command; turn every mistake of the user's into one line and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        code = app(standalone_mode=False) or 0
        sys.stdout.flush()
    except (ZocosmoError, UserMistake) as error:
        code = _refuse(error.format_message() if isinstance(error, UserMistake) else str(error))
    except MemoryError:
        code = _refuse("not enough memory for that; ask for less")
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = _refuse(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = 130
    sys.exit(code)


def _refuse(text: str) -> int:
    print("zocosmo: " + " ".join(text.split()), file=sys.stderr)
    return 2


def _print_json(result: dict[str, Any]) -> None:
    print(json.dumps(result))


def _seed(text: str) -> Seed:
    """Text is its own seed, and so is a number: the tape reads an integer as its decimals."""
    if not text.startswith("hex:"):
        return text
    try:
        return bytes.fromhex(text.removeprefix("hex:"))
    except ValueError:
        raise InputError(f"hex: is followed by 64 hexadecimal digits, got {text!r}") from None


def _numbers(text: str) -> list[int]:
    if not re.fullmatch(r"-?[0-9]{1,20}(,-?[0-9]{1,20})*", text):
        raise InputError(f"expected whole numbers separated by commas, such as 3,1,2; got {text!r}")
    return [int(part) for part in text.split(",")]


def _graph(text: str, n: int | None, *, p: float, degree: int, seed: Seed) -> Graph:
    """A graph by its name, or by its edges: 0-1,1-2."""
    if re.fullmatch(r"[0-9]{1,9}-[0-9]{1,9}(,[0-9]{1,9}-[0-9]{1,9})*", text):
        edges = [(int(i), int(j)) for i, j in (pair.split("-") for pair in text.split(","))]
        return Graph.of(1 + max(map(max, edges)) if n is None else n, edges)
    check_known("graph", text, GRAPHS)
    if n is None:
        raise InputError(f"graph {text!r} needs --n, the number of nodes; or give edges such as 0-1,1-2")
    check_whole("--n", n, 1, MOST_NODES)
    options: dict[str, dict[str, Any]] = {
        "erdos_renyi": {"p": p, "seed": seed},
        "random_regular": {"degree": degree, "seed": seed},
        "small_world": {"k": degree, "p": p, "seed": seed},
    }
    return GRAPHS[text](n, **options.get(text, {}))
