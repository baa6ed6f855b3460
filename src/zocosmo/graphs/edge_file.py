"""Edges read from a file: a .csv with a pair of nodes per line, or a .json list of pairs."""

import csv
import json
import re
from pathlib import Path
from typing import Any

from zocosmo.errors import InputError, check_whole
from zocosmo.graphs.graph import Graph


def load_graph(path: Path, nodes: int | None = None) -> Graph:
    """The graph of a file; `nodes` counts those without edges too."""
    pairs, n = read_edges(path)
    if nodes is None and n is None and min(map(min, pairs)) == 1:
        raise InputError(f"{path}: nodes are numbered from 0, and the lowest here is 1; subtract 1")
    known = max(1 + max(map(max, pairs)), n or 0) if nodes is None else nodes
    return Graph.of(known, pairs, path.stem)


def read_edges(path: Path) -> tuple[list[tuple[int, int]], int | None]:
    """The edges in a file, and its number of nodes if it gives one."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets start a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    n: Any = None
    try:
        given: Any = json.loads(text) if path.suffix == ".json" else list(csv.reader(text.splitlines()))
    except (ValueError, RecursionError, csv.Error) as error:
        raise InputError(f"{path} is not a list of pairs of nodes: {error}") from None
    if isinstance(given, dict):
        given, n = given.get("edges"), given.get("n")
    if not isinstance(given, list):
        raise InputError(f"{path} is not a list of pairs of nodes; give [[0, 1], …], alone or as edges")
    rows = [row for row in given if row != [] and not str(row).lstrip("['\" ").startswith("#")]
    if path.suffix != ".json" and rows and not any(re.match(r"\s*-?[0-9]", cell) for cell in rows[0]):
        rows = rows[1:]  # column names
    pairs = [_pair(path, row) for row in rows]
    if not pairs:
        raise InputError(f"{path} has no edges; write one pair of nodes a line, such as 0,1")
    return pairs, None if n is None else check_whole("n", n, 1)


def _pair(path: Path, row: Any) -> tuple[int, int]:
    """Two whole numbers, as JSON numbers or as text; 1.5 and true are refused."""
    cells = row if isinstance(row, list) else [row]
    words = [cell.strip() if isinstance(cell, str) else json.dumps(cell) for cell in cells]
    if len(words) != 2 or not all(re.fullmatch("-?[0-9]{1,9}", word) for word in words):
        found = ",".join(words)[:40]
        said = "an edge is two whole numbers, such as 0,1"
        raise InputError(f"{path} is not a list of pairs of nodes: {said}; got {found!r}")
    return int(words[0]), int(words[1])
