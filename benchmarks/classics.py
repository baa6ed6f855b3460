"""Classic test functions, d = 2 to 50, badly scaled ones among them: name, function, start, optimum value,
box."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Classic(NamedTuple):
    name: str
    f: Callable[[Array], float]
    x0: list[float]
    best: float
    bounds: Any = None


def sphere(x: Array) -> float:
    return float(np.sum((x - 1.0) ** 2))


def ellipsoid(x: Array) -> float:
    """Axes from 1 to 1e6."""
    return float(np.sum(10.0 ** (6 * np.arange(x.size) / (x.size - 1)) * (x - 1.0) ** 2))


def rosenbrock(x: Array) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def beale(x: Array) -> float:
    a, b = x
    return float((1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2)


def himmelblau(x: Array) -> float:
    return float((x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2)


def powell_singular(x: Array) -> float:
    a, b, c, d = x
    return float((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4)


def wood(x: Array) -> float:
    a, b, c, d = x
    first = 100 * (b - a**2) ** 2 + (1 - a) ** 2 + 90 * (d - c**2) ** 2 + (1 - c) ** 2
    return float(first + 10.1 * ((b - 1) ** 2 + (d - 1) ** 2) + 19.8 * (b - 1) * (d - 1))


def helical_valley(x: Array) -> float:
    a, b, c = x
    theta = np.arctan2(b, a) / (2 * np.pi)
    return float(100 * ((c - 10 * theta) ** 2 + (np.hypot(a, b) - 1) ** 2) + c**2)


def zakharov(x: Array) -> float:
    s = np.sum(0.5 * np.arange(1, x.size + 1) * x)
    return float(x @ x + s**2 + s**4)


def dixon_price(x: Array) -> float:
    i = np.arange(2, x.size + 1)
    return float((x[0] - 1) ** 2 + np.sum(i * (2 * x[1:] ** 2 - x[:-1]) ** 2))


def trid(x: Array) -> float:
    return float(np.sum((x - 1) ** 2) - np.sum(x[1:] * x[:-1]))


def chain(x: Array) -> float:
    """A tridiagonal quadratic with a weak spring to 1."""
    return float(np.sum((x[1:] - x[:-1]) ** 2) + 0.1 * np.sum((x - 1) ** 2))


def furnace(x: Array) -> float:
    """A pressure of about 2e5 and a share of about 0.3, with a skew bowl between them."""
    a, b = x[0] / 2e5 - 1.3, x[1] / 0.3 - 0.8
    return float(a**2 + b**2 + a * b)


def powers(x: Array) -> float:
    return float(np.sum(np.abs(x - 0.5) ** (2 + 2 * np.arange(x.size) / x.size)))


def branin(x: Array) -> float:
    a, b = x
    bowl = (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
    return float(bowl + 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10)


def corner(x: Array) -> float:
    """A bowl whose optimum is outside the box: the best point is a corner of it."""
    return float(np.sum((x - 2.0) ** 2))


def skew(x: Array) -> float:
    """A quadratic of condition 1e3 in axes that are not the coordinates."""
    rng = np.random.default_rng(7)
    turn = np.linalg.qr(rng.normal(size=(x.size, x.size)))[0]
    return float(np.sum(10.0 ** (3 * np.arange(x.size) / (x.size - 1)) * (turn @ (x - 1.0)) ** 2))


CLASSICS = [
    Classic("sphere, d = 10", sphere, [0.0] * 10, 0.0),
    Classic("ellipsoid 1e6, d = 10", ellipsoid, [0.0] * 10, 0.0),
    Classic("Rosenbrock, d = 2", rosenbrock, [-1.2, 1.0], 0.0),
    Classic("Rosenbrock, d = 10", rosenbrock, [-1.2, 1.0] * 5, 0.0),
    Classic("Beale, d = 2", beale, [1.0, 1.0], 0.0),
    Classic("Himmelblau, d = 2", himmelblau, [0.0, 0.0], 0.0),
    Classic("Powell singular, d = 4", powell_singular, [3.0, -1.0, 0.0, 1.0], 0.0),
    Classic("Wood, d = 4", wood, [-3.0, -1.0, -3.0, -1.0], 0.0),
    Classic("helical valley, d = 3", helical_valley, [-1.0, 0.0, 0.0], 0.0),
    Classic("Zakharov, d = 10", zakharov, [1.0] * 10, 0.0),
    Classic("trid, d = 10", trid, [0.0] * 10, -210.0),
    Classic("chain, d = 50", chain, [0.0] * 50, 0.0),
    Classic("two units, d = 2", furnace, [2e5, 0.3], 0.0),
    Classic("sum of powers, d = 20", powers, [0.0] * 20, 0.0),
    Classic("corner of a box, d = 10", corner, [0.5] * 10, 10.0, (0.0, 1.0)),
    Classic("skew 1e3, d = 20", skew, [0.0] * 20, 0.0),
]
