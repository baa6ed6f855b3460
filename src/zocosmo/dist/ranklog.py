"""The log of one process: messages, bytes and times at every checkpoint of the study's log."""

import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path

from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.job import Job
from zocosmo.dist.links import Links
from zocosmo.errors import InputError, MessageError
from zocosmo.files import replace_file

COLUMNS = ("rank", "attempt", "trial", "round", "nodes", "seconds", "waited", "messages", "bytes")


class RankLog:
    """A row for each checkpoint, appended at once. Times are seconds since this process started."""

    def __init__(self, path: Path, job: Job, *, anew: bool) -> None:
        self.path, self.job, self._since = path, job, time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = "" if anew or not path.exists() else path.read_text(encoding="utf-8")
        kept = kept[: kept.rfind("\n") + 1]  # without a row truncated by a full disk
        replace_file(path, lambda draft: draft.write_text(kept or ",".join(COLUMNS) + "\n", encoding="utf-8"))

    def add(self, trial: int, t: int, channel: TorchChannel, links: Links) -> None:
        nodes = " ".join(map(str, channel.nodes.tolist()))
        where = (self.job.rank, self.job.attempt, trial, t, nodes)
        seconds = (f"{time.monotonic() - self._since:.3f}", f"{links.waited:.3f}")
        sent = (channel.messages, sum(channel.crossed.values()))
        try:
            with self.path.open("a", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow((*where, *seconds, *sent))
        except OSError as error:
            raise InputError(f"{self.path} cannot be written: {error.strerror}") from None

    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")


def merge(to: Path, logs: Sequence[bytes]) -> None:
    """The logs of all processes in one file, by trial, round and rank."""
    rows = [row for rank, log in enumerate(logs) for row in _rows(rank, log)]
    rows.sort(key=lambda row: tuple(int(row[name]) for name in ("trial", "round", "rank", "attempt")))
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    replace_file(to, lambda path: path.write_text(out.getvalue(), encoding="utf-8"))


def _rows(rank: int, log: bytes) -> list[dict[str, str]]:
    """The rows of one process's log, as it came through the store."""
    try:
        rows = list(csv.DictReader(io.StringIO(log.decode())))
        if any(row.keys() != set(COLUMNS) or None in row.values() for row in rows):
            raise ValueError("a row has other columns")
        _ = [int(row[name]) for row in rows for name in ("trial", "round", "rank", "attempt")]
    except (ValueError, csv.Error) as error:
        raise MessageError(f"the log of rank {rank} in the store is damaged: {error}") from None
    return rows
