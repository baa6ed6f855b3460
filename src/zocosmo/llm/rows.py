"""Rows of labelled text from JSONL files or the hub, and their split over nodes."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.llm.fetch import reachable
from zocosmo.llm.quiet import first_line
from zocosmo.problems.language import CHOICES
from zocosmo.problems.split import split

FOLDER_VARIABLE = "ZOCOSMO_DATA"


class LabelledText(NamedTuple):
    """One example: its texts by field, its label, and its place in the file, for error messages."""

    where: str
    fields: dict[str, str]
    label: int


class Columns(NamedTuple):
    """What a task reads from a row: text fields, the label field, and the number of labels."""

    fields: tuple[str, ...]
    label: str
    labels: int

    def row(self, where: str, given: Any) -> LabelledText:
        """Check a row and strip its texts.

        The hub's SST-2 ends every sentence in a space and other copies do not; prompts must be the same.
        """
        if not isinstance(given, Mapping):
            raise InputError(f"{where}: a row must be an object with fields, got {shown(given)}")
        for name in (*self.fields, self.label):
            if name not in given:
                has = ", ".join(map(str, given)) or "nothing"
                raise InputError(f"{where}: field {name!r} is missing; the row has {has}")
        fields = {name: check_text(f"{where}: field {name!r}", given[name]) for name in self.fields}
        label = given[self.label]
        if not isinstance(label, int) or not 0 <= label < self.labels:
            known = f"a whole number from 0 to {self.labels - 1}, an index into the task's words"
            raise InputError(f"{where}: {self.label} must be {known}, got {shown(label)}")
        return LabelledText(where, fields, int(label))


Source = Callable[[str, Columns], list[LabelledText]]  # split, columns → rows, read on each call


def check_text(what: str, given: Any) -> str:
    """Valid Unicode text, stripped."""
    if not isinstance(given, str):
        raise InputError(f"{what} must be text, got {shown(given)}; put it in quotes")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} has a lone surrogate; fix {shown(given)}") from None
    return given.strip()


def shown(value: Any) -> str:
    """The repr of a value, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def read_jsonl(path: Path, columns: Columns) -> list[LabelledText]:
    """The rows of a file with one JSON object per line; blank lines are skipped."""
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    rows = [
        columns.row(f"{path}:{number}", parse_line(f"{path}:{number}", line))
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not rows:
        raise InputError(f"{path}:1: the file has no rows; write one JSON object per line")
    return rows


def parse_line(where: str, line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8: byte {error.start + 1} is {line[error.start]:#04x}") from None
    except (ValueError, RecursionError) as error:  # integers of thousands of digits, deeply nested lists
        raise InputError(f"{where}: cannot parse JSON: {error}") from None


class Files:
    """Rows from one JSONL file for each split."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths = dict(paths)

    def __call__(self, name: str, columns: Columns) -> list[LabelledText]:
        check_known("split", name, self.paths)
        return read_jsonl(self.paths[name], columns)


class Hub:
    """Rows of a data set on the Hugging Face hub, or in the user's hub cache."""

    def __init__(self, *names: str, rename: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.rename = dict(rename or {})  # hub column → ours

    def __call__(self, name: str, columns: Columns) -> list[LabelledText]:
        title, offline = " ".join(self.names), False
        try:
            from datasets import load_dataset

            with offline_if_unreachable() as offline:
                rows = load_dataset(*self.names, split=name).to_list()
        except Exception as error:  # any failure has the same remedy
            reason = "offline, and not in its cache" if offline else first_line(error)
            raise InputError(
                f"{title} cannot be read from the hub ({reason}); give a folder with {name}.jsonl as --data "
                f"(--set problem.data=FOLDER for run, launch and audit), or set {FOLDER_VARIABLE}"
            ) from None
        given = [{self.rename.get(key, key): value for key, value in row.items()} for row in rows]
        return [columns.row(f"{title} {name} row {k}", row) for k, row in enumerate(given)]


@contextmanager
def offline_if_unreachable() -> Iterator[bool]:
    """Set the hub's libraries offline if it does not answer, so that they use the cache or fail at once.

    Left alone they retry five times, which takes 20 s or more.
    """
    import datasets.config
    import huggingface_hub.constants

    places: list[Any] = [datasets.config, huggingface_hub.constants]
    before = [place.HF_HUB_OFFLINE for place in places]
    off = any(before) or not reachable(huggingface_hub.constants.ENDPOINT)
    try:
        for place in places:
            place.HF_HUB_OFFLINE = off
        yield bool(off)
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


def find_source(task: str, data: str | None, hub: Source) -> Source:
    """The rows of a task: from the folder `data`, else from ZOCOSMO_DATA, else from the hub."""
    if data is not None:
        return files_in(f"data folder {data}", Path(data), task)
    if folder := os.environ.get(FOLDER_VARIABLE):
        return files_in(f"folder {folder} of {FOLDER_VARIABLE}", Path(folder), task)
    return hub


def files_in(what: str, folder: Path, task: str) -> Files:
    """<folder>/<task>/{train,validation}.jsonl, else the files in the folder itself."""
    if not folder.is_dir():
        raise InputError(f"{what} does not exist; give one that has {task}/train.jsonl")
    for inside in (folder / task, folder):
        paths = {name: inside / f"{name}.jsonl" for name in ("train", "validation")}
        if any(path.is_file() for path in paths.values()):
            return Files(paths)
    raise InputError(f"{what} has neither {task}/train.jsonl nor train.jsonl; add one of them")


def shards(
    labels: NDArray[Any], n: int, how: str = "contiguous", *, alpha: float = 1.0, tape: Tape | None = None
) -> list[NDArray[np.int64]]:
    """The rows of each of n nodes, ascending: a partition with at least one row each.

    contiguous cuts the rows in order into runs whose lengths differ by at most one, as in the paper;
    iid and dirichlet are those of `zocosmo.problems.split`, and need a tape.

    >>> [part.tolist() for part in shards(np.array([0, 1, 0, 1, 0]), 2)]
    [[0, 1, 2], [3, 4]]
    """
    check_known("shards", how, CHOICES["split"])
    rows = len(labels)
    if check_whole("a number of nodes", n, 1) > rows:
        raise InputError(f"{n} nodes cannot share {rows} rows; use {rows} nodes or fewer")
    if how == "contiguous":
        return [part.astype(np.int64) for part in np.array_split(np.arange(rows), n)]
    if tape is None:
        raise InputError(f"{how} shards are drawn from a tape; give tape=")
    return split(np.asarray(labels), n, how=how, alpha=alpha, tape=tape, word="skew")
