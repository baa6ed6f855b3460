"""Logs: one file per study with a row for each trial and checkpoint, and a header that records its origin."""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zocosmo._version import __version__
from zocosmo.errors import InputError
from zocosmo.files import reading, replace_file, write_text

if TYPE_CHECKING:
    import pandas as pd

HEADER = "zocosmo"  # key of the header in a Parquet file
FORMATS = (".parquet", ".csv")
TEXT = ("problem", "graph", "method", "seed")  # text columns, even if they look like numbers
NUMBERS = ("trial", "n", "round", "bits", "queries", "stages", "objective", "local", "disagreement")
LIBRARIES = ("numpy", "scipy", "networkx", "pandas", "pyarrow", "scikit-learn")
MODEL_LIBRARIES = ("torch", "transformers", "peft", "tokenizers")  # recorded for language models


class Log(NamedTuple):
    """Rows as a pandas frame, sorted by trial and round; and the header."""

    rows: "pd.DataFrame"
    header: dict[str, Any]


def write_log(to: Path, log: Log) -> None:
    """Parquet or, with suffix .csv, text whose first line is # and the header."""
    check_format(to)
    header = json.dumps(log.header, sort_keys=True)
    if to.suffix == ".csv":
        write_text(to, f"# {header}\n" + log.rows.to_csv(index=False, lineterminator="\n"))
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(log.rows, preserve_index=False).replace_schema_metadata({HEADER: header})
    replace_file(to, lambda path: pq.write_table(table, path))


def logs_in(folder: Path) -> list[Path]:
    """The logs in a folder; a log is written when all trials of the study are done."""
    return [path for suffix in FORMATS if (path := folder / f"log{suffix}").exists()]


def read_log(path: Path) -> Log:
    """What `write_log` wrote; an InputError if the file is damaged, or of something else."""
    check_format(path)
    if not path.is_file():
        raise InputError(f"there is no log {path}; run the study first")
    with reading(path, "is not a complete log"):
        header, rows = (_read_csv if path.suffix == ".csv" else _read_parquet)(path)
        log = Log(rows, json.loads(header))
    _check_log(path, log)
    return log


def _read_csv(path: Path) -> tuple[str, "pd.DataFrame"]:
    import pandas as pd

    with path.open(encoding="utf-8") as file:
        first = file.readline()
    if not first.startswith("# {"):
        raise InputError(f"{path} has no header line; is it a log of zocosmo run?")
    columns = pd.read_csv(path, skiprows=1, nrows=0).columns
    numbers: dict[str, list[str]] = {name: ["", "nan"] for name in columns if name not in TEXT}
    text = dict.fromkeys(TEXT, str)
    rows = pd.read_csv(
        path, skiprows=1, dtype=text, keep_default_na=False, na_values=numbers, low_memory=False
    )
    return first[2:], rows


def _read_parquet(path: Path) -> tuple[bytes, "pd.DataFrame"]:
    import pyarrow.parquet as pq

    with reading(path, "is not a Parquet file"):
        table = pq.read_table(path)
    header = (table.schema.metadata or {}).get(HEADER.encode())
    if header is None:
        raise InputError(f"{path} has no header; is it a log of zocosmo run?")
    return header, table.to_pandas()


def _check_log(path: Path, log: Log) -> None:
    """Refuse a header that is no mapping, and numbers that are text."""
    if not isinstance(log.header, dict):
        raise InputError(f"{path} has no mapping for a header; is it a log of zocosmo run?")
    for name in NUMBERS:
        if name in log.rows and len(log.rows) and log.rows[name].dtype.kind not in "iufb":
            raise InputError(f"{path} is damaged: column {name} holds text; run the study again")


def check_format(path: Path) -> None:
    if path.suffix not in FORMATS:
        raise InputError(f"the name of a log must end in {' or '.join(FORMATS)}, got {path.name!r}")


def make_header(config: Mapping[str, Any], print_of_plan: str) -> dict[str, Any]:
    """The origin of a log, without a timestamp: the same plan and code give the same bytes."""
    about_models = config.get("problem", {}).get("kind") == "llm"
    names = LIBRARIES + MODEL_LIBRARIES if about_models else LIBRARIES
    return {
        "config": dict(config),
        "fingerprint": print_of_plan,
        "source": source_hash(),
        "versions": {"zocosmo": __version__, "python": platform.python_version(), **_versions(names)},
    }


def fingerprint(content: Any) -> str:
    """A short hash of any JSON value."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """A hash of this package's source files, names and contents."""
    root = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _versions(names: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in names:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
