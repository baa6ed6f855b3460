"""Laws of the public schedules, written independently of the code that draws them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from zocosmo.graphs.graph import Graph
from zocosmo.graphs.listed import Listed
from zocosmo.graphs.matching import Schedule, perfect_colouring
from zocosmo.theory.law import Edge, Law, complete_law, fixed_law, ring_law, ring_phases
from zocosmo.theory.schedule import greedy_classes

MOST_MATCHINGS = 3000  # of a law that is listed


@dataclass(frozen=True, eq=False)
class Cycle:
    """Laws that rounds take in turn; a schedule of independent rounds has one."""

    laws: Sequence[Law]

    @property
    def is_iid(self) -> bool:
        return len(self.laws) == 1

    @property
    def is_perfect(self) -> bool:
        """Whether no node ever idles."""
        return all(law.is_perfect for law in self.laws)

    @cached_property
    def mean(self) -> Law:
        """The law of a round picked uniformly from a cycle."""
        if self.is_iid:
            return self.laws[0]
        every = [each for law in self.laws for each in law.listed()]
        return Law.of(self.laws[0].n, [(pairs, chance / len(self.laws)) for pairs, chance in every])


def cycle_of(name: str, schedule: Schedule) -> Cycle | None:
    """The laws of a schedule by its name, or None if they are unknown."""
    n, edges = schedule.graph.n, schedule.graph.edges
    if isinstance(schedule, Listed):
        matchings, weights = schedule.listing.matchings, schedule.listing.weights
        chances = [Fraction(weight, sum(weights)) for weight in weights]
        return Cycle([Law.of(n, zip(matchings, chances, strict=True))])
    laws: dict[str, Callable[[], list[Law | None]]] = {
        "complete": lambda: [complete_law(n)],
        "iid": lambda: [ring_law(n)],
        "alternating": lambda: [fixed_law(n, pairs) for pairs in ring_phases(n)],
        "round_robin": lambda: [fixed_law(n, pairs) for pairs in colour_classes(edges)],
        "perfect": lambda: [perfect_law(schedule.graph)],
        "maximal": lambda: [greedy_law(n, edges)],
    }
    known = [law for law in laws[name]() if law is not None] if name in laws else []
    return Cycle(known) if known else None


def colour_classes(edges: Sequence[Edge]) -> list[list[Edge]]:
    """Edges in order, each in the first class where both ends are free."""
    return [[edges[k] for k in each] for each in greedy_classes(edges, range(len(edges)))]


def perfect_law(graph: Graph) -> Law:
    """Each of the perfect matchings that make up a regular graph, with the same probability."""
    classes: dict[int, list[Edge]] = defaultdict(list)
    colours = perfect_colouring(graph)
    assert colours is not None  # or there were no schedule
    for edge, colour in colours.items():
        classes[colour].append(edge)
    return Law.of(graph.n, [(pairs, Fraction(1, len(classes))) for pairs in classes.values()])


def greedy_law(n: int, edges: Sequence[Edge]) -> Law | None:
    """The law of greedy maximal matchings over edges in uniform order; None if there are too many matchings.

    Enumerates partial matchings: the next edge is uniform among those with both ends free.
    """
    level: dict[frozenset[Edge], Fraction] = {frozenset(): Fraction(1)}
    done: dict[frozenset[Edge], Fraction] = defaultdict(Fraction)
    while level:
        below: dict[frozenset[Edge], Fraction] = defaultdict(Fraction)
        for taken, chance in level.items():
            busy = {i for e in taken for i in e}
            free = [e for e in edges if busy.isdisjoint(e)]
            if not free:
                done[taken] += chance
            for e in free:
                below[taken | {e}] += chance / len(free)
        if len(below) + len(done) > MOST_MATCHINGS:
            return None
        level = below
    return Law.of(n, sorted(done.items(), key=lambda each: sorted(each[0])))
