"""What was visited of a d-vector too long to keep: a sparse map from coordinates to values."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from zocosmo.core.support import Support, ascends_below
from zocosmo.errors import InputError, check_known

EMPTY = -1  # no coordinate is
FIRST_BITS = 10  # of the smallest table: 1,024 places
FULL = 3  # a table that is 1/FULL full grows
CHUNK = 2**16  # entries that move at once when the table grows
LAST_BITS = 18  # of keys, by which most that two arrays do not share are told apart
FIRST = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / φ, odd: times a key, its top bits say where a search begins
STRIDE = np.uint64(0xD1B54A32D192ED03)  # 2^64 / ψ, odd, ψ⁴ = ψ + 1: and these by how much it goes on
MOST = 2**63

Values = NDArray[Any]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Answer:
    """What the map says about an array of keys."""

    def __init__(self, keys: Index, row: Index, places: Index, known: Mask) -> None:
        self.keys = keys  # the array that was asked for: only the same array is the same question
        self.row = row  # the same, flat
        self.places, self.known = places, known  # where the search ended, and whether the key was there
        self.table = 0  # the size of the table that was searched
        self.columns: dict[str, Values] = {}
        self.beside: tuple[Answer, Index, Index] | None = None  # keys in common with the answer before

    def follow(self, other: "Answer", column: str, values: Values) -> bool:
        """Stay right while values are set at the keys of the answer before; False where that is no other."""
        if self.beside is None or self.beside[0] is not other:
            return False
        _, mine, theirs = self.beside
        self.columns[column][mine] = values[theirs]
        self.known[mine] = True
        return True


class Visited:
    """Coordinates that a run has visited, with a value in each of a few columns.

    An open-addressing table whose probes run on whole arrays: q ascending keys are found or entered in some
    calls of NumPy, whatever d. The longest of thousands of searches decides how many calls: about 8 in a
    table a third full, where this one grows, since each key has a stride of its own. A record is a key and
    its columns, so that one look into a large memory brings all of them. `columns` says what stands in each
    until it is set.

    A round asks for the same array of keys several times and sets it last, so the answer is kept. What is set
    goes into it at once, and into the table when that is next looked at: in `look_ahead`, while a device
    computes and nobody waits. An array of keys that was asked for or set must not be changed afterwards.

    >>> visited = Visited({"x": np.nan, "m": 0.0})
    >>> visited.set(np.array([3, 2**40]), "x", np.array([0.5, 1.5]))
    >>> visited.get(np.array([3, 4]), "x", default=-1.0).tolist(), visited.get(np.array([3, 4]), "m").tolist()
    ([0.5, -1.0], [0.0, 0.0])
    """

    def __init__(self, columns: Mapping[str, float], dtype: DTypeLike = np.float32) -> None:
        self.columns, self.dtype = dict(columns), np.dtype(dtype)
        self._record = np.dtype([("key", np.int64), *((name, self.dtype) for name in columns)], align=True)
        self._now: Answer | None = None  # to what was asked for last
        self._coming: Answer | None = None  # to what was looked for ahead
        self._late: Answer | None = None  # set, and not yet in the table
        self._forget()

    def __len__(self) -> int:
        self._settle()
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory that the table takes."""
        self._settle()
        return self._table.nbytes

    def known(self, keys: Index) -> Mask:
        """Which of these were visited, on one axis."""
        return self._answer(keys).known.copy()

    def get(self, keys: Index, column: str, default: Any = None) -> Values:
        """The values of a column in the shape of the keys; the default where a key was never entered."""
        check_known("column", column, self.columns)
        answer = self._answer(keys)
        got = answer.columns[column].copy()
        if default is not None:
            got[~answer.known] = default
        return got.reshape(keys.shape)

    def set(self, keys: Index, column: str, values: Any) -> None:
        """Write a column at these keys, entering those that are new."""
        check_known("column", column, self.columns)
        given = np.asarray(values, self.dtype).reshape(-1)
        if given.size not in (1, keys.size):
            raise InputError(f"{keys.size} keys need as many values, got {np.shape(values)}")
        answer, row = self._answer(keys), np.empty(keys.size, self.dtype)
        row[:] = given
        if self._late is not answer:
            self._settle()
        if self._coming is not None and not self._coming.follow(answer, column, row):
            self._coming = None
        answer.columns[column], answer.known[:] = row, True
        self._late = answer

    def look_ahead(self, keys: Index, after: Index) -> None:
        """Find keys that will be asked for when those of `after` have been asked for and set."""
        self._settle()
        now, coming = self._answer(after), self._look_up(keys)
        coming.beside = now, *_in_common(coming.row, now.row)
        self._coming = coming

    def arrays(self) -> dict[str, Values]:
        """All entries by ascending key, in new arrays: equal maps give equal bytes whatever their history."""
        self._settle()
        places = np.flatnonzero(self._table["key"] != EMPTY)
        records = self._table[places[np.argsort(self._table["key"][places])]]
        return {"keys": records["key"].copy(), **{name: records[name].copy() for name in self.columns}}

    def restore(self, arrays: Mapping[str, Values]) -> None:
        """Become what `arrays()` gave, whatever was here before."""
        missing = {"keys", *self.columns} - set(arrays)
        keys = np.asarray(arrays.get("keys", ()))
        if missing or keys.ndim != 1 or any(len(arrays[name]) != keys.size for name in self.columns):
            lacks = f"lacks {', '.join(sorted(missing))}" if missing else "has columns of several lengths"
            raise InputError(f"this is no map of {', '.join(self.columns)}: it {lacks}")
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
        """Ask the table, where nothing may be late."""
        row = keys.reshape(-1).astype(np.int64, copy=False)
        if row.size and not ascends_below(row, MOST):
            raise InputError(f"keys must ascend from 0 or more, got {row[:4].tolist()} …")
        places, there = self._search(row)
        answer = Answer(keys, row, places, there["key"] == row)
        answer.table = self._table.size
        answer.columns = {name: there[name].copy() for name in self.columns}  # a free place has what is unset
        return answer

    def _settle(self) -> None:
        """Enter into the table what is late; if that fails it is late still."""
        if self._late is not None:
            self._enter(self._late)
            self._late = None

    def _enter(self, answer: Answer) -> None:
        """Write all that an answer says, making its keys known."""
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
        """Where each key is, or the free place at which looking for it ends, and what is there.

        Step by step, all keys at once. Keys are never taken out, so a search goes on from where one in the
        same table has ended.
        """
        places = self._top_bits(keys, FIRST) if start is None else start.copy()
        there = self._table.take(places)
        todo = np.flatnonzero(_is_other(there, keys))
        at, wanted = places.take(todo), keys.take(todo)
        stride = self._top_bits(wanted, STRIDE) | 1  # odd: it reaches every place
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
        """Put records where their keys are, or at the free places found for them; those that lose theirs to
        another look on."""
        self._table[places] = records
        lost = np.flatnonzero(self._table.take(places)["key"] != records["key"])
        while lost.size:
            again = records[lost]
            at, _ = self._search(again["key"].copy(), places[lost])
            self._table[at], places[lost] = again, at
            lost = lost[self._table.take(at)["key"] != again["key"]]

    def _grow(self, count: int) -> None:
        """Move to a table twice as large, or as large as so many keys need; stay if anything fails."""
        bits, held, old = self._bits, self._count, self._table
        try:
            self._make(max(self._bits + 1, (FULL * count - 1).bit_length()))
            for at in range(0, old.size, CHUNK):  # by place, which is nearly the order of the new ones
                records = old[at : at + CHUNK]
                records = records[records["key"] != EMPTY]
                self._write(records, self._search(records["key"].copy())[0])
                self._count += records.size
        except BaseException:
            self._bits, self._count, self._table = bits, held, old
            raise


