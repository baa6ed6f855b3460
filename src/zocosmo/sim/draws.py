"""Public draws for a batch: made once for all runs that share them, and for many rounds at a time."""

from collections.abc import Sequence
from copy import copy
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

    A draw is keyed by its round alone, so neither blocks nor company change it. Who waits for a device has
    the time to `prepare` the next round, and then draws them one by one; a thread would be in the way of the
    calls that keep the device busy.
    """

    def __init__(
        self,
        method: Method,
        worlds: Sequence[World],
        seeds: Sequence[Seed],
        dtype: np.dtype[Any],
        *,
        at_once: int | None = None,
    ) -> None:
        self.method, self.dtype, self.at_once = method, dtype, at_once
        self._ready: tuple[int, Draw] | None = None
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
        self._before: DrawAhead | None = None  # for those who go back
        self._first, self._count = 0, 0
        self._block: Draw | None = None

    def at(self, t: int) -> Draw:
        """Of round t, shapes (runs, …)."""
        if self._ready is not None and self._ready[0] == t:
            return self._ready[1]
        if not self._first <= t < self._first + self._count:
            self._count, self._block = self._fill(t)
            self._first = t
        at, which = t - self._first, self._which

        def change(array: NDArray[Any]) -> NDArray[Any]:
            if array.ndim == 1:  # all coordinates, in every round
                return array
            now: NDArray[Any] = array[at if len(array) > 1 else 0]  # one for all rounds, or one for each
            return now if which is None else now.take(which, axis=0)

        assert self._block is not None
        return self._block.pick(change)._replace(earlier=self._earlier)

    def _earlier(self, t: int) -> Draw:
        """Of a round before the one under way, drawn again, in blocks of its own."""
        if self._first <= t < self._first + self._count:
            return self.at(t)
        if self._before is None:
            self._before = copy(self)
            self._before._count, self._before._ready = 0, None
        return self._before.at(t)

    def prepare(self, t: int) -> Draw:
        """Of round t, which `at` will give again: the same object."""
        self._ready = t, self.at(t)
        return self._ready[1]

    def _fill(self, t: int) -> tuple[int, Draw]:
        """The draws of some rounds from t on, and of how many."""
        world = self._groups[0][0]
        size = self.method.size(t, world.d)
        most = max(1, min(self.at_once or MOST_ROUNDS, BLOCK // (self.distinct * world.graph.n * size)))
        rounds = [t]
        while len(rounds) < most and self.method.size(t + len(rounds), world.d) == size:
            rounds.append(t + len(rounds))
        ids = np.array(rounds)[:, None]
        drawn = [self.method.draw(world, tape[None, :], ids) for world, tape in self._groups]
        u, everyone = self._side_by_side([draw.u for draw in drawn]), drawn[0].everyone
        partners, active, choice = (
            None if getattr(drawn[0], name) is None else _join([getattr(draw, name) for draw in drawn])
            for name in ("partners", "active", "choice")
        )
        if everyone is not None:
            everyone = u if everyone is drawn[0].u else self._side_by_side([draw.everyone for draw in drawn])
        shared = tuple(_join(parts) for parts in zip(*(draw.shared for draw in drawn), strict=True))
        return len(rounds), Draw(u, partners, everyone, active, choice=choice, shared=shared)

    def _side_by_side(self, parts: Sequence[Any]) -> Direction:
        index, signs = (_join([getattr(u, name) for u in parts]) for name in ("index", "signs"))
        return Direction.unchecked(index, parts[0].d, signs.astype(self.dtype))


def _join(parts: Sequence[Any]) -> Any:
    """Side by side on the axis of runs; what has no such axis is the same in all."""
    return parts[0] if len(parts) == 1 or parts[0].ndim == 1 else np.concatenate(parts, axis=1)
