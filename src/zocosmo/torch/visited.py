"""A sparse map from visited coordinates of a long d-vector to values."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.support import Support, ascends_below
from zocosmo.errors import InputError, check_known
from zocosmo.state import Coordinates

EMPTY = -1  # key of a free place
FIRST_BITS = 10  # of the smallest table: 1,024 places
FULL = 3  # a table grows when 1/FULL full
CHUNK = 2**16  # places moved at a time when the table grows
LAST_BITS = 18  # of keys, which rule out most keys that two arrays do not share
FIRST = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / φ, odd: the top bits of key · FIRST are the first place
STRIDE = np.uint64(0xD1B54A32D192ED03)  # 2^64 / ψ, odd, ψ⁴ = ψ + 1: those of key · STRIDE, the stride
MOST = 2**63

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Answer:
    """The result of a lookup of an array of keys."""

    def __init__(self, keys: Index, row: Index, places: Index, known: Mask) -> None:
        self.keys = keys  # as given; compared by identity
        self.row = row  # keys, flat
        self.places, self.known = places, known  # where each search ended, and whether it found the key
        self.table = 0  # size of the table searched
        self.columns: dict[str, Values] = {}
        self.beside: tuple[Answer, Index, Index] | None = None  # the answer before, and the keys in common

    def follow(self, other: "Answer", column: str, values: Values) -> bool:
        """Apply values set at the keys of the answer before; False if `other` is not that answer."""
        if self.beside is None or self.beside[0] is not other:
            return False
        _, mine, theirs = self.beside
        self.columns[column][mine] = values[theirs]
        self.known[mine] = True
        return True


class Visited:
    """Coordinates visited by a run, with a value in each of a few columns.

    An open-addressing table probed by whole arrays: q ascending keys are found or entered in a few NumPy
    calls, whatever d. The longest of thousands of searches sets the number of calls, about 8 in a table a
    third full (where it grows), since each key has its own stride. A record holds a key and its columns, so
    that one memory access reads all of them. `columns` gives the default value of each.

    A round looks up one array of keys several times and sets it last, so the answer is cached. Values set go
    to the answer at once and to the table at its next lookup: in `look_ahead`, while a device computes. Do
    not modify an array of keys after passing it.

    >>> visited = Visited({"x": np.nan, "m": 0.0})
    >>> visited.set(np.array([3, 2**40]), "x", np.array([0.5, 1.5]))
    >>> visited.get(np.array([3, 4]), "x", default=-1.0).tolist(), visited.get(np.array([3, 4]), "m").tolist()
    ([0.5, -1.0], [0.0, 0.0])
    """

    def __init__(self, columns: Mapping[str, float], dtype: DTypeLike = np.float32) -> None:
        self.columns, self.dtype = dict(columns), np.dtype(dtype)
        self._record = np.dtype([("key", np.int64), *((name, self.dtype) for name in columns)], align=True)
        self._now: Answer | None = None  # of the last lookup
        self._coming: Answer | None = None  # of the lookup ahead
        self._late: Answer | None = None  # set, but not yet in the table
        self._forget()

    def __len__(self) -> int:
        self._settle()
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory of the table."""
        self._settle()
        return self._table.nbytes

    def known(self, keys: Index) -> Mask:
        """Whether each key was visited, as a flat array."""
        return self._answer(keys).known.copy()

    def get(self, keys: Index, column: str, default: Any = None) -> Values:
        """A column's values in the shape of the keys; `default` for keys never entered."""
        check_known("column", column, self.columns)
        answer = self._answer(keys)
        got = answer.columns[column].copy()
        if default is not None:
            got[~answer.known] = default
        return got.reshape(keys.shape)

    def set(self, keys: Index, column: str, values: Any) -> None:
        """Write a column at these keys, entering new ones."""
        check_known("column", column, self.columns)
        given = np.asarray(values, self.dtype).reshape(-1)
        if given.size not in (1, keys.size):
            raise InputError(f"{keys.size} keys need {keys.size} values or one, got shape {np.shape(values)}")
        answer, row = self._answer(keys), np.empty(keys.size, self.dtype)
        row[:] = given
        if self._late is not answer:
            self._settle()
        if self._coming is not None and not self._coming.follow(answer, column, row):
            self._coming = None
        answer.columns[column], answer.known[:] = row, True
        self._late = answer

    def look_ahead(self, keys: Index, after: Index) -> None:
        """Look up keys that will be used next, once those of `after` have been looked up and set."""
        self._settle()
        now, coming = self._answer(after), self._look_up(keys)
        coming.beside = now, *_in_common(coming.row, now.row)
        self._coming = coming

    def arrays(self) -> dict[str, Values]:
        """All entries by ascending key, in new arrays; equal maps give equal bytes."""
        self._settle()
        places = np.flatnonzero(self._table["key"] != EMPTY)
        records = self._table[places[np.argsort(self._table["key"][places])]]
        return {"keys": records["key"].copy(), **{name: records[name].copy() for name in self.columns}}

    def restore(self, arrays: Mapping[str, Values]) -> None:
        """Replace the content with that of `arrays()`."""
        missing = {"keys", *self.columns} - set(arrays)
        keys = np.asarray(arrays.get("keys", ()))
        if missing or keys.ndim != 1 or any(len(arrays[name]) != keys.size for name in self.columns):
            lacks = f"they lack {', '.join(sorted(missing))}" if missing else "their lengths differ"
            raise InputError(f"these are not the arrays of a map of {', '.join(self.columns)}: {lacks}")
        self._forget()
        if keys.size:
            mine = keys.astype(np.int64, copy=True)
            for name in self.columns:
                self.set(mine, name, arrays[name])
            self._settle()
            self._now = None  # as large as the map

    def _forget(self) -> None:
        self._make(FIRST_BITS)
        self._now = self._coming = self._late = None

    def _make(self, bits: int) -> None:
        """An empty table."""
        table = np.empty(2**bits, self._record)
        table["key"] = EMPTY
        for name, fill in self.columns.items():
            table[name] = fill
        self._bits, self._count, self._table = bits, 0, table

    def _answer(self, keys: Index) -> Answer:
        if self._now is not None and self._now.keys is keys:
            return self._now
        if self._coming is not None and self._coming.keys is keys:
            self._now, self._coming = self._coming, None
            self._now.beside = None
        else:
            self._settle()
            self._now = self._look_up(keys)
        return self._now

    def _look_up(self, keys: Index) -> Answer:
        """Look up keys in the table; nothing may be late."""
        row = keys.reshape(-1).astype(np.int64, copy=False)
        if row.size and not ascends_below(row, MOST):
            raise InputError(f"keys must ascend from 0 or more, got {row[:4].tolist()} …")
        places, there = self._search(row)
        answer = Answer(keys, row, places, there["key"] == row)
        answer.table = self._table.size
        answer.columns = {name: there[name].copy() for name in self.columns}  # free places hold defaults
        return answer

    def _settle(self) -> None:
        """Write late values to the table; if that fails they stay late."""
        if self._late is not None:
            self._enter(self._late)
            self._late = None

    def _enter(self, answer: Answer) -> None:
        """Write an answer's keys and columns to the table."""
        keys, start = answer.row, answer.places if answer.table == self._table.size else None
        places, there = self._search(keys, start)
        fresh = there["key"] != keys
        count = self._count + int(np.count_nonzero(fresh))
        if FULL * count > self._table.size:
            self._grow(count)
            places, _ = self._search(keys)
        self._write(self._records(keys, answer.columns), places)
        self._count = count

    def _records(self, keys: Index, columns: Mapping[str, Values]) -> Values:
        records = np.empty(keys.size, self._record)
        records["key"] = keys
        for name, values in columns.items():
            records[name] = values
        return records

    def _search(self, keys: Index, start: Index | None = None) -> tuple[Index, Values]:
        """The place of each key, or the free place where its search ends, and the records there.

        All keys advance together. Keys are never removed, so a search can resume from where an earlier one in
        the same table ended.
        """
        places = self._top_bits(keys, FIRST) if start is None else start.copy()
        there = self._table.take(places)
        todo = np.flatnonzero(_is_other(there, keys))
        at, wanted = places.take(todo), keys.take(todo)
        stride = self._top_bits(wanted, STRIDE) | 1  # odd, so it reaches every place
        while todo.size:
            at = (at + stride) & (self._table.size - 1)
            seen = self._table.take(at)
            places[todo], there[todo] = at, seen
            on = np.flatnonzero(_is_other(seen, wanted))
            todo, at, wanted, stride = todo.take(on), at.take(on), wanted.take(on), stride.take(on)
        return places, there

    def _top_bits(self, keys: Index, factor: np.uint64) -> Index:
        return ((keys.view(np.uint64) * factor) >> np.uint64(64 - self._bits)).view(np.int64)

    def _write(self, records: Values, places: Index) -> None:
        """Write records at the places found; those whose free place another took search on."""
        self._table[places] = records
        lost = np.flatnonzero(self._table.take(places)["key"] != records["key"])
        while lost.size:
            again = records[lost]
            at, _ = self._search(again["key"].copy(), places[lost])
            self._table[at], places[lost] = again, at
            lost = lost[self._table.take(at)["key"] != again["key"]]

    def _grow(self, count: int) -> None:
        """Move to a table at least twice as large that fits `count` keys; on failure keep the old one."""
        bits, held, old = self._bits, self._count, self._table
        try:
            self._make(max(self._bits + 1, (FULL * count - 1).bit_length()))
            for at in range(0, old.size, CHUNK):  # by place: nearly the order of the new places
                records = old[at : at + CHUNK]
                records = records[records["key"] != EMPTY]
                self._write(records, self._search(records["key"].copy())[0])
                self._count += records.size
        except BaseException:
            self._bits, self._count, self._table = bits, held, old
            raise


