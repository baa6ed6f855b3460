"""Make the parts of the documentation that come from the code: reference.md, commands.md,
paper-map.md and the pictures.

make generated. A test fails where the pages are stale.
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import typer

from zocosmo import Tape, balanced_support, draw_support, errors
from zocosmo.cli import app
from zocosmo.report.figures import new_figure, payload_figure, save_figure
from zocosmo.report.payload import payload_report
from zocosmo_paper import labels

DOCS = Path(__file__).parent
WIDTH = 78  # of help on a terminal of 80 columns
TABLES = {
    "CODECS": "Codecs by name",
    "DECAYS": "Schedules of the step size by name",
    "METHODS": "Methods by name",
    "PROBLEMS": "Builders of problems by name",
    "COUPLINGS": "G, S and I by name",
    "FRAME_BITS": "What a frame's header costs",
    "GRAPHS": "Builders of graphs by name",
    "SCHEDULES": "Schedules of matchings by name",
    "VALUE_TYPES": "Value types by name",
}


def reference_page() -> str:
    """Public names with the first line of their docstrings."""
    root = importlib.import_module("zocosmo").__all__
    lines = [
        "# Public names",
        "",
        "What is listed here is public and stays; all else may change. `help(name)` says the rest.",
        "",
    ]
    lines += [
        "## `zocosmo`",
        "",
        "For the most common names: " + ", ".join(f"`{name}`" for name in sorted(root)) + ".",
        "",
    ]
    for module in (
        "zocosmo.core",
        "zocosmo.graphs",
        "zocosmo.methods",
        "zocosmo.problems",
        "zocosmo.sim",
        "zocosmo.dist",
        "zocosmo.torch",
        "zocosmo.llm",
        "zocosmo.errors",
    ):
        loaded = importlib.import_module(module)
        names = sorted(getattr(loaded, "__all__", None) or _errors())
        lines += [f"## `{module}`", "", "| name | what it is |", "| --- | --- |"]
        lines += [f"| `{name}` | {TABLES.get(name) or _summary(getattr(loaded, name))} |" for name in names]
        lines.append("")
    return "\n".join(lines)


def _errors() -> list[str]:
    kinds = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    return [kind.__name__ for kind in kinds if issubclass(kind, errors.ZocosmoError)]


def _summary(thing: object) -> str:
    """First line of the docstring, without labels of the paper."""
    first = (inspect.getdoc(thing) or "").splitlines()[0]
    return first.split("   [")[0].rstrip(" .:;")


def commands_page() -> str:
    """The help of every command."""
    manners = "Results go to stdout. A mistake is one line on stderr and exit code 2."
    shells = "`zocosmo --install-completion` lets your shell complete commands, options and names."
    lines = ["# Commands", "", f"{manners} {shells}", ""]
    command: Any = typer.main.get_command(app)
    command.list_commands(typer.Context(command))  # adds the commands of other packages
    for typed, text in _helps(command, "zocosmo", None):
        body = [line.rstrip() for line in text.strip().splitlines()]
        lines += [f"## `{typed}`", "", "```text", *body, "```", ""]
    return "\n".join(lines)


def _helps(command: Any, name: str, above: Any) -> Iterator[tuple[str, str]]:
    """The command and all below it, as they are typed, with their help on 80 columns."""
    context = command.make_context(name, [], parent=above, resilient_parsing=True, terminal_width=WIDTH)
    yield context.command_path, command.get_help(context)
    for word, below in getattr(command, "commands", {}).items():
        yield from _helps(below, word, context)


def payload_picture(to: Path) -> None:
    payload_figure(payload_report(6_525_621_760, 8192, value="f32", reuse=(1,), rounds=1000), to)


def coverage_picture(to: Path) -> None:
    """Share of d = 1,024 coordinates visited, balanced against independent supports of 16."""
    d, q, rounds = 1024, 16, 192
    figure, axes = new_figure(to, (7, 2.8))
    for rule, name, colour in (
        (balanced_support, "balanced", "#1b6ca8"),
        (draw_support, "independent", "#d1495b"),
    ):
        first = np.full(d, rounds)
        for t in reversed(range(rounds)):
            first[rule(Tape(0), t, d=d, q=q).index] = t
        axes.plot([np.mean(first < t) for t in range(rounds + 1)], color=colour, label=name)
    axes.axvline(d // q, color="black", linestyle="--", linewidth=1)
    axes.text(d // q + 2, 0.05, f"K = d/q = {d // q}", fontsize=9)
    axes.set(xlabel="round", ylabel="share of coordinates visited", xlim=(0, rounds), ylim=(0, 1.05))
    axes.legend(frameon=False, loc="lower right")
    save_figure(figure, to)


PAGES = {
    "reference.md": reference_page,
    "commands.md": commands_page,
    "paper-map.md": lambda: labels.page(DOCS.parent),
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        (DOCS / page).write_text(make(), encoding="utf-8")
    (DOCS / "img").mkdir(exist_ok=True)
    payload_picture(DOCS / "img" / "payload.svg")
    coverage_picture(DOCS / "img" / "coverage.svg")
