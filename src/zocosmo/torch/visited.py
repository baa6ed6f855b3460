"""What was visited of a d-vector too long to keep: a sparse map from coordinates to values."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

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


class Found(NamedTuple):
    """Where some keys are, or would be."""

    keys: Index  # the array that was asked for: only the same array is the same question
    places: Index  # of those that are new: where the search ended
    known: Index  # which of the keys were visited


class Visited:
    """Coordinates that a run has visited, with a value in each of a few columns.

    An open-addressing table whose probes run on whole arrays: q ascending keys are found or entered in some
    calls of NumPy, whatever d. The longest of thousands of searches decides how many calls: about 20 in a
    table a third full, where this one grows, and 50 in one half full. A round asks for the same array of keys
    several times, so the last answer is kept: an array that was asked for must not be changed afterwards.
    `columns` says what stands in each until it is set.

    >>> visited = Visited({"x": np.nan, "m": 0.0})
    >>> visited.set(np.array([3, 2**40]), "x", np.array([0.5, 1.5]))
    >>> visited.get(np.array([3, 4]), "x", default=-1.0).tolist(), visited.get(np.array([3, 4]), "m").tolist()
    ([0.5, -1.0], [0.0, 0.0])
    """

    def __init__(self, columns: Mapping[str, float], dtype: DTypeLike = np.float32) -> None:
        self.columns, self.dtype = dict(columns), np.dtype(dtype)
        self._reset(FIRST_BITS)

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Memory that the table takes."""
        return self._keys.nbytes + sum(values.nbytes for values in self._values.values())

    def knows_any(self, keys: Index) -> bool:
        """Whether one of these was visited."""
        return bool(self._find(keys).known.size)

    def get(self, keys: Index, column: str, default: Any = None) -> Values:
        """The values of a column in the shape of the keys; the default where a key was never entered."""
        check_known("column", column, self.columns)
        found, got = self._find(keys), np.empty(keys.shape, self.dtype)
        got[...] = self.columns[column] if default is None else default
        if found.known.size:
            got.reshape(-1)[found.known] = self._values[column].take(found.places.take(found.known))
        return got

    def set(self, keys: Index, column: str, values: Any) -> None:
        """Write a column at these keys, entering those that are new."""
        check_known("column", column, self.columns)
        row = np.asarray(values, self.dtype).reshape(-1)
        if row.size not in (1, keys.size):
            raise InputError(f"{keys.size} keys need as many values, got {np.shape(values)}")
        places = self._enter(keys)
        self._values[column][places] = row

    def arrays(self) -> dict[str, Values]:
        """All entries by ascending key, in new arrays: equal maps give equal bytes whatever their history."""
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
        self._reset(FIRST_BITS)
        if keys.size:
            places = self._enter(keys.astype(np.int64, copy=True))
            for name, into in self._values.items():
                into[places] = arrays[name]

    def _reset(self, bits: int) -> None:
        self._bits, self._count = bits, 0
        self._keys: Index = np.full(2**bits, EMPTY, np.int64)
        self._values = {name: np.full(2**bits, fill, self.dtype) for name, fill in self.columns.items()}
        self._last: Found | None = None

    def _find(self, keys: Index) -> Found:
        if self._last is None or self._last.keys is not keys:
            row = keys.reshape(-1).astype(np.int64, copy=False)
            if row.size and not ascends_below(row, MOST):
                raise InputError(f"keys must ascend from 0 or more, got {row[:4].tolist()} …")
            places, there = self._search(row)
            self._last = Found(keys, places, np.flatnonzero(there == row))
        return self._last

    def _enter(self, keys: Index) -> Index:
        """The places of these keys, all of them known from now on."""
        found, row = self._find(keys), keys.reshape(-1)
        new = row.size - found.known.size
        if not new:
            return found.places
        if FULL * (self._count + new) > self._keys.size:
            self._grow(self._count + new)
            found = self._find(keys)
        places = found.places
        if new == row.size:  # nearly always, with billions of coordinates
            self._occupy(row, places)
        else:
            fresh = np.delete(np.arange(row.size), found.known)
            places[fresh] = self._occupy(row.take(fresh), places.take(fresh))
        self._count += new
        self._last = Found(keys, places, np.arange(row.size))
        return places

    def _search(self, keys: Index) -> tuple[Index, Index]:
        """Where each key is, or the free place at which looking for it ends, and what is there.

        Step by step, all keys at once.
        """
        places = ((keys.view(np.uint64) * GOLDEN) >> np.uint64(64 - self._bits)).view(np.int64)
        there = self._keys.take(places)
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
        self._reset(max(self._bits + 1, (FULL * count - 1).bit_length()))
        for at in range(0, old.size, CHUNK):  # in the order of places, which is nearly that of the new ones
            taken = at + np.flatnonzero(old[at : at + CHUNK] != EMPTY)
            keys = old[taken]
            places = self._occupy(keys, self._search(keys)[0])
            for name, column in values.items():
                self._values[name][places] = column[taken]
            self._count += taken.size


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
