"""Losses from the user's own code as the problem of a study; `command` runs an external program."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.blackbox.asked import is_number
from zocosmo.blackbox.commands import Command
from zocosmo.blackbox.functions import OneByOne
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_whole
from zocosmo.oracle import Arrays, Mask, Problem, Query, Values
from zocosmo.problems.draws import Array
from zocosmo.problems.nodes import check_nodes

MEASURED = -1  # the round of a query at a checkpoint

Make = Callable[[Sequence[int]], OneByOne]  # node numbers → their oracle


class External(Problem):
    """Losses that are known only through queries to the user's own code.

    `local` is a query too, in round −1, so that code that samples can return its full loss. Oracles are made
    at the first query, for the nodes in this process. Each trial of a stack has its own, and trials are asked
    in turn. A state that is not finite is not sent: its loss is nan.
    """

    def __init__(self, makes: Sequence[Make], nodes: Sequence[int], x0: Array) -> None:
        self.makes, self.nodes, self._x0 = tuple(makes), tuple(nodes), x0  # one for each trial; x0 (…, d)
        self.n, self.d = len(self.nodes), x0.shape[-1]

    @property
    def x0(self) -> Array:
        return self._x0

    @cached_property
    def oracles(self) -> list[OneByOne]:
        """The oracle of each trial."""
        return [make(self.nodes) for make in self.makes]

    def __call__(self, x: Values, t: int, *, active: Mask | None = None) -> Array:
        return self._each(x, active, lambda oracle, here, asked: oracle(here, t, active=asked))

    def slopes(self, query: Query, t: int) -> Values:
        for oracle in self.oracles:
            oracle.sides = query.sides
        return super().slopes(query, t)

    def local(self, x: Values) -> Array:
        """One query at x_i of every node, in round −1. It is not counted, but takes as long as any other."""
        return self._each(
            x, None, lambda oracle, here, asked: oracle.ask(here, MEASURED, "at a checkpoint", active=asked)
        )

    def _each(
        self, x: Values, active: Mask | None, query: Callable[[OneByOne, Array, Mask], Values]
    ) -> Array:
        """The answers of all trials, for states (…, n, d) in double precision."""
        x, shape = np.asarray(x, np.float64), (*self.x0.shape[:-1], self.n, self.d)
        if x.shape[-len(shape) :] != shape:
            raise InputError(f"states of this problem have a shape that ends in {shape}, got {x.shape}")
        fine: Mask = np.asarray(np.isfinite(x).all(axis=-1))
        asked = fine.copy()
        if active is not None:
            asked &= active
        if self.x0.ndim == 1:
            answers = query(self.oracles[0], x, asked)
        else:
            trials = enumerate(self.oracles)
            found = [query(oracle, x[..., k, :, :], asked[..., k, :]) for k, oracle in trials]
            answers = np.stack(found, axis=-2)
        return np.where(fine, answers, math.nan)

    def snapshot(self) -> Arrays:
        kept = ((k, oracle.snapshot()) for k, oracle in enumerate(self.oracles))
        return {f"{k}.{name}": array for k, arrays in kept for name, array in arrays.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        held = 1 + max((int(name.partition(".")[0]) for name in arrays), default=0)
        if held > len(self.oracles):
            raise InputError(f"the snapshot is of {held} trials, but there are {len(self.oracles)}")
        for k, oracle in enumerate(self.oracles):
            mine = {name: array for name, array in arrays.items() if name.startswith(f"{k}.")}
            oracle.restore({name.removeprefix(f"{k}."): array for name, array in mine.items()})

    def at(self, nodes: Sequence[int]) -> Self:
        return type(self)(self.makes, [self.nodes[i] for i in check_nodes(nodes, self.n)], self.x0)

    @classmethod
    def stack(cls, problems: Sequence[Self]) -> Self:
        """The same losses for many trials at once; each trial gets new oracles."""
        if len({(p.nodes, p.x0.shape) for p in problems}) != 1 or problems[0].x0.ndim != 1:
            found = [f"n={p.n} nodes {p.nodes[0]}…{p.nodes[-1]} x0 {p.x0.shape}" for p in problems]
            raise InputError(f"only single problems of the same nodes and d stack, got {found}")
        return cls([p.makes[0] for p in problems], problems[0].nodes, np.stack([p.x0 for p in problems]))


def command(
    n: int,
    seed: Seed,
    *,
    run: str,
    d: int,
    start: float | str = 0.0,
    timeout: float | None = None,
    workers: int = 1,
) -> External:
    """Your own program for each query, with {x} or {file}, {node} and {round} in its command line.

    The last line that it prints is the loss. A checkpoint queries every node at the average and at its own
    state, with {round} = -1. All trials run the same program, for any seed. `start` is a number, or text of d
    numbers separated by commas; `workers` nodes are queried at a time.

    >>> problem = command(2, 0, run="echo {node} {x}", d=3, start="0.5, 1, 2")
    >>> problem.n, problem.x0.tolist()
    (2, [0.5, 1.0, 2.0])
    """
    make = partial(_programs, run, timeout, workers)
    make(range(check_whole("n", n, 1)))  # starts nothing, but reports mistakes now
    return External([make], range(n), start_point(start, d))


def _programs(run: str, timeout: float | None, workers: int, nodes: Sequence[int]) -> Command:
    return Command(run, len(nodes), timeout=timeout, workers=workers, nodes=nodes)


def start_point(start: float | str, d: int) -> Array:
    """x0 of shape (d,) from a number for all coordinates, or from text of d numbers."""
    d = check_whole("d", d, 1)
    try:
        given = [float(word) for word in start.split(",")] if isinstance(start, str) else start
    except ValueError:
        given = math.nan
    numbers = given if isinstance(given, list) else [float(given) if is_number(given) else math.nan] * d
    if not np.isfinite(numbers).all():
        raise InputError(
            f"start must be a finite number, or d of them separated by commas; got {start!r:.80}"
        )
    if len(numbers) != d:
        raise InputError(f"start has {len(numbers)} numbers for d = {d}; give d numbers, or one for all")
    return np.array(numbers)
