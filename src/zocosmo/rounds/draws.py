"""Public draws for a batch: many rounds at a time, once for all runs that share them."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.tape import Seed, Tape
from zocosmo.methods.base import Draw, Method, World

Values = NDArray[Any]
Block = tuple[range, Draw | None]  # consecutive rounds, and their draws on a leading axis

BLOCK = 2**18  # coordinates drawn at once
MOST_ROUNDS = 64

_serials = itertools.count()  # keys of draws start with the number of their DrawAhead


class DrawAhead:
    """The draws of each round for all runs; runs with the same world and seed share them.

    A draw depends only on its round, not on blocks or batches. `at_once` = 1 draws rounds one by one, for
    callers that draw the next round while a device computes. With `runs` = False there is one run, and draws
    have no axis of runs.
    """

    def __init__(
        self,
        method: Method,
        worlds: Sequence[World],
        seeds: Sequence[Seed],
        dtype: np.dtype[Any],
        *,
        at_once: int | None = None,
        runs: bool = True,
    ) -> None:
        self.method, self.dtype, self.at_once, self._serial = method, dtype, at_once, next(_serials)
        keys = [(world.graph, world.schedule_name) for world in worlds]
        groups: dict[Any, tuple[World, dict[Seed, None]]] = {}
        for key, world, seed in zip(keys, worlds, seeds, strict=True):
            groups.setdefault(key, (world, {}))[1][seed] = None  # an ordered set
        self._groups = [(world, Tape.stack(list(own))) for world, own in groups.values()]
        place = {both: k for k, both in enumerate((key, seed) for key in groups for seed in groups[key][1])}
        which = [place[both] for both in zip(keys, seeds, strict=True)]
        self.distinct = len(place)
        self._which: Any = np.array(which)
        if not runs:
            self._which = 0
        elif which == list(range(len(which))):
            self._which = slice(None)
        self._block: Block = range(0), None
        self._past: Block = range(0), None  # for methods that replay earlier rounds
        self._now: tuple[int, Draw] | None = None

    def at(self, t: int) -> Draw:
        """The draw of round t, shapes (runs, …). Calls for the same round return the same object."""
        if self._now is None or self._now[0] != t:
            if t not in self._block[0]:
                self._block = self._fill(t)
            self._now = t, self._picked(self._block, t)
        return self._now[1]

    def _earlier(self, t: int) -> Draw:
        """The draw of a past round, drawn again in separate blocks."""
        if t in self._block[0]:
            return self._picked(self._block, t)
        if t not in self._past[0]:
            self._past = self._fill(t)
        return self._picked(self._past, t)

    def _picked(self, block: Block, t: int) -> Draw:
        (rounds, draw), which = block, self._which
        at = t - rounds.start

        def change(array: Values) -> Values:
            if array.ndim == 1:  # all coordinates in every round
                return array
            now: Values = array[at if len(array) > 1 else 0]  # one row for all rounds, or one per round
            return now.take(which, axis=0) if isinstance(which, np.ndarray) else now[which]

        assert draw is not None
        return draw.pick(change, (self._serial, t)).with_past(self._earlier)

    def _fill(self, t: int) -> Block:
        """The draws of rounds from t on, as many as fit in a block and have the same size."""
        world = self._groups[0][0]
        size = self.method.size(t, world.d)
        drawn = size * self.method.vectors
        most = max(1, min(self.at_once or MOST_ROUNDS, BLOCK // (self.distinct * world.graph.n * drawn)))
        rounds = range(t, t + 1)
        while len(rounds) < most and self.method.size(rounds.stop, world.d) == size:
            rounds = range(t, rounds.stop + 1)
        ids = np.array(rounds)[:, None]
        each = [self.method.draw(world, tape[None, :], ids) for world, tape in self._groups]
        return rounds, type(each[0]).merge(each, _join).of_type(self.dtype)


def _join(parts: Sequence[Any]) -> Any:
    """Arrays of several groups joined on the axis of runs; an array without that axis is shared."""
    return parts[0] if len(parts) == 1 or parts[0].ndim == 1 else np.concatenate(parts, axis=1)
