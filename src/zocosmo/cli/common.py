"""What all commands share: the application, output, and parsers of seeds, numbers and graphs."""

import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from zocosmo.cli.menu import with_words
from zocosmo.cli.options import option
from zocosmo.cli.plugins import Command, Commands
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.extras import missing
from zocosmo.graphs.graph import GRAPHS, Graph, by_edges, is_edges

if TYPE_CHECKING:
    from rich.progress import Progress

WIDTH = 120  # columns, where the output is not a terminal
MOST_NODES = 2_000
LLM_PACKAGES = ("torch", "transformers", "peft", "safetensors")
ENDING = (signal.SIGTERM,) if sys.platform == "win32" else (signal.SIGTERM, signal.SIGHUP)

UserMistake: type[Any] = typer.BadParameter.__mro__[2]  # ClickException; typer may carry its own click

HELP = {"help_option_names": ["-h", "--help"]}


class App(typer.Typer):
    """A typer application whose options have readable types."""

    def command(self, *args: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().command(*args, cls=Command, **options)
        return lambda command: register(with_words(command))


app = App(
    cls=Commands,
    help="Decentralised zeroth-order optimisation over public sparse supports.",
    invoke_without_command=True,
    context_settings=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DOption = Annotated[int, option("Dimension of the shared vector.", "--d")]
QOption = Annotated[int, option("Coordinates in a support.", "--q")]
SeedOption = Annotated[str, option("A whole number, any text, or hex: and 64 digits.")]
GRAPH_HELP = f"{', '.join(GRAPHS)}; or edges such as 0-1,1-2."


def show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def add_group(name: str, about: str) -> typer.Typer:
    """A group of commands, zocosmo NAME …; it prints its help if none of them is named."""
    group = App(help=about, invoke_without_command=True, rich_markup_mode=None)
    group.callback()(show_help)
    app.add_typer(group, name=name)
    return group


class Output(Console):
    """A console that leaves a closed pipe to `main`; rich's own exits with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def output() -> Console:
    """The console for tables: as wide as the terminal, or WIDTH columns."""
    return Output(width=None if sys.stdout.isatty() else WIDTH)


def print_json(result: dict[str, Any]) -> None:
    print(json.dumps(result))


def print_report(report: dict[str, Any], as_json: bool, show: Callable[[Console], object]) -> None:
    """Print a report as JSON or, on a console, by `show`."""
    if as_json:
        print_json(report)
    else:
        show(output())


def refuse(error: Exception | str, prefix: str = "") -> int:
    """Say what is wrong, in one line and one write; the exit code of a user's mistake."""
    text = error.format_message() if isinstance(error, UserMistake) else str(error)
    sys.stderr.write(f"zocosmo: {prefix}{' '.join(text.split())}\n")
    return 2


def say(text: str) -> None:
    print(f"zocosmo: {text}", file=sys.stderr, flush=True)


def is_watched() -> bool:
    """Whether stderr is a terminal, so that a bar can be drawn."""
    return sys.stderr.isatty()


def stderr_bar(*columns: Any) -> "Progress":
    """A progress bar on stderr that is removed at the end; it draws nothing if stderr is not a terminal."""
    from rich.progress import Progress

    console = Console(stderr=True, highlight=False)
    return Progress(*columns, console=console, transient=True, disable=not is_watched())


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, so that children end too; yields the signals received."""
    received: list[int] = []

    def end(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, end) for number in ENDING}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def check_targets(figure: Path | None, *others: Path | None) -> None:
    """Refuse files that cannot be written, before the work and not after it."""
    from zocosmo.report.figures import check_figure

    if figure is not None:
        check_figure(figure)
    for path in (figure, *others):
        if path is not None and not path.parent.is_dir():
            raise InputError(f"folder {path.parent} does not exist; make it first")


@contextmanager
def needing_llm(command: str) -> Iterator[None]:
    """Turn a missing package of the `llm` extra into the line that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in LLM_PACKAGES:
            raise
        raise missing(command, error.name, "llm") from None


def as_seed(text: str) -> Seed:
    """Text or a number is taken as it is: the tape reads an integer as its decimals."""
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


def as_fields(texts: Sequence[str], what: str, taken: Collection[str]) -> dict[str, Any]:
    """NAME=VALUE of --set: numbers as numbers, anything else as text; `what` describes the names."""
    out: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in taken:
            raise InputError(f"--set takes {what}; got {text!r}")
        try:
            out[name] = json.loads(value)
        except ValueError:
            out[name] = value
    return out


def graph_options(kind: str, *, p: float, degree: int, seed: Any) -> dict[str, Any]:
    """The parameters of a graph beside its number of nodes."""
    options: dict[str, dict[str, Any]] = {
        "erdos_renyi": {"p": p, "seed": seed},
        "random_regular": {"degree": degree, "seed": seed},
        "small_world": {"k": degree, "p": p, "seed": seed},
    }
    return options.get(kind, {})


def as_graph(text: str, n: int | None, *, p: float, degree: int, seed: Seed, option: str = "--n") -> Graph:
    """A graph by its name, or by its edges: 0-1,1-2. `option` is the command's option for n."""
    if is_edges(text):
        return by_edges(text, n)
    check_known("graph", text, GRAPHS)
    if n is None:
        raise InputError(f"graph {text!r} needs {option}, the number of nodes; or give edges such as 0-1,1-2")
    check_whole(option, n, 1, MOST_NODES)
    return GRAPHS[text](n, **graph_options(text, p=p, degree=degree, seed=seed))
