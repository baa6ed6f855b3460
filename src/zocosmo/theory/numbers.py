"""Numbers that stay what they are: whole numbers and fractions are computed exactly, floats as floats.

A formula that takes vectors reads them with `exact`, so it can be proved by enumeration with == and also be
asked about the float64 gradients of a run.
"""

import numbers
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

Number = Fraction | float  # a whole number is a float to a type checker, and stays exact here
Pairs = Sequence[tuple[int, int]]
Law = Sequence[tuple[Pairs, Number]]  # matchings and how often each is drawn


def rational(value: Number) -> Number:
    """A Fraction, or a float if it was one.

    >>> rational(3), rational(0.5)
    (Fraction(3, 1), 0.5)
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return Fraction(int(value))  # int(): a NumPy integer inside a Fraction would overflow
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"{value!r} is not a number; use int, Fraction or float")


def exact(what: str, values: ArrayLike, ndim: int = 2) -> NDArray[Any]:
    """An array of Fractions, or of float64 where one of the values is a float; `ndim` axes, none empty.

    >>> exact("states", [[1, 2], [3, Fraction(1, 2)]]).sum()
    Fraction(13, 2)
    """
    array = np.asarray(values)
    if array.ndim != ndim or not array.size:
        raise ValueError(f"{what} must be an array with {ndim} axes, none empty, got shape {array.shape}")
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    read = [rational(value) for value in array.ravel().tolist()]
    kind = np.float64 if any(isinstance(value, float) for value in read) else object
    out: NDArray[Any] = np.array(read, kind).reshape(array.shape)
    return out


def same_shape(what: str, a: NDArray[Any], other: str, b: NDArray[Any]) -> None:
    """Refuse two arrays that do not fit each other."""
    if a.shape != b.shape:
        raise ValueError(f"{what} have shape {a.shape} and {other} {b.shape}; they must be alike")


def square(a: NDArray[Any]) -> Any:
    """‖a‖² of a vector, or of all rows together."""
    return (a * a).sum()


def spread(rows: NDArray[Any]) -> Any:
    """mean_e ‖a_e − ā‖² over rows."""
    return square(rows - rows.mean(axis=0)) / len(rows)


def whole(what: str, given: SupportsIndex, least: int = 1) -> int:
    """A whole number from `least` on as Python's own: NumPy's would overflow in silence."""
    try:
        number = operator.index(given)
    except TypeError:
        raise ValueError(f"{what} must be a whole number, got {given!r}") from None
    if isinstance(given, bool) or number < least:
        raise ValueError(f"{what} must be {least} or more, got {given!r}")
    return number


def check_size(d: SupportsIndex, q: SupportsIndex) -> tuple[int, int]:
    """d and q as Python's own numbers; refuses supports that cannot be drawn."""
    d, q = whole("d", d), whole("q", q)
    if q > d:
        raise ValueError(f"q = {q} coordinates of d = {d} cannot be drawn; q must lie between 1 and d")
    return d, q


def check_pairs(pairs: Pairs, n: int) -> None:
    """Refuse what is no perfect matching of nodes 0 … n − 1."""
    if sorted(node for pair in pairs for node in pair) != list(range(n)):
        raise ValueError(
            f"{list(pairs)} is no perfect matching of {n} nodes; each node must stand in exactly one pair"
        )


def check_law(law: Law, n: int) -> None:
    """Refuse matchings that are not perfect, and weights that are no probabilities."""
    for pairs, _ in law:
        check_pairs(pairs, n)
    weights = [rational(weight) for _, weight in law]
    total: Number = sum(weights, Fraction(0))
    slack = 1e-12 if isinstance(total, float) else 0
    if any(weight < 0 for weight in weights) or not -slack <= total - 1 <= slack:
        raise ValueError(
            f"the weights of {len(law)} matchings add up to {total}; they must be at least 0 and add up to 1"
        )
