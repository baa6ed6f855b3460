"""Bits per node and round against the number of nodes, for the left panel of the figure."""

from collections.abc import Callable
from fractions import Fraction

from zocosmo.planner.costs import METHODS, traffic
from zocosmo.planner.crossover import Family, members
from zocosmo.planner.outlook import Outlook

POINTS = 40
LEAST = 64  # the sweep ends at this many nodes, or at four times the crossover if that is more

DEGREES: dict[str, Callable[[int], Fraction]] = {  # mean degree in closed form
    "ring": lambda n: Fraction(2 if n > 2 else 1),
    "path": lambda n: Fraction(2 * (n - 1), n),
    "star": lambda n: Fraction(2 * (n - 1), n),
    "complete": lambda n: Fraction(n - 1),
}


def sweep(out: Outlook, family: Family | None = None) -> dict[str, list[tuple[int, Fraction]]]:
    """(N, bits) by method, with perfect matchings. Graphs without a closed form are built up to 64 nodes."""
    last, around = max(LEAST, 4 * out.cross.bits), {max(2, out.cross.bits - 1), out.cross.bits}
    sizes = sorted({round(2 * (last / 2) ** (k / (POINTS - 1))) for k in range(POINTS)} | around)
    sent = {method: [(n, Fraction(n - 1)) for n in sizes] for method in ("flood", "marina_type")}
    sent["edge_local"] = [(n, Fraction(1)) for n in sizes]
    if out.net.graph.name in DEGREES:
        degree = DEGREES[out.net.graph.name]
        near = [(n, degree(n)) for n in sizes]
    else:
        built = members(family) if family else ()
        near = [(n, Fraction(2 * len(graph.edges), n)) for n, graph in built]
    lines = {}
    for method in METHODS:
        message = traffic(out.setting, out.q, out.net, out.pairs, method).message
        lines[method] = [(n, messages * message) for n, messages in sent.get(method, near)]
    return lines
