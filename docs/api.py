"""The pages of docs/api: signatures and docstrings of all that docs import, and of the root's names.

python docs/api.py writes them; mkdocstrings fills them in when the site is built. A test finds stale ones.
"""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

DOCS = Path(__file__).parent
GROUPS = {
    "names": ("Names of zocosmo", ("zocosmo", "zocosmo.blackbox")),
    "core": ("Core and channel", ("zocosmo.core", "zocosmo.channel")),
    "graphs": ("Graphs", ("zocosmo.graphs",)),
    "methods": ("Methods and problems", ("zocosmo.methods", "zocosmo.oracle", "zocosmo.problems")),
    "studies": (
        "Simulator and studies",
        (
            "zocosmo.sim",
            "zocosmo.experiments",
            "zocosmo.report",
            "zocosmo.log",
            "zocosmo.trace",
            "zocosmo.watch",
            "zocosmo.checks",
        ),
    ),
    "networks": ("Networks that live", ("zocosmo.terms", "zocosmo.net")),
    "theory": ("Theory and planner", ("zocosmo.theory", "zocosmo.planner")),
    "processes": ("Processes and torch", ("zocosmo.dist", "zocosmo.torch")),
    "llm": ("Language models", ("zocosmo.llm",)),
    "errors": ("Errors", ("zocosmo.errors",)),
}
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
IMPORT = re.compile(r"^[ \t]*from (zocosmo[\w.]*) import (\([^)]*\)|[^\n#;]+)", re.M)


class Name(NamedTuple):
    """Something that docs import: where from, and the object."""

    module: str
    name: str
    thing: Any


def pages() -> list[Path]:
    return [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("tutorials/*.md"))]


def imported() -> Iterator[Name]:
    """Every name that a code block imports, then those of the root."""
    for page in pages():
        for block in FENCE.findall(page.read_text(encoding="utf-8")):
            for module, names in IMPORT.findall(block):
                for name in re.findall(r"\w+", re.sub(r"\bas \w+", "", names)):
                    yield Name(module, name, _load(module, name))
    root = importlib.import_module("zocosmo")
    yield from (Name("zocosmo", name, _load("zocosmo", name)) for name in root.__all__ if name[0] != "_")


def _load(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")  # a module of the package


def entries() -> dict[str, list[Name]]:
    """By page; each object once, under the shortest module that docs import it from."""
    shortest: dict[int, Name] = {}
    for found in sorted(imported(), key=lambda each: (each.module.count("."), each.module, each.name)):
        shortest.setdefault(id(found.thing), found)
    groups: dict[str, list[Name]] = {group: [] for group in GROUPS}
    for found in sorted(shortest.values(), key=lambda each: (each.module, each.name.lower())):
        groups[_group(found.module)].append(found)
    return groups


def _group(module: str) -> str:
    if module == "zocosmo":
        return "names"
    parts = [
        group
        for group, (_, modules) in GROUPS.items()
        if any(f"{module}.".startswith(f"{each}.") for each in modules if each != "zocosmo")
    ]
    if not parts:
        raise LookupError(f"no page of the API has {module}; add it to GROUPS in docs/api.py")
    return parts[0]


def page(group: str, names: list[Name]) -> str:
    """Sections by module, an entry for each name."""
    lines = [f"# {GROUPS[group][0]}", "", "From the docstrings. Made by `python docs/api.py`.", ""]
    for module in dict.fromkeys(each.module for each in names):
        lines += [f"## `{module}`", ""]
        for each in (each for each in names if each.module == module):
            lines += [*_entry(each), ""]
    return "\n".join(lines)


def _entry(found: Name) -> list[str]:
    """A directive for mkdocstrings, or a line for a table of names, which has no signature."""
    thing = found.thing
    if isinstance(thing, ModuleType):
        return [f"::: {thing.__name__}"]
    if callable(thing) and not isinstance(thing, dict):
        return [f"::: {thing.__module__}.{thing.__qualname__}"]
    keys = ", ".join(f"`{key}`" for key in thing) if isinstance(thing, dict) else f"`{type(thing).__name__}`"
    return [
        f"### `{found.name}`",
        "",
        f"By name: {keys}." if isinstance(thing, dict) else f"An object: {keys}.",
    ]


def written() -> dict[str, str]:
    """Text of each file under docs/api."""
    return {f"{group}.md": page(group, names) for group, names in entries().items()}


if __name__ == "__main__":
    for name, text in written().items():
        (DOCS / "api" / name).write_text(text, encoding="utf-8")
