"""What all commands share: the application, options, how text becomes seeds, numbers and graphs."""

import json
import re
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from zocosmo.cli.plugins import Commands
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph, by_edges, is_edges

WIDTH = 120  # columns, where the output is not a terminal
MOST_NODES = 2_000

app = typer.Typer(
    cls=Commands,
    help="Decentralised zeroth-order optimisation over public sparse supports.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DOption = Annotated[int, typer.Option("--d", help="Dimension of the shared vector.")]
QOption = Annotated[int, typer.Option("--q", help="Coordinates in a support.")]
SeedOption = Annotated[str, typer.Option(help="A whole number, any text, or hex: and 64 digits.")]


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def output() -> Console:
    """Where tables go: as wide as the terminal, or as a fixed page."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def print_json(result: dict[str, Any]) -> None:
    print(json.dumps(result))


def as_seed(text: str) -> Seed:
    """Text is its own seed, and so is a number: the tape reads an integer as its decimals."""
    if not text.startswith("hex:"):
        return text
    try:
        return bytes.fromhex(text.removeprefix("hex:"))
    except ValueError:
        raise InputError(f"hex: is followed by 64 hexadecimal digits, got {text!r}") from None


def as_numbers(text: str) -> list[int]:
    if not re.fullmatch(r"-?[0-9]{1,20}(,-?[0-9]{1,20})*", text):
        raise InputError(f"expected whole numbers separated by commas, such as 3,1,2; got {text!r}")
    return [int(part) for part in text.split(",")]


def as_graph(text: str, n: int | None, *, p: float, degree: int, seed: Seed, option: str = "--n") -> Graph:
    """A graph by its name, or by its edges: 0-1,1-2. `option` is what the command calls n."""
    if is_edges(text):
        return by_edges(text, n)
    check_known("graph", text, GRAPHS)
    if n is None:
        raise InputError(f"graph {text!r} needs {option}, the number of nodes; or give edges such as 0-1,1-2")
    check_whole(option, n, 1, MOST_NODES)
    options: dict[str, dict[str, Any]] = {
        "erdos_renyi": {"p": p, "seed": seed},
        "random_regular": {"degree": degree, "seed": seed},
        "small_world": {"k": degree, "p": p, "seed": seed},
    }
    return GRAPHS[text](n, **options.get(text, {}))
