"""Rows of a study that is not finished: of its finished batches, its snapshots and its traces.

They are rows of the log that it would write. Of a batch that runs, those of the last seconds may be thinned.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zocosmo.errors import InputError
from zocosmo.experiments.run import label_rows
from zocosmo.experiments.states import Columns, load_arrays
from zocosmo.log import Log
from zocosmo.trace import FOLDER

ROWS = "rows."  # names of rows in a snapshot


class Unfinished(NamedTuple):
    """What there is of a study, and how much that is in words."""

    log: Log
    text: str


def read_unfinished(folder: Path) -> Unfinished | None:
    """The rows so far; None where a folder has none, or no trace that says what they are of."""
    lines = list(trace_lines(folder))
    about = next((line for line in reversed(lines) if line["kind"] == "start" and "trials" in line), None)
    if about is None or not (folder / "plan.json").exists():
        return None
    done = _parts(folder, "done")
    known = _parts(folder, "half")
    running = {trial: rows for trial, rows in known.items() if trial not in done}
    for trial, rows in _traced(lines).items():
        if trial not in done:
            running[trial] = _later(running.get(trial), rows)
    found = [*done.values(), *running.values()]
    if not found:
        return None
    labels = [(problem, graph, method, seed, n) for problem, graph, method, seed, n in about["trials"]]
    names = [name for name in found[0] if all(name in rows for rows in found)]
    frame = label_rows([{name: part[name] for name in names} for part in found], labels)
    header = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    share = _share(found, about)
    many = f"{len(done)} of {len(labels)} trials are done, {share:.0%} of all rounds"
    return Unfinished(Log(frame, header), f"{many}; the others are as of their last checkpoint")


def trace_lines(folder: Path) -> Iterator[dict[str, Any]]:
    """All whole lines of the traces of a study, those of rank 0 for one that runs in processes."""
    for name in ("study.jsonl", "rank-000.jsonl"):
        path = folder / FOLDER / name
        for text in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if text.endswith(b"\n") and isinstance(line, dict) and "kind" in line:
                yield line


def _parts(folder: Path, kind: str) -> dict[int, Columns]:
    """Rows by trial from the parts of one kind."""
    found: dict[int, Columns] = {}
    for path in sorted((folder / "parts").glob(f"*.{kind}.npz")):
        try:
            arrays = load_arrays(path)
        except InputError:
            continue
        if kind == "half":
            arrays = {k.removeprefix(ROWS): v for k, v in arrays.items() if k.startswith(ROWS)}
        found |= by_trial(arrays)
    return found


def by_trial(columns: Mapping[str, Any]) -> dict[int, Columns]:
    """The rows of each trial; arrays that are not columns of rows are left out."""
    if "trial" not in columns:
        return {}
    trial = columns["trial"]
    rows = {name: column for name, column in columns.items() if column.shape == trial.shape}
    return {
        int(k): {name: column[trial == k] for name, column in rows.items()} for k in np.unique(trial).tolist()
    }


def _traced(lines: list[dict[str, Any]]) -> dict[int, Columns]:
    """Rows by trial from lines; a later session may repeat rounds."""
    rows: dict[int, dict[int, dict[str, Any]]] = {}
    for line in lines:
        columns = line.get("columns") or {}
        for k, trial in enumerate(columns.get("trial", [])):
            row = {name: column[k] for name, column in columns.items()}
            rows.setdefault(int(trial), {})[int(row["round"])] = row
    return {trial: _columns([found[t] for t in sorted(found)]) for trial, found in rows.items()}


def _columns(rows: list[dict[str, Any]]) -> Columns:
    return {
        name: np.array([np.nan if row.get(name) is None else row[name] for row in rows]) for name in rows[0]
    }


def _later(first: Columns | None, rows: Columns) -> Columns:
    """Rows, with those of a trace where they are newer."""
    if first is None:
        return rows
    new = rows["round"] > first["round"].max()
    return {name: np.concatenate([first[name], rows[name][new]]) for name in first if name in rows}


def _share(found: list[Columns], about: Mapping[str, Any]) -> float:
    nodes = [each[4] for each in about["trials"]]
    done = sum(int(rows["round"].max()) * nodes[int(rows["trial"][0])] for rows in found)
    return float(min(1.0, done / max(1, int(about.get("node_rounds") or 1))))
