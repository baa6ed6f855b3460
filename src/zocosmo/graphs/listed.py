"""Custom schedules: a list of matchings, each drawn with its weight   [PROTOCOL.md]

The list may be what `zocosmo schedule` finds, or any other. Round t draws v = below(Σ weights) from
stream("matching", t) and takes the first matching whose cumulative weight exceeds v.
"""

import hashlib
import json
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from zocosmo.core.distinct import first_distinct
from zocosmo.core.tape import Ids, Tape, id_words
from zocosmo.errors import GraphError, InputError, NotConnected, check_known
from zocosmo.graphs.graph import Edge, Graph
from zocosmo.graphs.matching import SCHEDULES, Partners, Schedule

MOST_MATCHINGS = 10_000
MOST_TOTAL = 2**63  # limit on the sum of weights: a draw must fit a signed word
KEYS = ("matchings", "weights")


@dataclass(frozen=True, repr=False)
class Listing:
    """Matchings and their weights, not yet tied to a graph; hashable, with a short name.

    >>> Listing.of([[(0, 1), (3, 2)], [(1, 2)]], [3, 1])
    listed-3a9e9028c551ea42d182b68f17e40b92
    """

    matchings: tuple[tuple[Edge, ...], ...]  # ascending pairs in lexicographic order
    weights: tuple[int, ...]

    @classmethod
    def of(cls, matchings: Iterable[Iterable[Iterable[int]]], weights: Iterable[int]) -> "Listing":
        """From lists as in a config; the order within a pair does not matter."""
        lists = [_matching(k, given) for k, given in enumerate(_items("matchings", matchings))]
        whole = [_weight(k, given) for k, given in enumerate(_items("weights", weights))]
        if not 1 <= len(lists) <= MOST_MATCHINGS:
            raise GraphError(f"a schedule lists 1 to {MOST_MATCHINGS:,} matchings, got {len(lists)}")
        if len(whole) != len(lists):
            raise GraphError(f"{len(lists)} matchings need one weight each, got {len(whole)}")
        if sum(whole) > MOST_TOTAL:
            raise GraphError(f"weights add up to {sum(whole)}, more than 2^63; scale them down")
        return cls(tuple(lists), tuple(whole))

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> "Listing":
        """From the mapping in a config, {matchings: […], weights: […]}."""
        for key in given:
            check_known("key of a schedule", key, KEYS)
        for key in KEYS:
            if key not in given:
                raise GraphError(f"a custom schedule lists matchings and weights; add {key!r}")
        return cls.of(**given)

    @property
    def name(self) -> str:
        """The name in manifests: lists that draw differently have different names."""
        text = json.dumps([self.matchings, self.weights], separators=(",", ":"))
        return f"listed-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        """A short form for labels: its digits are enough for the few lists of a study."""
        return self.name[: len("listed-") + 4]

    def plain(self) -> dict[str, Any]:
        """The mapping for a config."""
        return {"matchings": [[list(e) for e in each] for each in self.matchings], "weights": [*self.weights]}


class Listed:
    """The matchings of a list, each drawn with its weight; this allows any law, such as a graph's best.

    >>> from zocosmo.graphs.graph import path
    >>> Listed(path(4), [[(0, 1), (2, 3)], [(1, 2)]], [3, 1]).edge_law()
    [Fraction(3, 4), Fraction(1, 4), Fraction(3, 4)]
    """

    def __init__(
        self, graph: Graph, matchings: Iterable[Iterable[Iterable[int]]], weights: Iterable[int]
    ) -> None:
        self.graph, self.listing = graph, Listing.of(matchings, weights)
        _check_pairs(graph, self.listing)
        self.total = sum(self.listing.weights)
        self._upto = np.cumsum(self.listing.weights, dtype=np.uint64)
        self._by_place = np.tile(np.arange(graph.n), (len(self.listing.weights), 1))
        for row, pairs in zip(self._by_place, self.listing.matchings, strict=True):
            for i, j in pairs:
                row[[i, j]] = j, i

    def partners(self, tape: Tape, t: Ids) -> Partners:
        if self.total == 1:  # nothing to draw
            return np.broadcast_to(
                self._by_place[0], (*tape.common_shape([id_words(t)]), self.graph.n)
            ).copy()
        value = first_distinct(tape.coins("matching", t), self.total, 1)[..., 0]
        place = np.searchsorted(self._upto, value.astype(np.uint64), side="right")
        return self._by_place[place]

    def edge_law(self) -> list[Fraction]:
        share = dict.fromkeys(self.graph.edges, 0)
        for pairs, weight in zip(self.listing.matchings, self.listing.weights, strict=True):
            for pair in pairs:
                share[pair] += weight
        return [Fraction(weight, self.total) for weight in share.values()]


Chosen = str | Mapping[str, Any] | Listing | Listed  # the forms in which a schedule can be given


def settle(graph: Graph, chosen: Chosen) -> str | Listing:
    """A schedule's name, or its list, checked against the graph; names are checked by `build_schedule`."""
    if isinstance(chosen, str):
        return chosen
    if isinstance(chosen, Listed):
        if (chosen.graph.n, chosen.graph.edges) != (graph.n, graph.edges):
            raise GraphError(
                f"this schedule is for {chosen.graph!r}, not for {graph!r}; list matchings of the latter"
            )
        return chosen.listing
    if not isinstance(chosen, Mapping | Listing):
        raise InputError(
            f"a schedule must be a name, a mapping of matchings and weights, or Listed; got {chosen!r:.80}"
        )
    listing = Listing.read(chosen) if isinstance(chosen, Mapping) else chosen
    _check_pairs(graph, listing)
    return listing


