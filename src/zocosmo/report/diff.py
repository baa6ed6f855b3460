"""Two runs compared bit by bit: cells of their logs, entries of their final states."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.errors import InputError
from zocosmo.words import counted

if TYPE_CHECKING:
    import pandas as pd

KEYS = ["trial", "round"]  # of a row
ABOUT = ("fingerprint", "source")  # header fields that are compared, besides `versions`

Array = NDArray[Any]
States = Mapping[str, Array]
Found = dict[str, Any]


class StoredRun(NamedTuple):
    """One run as stored on disk."""

    name: str
    rows: "pd.DataFrame"
    header: Mapping[str, Any]
    states: States | None


def compare(a: StoredRun, b: StoredRun, ignore: Sequence[str] = ()) -> Found:
    """All differences between two runs, as plain data; NaN equals NaN."""
    rows_a, rows_b = (_by_key(each) for each in (a, b))
    names = dict.fromkeys([*rows_a.columns, *rows_b.columns])
    for name in ignore:
        if name not in names:
            raise InputError(f"no column {name!r} to ignore; there are {', '.join(names)}")
    rows_a, rows_b = (rows.drop(columns=list(ignore), errors="ignore") for rows in (rows_a, rows_b))
    log = _compare_rows(rows_a, rows_b)
    states = None if a.states is None or b.states is None else _compare_states(a.states, b.states)
    return {
        "identical": not log["differs"] and not (states and states["differs"]),
        "runs": [a.name, b.name],
        "header": _compare_headers(a.header, b.header),
        "log": log,
        "states": states,
        "states_only_in": [each.name for each in (a, b) if each.states is not None] if states is None else [],
    }


def _by_key(kept: StoredRun) -> "pd.DataFrame":
    if missing := [key for key in KEYS if key not in kept.rows]:
        raise InputError(f"{kept.name} has no column {missing[0]!r}; give a log written by zocosmo run")
    rows = kept.rows.set_index(KEYS)
    if not rows.index.is_unique:
        trial, t = rows.index[rows.index.duplicated()][0]
        raise InputError(f"{kept.name} has two rows of trial {trial}, round {t}; run the study again")
    return rows


def _compare_headers(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Found]:
    flat = [{name: each.get(name) for name in ABOUT} | each.get("versions", {}) for each in (a, b)]
    pairs = {name: [each.get(name) for each in flat] for name in dict.fromkeys([*flat[0], *flat[1]])}
    return [{"field": name, "values": pair} for name, pair in pairs.items() if pair[0] != pair[1]]


# Rows


def _compare_rows(a: "pd.DataFrame", b: "pd.DataFrame") -> Found:
    both = a.index.intersection(b.index, sort=False)
    alone = [
        [[int(part) for part in place] for place in mine.index.difference(theirs.index)]
        for mine, theirs in ((a, b), (b, a))
    ]
    columns = [name for name in a.columns if name in b.columns]
    apart = _only_in(a.columns, b.columns)
    a, b = a.loc[both, columns], b.loc[both, columns]
    unlike = {name: differs(a[name].to_numpy(), b[name].to_numpy()) for name in columns}
    cells = sum(int(mask.sum()) for mask in unlike.values())
    return {
        "differs": bool(cells or any(alone) or any(apart)),
        "trials": len(both.unique("trial")),
        "rows": len(both),
        "rows_only_in": [{"count": len(places), "first": places[:1]} for places in alone],
        "columns_only_in": apart,
        "cells": cells,
        "columns": {name: int(mask.sum()) for name, mask in unlike.items() if mask.any()},
        "first": _first_cell(a, b, unlike) if cells else None,
        "largest": _largest((a[name].to_numpy(), b[name].to_numpy()) for name in columns),
    }


def _only_in(a: Iterable[str], b: Iterable[str]) -> list[list[str]]:
    """Names that only the first has, and names that only the second has."""
    return [[name for name in mine if name not in theirs] for mine, theirs in ((a, set(b)), (b, set(a)))]


def _first_cell(a: "pd.DataFrame", b: "pd.DataFrame", unlike: Mapping[str, Array]) -> Found:
    """The first differing cell, row by row."""
    row = min(int(np.flatnonzero(mask)[0]) for mask in unlike.values() if mask.any())
    column = next(name for name, mask in unlike.items() if mask[row])
    trial, t = a.index[row]
    pair = a[column].to_numpy()[row], b[column].to_numpy()[row]
    return {"trial": int(trial), "round": int(t), "column": column, **_both(pair)}


# States


def _compare_states(a: States, b: States) -> Found:
    apart = _only_in(a, b)
    both = [name for name in a if name in b]
    shapes = [name for name in both if a[name].shape != b[name].shape]
    alike = [name for name in both if name not in shapes]
    unlike = {name: differs(a[name], b[name]) for name in alike}
    entries = sum(int(mask.sum()) for mask in unlike.values())
    first = next((name for name in alike if unlike[name].any()), None)
    return {
        "differs": bool(entries or shapes or any(apart)),
        "trials": len(both),
        "trials_only_in": apart,
        "shapes": [{"trial": name, "shapes": [list(x[name].shape) for x in (a, b)]} for name in shapes],
        "entries": entries,
        "first": None if first is None else _first_entry(first, a[first], b[first], unlike[first]),
        "largest": _largest((a[name], b[name]) for name in alike),
    }


def _first_entry(name: str, a: Array, b: Array, mask: Array) -> Found:
    place = tuple(int(part) for part in np.argwhere(mask)[0])
    node, coordinate = place if len(place) == 2 else (None, place)
    trial = int(name.removeprefix("trial-")) if name.removeprefix("trial-").isdecimal() else name
    return {"trial": trial, "node": node, "coordinate": coordinate, **_both((a[place], b[place]))}


# Values


def differs(a: Array, b: Array) -> Array:
    """Where two arrays differ bit by bit; NaN equals NaN, −0.0 differs from 0.0."""
    if a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return np.array([x != y for x, y in zip(a.tolist(), b.tolist(), strict=True)], bool)
    unlike: Array = (a != b) & ~((a != a) & (b != b))
    if a.dtype.kind == b.dtype.kind == "f":
        unlike |= (a == b) & (np.signbit(a) != np.signbit(b))
    return unlike


def _largest(pairs: Any) -> float | None:
    """The largest |a − b| among numbers; None if there is none, or if it is not finite."""
    found = 0.0
    for a, b in pairs:
        if a.dtype.kind in "fiub" and b.dtype.kind in "fiub" and a.size:
            with np.errstate(all="ignore"):
                apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
            found = max(found, float(np.nanmax(np.where(a == b, 0.0, apart), initial=0.0)))
    return found if 0 < found < np.inf else None


def _both(pair: tuple[Any, Any]) -> Found:
    plain = [np.asarray(value).item() for value in pair]
    return {"values": [repr(value) for value in plain], "hex": [_hex(value) for value in plain]}


def _hex(value: Any) -> str | None:
    if isinstance(value, float):
        return value.hex()
    return hex(value) if isinstance(value, int) and not isinstance(value, bool) else None


# Text


def as_text(report: Found) -> str:
    """Header differences, then the verdict or the first differences."""
    log, states = report["log"], report["states"]
    lines = [f"{each['field']} differs: {' / '.join(map(str, each['values']))}" for each in report["header"]]
    if report["states_only_in"]:
        lines.append(f"only {report['states_only_in'][0]} has states")
    if report["identical"]:
        kept = f", states of {counted(states['trials'], 'trial', ',')}" if states else ""
        held = f"{counted(log['trials'], 'trial', ',')}, {counted(log['rows'], 'row', ',')}"
        return "\n".join([*lines, f"identical: {held}{kept}"])
    lines += _log_lines(report["runs"], log)
    lines += _state_lines(report["runs"], states) if states else []
    return "\n".join(lines)


def _log_lines(runs: Sequence[str], log: Found) -> list[str]:
    lines = []
    for run, rows, columns in zip(runs, log["rows_only_in"], log["columns_only_in"], strict=True):
        if rows["count"]:
            trial, t = rows["first"][0]
            lines.append(f"only {run} has {rows['count']:,} rows, the first: trial {trial}, round {t}")
        if columns:
            lines.append(f"only {run} has columns {', '.join(columns)}")
    if log["first"]:
        at = f"trial {log['first']['trial']}, round {log['first']['round']}, {log['first']['column']}"
        by = ", ".join(f"{name} {count:,}" for name, count in log["columns"].items())
        lines += [f"log differs first at {at}: {_said(log['first'])}"]
        lines += [f"  {log['cells']:,} cells differ ({by}){_at_most(log)}"]
    return lines


def _state_lines(runs: Sequence[str], states: Found) -> list[str]:
    lines = [
        f"only {run} has states of {', '.join(names)}"
        for run, names in zip(runs, states["trials_only_in"], strict=True)
        if names
    ]
    lines += [
        f"states of {e['trial']} have shapes {e['shapes'][0]} / {e['shapes'][1]}" for e in states["shapes"]
    ]
    if first := states["first"]:
        at = f"trial {first['trial']}, node {first['node']}, coordinate {first['coordinate']}"
        lines += [f"states differ first at {at}: {_said(first)}"]
        lines += [f"  {states['entries']:,} entries differ{_at_most(states)}"]
    return lines


def _said(first: Found) -> str:
    hexes = "" if None in first["hex"] else f" ({' / '.join(first['hex'])})"
    return " / ".join(first["values"]) + hexes


def _at_most(found: Found) -> str:
    return "" if found["largest"] is None else f", by {found['largest']:.3g} at most"
