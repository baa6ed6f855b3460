"""Laws of the public schedules, written down apart from the code that draws them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zocosmo.graphs.listed import Listed
from zocosmo.graphs.matching import Schedule
from zocosmo.theory import mixing, ring, second_moments

Pair = tuple[int, int]
MOST_MATCHINGS = 3000  # that a law may list; above it, nothing is said about it


@dataclass(frozen=True, eq=False)
class Cycle:
    """Laws that rounds take in turn; a schedule of independent rounds has one."""

    n: int
    laws: Sequence[mixing.Law]

    @property
    def is_iid(self) -> bool:
        return len(self.laws) == 1

    @property
    def is_perfect(self) -> bool:
        """Whether nobody ever idles."""
        return all(2 * len(pairs) == self.n for law in self.laws for pairs, _ in law)

    def edge_law(self) -> dict[Pair, Fraction]:
        """How often an edge is active in a cycle."""
        total: dict[Pair, Fraction] = defaultdict(Fraction)
        for law in self.laws:
            for e, chance in mixing.edge_law(self.n, law).items():
                total[e] += chance / len(self.laws)
        return dict(sorted(total.items()))

    def moments(self) -> list[Any]:
        """As `theory.exact` takes them."""
        return [second_moments.Law.of(self.n, law) for law in self.laws]

    def first(self, Y: Any, q: int) -> Any:
        """Expected energy after the first round."""
        return mixing.energy_after(Y, self.laws[0], q=q)


@dataclass(frozen=True, eq=False)
class CompleteCycle:
    """Uniform perfect matchings of a complete graph: too many to list, but every pair is as likely."""

    n: int
    is_iid = True

    @property
    def is_perfect(self) -> bool:
        return self.n % 2 == 0

    def edge_law(self) -> dict[Pair, Fraction]:
        share = mixing.complete_gaps(self.n).lambda2 / self.n
        return {(i, j): Fraction(share) for i in range(self.n) for j in range(i + 1, self.n)}

    def moments(self) -> list[Any]:
        return [second_moments.complete_law(self.n)]

    def first(self, Y: Any, q: int) -> Any:
        """L̄ = λ₂Π, so every state loses the same share   [eq:complete_matching_tightness]"""
        return (1 - mixing.complete_gaps(self.n, q=q, d=len(Y[0])).gamma) * mixing.energy(Y)


def cycle_of(name: str, schedule: Schedule) -> Cycle | CompleteCycle | None:
    """The laws of a schedule by its name, or None where they are not known."""
    n = schedule.graph.n
    if name == "complete":
        return CompleteCycle(n)
    if name in ("alternating", "iid"):
        first, second = ring.phases(n) if n > 2 else ([(0, 1)], [(0, 1)])
        coin = Fraction(1, 2)
        return Cycle(
            n, [[(first, 1)], [(second, 1)]] if name == "alternating" else [[(first, coin), (second, coin)]]
        )
    if name == "round_robin":
        return Cycle(n, [[(pairs, 1)] for pairs in colour_classes(schedule.graph.edges)])
    if name == "maximal":
        law = greedy_law(n, schedule.graph.edges)
        return None if law is None else Cycle(n, [law])
    if isinstance(schedule, Listed):
        matchings, weights = schedule.listing.matchings, schedule.listing.weights
        total = sum(weights)
        return Cycle(n, [[(pairs, Fraction(w, total)) for pairs, w in zip(matchings, weights, strict=True)]])
    return None


def colour_classes(edges: Sequence[Pair]) -> list[list[Pair]]:
    """Edges in order, each in the first class where both ends are free."""
    classes: list[list[Pair]] = []
    for e in edges:
        home = next((each for each in classes if all(set(e).isdisjoint(f) for f in each)), None)
        if home is None:
            classes.append(home := [])
        home.append(e)
    return classes


def greedy_law(n: int, edges: Sequence[Pair]) -> mixing.Law | None:
    """The law of maximal matchings that take edges in a uniform order, by walking all partial matchings

    The next edge taken is uniform among those whose ends are both free. None where there are too many.
    """
    level: dict[frozenset[Pair], Fraction] = {frozenset(): Fraction(1)}
    done: dict[frozenset[Pair], Fraction] = defaultdict(Fraction)
    while level:
        below: dict[frozenset[Pair], Fraction] = defaultdict(Fraction)
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
    return [
        (sorted(pairs), chance) for pairs, chance in sorted(done.items(), key=lambda each: sorted(each[0]))
    ]
