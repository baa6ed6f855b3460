"""Bits per node and round against the number of nodes, for the left panel of the figure."""

from collections.abc import Callable, Iterable
from fractions import Fraction

from zocosmo.errors import GraphError
from zocosmo.planner.costs import INDEXED, METHODS
from zocosmo.planner.crossover import MOST_MEASURED, Family
from zocosmo.planner.outlook import Outlook
from zocosmo.theory.payload import link_costs, marina_cost

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
    setting, form = out.setting, {"B": out.setting.value_bits}
    costs, last = link_costs(setting.d, out.q, **form), max(LEAST, 4 * out.cross.bits)
    around = {max(2, out.cross.bits - 1), out.cross.bits}
    sizes = sorted({round(2 * (last / 2) ** (k / (POINTS - 1))) for k in range(POINTS)} | around)
    cycle = marina_cost(setting.d, out.q, K=setting.period, **form)
    near = list(_degrees(out, family, sizes))
    lines = {
        "cosmo": [(n, degree * costs.values) for n, degree in near],
        "edge_local": [(n, Fraction(costs.values)) for n in sizes],
        "flood": [(n, Fraction((n - 1) * setting.flooded_bits)) for n in sizes],
        "dense": [(n, degree * costs.dense) for n, degree in near],
        INDEXED: [(n, degree * costs.coordinate_list) for n, degree in near],
        "marina_type": [(n, (n - 1) * cycle) for n in sizes],
    }
    return {method: lines[method] for method in METHODS}


def _degrees(out: Outlook, family: Family | None, sizes: list[int]) -> Iterable[tuple[int, Fraction]]:
    kind = out.net.graph.name
    for n in sizes if kind in DEGREES else range(2, MOST_MEASURED + 1):
        if kind in DEGREES:
            yield n, DEGREES[kind](n)
        elif family is not None:
            try:
                yield n, Fraction(2 * len(family(n).edges), n)
            except GraphError:  # there is no graph of this kind with n nodes
                continue
