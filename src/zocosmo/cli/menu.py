"""The menu of `zocosmo --help`: groups of commands with a line for each, and words for the types of options.

A new command gets one line here. A command of another package that has none is listed at the end, with the
first line of its own help.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from typer.models import OptionInfo

MENU = {
    "Use it": {
        "minimize": "Minimise a loss that a program prints, over several nodes.",
        "example": "Print a config to start from.",
        "plan": "See what a budget buys, before anything is run.",
    },
    "Compare": {
        "run": "Run every trial of a config and write one log.",
        "compare": "Tune methods alike and compare them at equal bits and queries.",
        "table": "Print results at a budget, one row per method.",
        "figure": "Draw a metric against bits or rounds.",
        "diff": "Compare two runs bit by bit.",
        "methods": "List methods, wires and graphs, your own parts included.",
        "problems": "List problems and their parameters.",
        "graphs": "List graphs, schedules of matchings and decays.",
    },
    "Run on machines": {
        "launch": "Run a config on this machine with one process per node.",
        "bench-link": "Time messages between two processes.",
    },
    "Language models": {
        "finetune": "Fine-tune a model over several nodes with forward passes only.",
        "probe": "Measure rounding first; propose mu, eta, q and dtype.",
        "screen": "Evaluate the unmodified model, and choose a task.",
        "model": "Fetch, add, list and remove models on this machine.",
    },
    "Theory and paper": {
        "check": "Compare every formula with what the code does.",
        "schedule": "Find the law of matchings that mixes a graph fastest.",
        "reproduce": "Rerun the paper's tables and figures, and judge every claim.",
        "audit": "Check that a trajectory does not depend on where it runs.",
    },
    "Tools": {
        "payload": "Print what one message costs under every codec.",
        "tape": "Print what the public tape draws, as JSON.",
    },
}
OTHERS = "Other packages"

KINDS = {int: "NUMBER", float: "NUMBER", str: "TEXT", Path: "PATH"}
WORDS = {  # of options whose name says what they take
    **{name: name.upper() for name in ("graph", "method", "model", "task", "device", "schedule", "wire")},
    **dict.fromkeys(("figure", "edges", "key_file", "journal"), "FILE"),
    **dict.fromkeys(("latency", "query_time", "time"), "TIME"),
    "bandwidth": "RATE",
    "bounds": "LO:HI",
    "command": "PROGRAM",
    "data": "FOLDER",
    "dtype": "TYPE",
    "fmt": "FORMAT",
    "listen": "ADDRESS",
    "value": "TYPE",
}


def grouped(names: Collection[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Groups with those of their commands that exist; then the rest, whose lines are empty."""
    listed = {name for group in MENU.values() for name in group}
    for title, group in MENU.items():
        yield title, {name: line for name, line in group.items() if name in names}
    yield OTHERS, {name: "" for name in names if name not in listed}


def with_words(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give the options of a command words for their types, and names to complete."""
    for parameter in inspect.signature(command).parameters.values():
        if get_origin(parameter.annotation) is not Annotated:
            continue
        kind, *about = get_args(parameter.annotation)
        for info in about:
            if isinstance(info, OptionInfo):
                _name_type(parameter.name, kind, info)
    return command


def _name_type(name: str, kind: Any, info: OptionInfo) -> None:
    bare = [each for each in get_args(kind) or (kind,) if each is not type(None)]  # of X | None, list[X]
    bare = list(get_args(bare[0])) or bare
    if info.metavar is None and bare[0] is not bool:
        info.metavar = WORDS.get(name) or KINDS.get(bare[0])
    if info.autocompletion is None and name in COMPLETED:
        info.autocompletion = COMPLETED[name]


def _methods(incomplete: str) -> list[str]:
    from zocosmo.methods import METHODS

    return _begun(METHODS.offered(), incomplete)


def _graphs(incomplete: str) -> list[str]:
    from zocosmo.graphs import GRAPHS

    return _begun(GRAPHS, incomplete)


def _wires(incomplete: str) -> list[str]:
    from zocosmo.core.wires import WIRES

    return _begun(WIRES.offered(), incomplete)


def _models(incomplete: str) -> list[str]:
    from zocosmo.llm.cache import KNOWN, kept_models

    return _begun([*KNOWN, *(model.name for model in kept_models() if model.name not in KNOWN)], incomplete)


def _begun(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


COMPLETED = {"method": _methods, "graph": _graphs, "wire": _wires, "model": _models}
