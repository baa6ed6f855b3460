"""Queries being answered: what their errors say, and which answers are numbers."""

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple, SupportsFloat

import numpy as np

from zocosmo.blackbox.calls import brief, said
from zocosmo.errors import OracleError
from zocosmo.oracle import Values

NUMBER = "return one finite number"


class Asked(NamedTuple):
    """The query being answered, for error messages."""

    node: int | None  # None: all at once
    t: int
    where: str  # "query x + μu"

    def error(self, found: str, remedy: str) -> OracleError:
        who = "all nodes" if self.node is None else f"node {self.node}"
        text = f"{who}, round {self.t}, {self.where}: {found}; {remedy}"
        return OracleError(text, node=self.node, t=self.t, query=self.where)

    def answers(self, call: Callable[[], Any], shape: tuple[int, ...]) -> Values:
        """Losses that user code returns in one array."""
        try:
            found = np.asarray(call())
        except OracleError:
            raise
        except Exception as error:
            raise self.raised(error) from error
        if found.shape == shape and found.dtype.kind in "iuf":
            return found
        text = f"the losses are {found.dtype} of shape {found.shape}"
        raise self.error(text, f"return numbers of shape {shape}, one for each node")

    def finite(self, number: float) -> float:
        if math.isfinite(number):
            return number
        remedy = "return a value a little worse than nearby ones there, or move x0 or mu inside"
        raise self.error(f"the loss is {number:g}", remedy)

    def raised(self, error: Exception) -> OracleError:
        return self.error(f"the function raised {said(error)}", "make it return a number for every x")


def where_asked(call: int, sides: int) -> str:
    """The point of a call of a round, counted from 0."""
    if sides == 1:
        return "x + μu" if call else "x"
    return "x − μu" if call % 2 else "x + μu"


def is_number(given: Any) -> bool:
    return isinstance(given, numbers.Real) and not isinstance(given, bool)


def as_number(answer: Any, query: Asked) -> float:
    """A plain number, NumPy's, a Decimal, or an array of size 1; NaN and infinities pass."""
    try:
        array = np.asarray(answer)
    except Exception:
        raise query.error(f"the loss is {brief(repr(answer))}", NUMBER) from None
    is_object = not array.ndim and array.dtype.kind == "O" and isinstance(answer, SupportsFloat)
    if is_number(answer) or is_object:
        try:
            return float(answer)
        except OverflowError:
            return math.inf
    if array.size == 1 and array.dtype.kind in "iuf":
        return float(array.reshape(()))
    shaped = array.ndim and array.dtype.kind in "iuf"
    found = f"an array of shape {array.shape}" if shaped else brief(repr(answer))
    raise query.error(f"the loss is {found}", NUMBER)
