"""A closure as the oracle of one node: losses of a torch network at the points that a round asks for."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Direction
from zocosmo.errors import OracleError
from zocosmo.oracle import Mask, Oracle, Query, ask_points
from zocosmo.subspace import Lifting

Values = NDArray[Any]
Arraylike = torch.Tensor | np.ndarray | np.generic


class Losses(Oracle):
    """A closure as the oracle of one node in one round.

    All queries see the same random numbers of torch: with different dropout the slope would be noise. Losses
    that are tensors are read after all forwards are launched, so that a GPU is not idle in between. With
    `split`, closure(k, K) is the loss on block k of K of the batch, and direction k is asked on block k.
    """

    asynchronous = True

    def __init__(
        self,
        closure: Callable[..., Any],
        *,
        node: int,
        t: int,
        devices: Iterable[torch.device],
        lifting: Lifting | None = None,
        split: bool = False,
    ) -> None:
        self.closure, self.where, self.found = closure, f"node {node} in round {t}", list[float]()
        self.lifting, self.split = lifting, split
        self._due = 2  # losses of this round
        self._cuda = sorted({device.index for device in devices if device.type == "cuda"})
        self._coins = torch.get_rng_state(), [torch.cuda.get_rng_state(k) for k in self._cuda]

    def __call__(self, x: Any, t: int, *, active: Mask | None = None) -> Values:
        """The loss at the current parameters, (1, 1)."""
        return np.array([[self._number(self._ask(again=True))]])

    def slopes(self, query: Query, t: int) -> Values:
        return self.finish(self.start(query, t))

    def start(self, query: Query, t: int) -> tuple[Query, list[Any] | None]:
        """Launch all forwards; none if this node has no partner."""
        if query.active is not None and not query.active.any():
            return query, None
        query = query if self.lifting is None else self.lifting.query(query)
        self._due, of, calls = query.evaluations(), len(query.directions), itertools.count()

        def ask(_: Any) -> Any:
            call = next(calls)
            return self._ask(*((call // 2, of) if self.split else ()), again=call > 0)

        return query, ask_points(query, ask)

    def look_ahead(self, coming: Direction, query: Query, t: int, more: tuple[Direction, ...] = ()) -> None:
        if query.active is None or query.active.any():
            query.x.look_ahead(coming, query.u)

    def finish(self, started: tuple[Query, list[Any] | None]) -> Values:
        query, answers = started
        if answers is None:
            return np.zeros((1, 1, len(query.directions)), query.x.dtype)
        return query.slopes([np.array([[self._number(answer)]]) for answer in answers])

    def _ask(self, *block: int, again: bool) -> Any:
        if again:
            torch.set_rng_state(self._coins[0])
            for k, coins in zip(self._cuda, self._coins[1], strict=True):
                torch.cuda.set_rng_state(coins, k)
        answer = self.closure(*block)
        if isinstance(answer, torch.Tensor) and answer.numel() == 1:
            return answer.detach().reshape(()).clone()  # the next call may reuse its memory
        return answer

    def _number(self, answer: Any) -> float:
        loss = one_number(answer)
        if loss is None:
            shape = f" of shape {tuple(answer.shape)}" if isinstance(answer, Arraylike) else ""
            what = f"a {type(answer).__name__}{shape}"
            raise OracleError(f"the closure of {self.where} gave {what}; it must return one number")
        if not math.isfinite(loss):
            query = f"query {len(self.found) + 1} of {self._due}"
            raise OracleError(f"the closure of {self.where} gave {loss} at {query}; lower lr or mu")
        self.found.append(loss)
        return loss


def one_number(answer: Any) -> float | None:
    """The answer of a closure as a number; None if it is not one number."""
    if isinstance(answer, torch.Tensor) and not answer.ndim:
        return float(answer.item())
    if isinstance(answer, Arraylike):
        flat = answer.reshape(-1)
        return float(flat[0].item()) if len(flat) == 1 else None
    return float(answer) if isinstance(answer, int | float) else None
