"""Questions to single nodes, answered in any order; and runs on disk."""

import json
import operator
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.blackbox.asked import Asked, as_number
from zocosmo.entries import entry_of, find
from zocosmo.errors import InputError
from zocosmo.files import replace_file
from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Listing
from zocosmo.methods import DECAYS, METHODS, Method
from zocosmo.oracle import Arrays, Mask, Query, Values

FORMAT = "zocosmo optimizer 1"


class Question(NamedTuple):
    """One query to one node: f of that node at `point`, please."""

    round: int
    call: int  # counts the queries of a round to a node, from 0
    node: int
    point: NDArray[np.float64]  # (d,)

    @property
    def id(self) -> tuple[int, int, int]:
        """round, call, node: what `tell` needs to know."""
        return self.round, self.call, self.node


def calls_of(query: Query, told: int, here: bool) -> range:
    """The calls of a query that are still open: `told` directions have their slopes, `here` says that f at x
    is known. With two sides direction k is calls 2k and 2k + 1; with one side x is call 0, direction k is k +
    1."""
    if query.sides == 2:
        return range(2 * told, 2 * len(query.directions))
    return range(told + 1 if here else 0, len(query.directions) + 1)


class Singles:
    """Answers told one by one, until a query has all of them."""

    def __init__(self, n: int) -> None:
        self.n, self.kept = n, dict[tuple[int, int], float]()  # by call and node

    def take(self, id_: tuple[int, int, int], value: Any) -> bool:
        """Keep an answer; False if the same question was answered before."""
        t, call, node = id_
        query = Asked(node, t, f"call {call}")
        number = query.finite(as_number(value, query))
        if (call, node) in self.kept:
            return False
        self.kept[call, node] = number
        return True

    def is_open(self, call: int, node: int) -> bool:
        return (call, node) not in self.kept

    def row(self, call: int, active: Mask) -> Values | None:
        """The answers of all active nodes to one call, if all are there."""
        nodes = np.flatnonzero(active).tolist()
        if any(self.is_open(call, node) for node in nodes):
            return None
        out = np.zeros(self.n)
        for node in nodes:
            out[node] = self.kept[call, node]
        return out

    def arrays(self) -> Arrays:
        ids = np.array([[call, node] for call, node in self.kept], np.int64).reshape(-1, 2)
        return {"single.ids": ids, "single.values": np.array(list(self.kept.values()), np.float64)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        pairs = zip(arrays["single.ids"].tolist(), arrays["single.values"].tolist(), strict=True)
        self.kept = {(call, node): value for (call, node), value in pairs}


def as_id(question: "Question | tuple[int, int, int]", n: int) -> tuple[int, int, int]:
    """round, call and node of a question, or of its id."""
    try:
        t, call, node = (operator.index(part) for part in question[:3])
    except (TypeError, ValueError):
        raise InputError(f"a question is one of questions(), or its id; got {question!r:.80}") from None
    if not 0 <= node < n:
        raise InputError(f"question {(t, call, node)} is for node {node}, but nodes are 0 to {n - 1}")
    return t, call, node


# Runs on disk


def method_entry(method: Method) -> dict[str, Any]:
    """A method as plain data, from which `read_method` makes it again."""
    kind = type(method)
    entry = method.kind if METHODS.get(method.kind) is kind else entry_of(kind)
    settings = {**method.settings, "decay": {"kind": method.decay.kind, **_fields(method.decay)}}
    return {"kind": entry, **settings}


def read_method(entry: Mapping[str, Any]) -> Method:
    given = dict(entry)
    kind, decay = given.pop("kind"), dict(given.pop("decay"))
    made = DECAYS[decay.pop("kind")](**decay)
    found = METHODS[kind] if kind in METHODS else find(kind)
    method: Method = found(**given, decay=made)
    return method


def _fields(decay: Any) -> dict[str, Any]:
    return {each.name: asdict(decay)[each.name] for each in fields(decay)}


def graph_entry(graph: Graph) -> dict[str, Any]:
    return {"n": graph.n, "edges": [list(edge) for edge in graph.edges], "name": graph.name}


def read_graph(entry: Mapping[str, Any]) -> Graph:
    return Graph.of(entry["n"], [(i, j) for i, j in entry["edges"]], entry["name"])


def schedule_entry(chosen: str | Listing) -> Any:
    return chosen if isinstance(chosen, str) else chosen.plain()


def write_run(path: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
    """A file that appears whole or not at all; no pickle is in it."""
    text = np.frombuffer(json.dumps({"format": FORMAT, **about}).encode(), np.uint8)

    def write(draft: Path) -> None:
        with draft.open("wb") as file:
            np.savez(file, allow_pickle=False, about=text, **arrays)

    replace_file(path, write)


def read_run(path: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about: dict[str, Any] = json.loads(arrays.pop("about").tobytes())
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise InputError(f"{path} is not a saved optimizer: {error}; give a file that save() wrote") from None
    if about.pop("format", None) != FORMAT:
        raise InputError(f"{path} was written by another version; load it with that")
    return about, arrays
