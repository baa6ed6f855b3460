"""Rows of labelled text: from JSONL files, from the hub, and how nodes share them out."""

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Tape
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.problems.split import SPLITS, split

FOLDER_VARIABLE = "ZOCOSMO_DATA"
REACH_SECONDS = 3.0  # longer than a hub that answers needs, shorter than anyone's patience


class Row(NamedTuple):
    """One example: its texts by field, its label, and where it stands, for those who must mend it."""

    where: str
    fields: dict[str, str]
    label: int


class Columns(NamedTuple):
    """What a task reads of a row: text fields, the name of the label, and how many labels there are."""

    fields: tuple[str, ...]
    label: str
    labels: int

    def row(self, where: str, given: Any) -> Row:
        """The row in plain data that came from anywhere; text loses the space around it.

        The hub's SST-2 ends every sentence in a space, other copies do not; prompts must not differ by that.
        """
        if not isinstance(given, Mapping):
            raise InputError(f"{where}: a row is an object with fields, got {shown(given)}")
        for name in (*self.fields, self.label):
            if name not in given:
                has = ", ".join(map(str, given)) or "nothing"
                raise InputError(f"{where}: there is no field {name!r}; the row has {has}")
        fields = {name: check_text(f"{where}: field {name!r}", given[name]) for name in self.fields}
        label = given[self.label]
        if not isinstance(label, int) or not 0 <= label < self.labels:
            raise InputError(
                f"{where}: {self.label} must be a whole number from 0 to {self.labels - 1}, "
                f"the place of its word in the task's words, got {shown(label)}"
            )
        return Row(where, fields, int(label))


Source = Callable[[str, Columns], list[Row]]  # split, columns → rows, read when they are asked for


def check_text(what: str, given: Any) -> str:
    """Text that has bytes, without the space around it."""
    if not isinstance(given, str):
        raise InputError(f"{what} must be text, got {shown(given)}; put it in quotes")
    try:
        given.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} holds half a character (a lone surrogate); mend {shown(given)}") from None
    return given.strip()


def shown(value: Any) -> str:
    """A value in an error: as Python writes it, but not a page of it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def read_jsonl(path: Path, columns: Columns) -> list[Row]:
    """The rows of a file with one JSON object a line; blank lines do not count."""
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
        raise InputError(f"{path}:1: there are no rows; write one JSON object a line")
    return rows


def parse_line(where: str, line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8: byte {error.start + 1} is {line[error.start]:#04x}") from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, lists without end
        raise InputError(f"{where}: not JSON that can be read: {error}") from None


class Files:
    """Rows from one JSONL file for each split."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.paths = dict(paths)

    def __call__(self, name: str, columns: Columns) -> list[Row]:
        check_known("split", name, self.paths)
        return read_jsonl(self.paths[name], columns)

    @classmethod
    def of_folder(cls, folder: Path, task: str) -> "Files | None":
        """<folder>/<task>/{train,validation}.jsonl, else the two files in the folder itself; None without."""
        for inside in (folder / task, folder):
            paths = {name: inside / f"{name}.jsonl" for name in ("train", "validation")}
            if any(path.is_file() for path in paths.values()):
                return cls(paths)
        return None


class Hub:
    """Rows of a data set on the Hugging Face hub, or of its copy in the user's cache."""

    def __init__(self, *names: str, rename: Mapping[str, str] | None = None) -> None:
        self.names = names
        self.rename = dict(rename or {})  # the hub's name of a column → ours

    def __call__(self, name: str, columns: Columns) -> list[Row]:
        title, offline = " ".join(self.names), False
        try:
            from datasets import load_dataset

            with offline_if_unreachable() as offline:
                rows = load_dataset(*self.names, split=name).to_list()
        except Exception as error:  # whatever is wrong there, the way out is the same
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            reason = "which is out of reach, and there is no copy in its cache" if offline else first
            raise InputError(
                f"{title} cannot be read from the hub ({reason}); give a folder with {name}.jsonl as --data "
                f"(--set problem.data=FOLDER for run, launch and audit), or set {FOLDER_VARIABLE}"
            ) from None
        given = [{self.rename.get(key, key): value for key, value in row.items()} for row in rows]
        return [columns.row(f"{title} {name} row {k}", row) for k, row in enumerate(given)]


@contextmanager
def offline_if_unreachable() -> Iterator[bool]:
    """Where the hub does not answer, its library is told so: it uses the copy in its cache, or fails at once.

    On its own it would try five times, and twenty seconds and more are gone.
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


def reachable(address: str, seconds: float = REACH_SECONDS) -> bool:
    """Whether anything answers there; a refusal is an answer."""
    try:
        urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=seconds).close()
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except (OSError, ValueError):
        return False
    return True


def find_source(task: str, data: str | None, hub: Source) -> Source:
    """Rows of a task: from the folder `data`, else from that of ZOCOSMO_DATA, else from the hub."""
    if data is not None:
        return check_folder(f"data folder {data}", Path(data), task)
    if folder := os.environ.get(FOLDER_VARIABLE):
        return check_folder(f"folder {folder} of {FOLDER_VARIABLE}", Path(folder), task)
    return hub


def check_folder(what: str, folder: Path, task: str) -> Files:
    if not folder.is_dir():
        raise InputError(f"{what} does not exist; name one that holds {task}/train.jsonl")
    files = Files.of_folder(folder, task)
    if files is None:
        raise InputError(f"{what} holds neither {task}/train.jsonl nor train.jsonl; put one of them there")
    return files


def shards(
    labels: NDArray[Any], n: int, how: str = "contiguous", *, alpha: float = 1.0, tape: Tape | None = None
) -> list[NDArray[np.int64]]:
    """Which rows each of n nodes holds: disjoint, covering all, at least one each, in ascending order.

    contiguous cuts the rows as they stand into runs whose lengths differ by one at most, as the paper does;
    iid and dirichlet are those of `zocosmo.problems.split`, and need a tape.

    >>> [part.tolist() for part in shards(np.array([0, 1, 0, 1, 0]), 2)]
    [[0, 1, 2], [3, 4]]
    """
    check_known("shards", how, ("contiguous", *SPLITS))
    rows = len(labels)
    if check_whole("a number of nodes", n, 1) > rows:
        raise InputError(
            f"{n} nodes cannot share {rows} rows, some would have none; take {rows} nodes or fewer"
        )
    if how == "contiguous":
        return [part.astype(np.int64) for part in np.array_split(np.arange(rows), n)]
    if tape is None:
        raise InputError(f"{how} shards are drawn from a tape; give tape=")
    return split(np.asarray(labels), n, how=how, alpha=alpha, tape=tape, word="skew")
