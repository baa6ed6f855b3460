"""Settings of tree_mean, the alternative where samples are noisy and nodes can wait for each other.

With K directions on a support E‖ĝ‖² is d/K ‖g‖² whatever q is, and a message has 8 + K b bits whatever q is.
So K follows from queries alone, and rounds on one support, L, from bits: the least power of two with which
bits last as long as queries. b is the least with which the grid adds at most `ADDED` to the variance of a
sum, where numbers are independent between nodes (`theory.grid`): noise is what a mean is for. Of what nodes
share, sums grow faster, and so do the steps of a grid.
"""

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from zocosmo.core.grid import GRID
from zocosmo.graphs.graph import Graph
from zocosmo.planner.propose import LEAST_ROUNDS, SHARE, Spending
from zocosmo.theory.grid import added_share, subtree_sizes
from zocosmo.theory.payload import tree_cost
from zocosmo.traffic import distances, up_the_tree

ADDED = 0.25  # to the variance of a sum, at most
MOST_HELD = 16  # rounds on one support
WIDTH = 16  # coordinates for each direction
HEAD_BITS = GRID["grid4"].charged.scale_bits


@dataclass(frozen=True)
class TreeProposal:
    """Settings of tree_mean, and what they cost a node."""

    q: int
    directions: int
    sides: int
    hold: int
    wire: str
    rounds: int
    message_bits: int
    queries: int  # in a round
    waits: int  # messages in a row, every `hold` rounds
    added: float  # to the variance of a sum of independent numbers, by the grid, at most

    @property
    def line(self) -> str:
        """The settings as a line of a config, with the reasons."""
        settings = (
            f"{{kind: tree_mean, q: {self.q}, directions: {self.directions}, signs: orthogonal, "
            f"sides: {self.sides}, rule: balanced, hold: {self.hold}, wire: {self.wire}}}"
        )
        held = f"every {self.hold} rounds" if self.hold > 1 else "every round"
        crosses = "One number crosses" if self.directions == 1 else f"{self.directions} numbers cross"
        return (
            f"Where samples are noisy and nodes can wait for {self.waits} messages in a row, average before "
            f"you step: {settings}. {crosses} each link of a tree {held}, for {self.rounds:,} rounds; the "
            f"grid adds at most {self.added:.0%} to the variance of a sum where numbers of nodes are mostly "
            "noise, and more where they are alike. One node that is missing stops all."
        )

    def as_report(self) -> dict[str, Any]:
        """As data for JSON."""
        return asdict(self)


def propose_tree(spending: Spending, graph: Graph) -> TreeProposal | None:
    """The settings of tree_mean for a budget; None where it does not pay for one exchange."""
    K, sides, evaluations = _directions(spending)
    bits, added = wire_for(graph, K)
    each = tree_cost(graph.n, HEAD_BITS + K * bits)  # per node and exchange
    hold, rounds = _hold(spending, evaluations, each)
    if rounds < hold:
        return None
    return TreeProposal(
        q=min(spending.d, WIDTH * K),
        directions=K,
        sides=sides,
        hold=hold,
        wire=f"grid{bits}",
        rounds=rounds,
        message_bits=HEAD_BITS + K * bits,
        queries=evaluations,
        waits=2 * int(distances(graph)[0].max()),
        added=added,
    )


def _directions(spending: Spending) -> tuple[int, int, int]:
    """K, sides, and queries in a round: a few directions get nearly all there is; rows share a batch out."""
    most = 1 << (spending.d - 1).bit_length()
    if spending.by_rows:
        return min(most, 1 << (spending.batch.bit_length() - 1)), 2, 2
    if spending.queries is not None:
        most = min(most, 1 << (max(1, spending.queries // LEAST_ROUNDS - 1).bit_length() - 1))
    K = min(most, next(2**e for e in range(64) if 2**e >= SHARE * (2**e + 1)))
    return K, 1, K + 1


def wire_for(graph: Graph, K: int, most: float = ADDED) -> tuple[int, float]:
    """The fewest bits that add at most this share, and what they add; 8 on a very deep tree."""
    sizes = subtree_sizes(up_the_tree(graph))
    shares = [(wire.bits, added_share(sizes, K, wire.bits)) for wire in GRID.values()]
    return next((each for each in shares if each[1] <= most), shares[-1])


def _hold(spending: Spending, evaluations: int, each: Fraction) -> tuple[int, int]:
    """L, and the rounds that both budgets pay for."""
    by_queries = None if spending.queries is None else spending.queries // evaluations
    if spending.bits is None:
        return 1, by_queries or 0
    exchanges = int(spending.bits / each)
    if by_queries is None:
        return 1, exchanges
    hold = next((2**e for e in range(5) if exchanges * 2**e >= by_queries), MOST_HELD)
    return hold, min(by_queries, exchanges * hold)
