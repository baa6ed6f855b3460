"""Numbers that stay exact: integers and Fractions are computed exactly, floats as floats.

Formulas read vectors with `exact`, so tests can prove them by enumeration with == and users can pass the
float64 gradients of a run. The checks of arguments that several modules share are here too.
"""

import math
import numbers
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

Number = Fraction | float  # an int is a float to a type checker, and stays exact here
Pairs = Sequence[tuple[int, int]]


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


def fraction(what: str, value: Any) -> Fraction:
    """A Fraction; refuses floats, whose rounding would pass for an exact value."""
    if not isinstance(value, numbers.Rational):
        raise ValueError(f"{what} must be an int or a Fraction, got {value!r}; wrap it in Fraction(…)")
    return Fraction(int(value.numerator), int(value.denominator))


def exact(what: str, values: ArrayLike, ndim: int = 2) -> NDArray[Any]:
    """An array of Fractions, or of float64 if any value is a float; `ndim` axes, none empty.

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
    """Refuse two arrays of different shapes."""
    if a.shape != b.shape:
        raise ValueError(f"{what} have shape {a.shape} and {other} {b.shape}; make them equal")


def square(a: NDArray[Any]) -> Any:
    """‖a‖² of a vector, or of all rows together."""
    return (a * a).sum()


def spread(rows: NDArray[Any]) -> Any:
    """mean_e ‖a_e − ā‖² over rows."""
    return square(rows - rows.mean(axis=0)) / len(rows)


def whole(what: str, given: SupportsIndex, least: int = 1) -> int:
    """A Python int of at least `least`; NumPy integers would overflow silently."""
    try:
        number = operator.index(given)
    except TypeError:
        raise ValueError(f"{what} must be a whole number, got {given!r}") from None
    if isinstance(given, bool) or number < least:
        raise ValueError(f"{what} must be {least} or more, got {given!r}")
    return number


def check_size(d: SupportsIndex, q: SupportsIndex) -> tuple[int, int]:
    """d and q as Python ints, 1 ≤ q ≤ d."""
    d, q = whole("d", d), whole("q", q)
    if q > d:
        raise ValueError(f"q = {q} coordinates of d = {d} cannot be drawn; q must lie between 1 and d")
    return d, q


def share(d: SupportsIndex, q: SupportsIndex) -> Fraction:
    """p = q/d"""
    d, q = check_size(d, q)
    return Fraction(q, d)


def check_finite(name: str, value: Number, *, above: bool = False) -> Number:
    """The value as an exact number; refuses what is not finite and at least 0, or above 0."""
    if not 0 <= value < math.inf or (above and value == 0):
        raise ValueError(f"{name} = {value} must be a finite number {'above' if above else 'of at least'} 0")
    return rational(value)


def check_beta(beta: Number) -> Number:
    """β as an exact number, 0 ≤ β < 1."""
    if not 0 <= beta < 1:
        raise ValueError(f"beta = {beta} must be at least 0 and below 1")
    return rational(beta)
