"""The number of nodes from which a flood costs more than pairs: in bits, and in time."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

from zocosmo.errors import GraphError
from zocosmo.graphs.graph import Graph
from zocosmo.planner.costs import Deployment
from zocosmo.planner.network import flood_shape
from zocosmo.theory.payload import flood_crossover

MOST_MEASURED = 64  # up to this many nodes, graphs without a closed form are built and measured
FAR = 2**64  # nodes: the search ends here

Family = Callable[[int], Graph]
Shape = tuple[int, Fraction]

CLOSED: dict[str, Callable[[int], Shape]] = {  # stages of a flood, and messages sent by its busiest node
    "ring": lambda n: (n // 2, Fraction(n - 1)),
    "complete": lambda n: (1, Fraction(n - 1)),
    "path": lambda n: (n - 1, Fraction(n + 1 if n > 2 else 1)),
    "star": lambda n: (2, Fraction((n - 1) ** 2)) if n > 2 else (1, Fraction(1)),
}


class Crossover(NamedTuple):
    """The smallest number of nodes at which a flood costs more than pairs; None if none was found."""

    bits: int  # by bits per node and round, with perfect matchings
    seconds: int | None  # by seconds per round, over graphs of the same kind
    searched: int | None  # graphs were measured up to this many nodes; None: all sizes


def crossover(setting: Deployment, q: int, graph: Graph, family: Family | None = None) -> Crossover:
    """(N − 1) b > q B, exactly; and by time over the graphs of a family that `graph` belongs to."""
    bits = flood_crossover(q, B=setting.value_bits, b=setting.flooded_bits)
    if graph.name in CLOSED:
        return Crossover(bits, _closed(setting, q, CLOSED[graph.name]), None)
    if family is None:
        return Crossover(bits, None, 0)
    slower = (n for n, each in members(family) if is_slower(setting, q, flood_shape(each)))
    return Crossover(bits, next(slower, None), MOST_MEASURED)


def is_slower(setting: Deployment, q: int, shape: Shape) -> bool:
    """D · latency + load · b / bandwidth > latency + q B / bandwidth"""
    stages, load = shape
    more = load * setting.flooded_bits - q * setting.value_bits
    return (stages - 1) * setting.latency + more / setting.bandwidth > 0


def _closed(setting: Deployment, q: int, shape: Callable[[int], Shape]) -> int | None:
    """The first n at which a flood is slower; by bisection, since stages and load grow with n."""
    low, high = 1, 2
    while not is_slower(setting, q, shape(high)):
        if high > FAR:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_slower(setting, q, shape(middle)) else (middle, high)
    return high


def members(family: Family) -> Iterator[tuple[int, Graph]]:
    """The graphs of a family by their number of nodes, up to MOST_MEASURED."""
    for n in range(2, MOST_MEASURED + 1):
        with suppress(GraphError):  # there is no graph of this kind with n nodes
            yield n, family(n)
