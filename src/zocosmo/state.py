"""States: what a node's vector must offer. A NumPy array is one kind; parameters on a device are another."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zocosmo.core.support import Support

Values = NDArray[Any]


class Loan(NamedTuple):
    """The entries of a state on a support, lent for queries: `put_back` restores them to the bit."""

    values: Values
    put: Callable[[Values], Any]  # returns the state
    put_back: Callable[[], Any]


class Coordinates(ABC):
    """States that are no NumPy array, such as the parameters of a network or rows on a GPU.

    Methods see them through supports only. `np.asarray(state)` is the snapshot that `load` reads back.
    """

    dtype: np.dtype[Any]  # of the values read

    @abstractmethod
    def restrict(self, support: Support) -> Values:
        """Res_S of the state."""

    @abstractmethod
    def put(self, support: Support, values: Values) -> Self:
        """Take a step to these values on a support."""

    def lend(self, support: Support) -> Loan:
        """The entries of a support for queries. Override it where steps are recorded: a probe is not one."""
        here = self.restrict(support)
        return Loan(here, lambda values: self.put(support, values), lambda: self.put(support, here))

    @abstractmethod
    def zeros_like(self) -> "Coordinates":
        """Zeros stored where this state is stored."""

    @abstractmethod
    def load(self, snapshot: Values) -> Self:
        """Become the state that `np.asarray` wrote down."""

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Values:
        """The snapshot of this state."""

    def read_ahead(self, support: Support) -> None:  # noqa: B027
        """Start copying Res_S to the host without waiting for it."""

    def look_ahead(self, coming: Support, after: Support) -> None:  # noqa: B027
        """Prepare for the support of the next round while a device computes this one."""


def lend(x: Values | Coordinates, support: Support) -> Loan:
    """A loan of x on a support; an array is changed in place."""
    if not isinstance(x, np.ndarray):
        return x.lend(support)
    here, at = support.restrict(x), support.places(x)
    if at is None:
        return Loan(here, lambda values: support.put(x, values, out=x), lambda: support.put(x, here, out=x))
    flat = x.reshape(-1)

    def put(values: Values) -> Values:
        flat[at] = values
        return x

    return Loan(here, put, lambda: put(here))


def zeros_like(x: Any) -> Any:
    """Zeros of the same kind as x, stored where x is stored."""
    return np.zeros_like(x) if isinstance(x, np.ndarray) else x.zeros_like()


def read_ahead(x: Values | Coordinates, support: Support) -> None:
    """Start copying Res_S of x to the host; an array is there already."""
    if not isinstance(x, np.ndarray):
        x.read_ahead(support)


def snapshot(state: Any) -> dict[str, Values]:
    """The parts of a method's state as arrays, by name; parts that are None are left out."""
    parts = ((name, part) for name, part in state._asdict().items() if part is not None)
    return {f"state.{name}": np.asarray(part) for name, part in parts}


def restore(state: Any, arrays: Any) -> Any:
    """A state like this one, with the parts that `snapshot` wrote down."""
    kept = {}
    for name, part in state._asdict().items():
        if (array := arrays.get(f"state.{name}")) is not None:
            kept[name] = array if part is None or isinstance(part, np.ndarray) else part.load(array)
    return state._replace(**kept)
