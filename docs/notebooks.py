"""Notebooks from the pages of docs/tutorials: the page is the source, the notebook says the same.

A `python` block is a cell, each `$` line of a `console` block is a cell `!line`, and what the page shows
below is its output. `python docs/notebooks.py` writes them; tests run every cell and compare what it prints.
"""

import json
import re
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parent / "tutorials"
FENCE = re.compile(r"^```(python|console|text)\n(.*?)^```$\n?", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)


def notebook(page: str) -> str:
    """The notebook of a page, as nbformat 4.5 has it."""
    cells: list[dict[str, Any]] = []
    for kind, text in _pieces(page):
        if kind == "python":
            cells.append(_code(text, ""))
        elif kind == "console":
            cells += [_code(f"!{line}", shown) for line, shown in COMMAND.findall(text)]
        elif kind == "text" and cells and _is_silent(cells[-1]):
            cells[-1]["outputs"] = _output(text)
        else:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(text)})
    for k, cell in enumerate(cells):
        cell["id"] = f"cell-{k}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _pieces(page: str) -> list[tuple[str, str]]:
    """(kind, text) in order: prose, and blocks by language. A `text` block right after code is its output."""
    found: list[tuple[str, str]] = []
    end = 0
    for block in FENCE.finditer(page):
        prose = page[end : block.start()]
        kind, text = block.group(1), block.group(2)
        if kind == "text" and (
            prose.strip() or not found
        ):  # not below a cell: the reader's own, left as it is
            prose, kind, text = prose + block.group(), "", ""
        found += [("", prose.strip("\n"))] if prose.strip() else []
        found += [(kind, text)] if kind else []
        end = block.end()
    return [*found, ("", page[end:].strip("\n"))] if page[end:].strip() else found


def _code(source: str, shown: str) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": _output(shown) if shown.strip() else [],
        "source": _lines(source.rstrip("\n")),
    }


def _is_silent(cell: dict[str, Any]) -> bool:
    return cell["cell_type"] == "code" and not cell["outputs"]


def _output(text: str) -> list[dict[str, Any]]:
    return [{"name": "stdout", "output_type": "stream", "text": _lines(text)}]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def pages() -> list[Path]:
    return sorted(TUTORIALS.glob("*.md"))


if __name__ == "__main__":
    for page in pages():
        page.with_suffix(".ipynb").write_text(notebook(page.read_text(encoding="utf-8")), encoding="utf-8")
