"""The bill of a network over all its terms: bits by directed link, links named by ids of members."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.ledger import Ledger
from zocosmo.core.payload import Bits
from zocosmo.errors import InputError
from zocosmo.files import write_text

LEDGER = "ledger.csv"
HEAD = ("sender", "receiver", *(f"{kind}_bits" for kind in ("value", "index", "control", "framing")))

Index = NDArray[np.int64]


class Book:
    """Bits of links that were, added up term by term."""

    def __init__(self) -> None:
        self.keys: Index = np.zeros(0, np.int64)  # sender · 2^32 + receiver, ascending
        self.counts: Index = np.zeros((0, len(Bits._fields)), np.int64)

    def add(self, ledger: Ledger, ids: Index) -> None:
        """Add the bill of a term, of one run, whose node k is member ids[k]."""
        ends = ids[ledger.ends]
        self.keys, place = np.unique(
            np.concatenate([self.keys, ends[:, 0] << 32 | ends[:, 1]]), return_inverse=True
        )
        old, self.counts = self.counts, np.zeros((len(self.keys), len(Bits._fields)), np.int64)
        self.counts[place[: len(old)]] = old
        self.counts[place[len(old) :]] += ledger.counts.reshape(-1, len(Bits._fields))  # each link once

    def copy(self) -> "Book":
        """A book that can be added to."""
        other = Book()
        other.keys, other.counts = self.keys, self.counts
        return other

    @property
    def links(self) -> Index:
        """Sender and receiver of each link that carried anything, (links, 2)."""
        return np.stack(np.divmod(self.keys, 2**32), axis=-1)


def write_ledger(to: Path, book: Book) -> None:
    """Write the bits of every link that carried any, as a table."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(HEAD)
    used = book.counts.any(axis=-1)
    table.writerows(np.concatenate([book.links[used], book.counts[used]], axis=-1).tolist())
    write_text(to, text.getvalue())


def read_ledger(path: Path) -> dict[tuple[int, int], tuple[int, ...]] | None:
    """What `write_ledger` wrote, by link; None if there is no such file."""
    if not path.exists():
        return None
    try:
        head, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
        found: list[Any] = [tuple(map(int, row)) for row in rows]
        if tuple(head) != HEAD or any(len(row) != len(HEAD) for row in found):
            raise ValueError("other columns")
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} holds no ledger ({error}); run the study again with --replace") from None
    return {row[:2]: row[2:] for row in found}
