"""Public draws for a batch: made once for all runs that share them, and for many rounds at a time."""

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import Direction
from zocosmo.core.tape import Seed, Tape
from zocosmo.methods.base import Draw, Method, World

BLOCK = 2**18  # coordinates drawn at once
MOST_ROUNDS = 64


class DrawAhead:
    """The draws of each round for all runs; runs with the same world and seed share theirs.

    A draw is keyed by its round alone, so neither blocks nor company change it. In the background the next
    block is drawn while the caller waits for its forwards: hashing and sorting let other threads run.
    """

    def __init__(
        self,
        method: Method,
        worlds: Sequence[World],
        seeds: Sequence[Seed],
        dtype: np.dtype[Any],
        *,
        in_background: bool = False,
    ) -> None:
        self.method, self.dtype = method, dtype
        self._pool = ThreadPoolExecutor(1, "draws") if in_background else None
        self._pid = os.getpid()
        self._next: tuple[int, Future[tuple[int, Draw]]] | None = None
        groups: dict[tuple[Any, ...], tuple[World, dict[Seed, int]]] = {}
        keys = [(world.graph, world.schedule_name) for world in worlds]
        for key, world, seed in zip(keys, worlds, seeds, strict=True):
            places = groups.setdefault(key, (world, {}))[1]
            places.setdefault(seed, len(places))
        self._groups = [(world, Tape.stack(list(places))) for world, places in groups.values()]
        offsets = dict(
            zip(groups, np.cumsum([0, *(len(p) for _, p in groups.values())]).tolist(), strict=False)
        )
        which = [offsets[key] + groups[key][1][seed] for key, seed in zip(keys, seeds, strict=True)]
        self.distinct = len(set(which))
        self._which = None if which == list(range(len(which))) else np.array(which)
        self._first, self._count = 0, 0
        self._block: Draw | None = None

    def at(self, t: int) -> Draw:
        """Of round t, shapes (runs, …)."""
        if not self._first <= t < self._first + self._count:
            self._first = t
            self._count, self._block = self._ahead(t) if self._pool else self._fill(t)
        at, which = t - self._first, self._which

        def change(array: NDArray[Any]) -> NDArray[Any]:
            if array.ndim == 1:  # all coordinates, in every round
                return array
            now: NDArray[Any] = array[at]
            return now if which is None else now.take(which, axis=0)

        assert self._block is not None
        return self._block.pick(change)

    def _ahead(self, t: int) -> tuple[int, Draw]:
        """The block of round t, and the one after it begun."""
        if self._pid != os.getpid():  # a fork has this object, and not the thread
            self._pid, self._pool, self._next = os.getpid(), ThreadPoolExecutor(1, "draws"), None
        assert self._pool is not None
        drawn = self._next[1].result() if self._next and self._next[0] == t else self._fill(t)
        self._next = t + drawn[0], self._pool.submit(self._fill, t + drawn[0])
        return drawn

    def _fill(self, t: int) -> tuple[int, Draw]:
        """The draws of some rounds from t on, and of how many."""
        world = self._groups[0][0]
        size = self.method.size(t, world.d)
        most = max(1, min(MOST_ROUNDS, BLOCK // (self.distinct * world.graph.n * size)))
        rounds = [t]
        while len(rounds) < most and self.method.size(t + len(rounds), world.d) == size:
            rounds.append(t + len(rounds))
        ids = np.array(rounds)[:, None]
        drawn = [self.method.draw(world, tape[None, :], ids) for world, tape in self._groups]
        u, everyone = self._side_by_side([draw.u for draw in drawn]), drawn[0].everyone
        partners = None if drawn[0].partners is None else _join([draw.partners for draw in drawn])
        if everyone is not None:
            everyone = u if everyone is drawn[0].u else self._side_by_side([draw.everyone for draw in drawn])
        return len(rounds), Draw(u, partners, everyone)

    def _side_by_side(self, parts: Sequence[Any]) -> Direction:
        index, signs = (_join([getattr(u, name) for u in parts]) for name in ("index", "signs"))
        u: Direction = parts[0].pick(lambda array: array)
        u.__dict__.update(index=index, signs=signs.astype(self.dtype))
        return u


def _join(parts: Sequence[Any]) -> Any:
    """Side by side on the axis of runs; what has no such axis is the same in all."""
    return parts[0] if len(parts) == 1 or parts[0].ndim == 1 else np.concatenate(parts, axis=1)
