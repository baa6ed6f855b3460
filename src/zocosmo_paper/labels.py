"""A map of the paper: for every label, the file that has it, the command that shows it, or why there is none.

`labels.csv` lists the labels in the paper's order. `see` names a label or file for those that no source file
cites, and `why` says in a few words what they are: a proof step, a section, a definition.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from zocosmo.checks.run import CHECKS
from zocosmo_paper.items import all_items

KINDS = {
    "thm": "theorem",
    "prop": "proposition",
    "lemma": "lemma",
    "alg": "algorithm",
    "tab": "table",
    "fig": "figure",
    "eq": "equation",
    "nonconvex": "equation",
    "assum": "assumption",
    "ass": "assumption",
    "def": "definition",
    "sec": "section",
    "appendix": "section",
}
SOURCES = ("src/**/*.py", "src/zocosmo_paper/configs/*.yaml", "configs/**/*.yaml")


class Listed(NamedTuple):
    """A line of labels.csv."""

    label: str
    see: str = ""
    why: str = ""

    @property
    def kind(self) -> str:
        return KINDS[self.label.partition(":")[0]]


class Place(NamedTuple):
    """Where a label lives."""

    listed: Listed
    cited: Sequence[str]  # source files that cite it
    items: Sequence[str]  # items of the board that are about it
    checks: Sequence[str]  # formulas of `zocosmo check`

    @property
    def is_accounted_for(self) -> bool:
        """Whether a file, an item, a check, another label or a reason stands for it."""
        return bool(self.cited or self.items or self.checks or self.listed.see or self.listed.why)


def listed() -> list[Listed]:
    text = files("zocosmo_paper").joinpath("labels.csv").read_text(encoding="utf-8")
    return [Listed(**row) for row in csv.DictReader(text.splitlines())]


def places(root: Path) -> list[Place]:
    """Every label, with what a clone at `root` has of it."""
    texts = sources(root)
    items, checks = by_item(), by_check()
    return [
        Place(each, list(citing(each.label, texts)), items.get(each.label, []), checks.get(each.label, []))
        for each in listed()
    ]


def sources(root: Path) -> dict[str, str]:
    """The text of source files by path, this map left out."""
    found = sorted({path for pattern in SOURCES for path in root.glob(pattern)})
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in found}


def citing(label: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Files that have the label, and not only a longer one that begins with it."""
    for path, text in texts.items():
        at = text.find(label)
        while at >= 0:
            after = text[at + len(label) : at + len(label) + 1]
            if not (after.isalnum() or after == "_"):
                yield path
                break
            at = text.find(label, at + 1)


def by_item() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in all_items().values():
        for label in item.labels:
            found.setdefault(label, []).append(item.name)
    return found


def by_check() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for check in CHECKS:
        found.setdefault(check.label, []).append(check.formula)
    return found


def page(root: Path) -> str:
    """docs/paper-map.md"""
    found = places(root)
    kinds = dict.fromkeys(KINDS.values())
    counts = ", ".join(f"{sum(place.listed.kind == kind for place in found)} {kind}s" for kind in kinds)
    lines = [
        "# A map of the paper",
        "",
        "Where every labelled equation, theorem, algorithm, table and figure of the paper lives here: the",
        "files that cite it, the command that shows it (its lines are on the [board](reproduction.md)), or",
        "what it is part of.",
        f"{len(found)} labels: {counts}.",
        "",
        "Made by `python docs/generate.py` from `src/zocosmo_paper/labels.csv` and the sources.",
        "",
        "| label | kind | where | command | or |",
        "| --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *map(_row, found)]) + "\n"


def _row(place: Place) -> str:
    each = place.listed
    where = ", ".join(f"`{path.removeprefix('src/')}`" for path in place.cited[:4])
    where += f" and {len(place.cited) - 4} more" if len(place.cited) > 4 else ""
    commands = [f"`zocosmo reproduce {name}`" for name in place.items]
    commands += [f'`zocosmo check --only "{formula}"`' for formula in place.checks]
    see = f"`{each.see.removeprefix('src/')}`" if each.see else ""
    other = f"{each.why}: {see}" if each.why and see else each.why or see
    return f"| `{each.label}` | {each.kind} | {where} | {', '.join(commands)} | {other} |"