def _is_other(records: Values, keys: Index) -> Mask:
    """Which of these places are taken by other keys."""
    there = records["key"]
    other: Mask = (there != keys) & (there != EMPTY)
    return other


def _in_common(one: Index, other: Index) -> tuple[Index, Index]:
    """Where the keys of two ascending arrays that are in both stand, in each. Few are, so most are ruled out
    by their last bits."""
    marked = np.zeros(2**LAST_BITS, bool)
    marked[other & (2**LAST_BITS - 1)] = True
    maybe = np.flatnonzero(marked.take(one & (2**LAST_BITS - 1)))
    keys = one.take(maybe)
    at = np.searchsorted(other, keys)
    same = np.flatnonzero(other.take(at, mode="clip") == keys)
    return maybe.take(same), at.take(same)


class Column:
    """A column of a map as a d-vector, such as momentum that is 0 until a coordinate was visited."""

    def __init__(self, visited: Visited, name: str) -> None:
        self.visited, self.name, self.dtype = visited, name, visited.dtype

    def restrict(self, support: Support) -> Values:
        """Res_S of the vector, in the shape of the support."""
        return self.visited.get(support.index, self.name)

    def put(self, support: Support, values: Values) -> Self:
        """Write the q entries of a support. Where nothing changes, as in a round without a partner, nothing
        is entered."""
        row = np.asarray(values, self.dtype).reshape(-1)
        if row.tobytes() != self.restrict(support).tobytes():
            self.visited.set(support.index, self.name, row)
        return self