def build_schedule(graph: Graph, settled: str | Listing) -> Schedule:
    """The schedule, or a GraphError if the graph does not suit it."""
    if isinstance(settled, Listing):
        return Listed(graph, settled.matchings, settled.weights)
    check_known("schedule", settled, SCHEDULES)
    return SCHEDULES[settled](graph)


def _items(what: str, given: Any) -> Sequence[Any]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise GraphError(f"{what} of a schedule must be a list, got {given!r:.80}")
    return list(given)


def _matching(k: int, given: Any) -> tuple[Edge, ...]:
    pairs = sorted(_pair(k, pair) for pair in _items(f"pairs of matching {k}", given))
    if not pairs:
        raise GraphError(f"matching {k} has no pairs; remove it")
    node, times = Counter(node for pair in pairs for node in pair).most_common(1)[0]
    if times > 1:
        raise GraphError(f"matching {k} pairs node {node} {times} times; a node can have only one partner")
    return tuple(pairs)


def _pair(k: int, given: Any) -> Edge:
    try:
        i, j = (operator.index(node) for node in given)
    except (TypeError, ValueError):
        raise GraphError(f"matching {k} must list pairs of nodes such as [0, 1]; got {given!r:.80}") from None
    return min(i, j), max(i, j)


def _weight(k: int, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 1:
        raise GraphError(f"weight {k} must be an integer ≥ 1, got {given!r:.80}")
    return int(given)


def _check_pairs(graph: Graph, listing: Listing) -> None:
    """Check that all pairs are edges of the graph and that together they connect it."""
    edges, used = set(graph.edges), set[Edge]()
    for k, pairs in enumerate(listing.matchings):
        used.update(pairs)
        for i, j in pairs:
            if (i, j) not in edges:
                raise GraphError(f"matching {k} pairs {i} and {j}, which is not an edge of {graph!r}")
    try:
        Graph.of(graph.n, used)
    except NotConnected as error:
        remedy = ", so λ₂ = 0 and nodes never agree; list more pairs"
        raise NotConnected(error.why, what="the listed pairs are", remedy=remedy) from None
