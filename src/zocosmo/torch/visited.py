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
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / φ, odd: spreads keys that lie close together
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
    calls of NumPy, whatever d. The longest of thousands of searches decides how many calls: about 20 in a
    table a third full, where this one grows, and 50 in one half full. `columns` says what stands in each
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
        self._now: Answer | None = None  # to what was asked for last
        self._coming: Answer | None = None  # to what was looked for ahead
        self._late: tuple[Answer, dict[str, Values]] | None = None  # set, and not yet in the table
        self._forget()

    def __len__(self) -> int:
        self._settle()
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory that the table takes."""
        self._settle()
        return self._keys.nbytes + sum(values.nbytes for values in self._values.values())

    def knows_any(self, keys: Index) -> bool:
        """Whether one of these was visited."""
        return bool(self._answer(keys).known.any())

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
        if self._late is not None and self._late[0] is not answer:
            self._settle()
        if self._coming is not None and not self._coming.follow(answer, column, row):
            self._coming = None
        answer.columns[column], answer.known[:] = row, True
        self._late = answer, {**(self._late[1] if self._late else {}), column: row}

    def look_ahead(self, keys: Index, after: Index) -> None:
        """Find keys that will be asked for when those of `after` have been asked for and set."""
        self._settle()
        now, coming = self._answer(after), self._look_up(keys)
        coming.beside = now, *_in_common(coming.row, now.row)
        self._coming = coming

    def arrays(self) -> dict[str, Values]:
        """All entries by ascending key, in new arrays: equal maps give equal bytes whatever their history."""
        self._settle()
        places = np.flatnonzero(self._keys != EMPTY)
        places = places[np.argsort(self._keys[places])]
        columns = {name: values[places] for name, values in self._values.items()}
        return {"keys": self._keys[places], **columns}

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
        """An empty table; whatever fails, there is one."""
        keys: Index = np.full(2**bits, EMPTY, np.int64)
        values = {name: np.full(2**bits, fill, self.dtype) for name, fill in self.columns.items()}
        self._bits, self._count, self._keys, self._values = bits, 0, keys, values

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
        answer = Answer(keys, row, places, there == row)
        known, answer.table = np.flatnonzero(answer.known), self._keys.size
        for name, fill in self.columns.items():
            answer.columns[name] = np.full(row.size, fill, self.dtype)
            answer.columns[name][known] = self._values[name].take(places.take(known))
        return answer

    def _settle(self) -> None:
        """Enter into the table what is late; if that fails it is late still."""
        if self._late is None:
            return
        answer, columns = self._late
        places = self._enter(answer.row, answer.places if answer.table == self._keys.size else None)
        for name, values in columns.items():
            self._values[name][places] = values
        self._late = None

    def _enter(self, keys: Index, start: Index | None = None) -> Index:
        """The places of these keys, all of them known from now on."""
        places, there = self._search(keys, start)
        fresh = np.flatnonzero(there != keys)
        if FULL * (self._count + fresh.size) > self._keys.size:
            self._grow(self._count + fresh.size)
            places, _ = self._search(keys)
        places[fresh] = self._occupy(keys.take(fresh), places.take(fresh))
        self._count += fresh.size
        return places

    def _search(self, keys: Index, start: Index | None = None) -> tuple[Index, Index]:
        """Where each key is, or the free place at which looking for it ends, and what is there.

        Step by step, all keys at once. Keys are never taken out, so a search goes on from where one in the
        same table has ended.
        """
        if start is None:
            start = ((keys.view(np.uint64) * GOLDEN) >> np.uint64(64 - self._bits)).view(np.int64)
        places, there = start.copy(), self._keys.take(start)
        todo = np.flatnonzero((there != keys) & (there != EMPTY))
        at, wanted = places.take(todo), keys.take(todo)
        while todo.size:
            at = (at + 1) & (self._keys.size - 1)
            seen = self._keys.take(at)
            places[todo], there[todo] = at, seen
            on = np.flatnonzero((seen != wanted) & (seen != EMPTY))
            todo, at, wanted = todo.take(on), at.take(on), wanted.take(on)
        return places, there

    def _occupy(self, keys: Index, places: Index) -> Index:
        """Enter new keys at the free places found for them; those that lose theirs to another look on."""
        self._keys[places] = keys
        lost = np.flatnonzero(self._keys.take(places) != keys)
        while lost.size:
            again = keys[lost]
            places[lost] = at = self._search(again)[0]
            self._keys[at] = again
            lost = lost[self._keys.take(at) != again]
        return places

    def _grow(self, count: int) -> None:
        """Move to a table twice as large, or as large as so many keys need."""
        old, values = self._keys, self._values
        self._make(max(self._bits + 1, (FULL * count - 1).bit_length()))
        for at in range(0, old.size, CHUNK):  # in the order of places, which is nearly that of the new ones
            taken = at + np.flatnonzero(old[at : at + CHUNK] != EMPTY)
            keys = old[taken]
            places = self._occupy(keys, self._search(keys)[0])
            for name, column in values.items():
                self._values[name][places] = column[taken]
            self._count += taken.size


def _in_common(one: Index, other: Index) -> tuple[Index, Index]:
    """Where the keys of two ascending arrays that are in both stand, in each."""
    both = np.concatenate((one, other))
    both.sort(kind="stable")  # of two runs: one merge
    shared = both[1:][both[1:] == both[:-1]]
    return np.searchsorted(one, shared), np.searchsorted(other, shared)


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
