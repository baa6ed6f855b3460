"""Finished logs as curves, read by column: a million rows of numbers take some seconds and no text."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zocosmo.log import TEXT, read_log
from zocosmo.watch.curve import Labels, Values

Trial = tuple[int, Labels, dict[str, Values]]


def log_curves(path: Path) -> Iterator[Trial]:
    """Every trial of a log: its number, labels and columns."""
    labels, numbers = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
    trial = numbers["trial"].astype(np.int64)
    starts = np.flatnonzero(np.diff(trial, prepend=trial[:1] - 1)).astype(np.int64)
    several = len({problem for problem, *_ in labels}) > 1
    for (problem, graph, method, seed, n), part in zip(labels, _parts(starts, len(trial)), strict=True):
        group = f"{problem}, {graph}" if several else graph
        columns = {name: column[part] for name, column in numbers.items()}
        yield int(trial[part.start]), Labels(group, method, seed, int(n)), columns


def _parts(starts: NDArray[np.int64], size: int) -> list[slice]:
    ends = [*starts[1:].tolist(), size]
    return [slice(a, b) for a, b in zip(starts.tolist(), ends, strict=True)]


def _read_parquet(path: Path) -> tuple[list[tuple[str, ...]], dict[str, Values]]:
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    names = [name for name in file.schema_arrow.names if name not in TEXT]
    table = file.read(columns=names)
    numbers = {name: np.asarray(table[name].to_numpy(), np.float64) for name in names}
    starts = np.flatnonzero(np.diff(numbers["trial"], prepend=numbers["trial"][:1] - 1))
    about = file.read(columns=[*TEXT, "n"]).take(starts).to_pydict()
    return list(zip(*(map(str, about[name]) for name in (*TEXT, "n")), strict=True)), numbers


def _read_csv(path: Path) -> tuple[list[tuple[str, ...]], dict[str, Values]]:
    rows = read_log(path).rows
    first = rows.groupby("trial", sort=False).first()
    labels = list(zip(*(first[name].astype(str) for name in (*TEXT, "n")), strict=True))
    return labels, {str(name): rows[name].to_numpy(np.float64) for name in rows if name not in TEXT}