def _is_other(records: Values, keys: Index) -> Mask:
    """Which places hold other keys."""
    there = records["key"]
    other: Mask = (there != keys) & (there != EMPTY)
    return other


def _in_common(one: Index, other: Index) -> tuple[Index, Index]:
    """The positions of common keys in each of two ascending arrays. They are few, so the last bits rule out
    most keys."""
    marked = np.zeros(2**LAST_BITS, bool)
    marked[other & (2**LAST_BITS - 1)] = True
    maybe = np.flatnonzero(marked.take(one & (2**LAST_BITS - 1)))
    keys = one.take(maybe)
    at = np.searchsorted(other, keys)
    same = np.flatnonzero(other.take(at, mode="clip") == keys)
    return maybe.take(same), at.take(same)


class Column(Coordinates):
    """A column of a map as a d-vector, such as momentum, 0 at coordinates not yet visited."""

    def __init__(self, visited: Visited, name: str) -> None:
        self.visited, self.name, self.dtype = visited, name, visited.dtype

    def restrict(self, support: Support) -> Values:
        """Res_S of the vector, in the shape of the support."""
        return self.visited.get(support.index, self.name)

    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of a support, unless nothing changes, as in a round without a partner."""
        row = np.asarray(values, self.dtype).reshape(-1)
        if row.tobytes() != self.restrict(support).tobytes():
            self.visited.set(support.index, self.name, row)
        return self

    def zeros_like(self) -> "Column":
        return Column(Visited({self.name: 0.0}, self.dtype), self.name)

    def load(self, snapshot: Values) -> Self:
        before = self.visited.arrays()["keys"], self.visited.columns[self.name]
        for keys, values in (before, split_pairs(snapshot)):
            if keys.size:
                self.visited.set(keys, self.name, values)
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        """Coordinates that were visited and their values, (1, 2, visited)."""
        kept = self.visited.arrays()
        return join_pairs(kept["keys"], kept[self.name], dtype)


def join_pairs(keys: Values, values: Values, dtype: Any = None) -> Values:
    """Coordinates and values as one array; float64 holds every coordinate below 2^53, and every float32."""
    return np.stack([keys.astype(np.float64), values.astype(np.float64)])[None].astype(dtype or np.float64)


def split_pairs(pairs: Values) -> tuple[Index, Values]:
    """Back from `join_pairs`."""
    return pairs[0, 0].astype(np.int64), pairs[0, 1]
